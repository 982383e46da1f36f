//! Decodes a stopped call for the engine.

mod name;
mod nodes;
mod plain;
mod settings;
mod userfault;

use std::io;
use std::num::NonZeroU32;
use std::sync::OnceLock;

use samara_linux::Tid;
use samara_linux::memory;
use samara_mm::{Call, FileArg};

use super::entry::Entry;
use super::files::Files;
use super::filter::{self, mark};
use super::i386;
use super::seeding::numa_nodes;
use super::space::Registering;
use super::watchers::Watchers;
pub(crate) use name::name;
pub(crate) use nodes::{NodeMask, Nodes, nodes_at};
pub(crate) use userfault::Filling;

/// The meaning of a stopped call for the tracer.
#[derive(Debug)]
pub(crate) enum Decoded {
    /// The engine performs it, too.
    Perform(Call),
    /// Copies the address space. The event names the child.
    Fork,
    /// Replaces the address space. An event reports that.
    Exec,
    /// Changes a limit. All limits must be read again from this process (0 for the caller's own).
    Limits(Tid),
    /// Changes the thread's permissions. Its personality and privileges must be read again.
    Settings,
    /// Asks for a tracer for a thread. The kernel refuses that for a thread that is traced here.
    Tracing,
    /// Would leave the thread only `read`, `write`, `exit` and `rt_sigreturn`. The kernel refuses
    /// this to a thread with a filter.
    Strict,
    /// Installs a filter by which another process decides about calls, which the tracer then does
    /// not see.
    Listener,
    /// `io_setup`: maps a ring. Its address will be at `pointer`.
    RingSetUp { pointer: u64, narrow: bool },
    /// `io_destroy`: unmaps the ring at `address`.
    RingDestroyed { address: u64 },
    /// `io_uring_setup`: makes a ring, as described at `params`.
    UringSetUp { params: u64 },
    /// `io_uring_enter`: the descriptor, the number of submitted entries, and flags.
    UringEnter(i32, u32, u32),
    /// `io_uring_register`: assigns numbers to rings.
    UringRegister(Registering),
    /// Makes a userfaultfd.
    WatcherMade,
    /// A call that [fills](filter::UFFDIO_FILLING) pages.
    Filled(Filling),
    /// `UFFDIO_MOVE`.
    Moved { to: u64, from: u64 },
    /// `prctl(PR_SET_MM)`.
    Bounds(Bounds),
    /// The engine does not model it.
    Unmodelled {
        /// `true` if it may have changed the map.
        changes_map: bool,
    },
    /// Concerns no map after all.
    Ignore,
}

/// Bounds of heap and stack that a call sets. The kernel itself shows the bounds of the data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) start_brk: Option<u64>,
    pub(crate) brk: Option<u64>,
    pub(crate) stack_top: Option<u64>,
}

const MAP_ANONYMOUS: u64 = libc::MAP_ANONYMOUS as u64;

/// Decodes a call at its entry. Reads the arguments that are behind pointers.
pub(crate) fn decode(
    tid: Tid,
    entry: &Entry,
    files: &mut Files,
    watchers: &mut Watchers,
) -> Decoded {
    if entry.mark == mark::X32 {
        return Decoded::Unmodelled { changes_map: true };
    }
    if entry.nr == i386::REFUSED {
        return Decoded::Ignore;
    }
    if let Some(call) = plain::call(entry) {
        return Decoded::Perform(call);
    }
    match entry.nr as i64 {
        libc::SYS_mmap => Decoded::Perform(mmap(tid, entry, files)),
        libc::SYS_shmat => Decoded::Perform(shmat(tid, entry, files)),
        libc::SYS_mbind => mbind(tid, entry),
        libc::SYS_process_madvise => process_madvise(tid, entry),
        libc::SYS_io_setup
        | libc::SYS_io_destroy
        | libc::SYS_io_uring_setup
        | libc::SYS_io_uring_enter
        | libc::SYS_io_uring_register => on_rings(entry),
        libc::SYS_prctl => settings::prctl(tid, entry),
        libc::SYS_seccomp => settings::seccomp(tid, entry),
        libc::SYS_userfaultfd => Decoded::WatcherMade,
        libc::SYS_ioctl if entry.args[1] as u32 == filter::USERFAULTFD_IOC_NEW => {
            Decoded::WatcherMade
        }
        libc::SYS_ioctl => userfault::ioctl(tid, entry, watchers),
        libc::SYS_ptrace => Decoded::Tracing,
        libc::SYS_fork => Decoded::Fork,
        libc::SYS_clone | libc::SYS_clone3 => {
            match clone_flags(tid, entry) & libc::CLONE_VM as u64 {
                0 => Decoded::Fork,
                _ => Decoded::Ignore,
            }
        }
        libc::SYS_execve | libc::SYS_execveat => Decoded::Exec,
        libc::SYS_setrlimit | libc::SYS_prlimit64 => {
            Decoded::Limits(limits_of(tid, entry).unwrap_or(0))
        }
        libc::SYS_personality
        | libc::SYS_capset
        | libc::SYS_setuid
        | libc::SYS_setreuid
        | libc::SYS_setresuid
        | libc::SYS_setfsuid
        | libc::SYS_setns
        | libc::SYS_unshare => Decoded::Settings,
        // The policy of a task is not that of an area.
        libc::SYS_set_mempolicy => Decoded::Unmodelled { changes_map: false },
        _ => Decoded::Unmodelled { changes_map: true },
    }
}

/// Decodes `mmap`, whose descriptor is looked up.
fn mmap(tid: Tid, entry: &Entry, files: &mut Files) -> Call {
    let [addr, len, prot, flags, descriptor, offset] = entry.args;
    let file = if flags & MAP_ANONYMOUS != 0 {
        FileArg::None
    } else {
        files.resolve(tid, descriptor as i32, flags)
    };
    Call::Mmap {
        addr,
        len,
        prot,
        flags,
        file,
        offset,
    }
}

/// Decodes `shmat`, whose segment is looked up.
fn shmat(tid: Tid, entry: &Entry, files: &Files) -> Call {
    let [identifier, addr, flags, ..] = entry.args;
    Call::Shmat {
        segment: files.segments.segment(tid, i64::from(identifier as i32)),
        addr,
        flags: u64::from(flags as u32),
    }
}

/// Decodes `mbind`, whose node mask is read.
fn mbind(tid: Tid, entry: &Entry) -> Decoded {
    let [addr, len, mode, _, _, flags] = entry.args;
    let nodes = match NodeMask::of(entry).read(tid) {
        Nodes::These(nodes) => nodes,
        Nodes::Beyond(nodes) if numa_nodes() <= 32 => nodes,
        Nodes::Beyond(_) => return Decoded::Unmodelled { changes_map: true },
        // The kernel checks the mask before everything but the mode, which it may refuse as well.
        Nodes::Refused => return Decoded::Ignore,
    };
    Decoded::Perform(Call::Mbind {
        addr,
        len,
        mode,
        nodes,
        flags,
    })
}

/// Decodes calls about the rings of `io_setup` and `io_uring`.
fn on_rings(entry: &Entry) -> Decoded {
    let [a, b, c, d, ..] = entry.args;
    match entry.nr as i64 {
        libc::SYS_io_setup => Decoded::RingSetUp {
            pointer: b,
            narrow: entry.is_i386(),
        },
        libc::SYS_io_destroy => Decoded::RingDestroyed { address: a },
        libc::SYS_io_uring_setup => Decoded::UringSetUp { params: b },
        libc::SYS_io_uring_enter => Decoded::UringEnter(a as i32, b as u32, d as u32),
        libc::SYS_io_uring_register => Decoded::UringRegister(Registering {
            updates: c,
            count: d as u32,
            registers: b as u32 & 1 == 0,
        }),
        _ => Decoded::Unmodelled { changes_map: true },
    }
}

/// Returns the process whose limits a call may change. 0 stands for the caller's own process.
pub(crate) fn limits_of(tid: Tid, entry: &Entry) -> Option<Tid> {
    match entry.nr as i64 {
        _ if entry.mark == mark::X32 => None,
        libc::SYS_setrlimit => Some(0),
        libc::SYS_prlimit64 => Some(samara_linux::proc::named_by(tid, entry.args[0] as Tid)),
        _ => None,
    }
}

/// Returns `true` if the caller may from now on be asked for each file that is opened or read
/// (`fanotify(7)`, `fuse(4)`).
pub(crate) fn may_be_asked(entry: &Entry) -> bool {
    const ASKED: [i64; 3] = [libc::SYS_fanotify_init, libc::SYS_mount, libc::SYS_fsmount];
    entry.mark != mark::X32 && ASKED.contains(&(entry.nr as i64))
}

/// Returns `true` if this call would register or unregister a range with a userfaultfd.
pub(crate) fn tells_watcher(entry: &Entry) -> bool {
    const WATCHING: [u32; 2] = [filter::UFFDIO_REGISTER, filter::UFFDIO_UNREGISTER];
    let of_ioctl = entry.mark != mark::X32 && entry.nr as i64 == libc::SYS_ioctl;
    of_ioctl && WATCHING.contains(&(entry.args[1] as u32))
}

/// Returns the userfaultfd with which a call registers or unregisters a range, if that may change a
/// map.
pub(crate) fn watcher_of(tid: Tid, entry: &Entry, watchers: &mut Watchers) -> Option<NonZeroU32> {
    if !tells_watcher(entry) {
        return None;
    }
    match userfault::ioctl(tid, entry, watchers) {
        Decoded::Perform(
            Call::UffdRegister { context, .. } | Call::UffdUnregister { context, .. },
        ) => Some(context),
        Decoded::Unmodelled { changes_map: true } => watchers
            .of(tid, entry.args[0] as i32)
            .map(|(context, _)| context),
        _ => None,
    }
}

/// Returns `true` if the kernel knows the descriptors that stand for the caller itself. Older
/// kernels find no process for them.
fn knows_self() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        let nothing = std::ptr::null::<libc::iovec>();
        // SAFETY: the call gets no ranges.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_process_madvise,
                -10000,
                nothing,
                0,
                libc::MADV_COLD,
                0,
            )
        };
        answer == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::EBADF)
    })
}

/// Decodes `process_madvise`. Advice for other memory changes no map, because the kernel refuses
/// advice that would. A process that shares the caller's memory counts as the caller.
fn process_madvise(tid: Tid, entry: &Entry) -> Decoded {
    const MOST: u64 = 1024;
    /// `PIDFD_SELF_THREAD` and `PIDFD_SELF_THREAD_GROUP`.
    const SELF: [i32; 2] = [-10000, -10001];
    let [pidfd, vector, count, advice, flags, _] = entry.args;
    let of_itself = || {
        samara_linux::proc::process_of(tid, pidfd as i32)
            .is_some_and(|named| samara_linux::proc::shares_memory(tid, named))
    };
    let itself = SELF.contains(&(pidfd as i32)) && knows_self();
    if !itself && !of_itself() || count > MOST {
        return Decoded::Ignore;
    }
    let mut ranges = Vec::new();
    for index in 0..count {
        let at = vector.wrapping_add(2 * entry.word() * index);
        let word = |at| entry.read_word(tid, at);
        // The kernel cannot read it either.
        let (Ok(addr), Ok(len)) = (word(at), word(at.wrapping_add(entry.word()))) else {
            return Decoded::Ignore;
        };
        ranges.push((addr, len));
    }
    Decoded::Perform(Call::ProcessMadvise {
        ranges: ranges.into(),
        advice: advice as i32,
        flags: u64::from(flags as u32),
    })
}

/// Returns the flags of a `clone` or `clone3`.
pub(crate) fn clone_flags(tid: Tid, entry: &Entry) -> u64 {
    match entry.nr as i64 {
        libc::SYS_clone => entry.args[0],
        _ => memory::read_word(tid, entry.args[0]).unwrap_or(0),
    }
}

/// Returns the flags of a `clone3`, or `None` for other calls.
pub(crate) fn clone3_flags(tid: Tid, entry: &Entry) -> Option<u64> {
    let is_one = entry.mark != mark::X32 && entry.nr as i64 == libc::SYS_clone3;
    is_one.then(|| clone_flags(tid, entry))
}

/// Returns `true` for a `clone` of a child that asks not to be traced.
pub(crate) fn clones_untraced(tid: Tid, entry: &Entry) -> bool {
    entry.mark != mark::X32
        && matches!(entry.nr as i64, libc::SYS_clone | libc::SYS_clone3)
        && clone_flags(tid, entry) & libc::CLONE_UNTRACED as u64 != 0
}

/// Returns the address of the arguments behind a pointer that decide how a call changes a map.
pub(crate) fn points_to(entry: &Entry) -> Option<u64> {
    const NAME: u64 = filter::PR_SET_VMA as u64;
    const BOUNDS: u64 = libc::PR_SET_MM as u64;
    const ALL_BOUNDS: u64 = 14;
    let [first, second, third, fourth, fifth, _] = entry.args;
    match entry.nr as i64 {
        _ if entry.mark == mark::X32 => None,
        libc::SYS_mbind => Some(fourth),
        libc::SYS_process_madvise => Some(second),
        libc::SYS_ioctl => Some(third),
        libc::SYS_prctl if first == NAME => Some(fifth),
        libc::SYS_prctl if first == BOUNDS && second == ALL_BOUNDS => Some(third),
        _ => None,
    }
}

//! From a stopped call to what the engine must be told.

mod name;
mod nodes;
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
    /// The engine performs it too.
    Perform(Call),
    /// Copies the address space; the event tells of the child.
    Fork,
    /// Replaces the address space; the event tells of it.
    Exec,
    /// Changes a limit: take all of them anew from the process (0: the caller's own).
    Limits(Tid),
    /// Changes what the thread may do: look at its personality and privileges anew.
    Settings,
    /// Asks for a thread to be traced: refused if that is followed here.
    Tracing,
    /// Would leave the thread nothing but `read`, `write`, `exit` and `rt_sigreturn`. The kernel refuses this to a thread with a filter.
    Strict,
    /// Installs a filter by which another process decides about calls, which the tracer does not
    /// see.
    Listener,
    /// `io_setup`: maps a ring, whose address comes to be at `pointer`.
    RingSetUp { pointer: u64, narrow: bool },
    /// `io_destroy`: unmaps the ring at `address`.
    RingDestroyed { address: u64 },
    /// `io_uring_setup`: makes a ring; how, is at `params`.
    UringSetUp { params: u64 },
    /// `io_uring_enter`: the descriptor, how many entries are submitted, and flags.
    UringEnter(i32, u32, u32),
    /// `io_uring_register`: gives rings numbers.
    UringRegister(Registering),
    /// Makes a userfaultfd.
    WatcherMade,
    /// [What fills in](filter::UFFDIO_FILLING) pages.
    Filled(Filling),
    /// `UFFDIO_MOVE`.
    Moved { to: u64, from: u64 },
    /// `prctl(PR_SET_MM)`.
    Bounds(Bounds),
    /// The engine does not know it.
    Unmodelled {
        /// `true` if it may have changed the map.
        changes_map: bool,
    },
    /// Nothing of interest after all.
    Ignore,
}

/// Bounds of heap and stack that a call sets; those of the data, the kernel shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) start_brk: Option<u64>,
    pub(crate) brk: Option<u64>,
    pub(crate) stack_top: Option<u64>,
}

const MAP_ANONYMOUS: u64 = libc::MAP_ANONYMOUS as u64;

/// Decodes a call at its entry, reading what its arguments point to.
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
    if let Some(call) = in_registers(entry) {
        return Decoded::Perform(call);
    }
    let [a, b, c, d, e, f] = entry.args;
    Decoded::Perform(match entry.nr as i64 {
        libc::SYS_mmap => Call::Mmap {
            addr: a,
            len: b,
            prot: c,
            flags: d,
            file: if d & MAP_ANONYMOUS != 0 {
                FileArg::None
            } else {
                files.resolve(tid, e as i32, d)
            },
            offset: f,
        },
        libc::SYS_shmat => Call::Shmat {
            segment: files.segments.segment(tid, i64::from(a as i32)),
            addr: b,
            flags: u64::from(c as u32),
        },
        libc::SYS_mbind => {
            let nodes = match NodeMask::of(entry).read(tid) {
                Nodes::These(nodes) => nodes,
                Nodes::Beyond(nodes) if numa_nodes() <= 32 => nodes,
                Nodes::Beyond(_) => return Decoded::Unmodelled { changes_map: true },
                // Before anything else but the mode, which may be refused as well.
                Nodes::Refused => return Decoded::Ignore,
            };
            Call::Mbind {
                addr: a,
                len: b,
                mode: c,
                nodes,
                flags: f,
            }
        }
        _ => return without_call(tid, entry, watchers),
    })
}

/// Returns the call, if all its arguments are in registers.
fn in_registers(entry: &Entry) -> Option<Call> {
    let [a, b, c, d, e, _] = entry.args;
    Some(match entry.nr as i64 {
        libc::SYS_munmap => Call::Munmap { addr: a, len: b },
        libc::SYS_mprotect => Call::Mprotect {
            addr: a,
            len: b,
            prot: c,
            pkey: -1,
        },
        libc::SYS_pkey_mprotect => Call::Mprotect {
            addr: a,
            len: b,
            prot: c,
            pkey: d as i32,
        },
        libc::SYS_mremap => Call::Mremap {
            old_addr: a,
            old_len: b,
            new_len: c,
            flags: d,
            new_addr: e,
        },
        libc::SYS_brk => Call::Brk { addr: a },
        libc::SYS_madvise => Call::Madvise {
            addr: a,
            len: b,
            advice: c as i32,
        },
        libc::SYS_mlock => Call::Mlock {
            addr: a,
            len: b,
            flags: 0,
        },
        libc::SYS_mlock2 => Call::Mlock {
            addr: a,
            len: b,
            flags: u64::from(c as u32),
        },
        libc::SYS_munlock => Call::Munlock { addr: a, len: b },
        libc::SYS_mlockall => Call::Mlockall {
            flags: u64::from(a as u32),
        },
        libc::SYS_munlockall => Call::Munlockall,
        libc::SYS_msync => Call::Msync {
            addr: a,
            len: b,
            flags: u64::from(c as u32),
        },
        libc::SYS_mincore => Call::Mincore { addr: a, len: b },
        libc::SYS_mseal => Call::Mseal {
            addr: a,
            len: b,
            flags: c,
        },
        libc::SYS_remap_file_pages => Call::RemapFilePages {
            addr: a,
            len: b,
            prot: c,
            pgoff: d,
            flags: e,
        },
        libc::SYS_shmdt => Call::Shmdt { addr: a },
        filter::SYS_SET_MEMPOLICY_HOME_NODE => Call::SetMempolicyHomeNode {
            addr: a,
            len: b,
            home: c,
            flags: d,
        },
        libc::SYS_pkey_alloc => Call::PkeyAlloc {
            flags: a,
            rights: b,
        },
        libc::SYS_pkey_free => Call::PkeyFree { pkey: a as i32 },
        _ => return None,
    })
}

/// Decodes what is no call of the engine, or a call whose arguments lie in memory.
fn without_call(tid: Tid, entry: &Entry, watchers: &mut Watchers) -> Decoded {
    let [a, b, c, d, ..] = entry.args;
    match entry.nr as i64 {
        libc::SYS_process_madvise => process_madvise(tid, entry),
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
        libc::SYS_prctl => settings::prctl(tid, entry),
        libc::SYS_userfaultfd => Decoded::WatcherMade,
        libc::SYS_ioctl if b as u32 == filter::USERFAULTFD_IOC_NEW => Decoded::WatcherMade,
        libc::SYS_ioctl => userfault::ioctl(tid, entry, watchers),
        libc::SYS_seccomp => settings::seccomp(tid, entry),
        libc::SYS_ptrace => Decoded::Tracing,
        _ => of_process(tid, entry),
    }
}

/// Decodes calls on processes and their settings.
fn of_process(tid: Tid, entry: &Entry) -> Decoded {
    match entry.nr as i64 {
        libc::SYS_fork => Decoded::Fork,
        libc::SYS_clone | libc::SYS_clone3 => {
            let flags = clone_flags(tid, entry);
            if flags & libc::CLONE_VM as u64 != 0 {
                Decoded::Ignore
            } else {
                Decoded::Fork
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

/// The process whose limits a call may change; 0 is the caller's own.
pub(crate) fn limits_of(tid: Tid, entry: &Entry) -> Option<Tid> {
    match entry.nr as i64 {
        _ if entry.mark == mark::X32 => None,
        libc::SYS_setrlimit => Some(0),
        libc::SYS_prlimit64 => Some(samara_linux::proc::named_by(tid, entry.args[0] as Tid)),
        _ => None,
    }
}

/// Returns `true` if the caller may be asked from now on whenever a file is opened or read
/// (`fanotify(7)`, `fuse(4)`).
pub(crate) fn may_be_asked(entry: &Entry) -> bool {
    const ASKED: [i64; 3] = [libc::SYS_fanotify_init, libc::SYS_mount, libc::SYS_fsmount];
    entry.mark != mark::X32 && ASKED.contains(&(entry.nr as i64))
}

/// Returns `true` if the call would register ranges with a userfaultfd, or unregister them.
pub(crate) fn tells_watcher(entry: &Entry) -> bool {
    const WATCHING: [u32; 2] = [filter::UFFDIO_REGISTER, filter::UFFDIO_UNREGISTER];
    let of_ioctl = entry.mark != mark::X32 && entry.nr as i64 == libc::SYS_ioctl;
    of_ioctl && WATCHING.contains(&(entry.args[1] as u32))
}

/// The userfaultfd that a call tells what to watch, or what no more, if that may change a map.
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

/// Returns `true` if the kernel knows the descriptors that stand for the caller itself. Older ones
/// have no process for them.
fn knows_self() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        let nothing = std::ptr::null::<libc::iovec>();
        // SAFETY: the call gets no range.
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

/// Advice for other processes' memory changes no map: advice that would is refused. A process that
/// shares the caller's memory is no other process.
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

/// The flags of `clone` or `clone3`.
pub(crate) fn clone_flags(tid: Tid, entry: &Entry) -> u64 {
    match entry.nr as i64 {
        libc::SYS_clone => entry.args[0],
        _ => memory::read_word(tid, entry.args[0]).unwrap_or(0),
    }
}

/// The flags of a `clone3`.
pub(crate) fn clone3_flags(tid: Tid, entry: &Entry) -> Option<u64> {
    let is_one = entry.mark != mark::X32 && entry.nr as i64 == libc::SYS_clone3;
    is_one.then(|| clone_flags(tid, entry))
}

/// Returns `true` if this is a `clone` of a child that asks not to be traced.
pub(crate) fn clones_untraced(tid: Tid, entry: &Entry) -> bool {
    entry.mark != mark::X32
        && matches!(entry.nr as i64, libc::SYS_clone | libc::SYS_clone3)
        && clone_flags(tid, entry) & libc::CLONE_UNTRACED as u64 != 0
}

/// Returns the address of the arguments to which a call points and that decide its effect on a map.
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

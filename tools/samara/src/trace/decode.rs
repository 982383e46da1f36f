//! From a stopped call to what the engine must be told.

use std::io;
use std::ops::RangeInclusive;
use std::sync::OnceLock;

use samara_mm::{Call, FileArg};

use super::files::{self, Files};
use super::filter::{self, mark};
use super::i386;
use super::memory;
use super::ptrace::{Entry, Tid};
use super::seeding::numa_nodes;
use super::watchers::{self, Watchers};

/// What a stopped call means to the tracer.
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
    /// Installs a filter by which another process decides about calls, which nobody else sees.
    Listener,
    /// `io_setup`: maps a ring, whose address comes to be at `pointer`.
    RingSetUp { pointer: u64, narrow: bool },
    /// `io_destroy`: unmaps the ring at `address`.
    RingDestroyed { address: u64 },
    /// `io_uring_setup`: makes a ring; how, is at `params`.
    UringSetUp { params: u64 },
    /// `io_uring_enter`: the descriptor, how many entries are submitted, and flags.
    UringEnter(i32, u32, u32),
    /// [What fills in](filter::UFFDIO_FILLING) pages.
    Filled(Filling),
    /// `UFFDIO_MOVE`.
    Moved { to: u64, from: u64 },
    /// `prctl(PR_SET_MM)`.
    Bounds(Bounds),
    /// The engine does not know it.
    Unmodelled {
        /// May it have changed the map?
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
                files.resolve(tid, e as i32)
            },
            offset: f,
        },
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
        libc::SYS_shmat => Call::Shmat {
            segment: files::segment(tid, i64::from(a as i32)),
            addr: b,
            flags: u64::from(c as u32),
        },
        libc::SYS_shmdt => Call::Shmdt { addr: a },
        libc::SYS_mbind => {
            let nodes = match NodeMask::of(entry).read(tid) {
                Nodes::These(nodes) => nodes,
                Nodes::Beyond(nodes) if c & EXACT_NODES == 0 && numa_nodes() < 64 => nodes,
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
        libc::SYS_process_madvise => return process_madvise(tid, entry),
        libc::SYS_io_setup => {
            return Decoded::RingSetUp {
                pointer: b,
                narrow: entry.is_i386(),
            };
        }
        libc::SYS_io_destroy => return Decoded::RingDestroyed { address: a },
        libc::SYS_io_uring_setup => return Decoded::UringSetUp { params: b },
        libc::SYS_io_uring_enter => return Decoded::UringEnter(a as i32, b as u32, d as u32),
        libc::SYS_prctl => return prctl(tid, entry),
        libc::SYS_ioctl => return uffd(tid, entry, watchers),
        libc::SYS_seccomp => return seccomp(tid, entry),
        libc::SYS_ptrace => return Decoded::Tracing,
        libc::SYS_fork => return Decoded::Fork,
        libc::SYS_clone | libc::SYS_clone3 => {
            let flags = clone_flags(tid, entry);
            return if flags & libc::CLONE_VM as u64 != 0 {
                Decoded::Ignore
            } else {
                Decoded::Fork
            };
        }
        libc::SYS_execve | libc::SYS_execveat => return Decoded::Exec,
        libc::SYS_setrlimit | libc::SYS_prlimit64 => {
            return Decoded::Limits(limits_of(entry).unwrap_or(0));
        }
        libc::SYS_personality
        | libc::SYS_capset
        | libc::SYS_setuid
        | libc::SYS_setreuid
        | libc::SYS_setresuid
        | libc::SYS_setfsuid
        | libc::SYS_setns
        | libc::SYS_unshare => return Decoded::Settings,
        // The policy of a task is not that of an area.
        libc::SYS_set_mempolicy => {
            return Decoded::Unmodelled { changes_map: false };
        }
        _ => return Decoded::Unmodelled { changes_map: true },
    })
}

/// The process whose limits a call may change; 0 is the caller's own.
pub(crate) fn limits_of(entry: &Entry) -> Option<Tid> {
    match entry.nr as i64 {
        _ if entry.mark == mark::X32 => None,
        libc::SYS_setrlimit => Some(0),
        libc::SYS_prlimit64 => Some(entry.args[0] as Tid),
        _ => None,
    }
}

/// Does the kernel know the descriptors that stand for the caller itself? Older ones have no process for them.
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

/// Advice for other memory changes nobody's map: such as would is refused. A process that shares the caller's is no other.
fn process_madvise(tid: Tid, entry: &Entry) -> Decoded {
    const MOST: u64 = 1024;
    /// `PIDFD_SELF_THREAD` and `PIDFD_SELF_THREAD_GROUP`.
    const SELF: [i32; 2] = [-10000, -10001];
    let [pidfd, vector, count, advice, flags, _] = entry.args;
    let of_itself = || {
        super::proc::process_of(tid, pidfd as i32)
            .is_some_and(|named| super::proc::shares_memory(tid, named))
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

/// What a userfaultfd is to fill in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filling {
    pub(crate) start: u64,
    /// In bytes.
    pub(crate) length: u64,
    /// If the pages are to be poisoned: where the kernel leaves how many bytes of them were.
    pub(crate) poison: Option<u64>,
}

impl Filling {
    /// How many bytes from its start on may have been filled in, when the call has returned. `None` if nothing was.
    pub(crate) fn done(&self, tid: Tid, returned: i64) -> Option<u64> {
        const PAGE: u64 = 0x1000;
        let aligned = self.start.is_multiple_of(PAGE) && self.length.is_multiple_of(PAGE);
        if !aligned || self.length == 0 {
            return None;
        }
        self.start.checked_add(self.length)?;
        let told = match (self.poison, -returned as i32) {
            // What is there now tells of pages that were brought.
            (None, _) | (_, 0) => Some(self.length),
            // The kernel could not leave the number.
            (_, libc::EFAULT) => Some(self.length),
            (Some(at), libc::EAGAIN) => memory::read_word(tid, at).ok(),
            _ => None,
        };
        told.filter(|&told| (PAGE..=self.length).contains(&told))
    }
}

/// `ioctl_userfaultfd(2)`.
fn uffd(tid: Tid, entry: &Entry, watchers: &mut Watchers) -> Decoded {
    let [descriptor, request, pointer, ..] = entry.args;
    if request as u32 == filter::UFFDIO_MOVE {
        let to = memory::read_word(tid, pointer);
        let from = memory::read_word(tid, pointer.wrapping_add(8));
        return match (to, from) {
            (Ok(to), Ok(from)) => Decoded::Moved { to, from },
            _ => Decoded::Ignore,
        };
    }
    if filter::UFFDIO_FILLING.contains(&(request as u32)) {
        let copies = request as u32 == filter::UFFDIO_FILLING[0];
        let start = memory::read_word(tid, pointer);
        // A copy names its source before the length.
        let length = memory::read_word(tid, pointer.wrapping_add(if copies { 16 } else { 8 }));
        return match (start, length) {
            (Ok(start), Ok(length)) => Decoded::Filled(Filling {
                start,
                length,
                poison: (request as u32 == filter::UFFDIO_POISON).then(|| pointer.wrapping_add(24)),
            }),
            _ => Decoded::Ignore,
        };
    }
    let Some((context, features)) = watchers.of(tid, descriptor as i32) else {
        return Decoded::Ignore;
    };
    if features & watchers::FOLLOWING != 0 {
        return Decoded::Unmodelled { changes_map: true };
    }
    let asynchronous = features & watchers::WP_ASYNC != 0;
    let word = |index: u64| memory::read_word(tid, pointer.wrapping_add(8 * index));
    // The kernel cannot read it either.
    let (Ok(addr), Ok(len)) = (word(0), word(1)) else {
        return Decoded::Ignore;
    };
    Decoded::Perform(match request as u32 {
        filter::UFFDIO_REGISTER => match word(2) {
            Ok(mode) => Call::UffdRegister {
                context,
                asynchronous,
                addr,
                len,
                mode,
            },
            Err(_) => return Decoded::Ignore,
        },
        _ => Call::UffdUnregister {
            context,
            asynchronous,
            addr,
            len,
        },
    })
}

fn prctl(tid: Tid, entry: &Entry) -> Decoded {
    const STRICT: u64 = libc::SECCOMP_MODE_STRICT as u64;
    let [operation, b, c, d, e, _] = entry.args;
    let alone = c | d | e == 0;
    match operation as u32 {
        filter::PR_SET_VMA => vma_name(tid, b, c, d, e),
        // With more arguments both are refused before anything is looked at.
        filter::PR_SET_MDWE if alone => Decoded::Perform(Call::SetMdwe { bits: b }),
        filter::PR_SET_MEMORY_MERGE if alone => Decoded::Perform(Call::SetMemoryMerge { on: b }),
        filter::PR_SET_MDWE | filter::PR_SET_MEMORY_MERGE => Decoded::Ignore,
        _ => match operation as i32 {
            libc::PR_SET_SECCOMP if b == STRICT && has_no_filter(tid) => Decoded::Strict,
            libc::PR_SET_SECCOMP => Decoded::Ignore,
            libc::PR_SET_MM => set_mm(tid, b, c),
            _ => Decoded::Unmodelled { changes_map: false },
        },
    }
}

/// `PR_SET_MM(2const)`: the bounds of heap, data and stack that it sets.
fn set_mm(tid: Tid, option: u64, argument: u64) -> Decoded {
    const DATA: RangeInclusive<u64> = 3..=4;
    const START_STACK: u64 = 5;
    const START_BRK: u64 = 6;
    const BRK: u64 = 7;
    const MAP: u64 = 14;
    let mut bounds = Bounds::default();
    match option {
        _ if DATA.contains(&option) => {}
        START_STACK => bounds.stack_top = Some(argument),
        START_BRK => bounds.start_brk = Some(argument),
        BRK => bounds.brk = Some(argument),
        // `struct prctl_mm_map`: the code comes first.
        MAP => {
            let word = |index: u64| memory::read_word(tid, argument.wrapping_add(8 * index)).ok();
            bounds = Bounds {
                start_brk: word(4),
                brk: word(5),
                stack_top: word(6),
            };
        }
        // Where code, arguments and environment are said to be, and what is said to run.
        _ => return Decoded::Ignore,
    }
    Decoded::Bounds(bounds)
}

fn seccomp(tid: Tid, entry: &Entry) -> Decoded {
    const STRICT: u32 = libc::SECCOMP_SET_MODE_STRICT;
    let [operation, flags, argument, ..] = entry.args;
    if operation as u32 == STRICT {
        let refused = flags != 0 || argument != 0 || !has_no_filter(tid);
        return if refused {
            Decoded::Ignore
        } else {
            Decoded::Strict
        };
    }
    if flags & u64::from(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER as u32) != 0 {
        Decoded::Listener
    } else {
        Decoded::Ignore
    }
}

/// Has the thread no filter but this tracer's? (Linux 5.9 and later tell.)
fn has_no_filter(tid: Tid) -> bool {
    super::proc::filters(tid).is_ok_and(|filters| filters <= 1)
}

/// The flags of `clone` or `clone3`.
pub(crate) fn clone_flags(tid: Tid, entry: &Entry) -> u64 {
    match entry.nr as i64 {
        libc::SYS_clone => entry.args[0],
        _ => memory::read_word(tid, entry.args[0]).unwrap_or(0),
    }
}

/// Is this a `clone` of a child that is not to be traced?
pub(crate) fn clones_untraced(tid: Tid, entry: &Entry) -> bool {
    entry.mark != mark::X32
        && matches!(entry.nr as i64, libc::SYS_clone | libc::SYS_clone3)
        && clone_flags(tid, entry) & libc::CLONE_UNTRACED as u64 != 0
}

/// `prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, addr, len, name)`.
fn vma_name(tid: Tid, operation: u64, addr: u64, len: u64, pointer: u64) -> Decoded {
    const PR_SET_VMA_ANON_NAME: u64 = 0;
    const LONGEST: usize = 80;
    if operation != PR_SET_VMA_ANON_NAME {
        return Decoded::Unmodelled { changes_map: false };
    }
    let name = if pointer == 0 {
        None
    } else {
        let mut bytes = [0u8; LONGEST];
        let read = memory::read(tid, pointer, &mut bytes).unwrap_or(0);
        let text = bytes[..read]
            .iter()
            .position(|&b| b == 0)
            .and_then(|end| std::str::from_utf8(&bytes[..end]).ok());
        match text {
            Some(text) => Some(text.into()),
            // The kernel refuses such a name before it looks at the range.
            None => return Decoded::Unmodelled { changes_map: false },
        }
    };
    Decoded::Perform(Call::SetVmaName { addr, len, name })
}

/// A set of nodes in the memory of the caller.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeMask {
    pointer: u64,
    /// One more than the kernel looks at.
    count: u64,
    /// Is it a set of the i386 table, of words of 32 bits?
    narrow: bool,
}

/// What `mbind` finds in a set of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nodes {
    These(u64),
    /// Some above 63, too, which a machine of fewer does not have: then the highest of these 64 stands for them, as one that does not exist either.
    Beyond(u64),
    /// The set is too long, not to be read, or names nodes that no kernel has.
    Refused,
}

/// Mode flags with which nodes count that do not exist: `MPOL_F_STATIC_NODES`, `_RELATIVE_NODES`, `_NUMA_BALANCING`.
const EXACT_NODES: u64 = 0xe000;

impl NodeMask {
    pub(crate) fn of(entry: &Entry) -> Self {
        NodeMask {
            pointer: entry.args[3],
            count: entry.args[4],
            narrow: entry.is_i386(),
        }
    }

    pub(crate) fn read(self, tid: Tid) -> Nodes {
        self.read_by(|at, half| {
            if half {
                memory::read_half(tid, at).ok()
            } else {
                memory::read_word(tid, at).ok()
            }
        })
    }

    /// `word` reads a word at an address, or half of one.
    fn read_by(self, mut word: impl FnMut(u64, bool) -> Option<u64>) -> Nodes {
        // A page of them, and Debian's kernels know 1024 (CONFIG_NODES_SHIFT); which ones are set above that, they ask from the end (observed).
        const LONGEST: u64 = 4096 * 8;
        const KNOWN: u64 = 1024 / 64;
        if self.pointer == 0 {
            return Nodes::These(0);
        }
        let bits = match self.count.checked_sub(1) {
            Some(bits @ 0..=LONGEST) => bits,
            _ => return Nodes::Refused,
        };
        let (mut first, mut beyond) = (0, false);
        for index in (0..bits.div_ceil(64)).rev() {
            let used = bits - index * 64;
            let half = self.narrow && used <= 32;
            let Some(word) = word(self.pointer.wrapping_add(8 * index), half) else {
                return Nodes::Refused;
            };
            let word = match used {
                // Of words that are not known, the table of 64 bits takes all.
                0..64 if self.narrow || index < KNOWN => word & ((1 << used) - 1),
                _ => word,
            };
            match index {
                0 => first = word,
                KNOWN.. if word != 0 => return Nodes::Refused,
                _ => beyond |= word != 0,
            }
        }
        if beyond {
            Nodes::Beyond(first | 1 << 63)
        } else {
            Nodes::These(first)
        }
    }
}

/// Where the node mask lies that a call names.
pub(crate) fn nodes_at(entry: &Entry) -> Option<NodeMask> {
    let is_mbind = entry.mark != mark::X32 && entry.nr as i64 == libc::SYS_mbind;
    (is_mbind && entry.args[3] != 0).then(|| NodeMask::of(entry))
}

/// Where the arguments lie that a call points to, and that decide what it does to a map.
pub(crate) fn points_to(entry: &Entry) -> Option<u64> {
    const NAME: u64 = filter::PR_SET_VMA as u64;
    let [first, second, third, fourth, fifth, _] = entry.args;
    match entry.nr as i64 {
        _ if entry.mark == mark::X32 => None,
        libc::SYS_mbind => Some(fourth),
        libc::SYS_process_madvise => Some(second),
        libc::SYS_ioctl => Some(third),
        libc::SYS_prctl if first == NAME => Some(fifth),
        _ => None,
    }
}

/// The name of a call that can stop, for the lists that a person reads.
pub(crate) fn name(entry: &Entry) -> &'static str {
    if entry.mark == mark::X32 {
        return "x32 call";
    }
    match entry.nr as i64 {
        libc::SYS_mmap => "mmap",
        libc::SYS_munmap => "munmap",
        libc::SYS_mprotect => "mprotect",
        libc::SYS_pkey_mprotect => "pkey_mprotect",
        libc::SYS_mremap => "mremap",
        libc::SYS_brk => "brk",
        libc::SYS_madvise => "madvise",
        libc::SYS_mlock => "mlock",
        libc::SYS_mlock2 => "mlock2",
        libc::SYS_munlock => "munlock",
        libc::SYS_mlockall => "mlockall",
        libc::SYS_munlockall => "munlockall",
        libc::SYS_msync => "msync",
        libc::SYS_mincore => "mincore",
        libc::SYS_mseal => "mseal",
        libc::SYS_remap_file_pages => "remap_file_pages",
        libc::SYS_shmat => "shmat",
        libc::SYS_shmdt => "shmdt",
        libc::SYS_mbind => "mbind",
        libc::SYS_set_mempolicy => "set_mempolicy",
        filter::SYS_SET_MEMPOLICY_HOME_NODE => "set_mempolicy_home_node",
        filter::SYS_MAP_SHADOW_STACK => "map_shadow_stack",
        libc::SYS_pkey_alloc => "pkey_alloc",
        libc::SYS_pkey_free => "pkey_free",
        libc::SYS_process_madvise => "process_madvise",
        libc::SYS_setrlimit => "setrlimit",
        libc::SYS_prlimit64 => "prlimit64",
        libc::SYS_personality => "personality",
        libc::SYS_arch_prctl => "arch_prctl",
        libc::SYS_fork => "fork",
        libc::SYS_clone => "clone",
        libc::SYS_clone3 => "clone3",
        libc::SYS_execve => "execve",
        libc::SYS_execveat => "execveat",
        libc::SYS_ioctl => match entry.args[1] as u32 {
            filter::UFFDIO_REGISTER => "ioctl(UFFDIO_REGISTER)",
            filter::UFFDIO_UNREGISTER => "ioctl(UFFDIO_UNREGISTER)",
            _ => "ioctl(UFFDIO_MOVE)",
        },
        libc::SYS_prctl => match entry.args[0] as u32 {
            filter::PR_SET_VMA => "prctl(PR_SET_VMA)",
            _ => "prctl(PR_SET_THP_DISABLE)",
        },
        _ => "another call",
    }
}

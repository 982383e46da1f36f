//! One step of a history: a system call, a page fault, a fork, a change of limits.

use std::num::NonZeroU32;

use samara_mm::{Call, Counted, File, FileArg, ShmSegment};

/// Addresses and lengths are absolute and in bytes; `file` 0 is no file, n is the n-th prepared one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Op {
    Mmap {
        addr: u64,
        len: u64,
        prot: u64,
        flags: u64,
        file: usize,
        offset: u64,
    },
    Munmap {
        addr: u64,
        len: u64,
    },
    Mprotect {
        addr: u64,
        len: u64,
        prot: u64,
    },
    Mremap {
        old: u64,
        old_len: u64,
        new_len: u64,
        flags: u64,
        new: u64,
    },
    /// Relative to the lowest heap address.
    Brk {
        delta: i64,
    },
    Madvise {
        addr: u64,
        len: u64,
        advice: i32,
    },
    /// Of itself, for two ranges.
    ProcessMadvise {
        addr: u64,
        len: u64,
        then: u64,
        then_len: u64,
        advice: i32,
        flags: u64,
    },
    Mlock {
        addr: u64,
        len: u64,
        flags: u64,
    },
    Munlock {
        addr: u64,
        len: u64,
    },
    Mlockall {
        flags: u64,
    },
    Munlockall,
    Msync {
        addr: u64,
        len: u64,
        flags: u64,
    },
    Mincore {
        addr: u64,
        len: u64,
    },
    Mseal {
        addr: u64,
        len: u64,
        flags: u64,
    },
    RemapFilePages {
        addr: u64,
        len: u64,
        prot: u64,
        pgoff: u64,
        flags: u64,
    },
    Shmat {
        segment: usize,
        addr: u64,
        flags: u64,
    },
    Shmdt {
        addr: u64,
    },
    SetName {
        addr: u64,
        len: u64,
        name: usize,
    },
    Mbind {
        addr: u64,
        len: u64,
        mode: u64,
        nodes: u64,
        flags: u64,
    },
    HomeNode {
        addr: u64,
        len: u64,
        home: u64,
        flags: u64,
    },
    /// Stores one byte; `EFAULT` instead of a signal.
    Write {
        addr: u64,
    },
    /// Loads one byte.
    Read {
        addr: u64,
    },
    /// Forks; the history goes on in the child.
    ForkInto,
    /// Forks; the child exits and the history goes on in the parent.
    ForkAside,
    /// Forks; the child stays, and the history goes on in the parent.
    ForkKeep,
    /// Sets a soft limit.
    Limit {
        which: i32,
        value: u64,
    },
    /// Gives up every privilege.
    DropCaps,
    PkeyAlloc {
        rights: u64,
    },
    PkeyFree {
        pkey: i32,
    },
    PkeyMprotect {
        addr: u64,
        len: u64,
        prot: u64,
        pkey: i32,
    },
    SetMdwe {
        bits: u64,
    },
    SetMemoryMerge {
        on: u64,
    },
    /// `personality(2)`, with `READ_IMPLIES_EXEC` or without.
    ReadImpliesExec {
        on: u64,
    },
    /// By the userfaultfd of this number, from 1: the last one has `UFFD_FEATURE_WP_ASYNC`.
    UffdRegister {
        watcher: usize,
        addr: u64,
        len: u64,
        mode: u64,
    },
    UffdUnregister {
        watcher: usize,
        addr: u64,
        len: u64,
    },
    /// Closes it and makes another one.
    UffdClose {
        watcher: usize,
    },
}

/// The number of the first of three files of huge pages: two, and the first one opened only for reading.
pub(crate) const HUGE_FILES: usize = 14;

/// The number of userfaultfds.
pub(crate) const WATCHERS: usize = 3;

pub(crate) const NAMES: [Option<&str>; 3] = [None, Some("one"), Some("two words")];

/// Prepared objects that operations refer to by number.
pub(crate) struct Objects {
    pub(crate) files: Vec<(i32, Counted<File>)>,
    /// Those of huge pages, from number [`HUGE_FILES`] on.
    pub(crate) huge: Vec<(i32, Counted<File>)>,
    pub(crate) segments: Vec<(i32, Counted<ShmSegment>)>,
    pub(crate) start_brk: u64,
}

impl Objects {
    fn file(&self, number: usize) -> Option<&(i32, Counted<File>)> {
        match number.checked_sub(HUGE_FILES) {
            Some(index) => self.huge.get(index),
            None => self.files.get(number.checked_sub(1)?),
        }
    }
}

impl Op {
    /// The call to perform on the engine; `None` for what is no call.
    pub(crate) fn call(&self, objects: &Objects) -> Option<Call> {
        Some(match *self {
            Op::Mmap {
                addr,
                len,
                prot,
                flags,
                file,
                offset,
            } => Call::Mmap {
                addr,
                len,
                prot,
                flags,
                file: match file {
                    0 if flags & 0x20 != 0 => FileArg::None,
                    0 => FileArg::Bad,
                    n => match objects.file(n) {
                        Some(file) => FileArg::File(file.1.clone()),
                        None => FileArg::Bad,
                    },
                },
                offset,
            },
            Op::Munmap { addr, len } => Call::Munmap { addr, len },
            Op::Mprotect { addr, len, prot } => Call::Mprotect {
                addr,
                len,
                prot,
                pkey: -1,
            },
            Op::Mremap {
                old,
                old_len,
                new_len,
                flags,
                new,
            } => Call::Mremap {
                old_addr: old,
                old_len,
                new_len,
                flags,
                new_addr: new,
            },
            Op::Brk { delta } => Call::Brk {
                addr: objects.start_brk.wrapping_add_signed(delta),
            },
            Op::Madvise { addr, len, advice } => Call::Madvise { addr, len, advice },
            Op::ProcessMadvise {
                addr,
                len,
                then,
                then_len,
                advice,
                flags,
            } => Call::ProcessMadvise {
                ranges: [(addr, len), (then, then_len)].into(),
                advice,
                flags,
            },
            Op::Mlock { addr, len, flags } => Call::Mlock { addr, len, flags },
            Op::Munlock { addr, len } => Call::Munlock { addr, len },
            Op::Mlockall { flags } => Call::Mlockall { flags },
            Op::Munlockall => Call::Munlockall,
            Op::Msync { addr, len, flags } => Call::Msync { addr, len, flags },
            Op::Mincore { addr, len } => Call::Mincore { addr, len },
            Op::Mseal { addr, len, flags } => Call::Mseal { addr, len, flags },
            Op::RemapFilePages {
                addr,
                len,
                prot,
                pgoff,
                flags,
            } => Call::RemapFilePages {
                addr,
                len,
                prot,
                pgoff,
                flags,
            },
            Op::Shmat {
                segment,
                addr,
                flags,
            } => Call::Shmat {
                segment: segment
                    .checked_sub(1)
                    .map(|n| objects.segments[n].1.clone()),
                addr,
                flags,
            },
            Op::Shmdt { addr } => Call::Shmdt { addr },
            Op::SetName { addr, len, name } => Call::SetVmaName {
                addr,
                len,
                name: NAMES[name].map(Into::into),
            },
            Op::Mbind {
                addr,
                len,
                mode,
                nodes,
                flags,
            } => Call::Mbind {
                addr,
                len,
                mode,
                nodes,
                flags,
            },
            Op::HomeNode {
                addr,
                len,
                home,
                flags,
            } => Call::SetMempolicyHomeNode {
                addr,
                len,
                home,
                flags,
            },
            Op::PkeyAlloc { rights } => Call::PkeyAlloc { flags: 0, rights },
            Op::PkeyFree { pkey } => Call::PkeyFree { pkey },
            Op::PkeyMprotect {
                addr,
                len,
                prot,
                pkey,
            } => Call::Mprotect {
                addr,
                len,
                prot,
                pkey,
            },
            Op::SetMdwe { bits } => Call::SetMdwe { bits },
            Op::SetMemoryMerge { on } => Call::SetMemoryMerge { on },
            Op::UffdRegister {
                watcher,
                addr,
                len,
                mode,
            } => Call::UffdRegister {
                context: context(watcher)?,
                asynchronous: watcher == WATCHERS,
                addr,
                len,
                mode,
            },
            Op::UffdUnregister { watcher, addr, len } => Call::UffdUnregister {
                context: context(watcher)?,
                asynchronous: watcher == WATCHERS,
                addr,
                len,
            },
            Op::UffdClose { watcher } => Call::UffdClose {
                context: context(watcher)?,
            },
            _ => return None,
        })
    }
}

fn context(watcher: usize) -> Option<NonZeroU32> {
    NonZeroU32::new(watcher as u32)
}

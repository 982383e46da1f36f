//! The child's side: performs a history, and writes down after each operation what the kernel shows.

use super::look::{Eyes, KArea, raw};
use super::{HEAD_BYTES, LOG_BYTES, Shared};
use crate::op::{Op, WATCHERS};
use crate::pool::Figures;

/// libc has no name for it yet.
const SYS_SET_MEMPOLICY_HOME_NODE: i64 = 450;

/// # Safety
/// `log` is the shared log.
pub(crate) unsafe fn main(shared: &mut Shared, log: *mut u8) {
    let mut eyes = Eyes::open();
    // SAFETY: descriptors are ours; buffers are on our stack or in the log.
    unsafe {
        let mut scratch = [0; 2];
        libc::pipe(scratch.as_mut_ptr());
        let mut hold = [0; 2];
        libc::pipe(hold.as_mut_ptr());
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        let mut watchers = [-1; WATCHERS];
        if shared.watched {
            watchers = std::array::from_fn(watcher);
        }
        for index in 0..shared.count {
            let op = shared.ops[index];
            let result = match op {
                Op::Mmap {
                    addr,
                    len,
                    prot,
                    flags,
                    file,
                    offset,
                } => {
                    let fd = if file == 0 {
                        u64::MAX
                    } else {
                        shared.files[file - 1] as u64
                    };
                    raw(libc::SYS_mmap, [addr, len, prot, flags, fd, offset])
                }
                Op::Munmap { addr, len } => raw(libc::SYS_munmap, [addr, len, 0, 0, 0, 0]),
                Op::Mprotect { addr, len, prot } => {
                    raw(libc::SYS_mprotect, [addr, len, prot, 0, 0, 0])
                }
                Op::Mremap {
                    old,
                    old_len,
                    new_len,
                    flags,
                    new,
                } => raw(libc::SYS_mremap, [old, old_len, new_len, flags, new, 0]),
                Op::Brk { delta } => raw(
                    libc::SYS_brk,
                    [shared.start_brk.wrapping_add_signed(delta), 0, 0, 0, 0, 0],
                ),
                Op::Madvise { addr, len, advice } => {
                    raw(libc::SYS_madvise, [addr, len, advice as u64, 0, 0, 0])
                }
                Op::ProcessMadvise {
                    addr,
                    len,
                    then,
                    then_len,
                    advice,
                    flags,
                } => {
                    let own = raw(
                        libc::SYS_pidfd_open,
                        [raw(libc::SYS_getpid, [0; 6]) as u64, 0, 0, 0, 0, 0],
                    );
                    let ranges = [addr, len, then, then_len];
                    let arguments = [
                        own as u64,
                        ranges.as_ptr() as u64,
                        2,
                        advice as u64,
                        flags,
                        0,
                    ];
                    let result = raw(libc::SYS_process_madvise, arguments);
                    raw(libc::SYS_close, [own as u64, 0, 0, 0, 0, 0]);
                    result
                }
                Op::Mlock { addr, len, flags } => {
                    raw(libc::SYS_mlock2, [addr, len, flags, 0, 0, 0])
                }
                Op::Munlock { addr, len } => raw(libc::SYS_munlock, [addr, len, 0, 0, 0, 0]),
                Op::Mlockall { flags } => raw(libc::SYS_mlockall, [flags, 0, 0, 0, 0, 0]),
                Op::Munlockall => raw(libc::SYS_munlockall, [0; 6]),
                Op::Msync { addr, len, flags } => raw(libc::SYS_msync, [addr, len, flags, 0, 0, 0]),
                Op::Mincore { addr, len } => raw(
                    libc::SYS_mincore,
                    [
                        addr,
                        len,
                        log as u64 + LOG_BYTES as u64 - (1 << 20),
                        0,
                        0,
                        0,
                    ],
                ),
                Op::Mseal { addr, len, flags } => raw(462, [addr, len, flags, 0, 0, 0]),
                Op::RemapFilePages {
                    addr,
                    len,
                    prot,
                    pgoff,
                    flags,
                } => raw(
                    libc::SYS_remap_file_pages,
                    [addr, len, prot, pgoff, flags, 0],
                ),
                Op::Shmat {
                    segment,
                    addr,
                    flags,
                } => {
                    let id = segment.checked_sub(1).map_or(-1, |n| shared.segments[n]);
                    raw(libc::SYS_shmat, [id as u64, addr, flags, 0, 0, 0])
                }
                Op::Shmdt { addr } => raw(libc::SYS_shmdt, [addr, 0, 0, 0, 0, 0]),
                Op::SetName { addr, len, name } => {
                    let name = match name {
                        0 => 0,
                        n => shared.names[n].as_ptr() as u64,
                    };
                    raw(libc::SYS_prctl, [0x5356_4d41, 0, addr, len, name, 0])
                }
                Op::Mbind {
                    addr,
                    len,
                    mode,
                    nodes,
                    flags,
                } => {
                    let nodes = [nodes];
                    raw(
                        libc::SYS_mbind,
                        [addr, len, mode, nodes.as_ptr() as u64, 65, flags],
                    )
                }
                Op::HomeNode {
                    addr,
                    len,
                    home,
                    flags,
                } => raw(SYS_SET_MEMPOLICY_HOME_NODE, [addr, len, home, flags, 0, 0]),
                Op::Write { addr } => {
                    libc::write(scratch[1], b"x".as_ptr().cast(), 1);
                    let result = raw(libc::SYS_read, [scratch[0] as u64, addr, 1, 0, 0, 0]);
                    if result < 0 {
                        let mut byte = 0u8;
                        libc::read(scratch[0], (&raw mut byte).cast(), 1);
                        result
                    } else {
                        0
                    }
                }
                Op::Read { addr } => {
                    let result = raw(libc::SYS_write, [scratch[1] as u64, addr, 1, 0, 0, 0]);
                    if result < 0 {
                        result
                    } else {
                        let mut byte = 0u8;
                        libc::read(scratch[0], (&raw mut byte).cast(), 1);
                        0
                    }
                }
                Op::ForkInto => {
                    let child = raw(libc::SYS_fork, [0; 6]);
                    if child > 0 {
                        raw(libc::SYS_wait4, [child as u64, 0, 0, 0, 0, 0]);
                        libc::_exit(0);
                    }
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                    eyes.close();
                    eyes = Eyes::open();
                    // Those that it inherits are its parent's.
                    if shared.watched {
                        watchers.iter().for_each(|&fd| _ = libc::close(fd));
                        watchers = std::array::from_fn(watcher);
                    }
                    child
                }
                Op::ForkAside => {
                    let child = raw(libc::SYS_fork, [0; 6]);
                    if child == 0 {
                        libc::_exit(0);
                    }
                    if child > 0 {
                        raw(libc::SYS_wait4, [child as u64, 0, 0, 0, 0, 0]);
                    }
                    child.min(0)
                }
                Op::ForkKeep => {
                    let child = raw(libc::SYS_fork, [0; 6]);
                    if child == 0 {
                        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                        libc::close(hold[1]);
                        let mut byte = 0u8;
                        // Its copies would keep userfaultfds of its parent's open.
                        if shared.watched {
                            watchers.iter().for_each(|&fd| _ = libc::close(fd));
                            libc::write(scratch[1], (&raw const byte).cast(), 1);
                        }
                        libc::read(hold[0], (&raw mut byte).cast(), 1);
                        libc::_exit(0);
                    }
                    if child > 0 && shared.watched {
                        let mut byte = 0u8;
                        libc::read(scratch[0], (&raw mut byte).cast(), 1);
                    }
                    child.min(0)
                }
                Op::Limit { which, value } => {
                    let mut limit = libc::rlimit {
                        rlim_cur: 0,
                        rlim_max: 0,
                    };
                    libc::getrlimit(which as u32, &raw mut limit);
                    limit.rlim_cur = value;
                    raw(
                        libc::SYS_setrlimit,
                        [which as u64, (&raw const limit) as u64, 0, 0, 0, 0],
                    )
                }
                Op::PkeyAlloc { rights } => raw(libc::SYS_pkey_alloc, [0, rights, 0, 0, 0, 0]),
                Op::PkeyFree { pkey } => raw(libc::SYS_pkey_free, [pkey as u64, 0, 0, 0, 0, 0]),
                Op::PkeyMprotect {
                    addr,
                    len,
                    prot,
                    pkey,
                } => raw(
                    libc::SYS_pkey_mprotect,
                    [addr, len, prot, pkey as u64, 0, 0],
                ),
                Op::SetMdwe { bits } => raw(libc::SYS_prctl, [65, bits, 0, 0, 0, 0]),
                Op::UffdRegister {
                    watcher,
                    addr,
                    len,
                    mode,
                } => {
                    let range = [addr, len, mode, 0];
                    let to = range.as_ptr() as u64;
                    let fd = watchers[watcher - 1] as u64;
                    raw(libc::SYS_ioctl, [fd, 0xc020_aa00, to, 0, 0, 0])
                }
                Op::UffdUnregister { watcher, addr, len } => {
                    let range = [addr, len];
                    let to = range.as_ptr() as u64;
                    let fd = watchers[watcher - 1] as u64;
                    raw(libc::SYS_ioctl, [fd, 0x8010_aa01, to, 0, 0, 0])
                }
                Op::UffdClose { watcher: number } => {
                    libc::close(watchers[number - 1]);
                    watchers[number - 1] = watcher(number - 1);
                    0
                }
                Op::SetMemoryMerge { on } => raw(libc::SYS_prctl, [67, on, 0, 0, 0, 0]),
                Op::ReadImpliesExec { on } => {
                    const READ_IMPLIES_EXEC: u64 = 0x40_0000;
                    const ASK: u64 = 0xffff_ffff;
                    let old = raw(libc::SYS_personality, [ASK, 0, 0, 0, 0, 0]) as u64;
                    let new = (old & !READ_IMPLIES_EXEC) | (on * READ_IMPLIES_EXEC);
                    raw(libc::SYS_personality, [new, 0, 0, 0, 0, 0]).min(0)
                }
                Op::DropCaps => {
                    let header = [0x2008_0522u32, 0];
                    let data = [0u32; 6];
                    raw(
                        libc::SYS_capset,
                        [header.as_ptr() as u64, data.as_ptr() as u64, 0, 0, 0, 0],
                    )
                }
            };
            record(shared, log, eyes, result);
        }
    }
}

/// Opens a userfaultfd, by its place in the list. A fault that it would handle fails, because no
/// thread handles it.
fn watcher(index: usize) -> i32 {
    const API: u64 = 0xaa;
    const SIGBUS: u64 = 1 << 7;
    const PAGEFAULT_WP: u64 = 1;
    const WP_UNPOPULATED: u64 = 1 << 13;
    const WP_ASYNC: u64 = 1 << 15;
    let asynchronous = SIGBUS | PAGEFAULT_WP | WP_UNPOPULATED | WP_ASYNC;
    let last = index + 1 == WATCHERS;
    let flags = libc::O_CLOEXEC as u64;
    let fd = raw(libc::SYS_userfaultfd, [flags, 0, 0, 0, 0, 0]);
    let ask = |features| {
        let mut asked = [API, features, 0];
        let to = asked.as_mut_ptr() as u64;
        raw(libc::SYS_ioctl, [fd as u64, 0xc018_aa3f, to, 0, 0, 0])
    };
    // Older kernels do not know the one.
    if !last || ask(asynchronous) < 0 {
        ask(SIGBUS);
    }
    fd as i32
}

/// # Safety
/// `log` is the shared log.
unsafe fn record(shared: &mut Shared, log: *mut u8, eyes: Eyes, result: i64) {
    // SAFETY: the log is much larger than all records together; checked below.
    unsafe {
        let head = log.add(shared.used);
        head.cast::<i64>().write(result);
        let areas = head.add(HEAD_BYTES).cast();
        let count = eyes.areas(shared.ways, log, areas);
        if shared.reads_flags(shared.done) {
            eyes.flags(log, areas, count);
        }
        let pool = match shared.huge {
            true => eyes.pool(log),
            false => Figures::default(),
        };
        head.add(24).cast::<Figures>().write(pool);
        head.add(8).cast::<u64>().write(count);
        let written = match shared.facts {
            true => eyes.written(shared.ways),
            false => 0,
        };
        head.add(16).cast::<u64>().write(written);
        shared.used += HEAD_BYTES + count as usize * size_of::<KArea>();
        if shared.used > LOG_BYTES - (8 << 20) {
            libc::_exit(9);
        }
        shared.done += 1;
    }
}

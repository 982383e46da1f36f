//! The calls of the i386 table, translated to the x86-64 table.
//!
//! The numbers are those of `asm/unistd_32.h`. Some calls have another form there: `mmap` with its
//! arguments in memory, `mmap2` with an offset in pages, and `ipc`, which is several calls. Words
//! behind their pointers have 4 bytes.

use samara_linux::Tid;
use samara_linux::memory;

pub(super) const IOCTL: u32 = 54;
pub(super) const PTRACE: u32 = 26;
pub(super) const CLONE: u32 = 120;
pub(super) const PERSONALITY: u32 = 136;
pub(super) const PRCTL: u32 = 172;
pub(super) const UNSHARE: u32 = 310;
pub(super) const PRLIMIT64: u32 = 340;
pub(super) const SECCOMP: u32 = 354;
pub(super) const ARCH_PRCTL: u32 = 384;
const OLD_MMAP: u32 = 90;
const IPC: u32 = 117;
const MMAP2: u32 = 192;

/// Calls without an equivalent in x86-64.
pub(super) const OF_ITS_OWN: &[u32] = &[OLD_MMAP, IPC, MMAP2];

/// Numbers in both tables of calls that are the same.
pub(super) const NUMBERS: &[(u32, i64)] = &[
    (2, libc::SYS_fork),
    (11, libc::SYS_execve),
    (21, libc::SYS_mount),
    // The first of each takes user IDs of 16 bits, the second of 32.
    (23, libc::SYS_setuid),
    (213, libc::SYS_setuid),
    (70, libc::SYS_setreuid),
    (203, libc::SYS_setreuid),
    (164, libc::SYS_setresuid),
    (208, libc::SYS_setresuid),
    (138, libc::SYS_setfsuid),
    (215, libc::SYS_setfsuid),
    (PTRACE, libc::SYS_ptrace),
    (45, libc::SYS_brk),
    (IOCTL, libc::SYS_ioctl),
    (75, libc::SYS_setrlimit),
    (91, libc::SYS_munmap),
    (CLONE, libc::SYS_clone),
    (125, libc::SYS_mprotect),
    (PERSONALITY, libc::SYS_personality),
    (144, libc::SYS_msync),
    (150, libc::SYS_mlock),
    (151, libc::SYS_munlock),
    (152, libc::SYS_mlockall),
    (153, libc::SYS_munlockall),
    (163, libc::SYS_mremap),
    (PRCTL, libc::SYS_prctl),
    (185, libc::SYS_capset),
    (190, libc::SYS_vfork),
    (218, libc::SYS_mincore),
    (219, libc::SYS_madvise),
    (245, libc::SYS_io_setup),
    (246, libc::SYS_io_destroy),
    (257, libc::SYS_remap_file_pages),
    (274, libc::SYS_mbind),
    (276, libc::SYS_set_mempolicy),
    (UNSHARE, libc::SYS_unshare),
    (338, libc::SYS_fanotify_init),
    (PRLIMIT64, libc::SYS_prlimit64),
    (346, libc::SYS_setns),
    (SECCOMP, libc::SYS_seccomp),
    (358, libc::SYS_execveat),
    (374, libc::SYS_userfaultfd),
    (376, libc::SYS_mlock2),
    (380, libc::SYS_pkey_mprotect),
    (381, libc::SYS_pkey_alloc),
    (382, libc::SYS_pkey_free),
    (ARCH_PRCTL, libc::SYS_arch_prctl),
    (397, libc::SYS_shmat),
    (398, libc::SYS_shmdt),
    // From here on the numbers are the same in both tables.
    (435, libc::SYS_clone3),
    (425, libc::SYS_io_uring_setup),
    (426, libc::SYS_io_uring_enter),
    (427, libc::SYS_io_uring_register),
    (432, libc::SYS_fsmount),
    (440, libc::SYS_process_madvise),
    (450, super::filter::SYS_SET_MEMPOLICY_HOME_NODE),
    (453, super::filter::SYS_MAP_SHADOW_STACK),
    (462, libc::SYS_mseal),
];

/// A number that no call has. It stands for calls that the kernel refuses.
pub(super) const REFUSED: u64 = u64::MAX;

/// Returns a call in the x86-64 table: its number and arguments, and the address of its result if
/// the call does not return it.
pub(super) fn native(tid: Tid, number: u64, args: [u64; 6]) -> (u64, [u64; 6], Option<u64>) {
    let args = args.map(|argument| argument & 0xffff_ffff);
    let [a, b, c, _, e, _] = args;
    match number as u32 {
        OLD_MMAP => {
            let word = |index: u64| memory::read_half(tid, a.wrapping_add(4 * index)).ok();
            let words: Option<Vec<u64>> = (0..6).map(word).collect();
            match words.and_then(|words| words.try_into().ok()) {
                Some(args) => (libc::SYS_mmap as u64, args, None),
                // The kernel cannot read it either.
                None => (REFUSED, args, None),
            }
        }
        MMAP2 => {
            let mut args = args;
            args[5] <<= 12;
            (libc::SYS_mmap as u64, args, None)
        }
        IPC => ipc(a, b, c, args[3], e),
        number => {
            let native = NUMBERS.iter().find(|(here, _)| *here == number);
            (
                native.map_or(REFUSED, |(_, there)| *there as u64),
                args,
                None,
            )
        }
    }
}

/// Translates `ipc(2)`. The upper half of its first argument is a version.
fn ipc(
    call: u64,
    first: u64,
    second: u64,
    third: u64,
    pointer: u64,
) -> (u64, [u64; 6], Option<u64>) {
    const SHMAT: u64 = 21;
    const SHMDT: u64 = 22;
    const OLDER: u64 = 1;
    match (call & 0xffff, call >> 16) {
        // The kernel refuses it: it exists for other systems.
        (SHMAT, OLDER) => (REFUSED, [0; 6], None),
        (SHMAT, _) => (
            libc::SYS_shmat as u64,
            [first, pointer, second, 0, 0, 0],
            Some(third),
        ),
        (SHMDT, _) => (libc::SYS_shmdt as u64, [pointer, 0, 0, 0, 0, 0], None),
        _ => (REFUSED, [0; 6], None),
    }
}

//! The names of calls.

use crate::trace::entry::Entry;
use crate::trace::filter::{self, mark};

const SET_MM: u32 = libc::PR_SET_MM as u32;
const SET_THP_DISABLE: u32 = libc::PR_SET_THP_DISABLE as u32;

/// Returns the name of a call that can stop, for lists that people read.
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
            filter::UFFDIO_MOVE => "ioctl(UFFDIO_MOVE)",
            _ => "ioctl of a userfaultfd",
        },
        libc::SYS_prctl => match entry.args[0] as u32 {
            filter::PR_SET_VMA => "prctl(PR_SET_VMA)",
            filter::PR_SET_MDWE => "prctl(PR_SET_MDWE)",
            filter::PR_SET_MEMORY_MERGE => "prctl(PR_SET_MEMORY_MERGE)",
            SET_MM => "prctl(PR_SET_MM)",
            SET_THP_DISABLE => "prctl(PR_SET_THP_DISABLE)",
            _ => "prctl",
        },
        _ => "another call",
    }
}

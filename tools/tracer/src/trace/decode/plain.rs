//! Calls on memory whose arguments are all numbers.

use samara_mm::Call;

use crate::trace::entry::Entry;
use crate::trace::filter;

/// Returns the engine's call for such a call, or `None` for other calls.
pub(super) fn call(entry: &Entry) -> Option<Call> {
    on_areas(entry)
        .or_else(|| on_pages(entry))
        .or_else(|| on_locks(entry))
        .or_else(|| on_keys(entry))
}

/// Decodes calls that make, change or remove areas.
fn on_areas(entry: &Entry) -> Option<Call> {
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
        _ => return None,
    })
}

/// Decodes calls about the pages of areas.
fn on_pages(entry: &Entry) -> Option<Call> {
    let [a, b, c, d, ..] = entry.args;
    Some(match entry.nr as i64 {
        libc::SYS_madvise => Call::Madvise {
            addr: a,
            len: b,
            advice: c as i32,
        },
        libc::SYS_msync => Call::Msync {
            addr: a,
            len: b,
            flags: u64::from(c as u32),
        },
        libc::SYS_mincore => Call::Mincore { addr: a, len: b },
        filter::SYS_SET_MEMPOLICY_HOME_NODE => Call::SetMempolicyHomeNode {
            addr: a,
            len: b,
            home: c,
            flags: d,
        },
        _ => return None,
    })
}

/// Decodes calls that lock and unlock memory.
fn on_locks(entry: &Entry) -> Option<Call> {
    let [a, b, c, ..] = entry.args;
    Some(match entry.nr as i64 {
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
        _ => return None,
    })
}

/// Decodes calls about protection keys.
fn on_keys(entry: &Entry) -> Option<Call> {
    let [a, b, ..] = entry.args;
    Some(match entry.nr as i64 {
        libc::SYS_pkey_alloc => Call::PkeyAlloc {
            flags: a,
            rights: b,
        },
        libc::SYS_pkey_free => Call::PkeyFree { pkey: a as i32 },
        _ => return None,
    })
}

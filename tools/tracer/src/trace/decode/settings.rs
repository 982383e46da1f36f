//! Settings that a process makes for itself: `prctl(2)` and `seccomp(2)`.

use std::ops::RangeInclusive;

use samara_linux::Tid;
use samara_linux::{memory, proc};
use samara_mm::Call;

use super::{Bounds, Decoded};
use crate::trace::entry::Entry;
use crate::trace::filter;

pub(super) fn prctl(tid: Tid, entry: &Entry) -> Decoded {
    const STRICT: u64 = libc::SECCOMP_MODE_STRICT as u64;
    let [operation, b, c, d, e, _] = entry.args;
    let alone = c | d | e == 0;
    match operation as u32 {
        filter::PR_SET_VMA => vma_name(tid, b, c, d, e),
        // With more arguments the kernel refuses both before it looks at anything.
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

/// Decodes `PR_SET_MM(2const)`: the bounds of heap, data and stack that it sets.
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
        // `struct prctl_mm_map`: the bounds of the code come first.
        MAP => {
            let word = |index: u64| memory::read_word(tid, argument.wrapping_add(8 * index)).ok();
            bounds = Bounds {
                start_brk: word(4),
                brk: word(5),
                stack_top: word(6),
            };
        }
        // The stated bounds of code, arguments and environment, and the stated program.
        _ => return Decoded::Ignore,
    }
    Decoded::Bounds(bounds)
}

pub(super) fn seccomp(tid: Tid, entry: &Entry) -> Decoded {
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

/// Returns `true` if the thread has no filter but this tracer's. Linux 5.9 and later report that.
fn has_no_filter(tid: Tid) -> bool {
    proc::filters(tid).is_ok_and(|filters| filters <= 1)
}

/// Decodes `prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, addr, len, name)`.
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

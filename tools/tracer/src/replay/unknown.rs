//! Calls whose answer depends on facts that a text of strace lacks: a program's start, and the
//! order of concurrent calls of several threads.

use samara_conformance::describe;
use samara_conformance::replica::placed_at_random;
use samara_mm::{AddressSpace, Call, Errno, FileArg, NoPages};

/// Returns `true` if the kernel's answer depends on facts that the engine cannot know.
///
/// If the call succeeded although the engine finds a hole in the range, an area from the start lies
/// there. If it failed although the engine sees no reason, the reason may be an area from the
/// start, a limit, a privilege or the file.
///
/// Unless `certain`, every answer that differs counts.
pub(super) fn concerns(engine: &AddressSpace, call: &Call, returned: i64, certain: bool) -> bool {
    let Ok(mut trial) = engine.try_clone() else {
        return false;
    };
    let answer = if placed_at_random(call, returned) {
        trial.perform_at(call, returned as u64, &mut NoPages)
    } else {
        trial.perform(call)
    };
    let own = describe::returned(answer);
    if own == returned || !certain {
        return own != returned;
    }
    let failed = |value: i64| (-4095..0).contains(&value);
    match (failed(own), failed(returned)) {
        (true, _) => has_hole(engine, call),
        (false, true) => {
            let anonymous = matches!(
                call,
                Call::Mmap {
                    file: FileArg::None,
                    ..
                }
            );
            // Here the arguments alone decide.
            !(anonymous && returned == -i64::from(Errno::EINVAL.0))
        }
        // The kernel did not follow a hint, so another area lies there.
        (false, false) => {
            matches!(call, Call::Mmap { addr, flags, .. } if *addr != 0 && flags & 0x10 == 0)
        }
    }
}

/// Returns `true` if part of the call's range is not mapped, as far as is known.
fn has_hole(engine: &AddressSpace, call: &Call) -> bool {
    let (start, len) = match *call {
        Call::Mremap {
            old_addr, old_len, ..
        } => (old_addr, old_len),
        Call::Brk { .. } | Call::Mmap { .. } => return true,
        _ => match call.range() {
            Some(range) => range,
            None => return false,
        },
    };
    let end = start.saturating_add(len.max(1));
    let mut next = start;
    while next < end {
        match engine.lookup(next) {
            Some(area) => next = area.end,
            None => return true,
        }
    }
    false
}

//! Shutdown: frees everything, and reports what is still allocated as leaked.

use crate::arch::{Arch, Machine};
use crate::process::scheduler;
use crate::{fs, log, memory, trace};

const LEAKED: i32 = 102;

/// Shuts the machine down with a status as `wait(2)` encodes it.
pub fn end(status: i32) -> ! {
    let code = match status & 0x7f {
        0 => status >> 8 & 0xff,
        signal => 128 + signal,
    };
    scheduler::wait_for_others();
    trace::end(status >> 8 & 0xff, status & 0x7f);
    fs::drop_all();
    memory::heap::set_unlimited();
    let leaks = leaks();
    log::status(if leaks { LEAKED } else { code });
    Arch::power_off()
}

/// Returns how many heap blocks are allocated beyond those that live for ever.
///
/// Those belong to the machine, the root directory, each processor, and the capacity of lists that
/// are empty now.
fn blocks_too_many() -> u64 {
    const OF_MACHINE: u64 = 16;
    const OF_PROCESSOR: u64 = 3;
    let kept = OF_MACHINE + OF_PROCESSOR * u64::from(scheduler::online().count_ones());
    memory::heap::allocated_blocks().saturating_sub(kept)
}

/// Logs each kind of memory that is still allocated, and returns `true` if there is any.
fn leaks() -> bool {
    let stats = memory::machine().stats();
    let mut found = false;
    for (what, count) in [
        ("page tables of processes", stats.tables),
        ("private frames", stats.anon),
        ("file frames", stats.file),
        ("heap blocks (VMAs, tree nodes)", blocks_too_many()),
    ] {
        if count > 0 {
            log!("\u{2}leak: {count} {what}");
            found = true;
        }
    }
    if let Err(broken) = memory::machine().check() {
        log!("\u{2}check: {broken}");
        found = true;
    }
    found
}

//! The end: everything is freed, and what is left is counted.

use crate::arch::{Arch, Machine};
use crate::process::scheduler;
use crate::{files, log, memory, trace};

const LEAKED: i32 = 102;

/// Ends the machine with a status as `wait` tells it.
pub fn end(status: i32) -> ! {
    let code = match status & 0x7f {
        0 => status >> 8 & 0xff,
        signal => 128 + signal,
    };
    scheduler::wait_for_others();
    trace::end(status >> 8 & 0xff, status & 0x7f);
    files::drop_all();
    memory::heap::set_unlimited();
    let leaks = leaks();
    log::status(if leaks { LEAKED } else { code });
    Arch::power_off()
}

/// Tells of all that should have been freed.
fn leaks() -> bool {
    let stats = memory::machine().stats();
    let mut found = false;
    for (what, count) in [
        ("tables of processes", stats.tables),
        ("private frames", stats.anon),
        ("frames of files", stats.file),
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

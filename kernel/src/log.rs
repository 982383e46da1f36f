//! The kernel log: lines on the log device, and the messages of a panic.
//!
//! The first byte of a line tells `cargo xtask kernel` how to treat it. Byte 1 begins `status N`,
//! the status to exit with. Byte 2 begins a line that is shown even with `--quiet`. Byte 3 begins
//! bytes of the trace.

use core::fmt::{self, Write};
use core::panic::PanicInfo;

use crate::arch::{Arch, Machine};

struct Device;

impl Write for Device {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        Arch::log_write(text.as_bytes());
        Ok(())
    }
}

pub fn write(line: fmt::Arguments<'_>) {
    let _ = writeln!(Device, "{line}");
}

/// Writes a line to the kernel's log.
#[macro_export]
macro_rules! log {
    ($($argument:tt)*) => { $crate::log::write(format_args!($($argument)*)) };
}

/// Reports to `cargo xtask kernel` the status to exit with.
pub fn status(status: i32) {
    let _ = writeln!(Device, "\u{1}status {status}");
}

const PANICKED: i32 = 101;

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    Arch::disable_interrupts();
    // Byte 2 shows the line even with `--quiet`.
    let _ = match info.location() {
        Some(location) => writeln!(Device, "\u{2}panicked at {location}: {}", info.message()),
        None => writeln!(Device, "\u{2}panicked: {}", info.message()),
    };
    Arch::back_trace(&mut |at| {
        let _ = writeln!(Device, "\u{2}    at {at:#x}");
    });
    status(PANICKED);
    Arch::power_off()
}

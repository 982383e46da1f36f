//! Exceptions, interrupts and system calls, decoded as a [`Trap`].

use samara_mm::process::Access;
use x86_64::registers::control::Cr2;

use super::frame::{Frame, SYSTEM_CALL};
use super::{local_apic, pic};
use crate::arch::{Trap, serial};
use crate::memory::shootdown;
use crate::process::{self, scheduler};

/// The vector of the two PICs' first interrupt.
pub(super) const FIRST_INTERRUPT: u8 = 32;

/// The vector of the first serial port.
const CONSOLE: u8 = FIRST_INTERRUPT + 4;

const SIGILL: i32 = 4;
const SIGTRAP: i32 = 5;
const SIGBUS: i32 = 7;
const SIGFPE: i32 = 8;
const SIGSEGV: i32 = 11;
const SI_KERNEL: i32 = 0x80;

/// Handles a trap. `entry.s` calls it with interrupts off, and returns to where the trap came from.
#[unsafe(no_mangle)]
// ANCHOR: trap
extern "C" fn trap_entered(frame: &mut Frame) {
    let trap = match frame.vector {
        SYSTEM_CALL => Trap::SystemCall,
        14 => Trap::PageFault { address: Cr2::read_raw(), access: access(frame.code) },
        vector @ 0..32 => exception(vector, frame),
        vector => {
            interrupt(vector as u8);
            Trap::Interrupt
        }
    };
    if frame.is_user() {
        x86_64::instructions::interrupts::enable();
        process::trap_from_user(frame, trap);
    } else if !matches!(trap, Trap::Interrupt) {
        panic!("{trap:x?} in the kernel: {frame:x?}");
    }
}
// ANCHOR_END: trap

/// Returns the kind of access for the error code of a page fault.
// ANCHOR: access
fn access(code: u64) -> Access {
    const WRITE: u64 = 1 << 1;
    const FETCH: u64 = 1 << 4;
    match code {
        _ if code & FETCH != 0 => Access::EXEC,
        _ if code & WRITE != 0 => Access::WRITE,
        _ => Access::READ,
    }
}
// ANCHOR_END: access

/// Returns the trap for an exception, with the signal that Linux sends (`sigaction(2)`).
fn exception(vector: u64, frame: &Frame) -> Trap {
    let (signal, code, address) = match vector {
        0 => (SIGFPE, 1, frame.rip),
        1 => (SIGTRAP, 2, frame.rip),
        3 => (SIGTRAP, SI_KERNEL, 0),
        6 => (SIGILL, 2, frame.rip),
        11 | 12 => (SIGBUS, SI_KERNEL, 0),
        16 | 19 => (SIGFPE, 8, frame.rip),
        17 => (SIGBUS, 1, 0),
        _ => (SIGSEGV, SI_KERNEL, 0),
    };
    Trap::Exception { signal, code, address }
}

fn interrupt(vector: u8) {
    match vector {
        local_apic::TIMER => {
            scheduler::tick();
            local_apic::end_of_interrupt();
        }
        local_apic::IPI => {
            shootdown::answer();
            local_apic::end_of_interrupt();
        }
        CONSOLE => {
            serial::receive();
            pic::end_of_interrupt(vector - FIRST_INTERRUPT);
        }
        _ => {}
    }
}

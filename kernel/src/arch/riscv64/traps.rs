//! Exceptions, interrupts and system calls, decoded as a [`Trap`].

use core::arch::asm;

use riscv::register::{scause, sip, stval};
use samara_mm::process::Access;

use super::frame::{Frame, SYSTEM_CALL};
use super::{Arch, console, timer};
use crate::arch::{Machine, Trap};
use crate::memory::shootdown;
use crate::process;

const SIGILL: i32 = 4;
const SIGTRAP: i32 = 5;
const SIGBUS: i32 = 7;
const SIGSEGV: i32 = 11;

/// The bit of `scause` for interrupts.
const INTERRUPT: u64 = 1 << 63;

/// Handles a trap. `entry.s` calls it with interrupts off, and returns to where the trap came from.
#[unsafe(no_mangle)]
extern "C" fn trap_entered(frame: &mut Frame) {
    frame.cause = scause::read().bits() as u64;
    let trap = if frame.cause & INTERRUPT != 0 {
        interrupt(frame.cause & !INTERRUPT);
        Trap::Interrupt
    } else {
        exception(frame)
    };
    if frame.is_user() {
        Arch::restore_interrupts(true);
        process::trap_from_user(frame, trap);
        if let Trap::PageFault { address, .. } = trap {
            // This processor's TLB may hold the old entry.
            // SAFETY: the processor walks the page tables again.
            unsafe { asm!("sfence.vma {}, zero", in(reg) address, options(nostack)) };
        }
    } else if !matches!(trap, Trap::Interrupt) {
        panic!("{trap:x?} in the kernel: {frame:x?}");
    }
}

/// Returns the trap for `scause` (the privileged architecture), with the signals of `sigaction(2)`.
fn exception(frame: &mut Frame) -> Trap {
    let (pc, address) = (frame.pc, stval::read() as u64);
    let of_signal = |signal, code, address| Trap::Exception { signal, code, address };
    let fault = |access| Trap::PageFault { address, access };
    match frame.cause {
        SYSTEM_CALL => {
            // `ecall` has four bytes.
            frame.pc += 4;
            Trap::SystemCall
        }
        2 => of_signal(SIGILL, 1, pc),
        3 => of_signal(SIGTRAP, 1, pc),
        0 | 4 | 6 => of_signal(SIGBUS, 1, address),
        12 => fault(Access::EXEC),
        13 => fault(Access::READ),
        15 => fault(Access::WRITE),
        _ => of_signal(SIGSEGV, 2, address),
    }
}

fn interrupt(cause: u64) {
    match cause {
        1 => {
            // SAFETY: a bit of this processor's state.
            unsafe { sip::clear_ssoft() };
            shootdown::answer();
        }
        5 => timer::tick(),
        9 => console::interrupt(),
        _ => {}
    }
}

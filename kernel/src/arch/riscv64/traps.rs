//! Exceptions, interrupts and system calls, told to the rest of the kernel as a [`Trap`].

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

/// In `scause`: it is an interrupt.
const INTERRUPT: u64 = 1 << 63;

/// Called by `entry.s` with interrupts off. What it returns from goes back to where the trap came from.
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
            // The processor may remember that nothing was there.
            // SAFETY: it is read from the tables again.
            unsafe { asm!("sfence.vma {}, zero", in(reg) address, options(nostack)) };
        }
    } else if !matches!(trap, Trap::Interrupt) {
        panic!("{trap:x?} in the kernel: {frame:x?}");
    }
}

/// What the cause says (the privileged architecture, `scause`), with the signals that `sigaction(2)` has for it.
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
            // SAFETY: a bit of this processor's: it was called.
            unsafe { sip::clear_ssoft() };
            shootdown::answer();
        }
        5 => timer::tick(),
        9 => console::interrupt(),
        _ => {}
    }
}

//! Exceptions, interrupts and system calls, decoded as a [`Trap`].

use aarch64_cpu::registers::{ESR_EL1, FAR_EL1, Readable};
use samara_mm::process::Access;

use super::frame::{Frame, SYSTEM_CALL};
use super::{Arch, console, gic, timer};
use crate::arch::{Machine, Trap, serial};
use crate::memory::shootdown;
use crate::process;

/// The vectors come in groups of four, one group for each origin: synchronous exception, interrupt,
/// fast interrupt, error.
const SYNCHRONOUS: u64 = 0;
const INTERRUPT: u64 = 1;

const SIGILL: i32 = 4;
const SIGTRAP: i32 = 5;
const SIGBUS: i32 = 7;
const SIGFPE: i32 = 8;

/// Handles a trap. `entry.s` calls it with interrupts off, and returns to where the trap came from.
#[unsafe(no_mangle)]
extern "C" fn trap_entered(frame: &mut Frame, vector: u64) {
    let trap = match vector % 4 {
        SYNCHRONOUS => {
            frame.syndrome = ESR_EL1.get();
            exception(frame)
        }
        INTERRUPT => {
            interrupt();
            Trap::Interrupt
        }
        _ => panic!("vector {vector}: {frame:x?}"),
    };
    if frame.is_user() {
        Arch::restore_interrupts(true);
        process::trap_from_user(frame, trap);
        if let Trap::PageFault { address, .. } = trap {
            // This processor's TLB may hold the old entry, which permits less.
            super::flush_local_page(address);
        }
    } else if !matches!(trap, Trap::Interrupt) {
        panic!("{trap:x?} in the kernel: {frame:x?}");
    }
}

/// Returns the trap for a syndrome (Arm ARM, `ESR_EL1`), with the signals of `sigaction(2)`.
fn exception(frame: &Frame) -> Trap {
    const ALIGNMENT: u64 = 0x21;
    let (pc, address) = (frame.pc, FAR_EL1.get());
    let of_signal = |signal, code, address| Trap::Exception { signal, code, address };
    let status = frame.syndrome & 0x3f;
    match frame.class() {
        SYSTEM_CALL => Trap::SystemCall,
        // Instruction and data aborts.
        0x20 | 0x21 | 0x24 | 0x25 => match status {
            // Translation, access flag and permission faults.
            0x04..0x10 => Trap::PageFault { address, access: access(frame) },
            ALIGNMENT => of_signal(SIGBUS, 1, address),
            // Address size faults. Handled like accesses to an address without an entry.
            0x00..0x04 => Trap::PageFault { address, access: access(frame) },
            _ => of_signal(SIGBUS, 3, address),
        },
        // The program counter or the stack pointer is misaligned.
        0x22 => of_signal(SIGBUS, 1, pc),
        0x26 => of_signal(SIGBUS, 1, frame.sp),
        0x2c => of_signal(SIGFPE, 0, pc),
        // Breakpoint, single step, `brk`.
        0x30..=0x35 => of_signal(SIGTRAP, 2, pc),
        0x3c => of_signal(SIGTRAP, 1, pc),
        _ => of_signal(SIGILL, 1, pc),
    }
}

fn access(frame: &Frame) -> Access {
    const WRITE: u64 = 1 << 6;
    /// The syndrome reports cache maintenance as a write.
    const MAINTENANCE: u64 = 1 << 8;
    match frame.class() {
        0x20 | 0x21 => Access::EXEC,
        _ if frame.syndrome & (WRITE | MAINTENANCE) == WRITE => Access::WRITE,
        _ => Access::READ,
    }
}

fn interrupt() {
    let Some(taken) = gic::next() else { return };
    match gic::number(taken) {
        timer::INTERRUPT => timer::tick(),
        console::INTERRUPT => serial::receive(),
        gic::IPI => shootdown::answer(),
        _ => {}
    }
    gic::end_of_interrupt(taken);
}

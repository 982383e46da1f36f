//! The two 8259 interrupt controllers of QEMU's machines.

use x86_64::instructions::port::Port;

use super::traps::FIRST_INTERRUPT;

const COMMAND: [u16; 2] = [0x20, 0xa0];
const DATA: [u16; 2] = [0x21, 0xa1];
const END_OF_INTERRUPT: u8 = 0x20;

fn write(port: u16, value: u8) {
    // SAFETY: a port of the controllers.
    unsafe { Port::new(port).write(value) }
}

/// Maps the interrupts to vectors from [`FIRST_INTERRUPT`] on, and unmasks the console's.
pub(super) fn start() {
    for chip in 0..2 {
        // Four words: begin, first vector, line of the second controller, mode.
        write(COMMAND[chip], 0x11);
        write(DATA[chip], FIRST_INTERRUPT + 8 * chip as u8);
        write(DATA[chip], [4, 2][chip]);
        write(DATA[chip], 1);
    }
    write(DATA[0], !(1 << 4));
    write(DATA[1], !0);
}

/// Signals the end of an interrupt's handling.
pub(super) fn end_of_interrupt(line: u8) {
    if line >= 8 {
        write(COMMAND[1], END_OF_INTERRUPT);
    }
    write(COMMAND[0], END_OF_INTERRUPT);
}

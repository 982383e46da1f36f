//! The registers of a program, as `entry.s` saves them on the kernel stack.

use crate::arch::UserFrame;

/// All registers, in the order in which they lie in memory.
#[derive(Clone, Default, Debug)]
#[repr(C)]
pub struct Frame {
    /// x1 to x31.
    pub x: [u64; 31],
    pub pc: u64,
    pub status: u64,
    /// `scause`.
    pub cause: u64,
    /// The value of a0 at entry: the first argument of a system call, whose result replaces it.
    pub first: u64,
    /// The number of the processor on which the program runs.
    pub processor: u64,
}

pub const SP: usize = 1;
pub const TP: usize = 3;
pub const A0: usize = 9;
const A7: usize = 16;

pub const SYSTEM_CALL: u64 = 8;

/// The status of a program: interrupts on, floating-point registers in use, 64-bit addresses.
const USER: u64 = 1 << 5 | 3 << 13 | 2 << 32;
/// The status bit of a trap from the kernel.
const FROM_KERNEL: u64 = 1 << 8;

impl Frame {
    pub fn is_user(&self) -> bool {
        self.status & FROM_KERNEL == 0
    }
}

impl UserFrame for Frame {
    fn new(pc: u64, sp: u64) -> Self {
        let mut frame = Frame { pc, status: USER, cause: SYSTEM_CALL, ..Frame::default() };
        frame.x[SP] = sp;
        frame
    }

    fn sp(&self) -> u64 {
        self.x[SP]
    }

    fn set_sp(&mut self, sp: u64) {
        self.x[SP] = sp;
    }

    fn call(&self) -> (u64, [u64; 6]) {
        (self.x[A7], core::array::from_fn(|i| self.x[A0 + i]))
    }

    fn set_result(&mut self, result: i64) {
        self.x[A0] = result as u64;
    }

    fn result(&self) -> Option<i64> {
        (self.cause == SYSTEM_CALL).then_some(self.x[A0] as i64)
    }

    fn red_zone(&self) -> u64 {
        self.x[SP]
    }

    fn restart(&mut self) {
        self.pc -= 4;
        self.x[A0] = self.first;
    }
}

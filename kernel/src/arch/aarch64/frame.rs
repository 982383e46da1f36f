//! The registers of a program, as `entry.s` saves them on the kernel stack.

use crate::arch::UserFrame;

/// All registers, in the order in which they lie in memory.
#[derive(Clone, Default, Debug)]
#[repr(C)]
pub struct Frame {
    /// x0 to x30.
    pub x: [u64; 31],
    pub sp: u64,
    pub pc: u64,
    pub pstate: u64,
    /// The value of x0 at entry: the first argument of a system call, whose result replaces it.
    pub first: u64,
    /// `ESR_EL1` of an exception, or 0 for an interrupt.
    pub syndrome: u64,
}

/// The lowest bit of the syndrome's exception class.
pub const CLASS: u32 = 26;
pub const SYSTEM_CALL: u64 = 0x15;

/// The condition flags.
const USER_FLAGS: u64 = 0xf << 28;

impl Frame {
    /// Returns `true` if the trap came from EL0.
    pub fn is_user(&self) -> bool {
        self.pstate & 0xf == 0
    }

    pub fn class(&self) -> u64 {
        self.syndrome >> CLASS & 0x3f
    }

    /// Sets the flags that a program may choose. The frame returns to EL0 with interrupts on.
    pub fn set_flags(&mut self, flags: u64) {
        self.pstate = flags & USER_FLAGS;
    }
}

impl UserFrame for Frame {
    fn new(pc: u64, sp: u64) -> Self {
        Frame { sp, pc, syndrome: SYSTEM_CALL << CLASS, ..Frame::default() }
    }

    fn sp(&self) -> u64 {
        self.sp
    }

    fn set_sp(&mut self, sp: u64) {
        self.sp = sp;
    }

    fn call(&self) -> (u64, [u64; 6]) {
        (self.x[8], core::array::from_fn(|i| self.x[i]))
    }

    fn set_result(&mut self, result: i64) {
        self.x[0] = result as u64;
    }

    fn result(&self) -> Option<i64> {
        (self.class() == SYSTEM_CALL).then_some(self.x[0] as i64)
    }

    fn red_zone(&self) -> u64 {
        self.sp
    }

    fn restart(&mut self) {
        self.pc -= 4;
        self.x[0] = self.first;
    }
}

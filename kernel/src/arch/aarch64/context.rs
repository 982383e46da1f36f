//! The state of a program that is not in its frame: floating-point registers, and `TPIDR_EL0`.

use aarch64_cpu::registers::{Readable, TPIDR_EL0, Writeable};

use crate::arch::Context;

/// The number of bytes that `switch_stacks` pops, and the offset of its return address in them.
pub(in crate::arch) const SWITCH_FRAME: usize = 96;
pub(in crate::arch) const RETURN_SLOT: usize = 88;

/// The registers of floating point and vectors.
#[repr(C, align(16))]
pub struct FpState {
    pub vectors: [u128; 32],
    pub status: u32,
    pub control: u32,
}

impl FpState {
    /// Returns the state of a program that starts.
    pub(in crate::arch) const fn new() -> Self {
        FpState { vectors: [0; 32], status: 0, control: 0 }
    }
}

unsafe extern "C" {
    pub(in crate::arch) fn save_float(to: *mut FpState);
    pub(in crate::arch) fn load_float(from: *const FpState);
}

impl Context {
    pub(in crate::arch) fn begin(&mut self) {}

    pub(in crate::arch) fn leave(&mut self) {
        self.thread_pointer = TPIDR_EL0.get();
    }

    pub(in crate::arch) fn enter(&self, _stack: u64) {
        TPIDR_EL0.set(self.thread_pointer);
    }

    /// Returns the thread pointer. The thread is the running one.
    pub fn thread_pointer(&self) -> u64 {
        TPIDR_EL0.get()
    }

    pub fn set_thread_pointer(&mut self, at: u64) {
        TPIDR_EL0.set(at);
    }
}

//! What the processor holds of a program besides its frame: registers of floating point, and `TPIDR_EL0`.

use aarch64_cpu::registers::{Readable, TPIDR_EL0, Writeable};

use crate::arch::Context;

/// SigFrame that `switch_stacks` takes, and where the address is to which it returns.
pub(in crate::arch) const SWITCH_FRAME: usize = 96;
pub(in crate::arch) const RETURN_SLOT: usize = 88;

/// Registers of floating point and vectors.
#[repr(C, align(16))]
pub struct FpState {
    pub vectors: [u128; 32],
    pub status: u32,
    pub control: u32,
}

impl FpState {
    /// Those of a program that starts.
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

    /// Returns the thread pointer of the thread, which runs.
    pub fn thread_pointer(&self) -> u64 {
        TPIDR_EL0.get()
    }

    pub fn set_thread_pointer(&mut self, at: u64) {
        TPIDR_EL0.set(at);
    }
}

//! The state of a program that is not in its frame: the floating-point registers. The thread
//! pointer is a register of the frame.

use super::frame::TP;
use crate::arch::Context;

/// The number of bytes that `switch_stacks` pops, and the offset of its return address in them.
pub(in crate::arch) const SWITCH_FRAME: usize = 112;
pub(in crate::arch) const RETURN_SLOT: usize = 0;

/// The floating-point registers.
#[repr(C, align(16))]
pub struct FpState {
    pub registers: [u64; 32],
    pub control: u64,
}

impl FpState {
    /// Returns the state of a program that starts.
    pub(in crate::arch) const fn new() -> Self {
        FpState { registers: [0; 32], control: 0 }
    }
}

unsafe extern "C" {
    pub(in crate::arch) fn save_float(to: *mut FpState);
    pub(in crate::arch) fn load_float(from: *const FpState);
}

impl Context {
    pub(in crate::arch) fn begin(&mut self) {
        self.set_thread_pointer(self.thread_pointer);
    }

    pub(in crate::arch) fn leave(&mut self) {}

    pub(in crate::arch) fn enter(&self, _stack: u64) {}

    /// Returns the thread pointer. The thread is in the kernel.
    pub fn thread_pointer(&self) -> u64 {
        // SAFETY: the frame is valid while the thread is in the kernel.
        self.stack.as_ref().map_or(0, |stack| unsafe { (*stack.frame()).x[TP] })
    }

    pub fn set_thread_pointer(&mut self, at: u64) {
        if let Some(stack) = &self.stack {
            // SAFETY: as above.
            unsafe { (*stack.frame()).x[TP] = at };
        }
    }
}

//! What the processor holds of a program besides its frame: registers of floating point, and the base of FS.

use core::arch::x86_64::{_fxrstor64, _fxsave64};

use x86_64::VirtAddr;
use x86_64::registers::model_specific::FsBase;

use super::cpu;
use crate::arch::Context;

/// SigFrame that `switch_stacks` takes, and where the address is to which it returns.
pub(in crate::arch) const SWITCH_FRAME: usize = 56;
pub(in crate::arch) const RETURN_SLOT: usize = 48;

/// Registers of floating point and vectors, as `fxsave` writes them.
#[repr(C, align(16))]
pub struct FpState(pub [u8; 512]);

impl FpState {
    /// Those of a program that starts: no exception is unmasked.
    pub(in crate::arch) const fn new() -> Self {
        let mut bytes = [0; 512];
        bytes[0] = 0x7f;
        bytes[1] = 0x03;
        bytes[24] = 0x80;
        bytes[25] = 0x1f;
        FpState(bytes)
    }
}

pub(in crate::arch) unsafe fn save_float(to: *mut FpState) {
    // SAFETY: 512 bytes, aligned to 16.
    unsafe { _fxsave64(to.cast()) };
}

pub(in crate::arch) unsafe fn load_float(from: *const FpState) {
    // SAFETY: as above.
    unsafe { _fxrstor64(from.cast()) };
}

impl Context {
    pub(in crate::arch) fn begin(&mut self) {}

    pub(in crate::arch) fn leave(&mut self) {}

    pub(in crate::arch) fn enter(&self, stack: u64) {
        cpu::set_kernel_stack(stack);
        FsBase::write(VirtAddr::new_truncate(self.thread_pointer));
    }

    /// Returns the thread pointer of the thread, which runs.
    pub fn thread_pointer(&self) -> u64 {
        self.thread_pointer
    }

    pub fn set_thread_pointer(&mut self, at: u64) {
        self.thread_pointer = at;
        FsBase::write(VirtAddr::new_truncate(at));
    }
}

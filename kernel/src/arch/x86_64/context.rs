//! The state of a program that is not in its frame: floating-point registers, and the base of FS.

use core::arch::x86_64::{_fxrstor64, _fxsave64};

use x86_64::VirtAddr;
use x86_64::registers::model_specific::FsBase;

use super::cpu;
use crate::arch::Context;

/// The number of bytes that `switch_stacks` pops, and the offset of its return address in them.
pub(in crate::arch) const SWITCH_FRAME: usize = 56;
pub(in crate::arch) const RETURN_SLOT: usize = 48;

/// The registers of floating point and vectors, in the format of `fxsave`.
#[repr(C, align(16))]
pub struct FpState(pub [u8; 512]);

impl FpState {
    /// Returns the state of a program that starts: all exceptions are masked.
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

    /// Returns the thread pointer. The thread is the running one.
    pub fn thread_pointer(&self) -> u64 {
        self.thread_pointer
    }

    pub fn set_thread_pointer(&mut self, at: u64) {
        self.thread_pointer = at;
        FsBase::write(VirtAddr::new_truncate(at));
    }
}

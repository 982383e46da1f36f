//! Threads: a kernel stack for each, and what the processor holds of a program besides its frame.

use alloc::boxed::Box;
use core::arch::x86_64::{_fxrstor64, _fxsave64};

use x86_64::VirtAddr;
use x86_64::registers::model_specific::FsBase;

use super::cpu;
use super::frame::Frame;
use crate::arch::{Stack, ThreadContext};

/// Registers of floating point and vectors, as `fxsave` writes them.
#[derive(Clone)]
#[repr(C, align(16))]
pub struct Float(pub [u8; 512]);

impl Float {
    /// Those of a program that starts: no exception is unmasked.
    pub(super) const fn new() -> Self {
        let mut bytes = [0; 512];
        bytes[0] = 0x7f;
        bytes[1] = 0x03;
        bytes[24] = 0x80;
        bytes[25] = 0x1f;
        Float(bytes)
    }

    /// Those that the processor has: of the thread that runs.
    pub(super) fn of_processor() -> Self {
        let mut float = Float([0; 512]);
        // SAFETY: 512 bytes, aligned to 16.
        unsafe { _fxsave64(float.0.as_mut_ptr()) };
        float
    }

    /// Gives them to the processor. Bits that it knows nothing of are dropped: they would be an exception.
    pub(super) fn load(&self) {
        let mut float = self.clone();
        float.0[26] = 0;
        float.0[27] = 0;
        // SAFETY: as above.
        unsafe { _fxrstor64(float.0.as_ptr()) };
    }
}

/// The state of a thread while it does not run: its kernel stack, and the registers that the stack does not hold.
pub struct Context {
    /// `None`: the loop that runs when no thread can, on the first stack.
    stack: Option<Box<Stack>>,
    /// The stack pointer where it goes on.
    saved: u64,
    float: Float,
    /// The program's FS.
    thread_pointer: u64,
}

impl Default for Context {
    fn default() -> Self {
        Context { stack: None, saved: 0, float: Float::new(), thread_pointer: 0 }
    }
}

unsafe extern "C" {
    fn switch_stacks(save: *mut u64, load: u64);
}

impl ThreadContext for Context {
    fn new(frame: Frame, thread_pointer: u64, inherit: bool) -> Self {
        let mut stack = Stack::new();
        let saved = stack.begin(frame, 56, 48);
        let float = if inherit { Float::of_processor() } else { Float::new() };
        Context { stack: Some(stack), saved, float, thread_pointer }
    }

    fn thread_pointer(&self) -> u64 {
        self.thread_pointer
    }

    fn set_thread_pointer(&mut self, at: u64) {
        self.thread_pointer = at;
        FsBase::write(VirtAddr::new_truncate(at));
    }

    fn reset_float(&mut self) {
        Float::new().load();
    }
}

/// Switches from one thread to another. Interrupts are off.
///
/// # Safety
/// - `from` belongs to the thread that runs, and `to` to one that does not.
/// - Neither is moved or used by anything else until its thread runs again.
pub unsafe fn switch(from: *mut Context, to: *mut Context) {
    // SAFETY: the caller's promise.
    unsafe {
        _fxsave64((*from).float.0.as_mut_ptr());
        cpu::set_kernel_stack((*to).stack.as_ref().map_or(0, |stack| stack.top()));
        FsBase::write(VirtAddr::new_truncate((*to).thread_pointer));
        _fxrstor64((*to).float.0.as_ptr());
        switch_stacks(&raw mut (*from).saved, (*to).saved);
    }
}

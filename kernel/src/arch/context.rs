//! Threads: a kernel stack for each, and what the processor holds of a program besides its frame.
//!
//! `context` of the architecture has the registers of floating point, how they are saved and loaded, and where a program has its thread pointer.

use alloc::boxed::Box;

use super::KernelStack;
use super::this::context::{FpState, RETURN_SLOT, SWITCH_FRAME, load_float, save_float};
use super::this::frame::Frame;

/// The state of a thread while it does not run: its kernel stack, and the registers that the stack does not hold.
pub struct Context {
    /// `None`: the loop that runs when no thread can, on the first stack.
    pub(super) stack: Option<Box<KernelStack>>,
    /// The stack pointer where it goes on.
    saved: u64,
    float: FpState,
    pub(super) thread_pointer: u64,
}

impl Default for Context {
    fn default() -> Self {
        Context { stack: None, saved: 0, float: FpState::new(), thread_pointer: 0 }
    }
}

unsafe extern "C" {
    fn switch_stacks(save: *mut u64, load: u64);
}

impl Context {
    /// A thread that starts with this frame and thread pointer, and the caller's floating-point registers if it is to inherit them.
    pub fn new(frame: Frame, thread_pointer: u64, inherit: bool) -> Self {
        let mut stack = KernelStack::new();
        let saved = stack.begin(frame, SWITCH_FRAME, RETURN_SLOT);
        let float = if inherit { FpState::of_processor() } else { FpState::new() };
        let mut context = Context { stack: Some(stack), saved, float, thread_pointer };
        context.begin();
        context
    }

    /// Sets all floating-point registers of the processor as they are when a program starts.
    pub fn reset_float(&mut self) {
        FpState::new().load();
    }
}

impl FpState {
    /// Returns those that the processor has: of the thread that runs.
    pub(super) fn of_processor() -> Self {
        let mut float = FpState::new();
        // SAFETY: room for all of them.
        unsafe { save_float(&mut float) };
        float
    }

    /// Gives them to the processor.
    pub(super) fn load(&self) {
        // SAFETY: the kernel itself uses none of them.
        unsafe { load_float(self) };
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
        save_float(&raw mut (*from).float);
        (*from).leave();
        (*to).enter((*to).stack.as_ref().map_or(0, |stack| stack.top()));
        load_float(&raw const (*to).float);
        switch_stacks(&raw mut (*from).saved, (*to).saved);
    }
}

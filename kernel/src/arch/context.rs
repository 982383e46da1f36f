//! The context of a thread: its kernel stack, and the program's state that is not in the frame.
//!
//! Each architecture's `context` defines the floating-point state, how it is saved and loaded, and
//! where the thread pointer is.

use alloc::boxed::Box;

use super::KernelStack;
use super::this::context::{FpState, RETURN_SLOT, SWITCH_FRAME, load_float, save_float};
use super::this::frame::Frame;

/// The state of a thread that does not run: its kernel stack, and the registers that the stack does
/// not hold.
pub struct Context {
    /// `None` for the idle loop, which runs on the boot stack.
    pub(super) stack: Option<Box<KernelStack>>,
    /// The stack pointer at which the thread resumes.
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
    /// Creates the context of a thread that starts with this frame and thread pointer. With
    /// `inherit`, it starts with the processor's floating-point state.
    pub fn new(frame: Frame, thread_pointer: u64, inherit: bool) -> Self {
        let mut stack = KernelStack::new();
        let saved = stack.begin(frame, SWITCH_FRAME, RETURN_SLOT);
        let float = if inherit { FpState::of_processor() } else { FpState::new() };
        let mut context = Context { stack: Some(stack), saved, float, thread_pointer };
        context.begin();
        context
    }

    /// Resets the processor's floating-point state to that of a new program.
    pub fn reset_float(&mut self) {
        FpState::new().load();
    }
}

impl FpState {
    /// Returns the processor's state, which is that of the running thread.
    pub(super) fn of_processor() -> Self {
        let mut float = FpState::new();
        // SAFETY: `float` has room for all registers.
        unsafe { save_float(&mut float) };
        float
    }

    /// Loads the state into the processor.
    pub(super) fn load(&self) {
        // SAFETY: the kernel itself does not use floating point.
        unsafe { load_float(self) };
    }
}

/// Switches from one thread to another. Interrupts must be off.
///
/// # Safety
///
/// - `from` belongs to the running thread, and `to` to one that does not run.
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

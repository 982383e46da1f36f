//! Threads: a kernel stack for each, and what the processor holds of a program besides its frame.

use alloc::boxed::Box;

use super::frame::{Frame, TP};
use crate::arch::{Stack, ThreadContext};

/// Registers of floating point.
#[derive(Clone)]
#[repr(C, align(16))]
pub struct Float {
    pub registers: [u64; 32],
    pub control: u64,
}

impl Float {
    /// Those of a program that starts.
    pub(super) const fn new() -> Self {
        Float { registers: [0; 32], control: 0 }
    }

    /// Those that the processor has: of the thread that runs.
    pub(super) fn of_processor() -> Self {
        let mut float = Float::new();
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

/// The state of a thread while it does not run: its kernel stack, and the registers that the stack does not hold.
pub struct Context {
    /// `None`: the loop that runs when no thread can, on the first stack.
    stack: Option<Box<Stack>>,
    /// The stack pointer where it goes on.
    saved: u64,
    float: Float,
}

impl Default for Context {
    fn default() -> Self {
        Context { stack: None, saved: 0, float: Float::new() }
    }
}

unsafe extern "C" {
    fn save_float(to: *mut Float);
    fn load_float(from: *const Float);
    fn switch_stacks(save: *mut u64, load: u64);
}

impl ThreadContext for Context {
    fn new(mut frame: Frame, thread_pointer: u64, inherit: bool) -> Self {
        frame.x[TP] = thread_pointer;
        let mut stack = Stack::new();
        let saved = stack.begin(frame, 112, 0);
        let float = if inherit { Float::of_processor() } else { Float::new() };
        Context { stack: Some(stack), saved, float }
    }

    fn thread_pointer(&self) -> u64 {
        // SAFETY: the frame, while the thread runs the kernel.
        self.stack.as_ref().map_or(0, |stack| unsafe { (*stack.frame()).x[TP] })
    }

    fn set_thread_pointer(&mut self, at: u64) {
        if let Some(stack) = &self.stack {
            // SAFETY: as above.
            unsafe { (*stack.frame()).x[TP] = at };
        }
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
        save_float(&raw mut (*from).float);
        load_float(&raw const (*to).float);
        switch_stacks(&raw mut (*from).saved, (*to).saved);
    }
}

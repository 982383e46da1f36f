//! Threads: a kernel stack for each, and what the processor holds of a program besides its frame.

use alloc::boxed::Box;

use aarch64_cpu::registers::{Readable, TPIDR_EL0, Writeable};

use super::frame::Frame;
use crate::arch::{Stack, ThreadContext};

/// Registers of floating point and vectors.
#[derive(Clone)]
#[repr(C, align(16))]
pub struct Float {
    pub vectors: [u128; 32],
    pub status: u32,
    pub control: u32,
}

impl Float {
    /// Those of a program that starts.
    pub(super) const fn new() -> Self {
        Float { vectors: [0; 32], status: 0, control: 0 }
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
    _stack: Option<Box<Stack>>,
    /// The stack pointer where it goes on.
    saved: u64,
    float: Float,
    /// The program's TPIDR_EL0.
    thread_pointer: u64,
}

impl Default for Context {
    fn default() -> Self {
        Context { _stack: None, saved: 0, float: Float::new(), thread_pointer: 0 }
    }
}

unsafe extern "C" {
    fn save_float(to: *mut Float);
    fn load_float(from: *const Float);
    fn switch_stacks(save: *mut u64, load: u64);
}

impl ThreadContext for Context {
    fn new(frame: Frame, thread_pointer: u64, inherit: bool) -> Self {
        let mut stack = Stack::new();
        let saved = stack.begin(frame, 96, 88);
        let float = if inherit { Float::of_processor() } else { Float::new() };
        Context { _stack: Some(stack), saved, float, thread_pointer }
    }

    fn thread_pointer(&self) -> u64 {
        TPIDR_EL0.get()
    }

    fn set_thread_pointer(&mut self, at: u64) {
        TPIDR_EL0.set(at);
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
        (*from).thread_pointer = TPIDR_EL0.get();
        TPIDR_EL0.set((*to).thread_pointer);
        load_float(&raw const (*to).float);
        switch_stacks(&raw mut (*from).saved, (*to).saved);
    }
}

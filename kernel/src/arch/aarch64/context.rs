//! Threads: a kernel stack for each, and what the processor holds of a program besides its frame.

use alloc::boxed::Box;

use aarch64_cpu::registers::{Readable, TPIDR_EL0, Writeable};

use super::frame::Frame;

const STACK: usize = 32 << 10;

#[repr(C, align(16))]
pub(in crate::arch) struct Stack([u8; STACK]);

impl Stack {
    pub(in crate::arch) fn new() -> Box<Self> {
        // SAFETY: bytes, of any value.
        unsafe { Box::new_zeroed().assume_init() }
    }

    pub(in crate::arch) fn top(&self) -> u64 {
        ((&raw const *self).expose_provenance() + STACK) as u64
    }
}

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

/// What is saved of a thread that does not run.
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
    static thread_entry: u8;
}

impl Context {
    /// A thread that starts with this frame.
    pub(super) fn new(frame: Frame, thread_pointer: u64, float: Option<Float>) -> Self {
        let stack = Stack::new();
        let at = stack.top() as usize - size_of::<Frame>();
        // Below the frame lies what `switch_stacks` takes: twelve registers, the last of which is where it returns to.
        let saved = at - 96;
        // SAFETY: within the stack, which nobody uses yet.
        unsafe {
            core::ptr::with_exposed_provenance_mut::<Frame>(at).write(frame);
            core::ptr::with_exposed_provenance_mut::<u64>(at - 8)
                .write(&raw const thread_entry as u64);
        }
        let float = float.unwrap_or(const { Float::new() });
        Context { _stack: Some(stack), saved: saved as u64, float, thread_pointer }
    }
}

/// Switches from one thread to another. Interrupts are off.
///
/// # Safety
/// `from` is the thread that runs, `to` one that does not. Both stay where they are until they go on, and nobody else uses them.
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

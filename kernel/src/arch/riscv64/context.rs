//! Threads: a kernel stack for each, and what the processor holds of a program besides its frame.

use alloc::boxed::Box;

use super::frame::{Frame, TP};

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

    /// The frame of a thread's program, on its stack.
    fn frame(&self) -> *mut Frame {
        core::ptr::with_exposed_provenance_mut(self.top() as usize - size_of::<Frame>())
    }
}

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

/// What is saved of a thread that does not run.
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
    static thread_entry: u8;
}

impl Context {
    /// A thread that starts with this frame.
    pub(super) fn new(mut frame: Frame, thread_pointer: u64, float: Option<Float>) -> Self {
        frame.x[TP] = thread_pointer;
        let stack = Stack::new();
        let at = stack.frame();
        // Below the frame lies what `switch_stacks` takes: thirteen registers, the first of which is where it returns to.
        let saved = at as u64 - 112;
        // SAFETY: within the stack, which nobody uses yet.
        unsafe {
            at.write(frame);
            core::ptr::with_exposed_provenance_mut::<u64>(saved as usize)
                .write(&raw const thread_entry as u64);
        }
        let float = float.unwrap_or(const { Float::new() });
        Context { stack: Some(stack), saved, float }
    }

    /// The program's thread pointer, which is a register like others.
    pub(super) fn thread_pointer(&self) -> u64 {
        // SAFETY: the frame, while the thread runs the kernel.
        self.stack.as_ref().map_or(0, |stack| unsafe { (*stack.frame()).x[TP] })
    }

    pub(super) fn set_thread_pointer(&mut self, at: u64) {
        if let Some(stack) = &self.stack {
            // SAFETY: as above.
            unsafe { (*stack.frame()).x[TP] = at };
        }
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
        load_float(&raw const (*to).float);
        switch_stacks(&raw mut (*from).saved, (*to).saved);
    }
}

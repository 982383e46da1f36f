//! Threads: a kernel stack for each, and what the processor holds of a program besides its frame.

use alloc::boxed::Box;
use core::arch::x86_64::{_fxrstor64, _fxsave64};

use x86_64::VirtAddr;
use x86_64::registers::model_specific::FsBase;

use super::cpu;
use super::frame::Frame;

const STACK: usize = 32 << 10;

#[repr(C, align(16))]
pub(super) struct Stack([u8; STACK]);

impl Stack {
    pub(super) fn new() -> Box<Self> {
        // SAFETY: bytes, of any value.
        unsafe { Box::new_zeroed().assume_init() }
    }

    /// The address after its last byte.
    pub(super) fn top(&self) -> u64 {
        (&raw const *self).expose_provenance() as u64 + STACK as u64
    }
}

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

/// What is saved of a thread that does not run.
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
    static thread_entry: u8;
}

impl Context {
    /// A thread that starts with this frame.
    pub(super) fn new(frame: Frame, thread_pointer: u64, float: Option<Float>) -> Self {
        let mut context = Context {
            stack: Some(Stack::new()),
            saved: 0,
            float: float.unwrap_or(const { Float::new() }),
            thread_pointer,
        };
        let at = context.top() - size_of::<Frame>() as u64;
        // Below the frame lies what `switch_stacks` pops: six registers, and where it returns to.
        context.saved = at - 56;
        // SAFETY: within the stack, which nobody uses yet.
        unsafe {
            core::ptr::with_exposed_provenance_mut::<Frame>(at as usize).write(frame);
            core::ptr::with_exposed_provenance_mut::<u64>(at as usize - 8)
                .write(&raw const thread_entry as u64);
        }
        context
    }

    fn top(&self) -> u64 {
        self.stack.as_ref().map_or(0, |stack| stack.top())
    }

    /// Sets the program's thread pointer (FS), now if the thread runs.
    pub fn set_thread_pointer(&mut self, at: u64) {
        self.thread_pointer = at;
        FsBase::write(VirtAddr::new_truncate(at));
    }

    pub fn thread_pointer(&self) -> u64 {
        self.thread_pointer
    }
}

/// Switches from one thread to another. Interrupts are off.
///
/// # Safety
/// `from` is the thread that runs, `to` one that does not. Both stay where they are until they go on, and nobody else uses them.
pub unsafe fn switch(from: *mut Context, to: *mut Context) {
    // SAFETY: the caller's promise.
    unsafe {
        _fxsave64((*from).float.0.as_mut_ptr());
        cpu::set_kernel_stack((*to).top());
        FsBase::write(VirtAddr::new_truncate((*to).thread_pointer));
        _fxrstor64((*to).float.0.as_ptr());
        switch_stacks(&raw mut (*from).saved, (*to).saved);
    }
}

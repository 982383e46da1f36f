//! Kernel stacks.

use alloc::boxed::Box;
use core::mem::MaybeUninit;

use super::this::frame::Frame;

/// The size of a kernel stack. Calls nest: a call that finds no memory kills a process, and frees
/// its memory on the same stack. 32 KiB were too little for that.
const SIZE: usize = 64 << 10;
/// The lowest bytes of a stack. They are checked when the stack is freed, because there is no guard
/// page below.
const GUARD: [MaybeUninit<u8>; 64] = [MaybeUninit::new(0xa5); 64];

unsafe extern "C" {
    static thread_entry: u8;
}

#[repr(C, align(16))]
pub(super) struct KernelStack([MaybeUninit<u8>; SIZE]);

impl KernelStack {
    pub(super) const UNUSED: Self = KernelStack([MaybeUninit::uninit(); SIZE]);

    pub(super) fn new() -> Box<Self> {
        // SAFETY: the bytes may be uninitialised.
        let mut stack: Box<Self> = unsafe { Box::new_uninit().assume_init() };
        stack.0[..GUARD.len()].copy_from_slice(&GUARD);
        stack
    }

    /// Returns the address after the last byte.
    pub(super) fn top(&self) -> u64 {
        ((&raw const *self).expose_provenance() + SIZE) as u64
    }

    /// Returns the frame of the thread's program, at the top of the stack.
    pub(super) fn frame(&self) -> *mut Frame {
        core::ptr::with_exposed_provenance_mut(self.top() as usize - size_of::<Frame>())
    }

    /// Prepares a stack for its thread's first run. Writes the frame, and below it the `kept` bytes
    /// that `switch_stacks` pops, with the entry code's address at offset `back`. Returns the stack
    /// pointer.
    pub(super) fn begin(&mut self, frame: Frame, kept: usize, back: usize) -> u64 {
        let saved = self.frame() as usize - kept;
        // SAFETY: within the stack, which has no user yet.
        unsafe {
            self.frame().write(frame);
            core::ptr::with_exposed_provenance_mut::<u8>(saved).write_bytes(0, kept);
            core::ptr::with_exposed_provenance_mut::<u64>(saved + back)
                .write(&raw const thread_entry as u64);
        }
        saved as u64
    }
}

impl Drop for KernelStack {
    fn drop(&mut self) {
        // SAFETY: `new` has initialised these bytes.
        let whole = self.0[..GUARD.len()].iter().all(|byte| unsafe { byte.assume_init() } == 0xa5);
        assert!(whole, "kernel stack overflow");
    }
}

//! Kernel stacks.

use alloc::boxed::Box;
use core::mem::MaybeUninit;

use super::this::frame::Frame;

/// Calls nest: one that finds no memory kills a process, whose memory is given up on the same stack. 32 KiB have been too little for that.
const SIZE: usize = 64 << 10;
/// The lowest bytes, which are never written to: there is no page without access below.
const GUARD: [MaybeUninit<u8>; 64] = [MaybeUninit::new(0xa5); 64];

unsafe extern "C" {
    static thread_entry: u8;
}

#[repr(C, align(16))]
pub(super) struct KernelStack([MaybeUninit<u8>; SIZE]);

impl KernelStack {
    pub(super) const UNUSED: Self = KernelStack([MaybeUninit::uninit(); SIZE]);

    pub(super) fn new() -> Box<Self> {
        // SAFETY: bytes that need not be initialised.
        let mut stack: Box<Self> = unsafe { Box::new_uninit().assume_init() };
        stack.0[..GUARD.len()].copy_from_slice(&GUARD);
        stack
    }

    /// The address after its last byte.
    pub(super) fn top(&self) -> u64 {
        ((&raw const *self).expose_provenance() + SIZE) as u64
    }

    /// The frame of a thread's program.
    pub(super) fn frame(&self) -> *mut Frame {
        core::ptr::with_exposed_provenance_mut(self.top() as usize - size_of::<Frame>())
    }

    /// Lays out what a thread starts from: the frame, and below it `kept` bytes that `switch_stacks` takes, of which it returns to those at `back`. Returns where they begin.
    pub(super) fn begin(&mut self, frame: Frame, kept: usize, back: usize) -> u64 {
        let saved = self.frame() as usize - kept;
        // SAFETY: within the stack, which nobody uses yet.
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
        // SAFETY: `new` has written them.
        let whole = self.0[..GUARD.len()].iter().all(|byte| unsafe { byte.assume_init() } == 0xa5);
        assert!(whole, "a kernel stack was too small");
    }
}

//! A bounce buffer: the bytes of one page, copied for a source. On the heap, since kernels have
//! short stacks.

use alloc::boxed::Box;

use crate::heap::boxed::try_room;
use crate::process::file::source::PAGE_BYTES;

type Bytes = [u8; PAGE_BYTES];

/// Memory for the bytes of a page, allocated at the first use.
pub(super) struct BounceBuffer(Option<Box<Bytes>>);

impl BounceBuffer {
    pub(super) const fn new() -> Self {
        BounceBuffer(None)
    }

    /// Calls `use_it` with the buffer, whose bytes have no meaning before. Without memory the
    /// buffer is on the stack: writing pages out must not fail for lack of memory.
    pub(super) fn with<R>(&mut self, use_it: impl FnOnce(&mut Bytes) -> R) -> R {
        if self.0.is_none() {
            self.0 = zeroed();
        }
        match &mut self.0 {
            Some(bytes) => use_it(bytes),
            None => on_stack(use_it),
        }
    }
}

fn zeroed() -> Option<Box<Bytes>> {
    let mut room = try_room::<Bytes>().ok()?;
    // SAFETY: the memory has this size, and any bytes are valid.
    unsafe {
        room.as_mut_ptr().write_bytes(0, 1);
        Some(room.assume_init())
    }
}

#[cold]
#[inline(never)]
fn on_stack<R>(use_it: impl FnOnce(&mut Bytes) -> R) -> R {
    use_it(&mut [0; PAGE_BYTES])
}

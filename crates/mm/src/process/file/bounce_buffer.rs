//! A page's bytes beside its frame, for a source that takes them: on the heap, since kernels have short stacks.

use alloc::boxed::Box;

use crate::heap::boxed::try_room;
use crate::process::file::source::PAGE_BYTES;

type Bytes = [u8; PAGE_BYTES];

/// Room for the bytes of a page, which is there from the first use on.
pub(super) struct BounceBuffer(Option<Box<Bytes>>);

impl BounceBuffer {
    pub(super) const fn new() -> Self {
        BounceBuffer(None)
    }

    /// Calls `use_it` with the room, whose bytes are of no meaning before. Without memory it is on the stack: writing pages out must not fail for want of memory.
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
    // SAFETY: the room is for so many bytes, of which any are valid.
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

//! The memory of nodes: from the hooks, or, without them, from the [pool].

use core::alloc::Layout;
use core::ffi::c_void;
use core::ptr::{self, NonNull};

use maple_tree::alloc::NodeAlloc;
use maple_tree::raw::NODE_LAYOUT;

use crate::maple_tree::{hooks, pool};

/// The number of pieces of memory for one call of a bulk hook.
const BULK: usize = 32;

/// An allocator of nodes with these flags. It cannot allocate any other memory.
#[derive(Clone, Copy)]
pub(crate) struct Gfp(pub(crate) u32);

// SAFETY: the caller that set the hooks promised that they are an allocator. The pool is one, whose
// nodes have the one permitted layout.
unsafe impl NodeAlloc for Gfp {
    // Not inlined: few writes need a node.
    #[inline(never)]
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
        if layout != NODE_LAYOUT {
            return None;
        }
        match hooks::alloc(layout, self.0) {
            Some(block) => NonNull::new(block),
            None => pool::take(),
        }
    }

    #[inline(never)]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe {
            if !hooks::free(block, layout) {
                pool::put(block);
            }
        }
    }

    fn allocate_many(
        &self,
        layout: Layout,
        count: usize,
        take: &mut dyn FnMut(NonNull<u8>, usize),
    ) -> bool {
        if layout != NODE_LAYOUT {
            return false;
        }
        if !hooks::has_alloc() {
            return pool::take_many(count, take);
        }
        let got = if hooks::has_alloc_bulk() {
            self.allocate_bulk(layout, count, take)
        } else {
            0
        };
        (got..count).all(|_| {
            let block = hooks::alloc(layout, self.0).and_then(NonNull::new);
            block.inspect(|&block| take(block, 1)).is_some()
        })
    }
}

impl Gfp {
    /// Passes what the bulk hook allocates to `take`, and returns the number of nodes.
    fn allocate_bulk(
        self,
        layout: Layout,
        count: usize,
        take: &mut dyn FnMut(NonNull<u8>, usize),
    ) -> usize {
        let mut blocks = [ptr::null_mut::<c_void>(); BULK];
        let mut total = 0;
        while total < count {
            let most = BULK.min(count - total);
            let got = hooks::alloc_bulk(layout, self.0, &mut blocks[..most]);
            let before = total;
            for &block in &blocks[..got] {
                if let Some(block) = NonNull::new(block) {
                    take(block.cast(), 1);
                    total += 1;
                }
            }
            if total == before {
                break;
            }
        }
        total
    }
}

/// Frees many nodes in the fastest way. Dropping it frees what is left.
#[expect(
    clippy::large_enum_variant,
    reason = "it lives for one call, on the stack, and there is to be no memory for it"
)]
pub(crate) enum FreeBatch {
    Pool(pool::PutMany),
    OneByOne,
    Bulk {
        blocks: [*mut c_void; BULK],
        count: usize,
    },
}

impl FreeBatch {
    #[inline]
    pub(crate) fn new() -> Self {
        if !hooks::has_alloc() {
            Self::Pool(pool::PutMany::new())
        } else if hooks::has_free_bulk() {
            Self::Bulk {
                blocks: [ptr::null_mut(); BULK],
                count: 0,
            }
        } else {
            Self::OneByOne
        }
    }

    /// Frees a node, now or soon.
    ///
    /// # Safety
    ///
    /// The node came from [`Gfp`], and nothing uses it any more.
    #[inline]
    pub(crate) unsafe fn add(&mut self, block: NonNull<u8>) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Self::Pool(many) => many.add(block),
                Self::OneByOne => {
                    hooks::free(block, NODE_LAYOUT);
                }
                Self::Bulk { blocks, count } => {
                    if let Some(place) = blocks.get_mut(*count) {
                        *place = block.as_ptr().cast();
                        *count += 1;
                    }
                    if *count == BULK {
                        hooks::free_bulk(blocks, NODE_LAYOUT);
                        *count = 0;
                    }
                }
            }
        }
    }
}

impl Drop for FreeBatch {
    #[inline]
    fn drop(&mut self) {
        if let Self::Bulk { blocks, count } = self
            && *count > 0
        {
            // SAFETY: promise of `add`.
            unsafe { hooks::free_bulk(&mut blocks[..*count], NODE_LAYOUT) };
        }
    }
}

//! What an allocator has to promise whose nodes several trees share.

use crate::alloc::{Counted, Global, NodeAlloc, SharedPool};

/// An allocator of which each tree in a family of snapshots has a clone.
///
/// A node is given back by whichever tree is the last to lead to it, on whichever thread that happens. A map shares nodes only with those
/// whose allocators are clones made while it had nodes.
///
/// # Safety
///
/// What one has allocated may be given back to a clone that was made meanwhile (as [`NodeAlloc`] promises), or to a clone of that, or the
/// other way round: also after the first has been dropped, and, if the type is `Send`, on another thread while the first is in use.
pub unsafe trait SharedAlloc: NodeAlloc + Clone {}

// SAFETY: all values stand for the program's one allocator.
unsafe impl SharedAlloc for Global {}

// SAFETY: handles to one pool, which is there until the last of them is dropped, and which may be used by several threads at once.
unsafe impl<A: NodeAlloc + Clone> SharedAlloc for SharedPool<A> {}

// SAFETY: clones of a reference refer to one allocator; it is `Send` only if that may be used by several threads at once.
unsafe impl<A: NodeAlloc + ?Sized> SharedAlloc for &A {}

// SAFETY: as for references.
unsafe impl<A: NodeAlloc + ?Sized> SharedAlloc for std_alloc::sync::Arc<A> {}

const _: () = {
    const fn counted_by_reference<A: SharedAlloc>() {}
    counted_by_reference::<&Counted<Global>>();
};

//! What may go to other threads, or be shared with them; and what may be used after a panic. For each handle it is what would be so for a reference
//! to the map that it has: handles keep pointers to nodes beside that reference, which says as much about them.

use core::panic::{RefUnwindSafe, UnwindSafe};

use lock_api::RawMutex;

use crate::alloc::NodeAlloc;
use crate::base::{Key, Shape, Value};
use crate::face::cursor::{Cursor, Writing};
use crate::face::host::Host;
use crate::face::iter::{Holes, Iter, IterMut};
use crate::face::map::{ExtractIf, IntoIter, MapleTree, OccupiedEntry};
use crate::face::snap::{CowMapleTree, SharedAlloc};
use crate::face::sync::{SyncAlloc, SyncIter, SyncMapleTree, SyncValue};
use crate::reclaim::Reclaim;

/// Handles by which values are viewed, as by a `&MapleTree`.
macro_rules! viewing {
    ($($handle:ident),*) => {$(
        // SAFETY: it reads a tree that nobody writes meanwhile, or one whose readers may be on any thread, and shows values, which may be viewed
        // on several threads. Its pointers lead to nodes that stay for as long as what it borrows, the map or a reader, wherever it is used.
        unsafe impl<K: Key, V: Value + Sync, S: Shape> Send for $handle<'_, K, V, S> {}
        // SAFETY: as above; all that changes it takes it exclusively.
        unsafe impl<K: Key, V: Value + Sync, S: Shape> Sync for $handle<'_, K, V, S> {}
    )*};
}

viewing!(Iter, SyncIter, Cursor);
// (`Between` has no pointers of its own.)

// SAFETY: it only reads a tree that any thread may read; the leaf is one of the tree's, which stays as long as the borrow.
unsafe impl<K: Key, S: Shape> Send for Holes<'_, K, S> {}
// SAFETY: as above; through a shared reference nothing is done at all.
unsafe impl<K: Key, S: Shape> Sync for Holes<'_, K, S> {}

/// Handles that have all that they lead to for themselves, exclusively borrowed or their own, and that through a shared reference show values at most; with
/// what else they consist of.
macro_rules! exclusive {
    ($($handle:ident<$($lifetime:lifetime,)? K, V, $($rest:ident),*> [$($of:ident: $bound:path),*];)*) => {$(
        // SAFETY: values, nodes of the allocator, and what the client brought go with it, and may be sent.
        unsafe impl<K: Key, V: Value + Send, S: Shape, $($of: $bound + Send),*> Send
            for $handle<$($lifetime,)? K, V, $($rest),*> {}
        // SAFETY: through a shared one, values can only be viewed, if that.
        unsafe impl<K: Key, V: Value + Sync, S: Shape, $($of: $bound + Sync),*> Sync
            for $handle<$($lifetime,)? K, V, $($rest),*> {}
    )*};
}

exclusive! {
    IntoIter<K, V, A, S> [A: NodeAlloc];
    IterMut<'_, K, V, S> [];
    OccupiedEntry<'_, K, V, A, S> [A: NodeAlloc];
    ExtractIf<'_, K, V, F, A, S> [F: Sized, A: NodeAlloc];
    // Its nodes in reserve came from the host's allocator, and nobody else has them.
    Writing<'_, K, V, S, A, H> [A: NodeAlloc, H: Host<K, V, S>];
}

/// Maps that are whole after a panic of a closure, or of a drop. So is the allocator: none of the caller's code runs within a call of it.
macro_rules! unwinding {
    ($map:ident<$($of:ident: $bound:path),*>, $value:path) => {
        impl<K: Key, V: RefUnwindSafe + $value, $($of: $bound),*> UnwindSafe
            for $map<K, V, $($of),*>
        {
        }
        impl<K: Key, V: RefUnwindSafe + $value, $($of: $bound),*> RefUnwindSafe
            for $map<K, V, $($of),*>
        {
        }
    };
}

unwinding!(MapleTree<A: NodeAlloc, S: Shape>, Value);
unwinding!(CowMapleTree<A: SharedAlloc, S: Shape>, Value);
unwinding!(SyncMapleTree<R: Reclaim, A: SyncAlloc, L: RawMutex, S: Shape>, SyncValue);

//! What may go to other threads, or be shared with them, where the compiler cannot tell; and what may be used after a panic.
//!
//! Handles keep [nodes](crate::node::Node), which are data, beside a reference to the map: with them may be done what may be done with that.

use core::panic::{RefUnwindSafe, UnwindSafe};

use lock_api::RawMutex;

use crate::alloc::NodeAlloc;
use crate::base::{Key, Shape, Value};
use crate::face::map::MapleTree;
use crate::face::snap::{CowMapleTree, SharedAlloc};
use crate::face::sync::{SyncAlloc, SyncMapleTree, SyncValue};
use crate::reclaim::Reclaim;

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

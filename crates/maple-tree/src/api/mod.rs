//! The public interface: maps of values over trees of words.
//!
//! | module | face |
//! |---|---|
//! | [`map`] | [`MapleTree`](crate::MapleTree), for one owner |
//! | [`sync`] | [`SyncMapleTree`](crate::SyncMapleTree), for readers beside one writer |
//! | [`snap`] | [`CowMapleTree`](crate::CowMapleTree), whose clones share nodes |
//! | [`cursor`] | positions in any of them |
//! | [`words`] | the tree of words itself, for shells in other languages |
//!
//! The code that the map types share exists once. [`host`] is the interface of a map to a write.
//! [`store`] converts values to words, and goes through plan, reserve and apply. [`look_ups`],
//! [`changes`](mod@changes), [`equal`] and [`many`] have the methods of all map types.
//! [`makers`](mod@makers) makes the maps that consist of a tree and an allocator, [`iter`] holds
//! the iterators, [`merge`](mod@merge) makes one map of two and two of one, and `compare` shows
//! maps as values.
//!
//! It may use all other modules. Among its own modules, `sync` and `snap` may use `map`; no other
//! map type uses another.

pub(crate) mod between;
pub(crate) mod changes;
mod compare;
pub(crate) mod cursor;
pub(crate) mod equal;
pub(crate) mod host;
pub(crate) mod iter;
pub(crate) mod look_ups;
pub(crate) mod makers;
pub(crate) mod many;
pub(crate) mod map;
pub(crate) mod merge;
pub(crate) mod snap;
pub(crate) mod store;
pub(crate) mod sync;
#[cfg(not(samara_loom))]
pub mod words;

pub(crate) use changes::{all_changes, allocs, changes};
use cursor::State;
pub(crate) use cursor::Writing;
pub(crate) use equal::equals;
pub(crate) use host::{Host, Touch};
pub(crate) use iter::{Iter, IterMut, Ranges, Values, both_ways};
pub(crate) use look_ups::{all_asked, entry, surveys, view, views};
pub(crate) use makers::{constructors, makers};
pub(crate) use many::{appends, one_by_one};
pub(crate) use map::{MapleTree, demolish};
pub(crate) use merge::{cut, merge};
pub(crate) use snap::{CowMapleTree, SharedAlloc};
pub(crate) use store::{Held, Planned, Way, not_stored};
pub(crate) use sync::{SyncAlloc, SyncMapleTree, SyncValue};

use core::panic::{RefUnwindSafe, UnwindSafe};

use lock_api::RawMutex;
use samara_rcu::Reclaim;

use crate::alloc::NodeAlloc;
use crate::base::{Key, Shape, Value};

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

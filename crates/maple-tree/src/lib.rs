//! A maple tree: an RCU-safe B-tree of ranges.
//!
//! A [`MapleTree`] maps ranges of indices that do not overlap to values of one pointer's width, as an address space
//! maps areas, a bus maps devices, or a routing table maps addresses. Nodes are 256 bytes, so that a tree of 10,000
//! entries has four levels; a tree made [`with_gaps`](MapleTree::with_gaps) finds a free range of a given size in
//! O(log n), from below or from above.
//!
//! ```
//! use maple_tree::MapleTree;
//!
//! let mut tree: MapleTree<u32, u32> = MapleTree::new();
//! tree.insert_range(10..20, 1)?;
//! tree.store_range(15..30, 2)?; // takes 15..20 from the first
//! let all: Vec<_> = tree.iter().collect();
//! assert_eq!(all, [(10..=14, 1), (15..=29, 2)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The crate is `no_std`, needs `alloc`, and reports every failed allocation as an error that leaves the tree as it was.
#![no_std]
#![cfg_attr(
    loom,
    allow(dead_code, reason = "the checker has node memory of its own")
)]

extern crate alloc as std_alloc;
#[cfg(test)]
extern crate std;

/// A constructor that is `const`, except with the model checker's atomics, which have no constant ones.
macro_rules! const_unless_loom {
    ($(#[$meta:meta])* $vis:vis const fn $($rest:tt)*) => {
        #[cfg(not(loom))]
        $(#[$meta])* $vis const fn $($rest)*
        #[cfg(loom)]
        $(#[$meta])* $vis fn $($rest)*
    };
}

pub mod alloc;
mod atomic;
mod bounds;
mod check;
mod cursor;
mod dump;
mod dup;
mod error;
mod gap;
mod gap_upkeep;
mod iter;
mod key;
mod map;
mod node;
#[cfg(not(loom))]
#[doc(hidden)]
pub mod raw;
mod reclaim;
mod reserve;
mod shape;
mod stats;
mod store;
mod sync;
mod traverse;
mod tree;
mod value;
mod walk;
mod write;

pub use check::Damage;
pub use cursor::{Cursor, CursorMut, GapError, SharedCursorMut, Status, Writing};
pub use dump::{Dump, Format};
pub use dup::CloneError;
pub use error::{EraseError, InsertError, StoreError};
pub use iter::{Iter, IterMut};
pub use key::Key;
pub use map::MapleTree;
#[cfg(feature = "epoch")]
pub use reclaim::Epoch;
pub use reclaim::{Reclaim, Waiting, WaitingGuard};
pub use reserve::AllocError;
pub use shape::{Fanout, Native, Shape};
pub use stats::Stats;
pub use store::StoreType;
pub use sync::{Reader, SyncIter, SyncMapleTree, Writer};
pub use value::{ArcRef, Value};

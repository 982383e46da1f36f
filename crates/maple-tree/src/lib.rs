#![doc = include_str!("../README.md")]
#![no_std]
#![cfg_attr(
    loom,
    allow(dead_code, reason = "the checker has node memory of its own")
)]

extern crate alloc as std_alloc;
#[cfg(any(test, feature = "rcu"))]
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
mod build;
mod change;
mod check;
#[cfg(all(test, not(loom)))]
mod check_tests;
mod cursor;
mod dump;
mod dup;
mod error;
mod fold;
mod gap;
mod gap_upkeep;
mod iter;
mod key;
mod look;
mod map;
mod merge;
mod node;
mod prefetch;
#[cfg(not(loom))]
#[doc(hidden)]
pub mod raw;
mod reclaim;
mod reserve;
mod scan;
mod shape;
mod snap;
mod stats;
mod store;
mod sync;
#[cfg(feature = "tracing")]
mod trace;
mod traverse;
mod tree;
mod unwind;
mod value;
mod walk;
mod write;

pub use check::Damage;
pub use cursor::{Cursor, CursorMut, GapError, SharedCursorMut, Status, Writing};
pub use dump::{Dump, Format};
pub use dup::CloneError;
pub use error::{EraseError, InsertError, SortedError, StoreError};
pub use iter::{Holes, Iter, IterMut};
pub use key::Key;
pub use map::{Entry, IntoIter, MapleTree, OccupiedEntry, VacantEntry};
#[cfg(feature = "epoch")]
pub use reclaim::Epoch;
#[cfg(all(feature = "rcu", target_has_atomic = "64"))]
pub use reclaim::{RcuGuard, UserRcu};
pub use reclaim::{Reclaim, Waiting, WaitingGuard};
pub use reserve::AllocError;
pub use shape::{Fanout, Native, Shape};
pub use snap::{CowMapleTree, SharedAlloc, Sharing};
pub use stats::Stats;
pub use store::StoreType;
pub use sync::{Reader, SyncIter, SyncMapleTree, Writer};
pub use value::{ArcRef, Duplicate, Value};

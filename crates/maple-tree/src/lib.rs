#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
#![cfg_attr(
    samara_loom,
    allow(dead_code, reason = "the checker has node memory of its own")
)]

extern crate alloc as std_alloc;
#[macro_use(const_unless_loom)]
extern crate samara_rcu;

// From the bottom up: `base`, `node`, `alloc`, `read`, `write`, `inspect`, `api`. Each module uses
// only those before it.
pub mod alloc;
mod api;
mod base;
mod inspect;
mod node;
mod read;
mod write;

pub use api::between::Between;
pub use api::cursor::{Cursor, GapError, Status, Writing};
pub use api::iter::{Clip, Clipped, Holes, Iter, IterMut, Ranges, Values};
pub use api::map::{CursorMut, Entry, ExtractIf, IntoIter, MapleTree, OccupiedEntry, VacantEntry};
pub use api::snap::{CowMapleTree, SharedAlloc, Sharing};
pub use api::sync::{
    Hint, Look, Piece, Reader, SharedCursorMut, SyncAlloc, SyncIter, SyncMapleTree, SyncValue,
    Writer,
};
#[cfg(not(samara_loom))]
#[doc(hidden)]
pub use api::words as raw;
pub use base::{
    ArcRef, Duplicate, EraseError, Fanout, HalfOpen, InsertError, Key, Mut, Native, RcRef, Ref,
    Shape, SortedError, StoreError, Value, View,
};
pub use inspect::check::Damage;
pub use inspect::dump::{Dump, Format};
pub use inspect::stats::Stats;
#[doc(inline)]
pub use samara_slab::AllocError;
pub use write::StoreType;
pub use write::duplicate::CloneError;

#[cfg(feature = "epoch")]
#[doc(inline)]
pub use samara_rcu::Epoch;
#[cfg(all(feature = "rcu", target_has_atomic = "64"))]
#[doc(inline)]
pub use samara_rcu::{RcuGuard, UserRcu};
#[doc(inline)]
pub use samara_rcu::{Reclaim, Waiting, WaitingGuard};

/// The former name of [`Hint`].
#[deprecated = "renamed to `Hint`"]
pub type Seat<K, S = Native> = Hint<K, S>;

/// Guides for users of other maps: the names of their operations here.
pub mod migrating {
    #[doc = include_str!("../docs/from-btreemap.md")]
    pub mod from_btreemap {}
    #[doc = include_str!("../docs/from-linux.md")]
    pub mod from_linux {}
    #[doc = include_str!("../docs/from-rangemap.md")]
    pub mod from_rangemap {}
}

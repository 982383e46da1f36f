//! What clients see: trees of words dressed up as maps of values.
//!
//! | module | face |
//! |---|---|
//! | [`map`] | [`MapleTree`](crate::MapleTree), for one owner |
//! | [`sync`] | [`SyncMapleTree`](crate::SyncMapleTree), for readers beside one writer |
//! | [`snap`] | [`CowMapleTree`](crate::CowMapleTree), whose clones share nodes |
//! | [`cursor`] | positions in any of them |
//! | [`words`] | the tree of words itself, for shells in other languages |
//!
//! What the faces have in common is written once: [`host`] says what a map is to a write, [`store`] takes values to words and through plan, reserve and apply; [`look_ups`], [`surveys`],
//! [`changes`], [`many`] and [`allocs`] are the methods that every face has; [`makers`] makes the maps that are a tree and an allocator; [`iter`] holds the iterators; [`merge`] makes one map of two and two of one; `compare` shows maps as values; `threads` says
//! what may go to other threads.
//!
//! May know: all other rooms. Among the faces, `sync` and `snap` may know `map`; none of the rest knows another.

pub(crate) mod allocs;
pub(crate) mod between;
pub(crate) mod changes;
mod compare;
pub(crate) mod cursor;
pub(crate) mod host;
pub(crate) mod iter;
pub(crate) mod look_ups;
pub(crate) mod makers;
pub(crate) mod many;
pub(crate) mod map;
pub(crate) mod merge;
pub(crate) mod snap;
pub(crate) mod store;
pub(crate) mod surveys;
pub(crate) mod sync;
mod threads;
#[cfg(not(samara_loom))]
pub mod words;

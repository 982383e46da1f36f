//! `maple_tree.h`: Linux's documented interface of the maple tree.
//!
//! A `struct maple_tree` is a lock, followed by the two words that are the whole state of a tree
//! ([`WordTree`](maple_tree::raw::WordTree)); a `struct ma_state` is a position that can be copied. The functions are in two
//! families: the *normal* ones (`mtree_…`, `mt_…`) lock and protect themselves, the *advanced* ones (`mas_…`) leave both
//! to the caller and keep their position between calls.
//!
//! # Protocol
//!
//! * Writers exclude each other by the tree's lock, or, with `MT_FLAGS_LOCK_EXTERN`, by a lock of the caller's that this
//!   library never touches.
//! * Readers of a tree in RCU mode run beside the writer, between the read-side hooks. In other trees they need the lock.
//! * A write that finds no memory without blocking leaves the tree as it was. If the caller's flags allow it to block, the
//!   tree's own lock is dropped, memory is allocated with these flags, the lock is taken again, and the write starts from
//!   the beginning: everything it knew about the tree may have changed.
//! * Nodes that a write replaced in RCU mode are chained to each other and freed together after a grace period; retiring takes
//!   no memory that was not reserved before (see `rcu`).
//!
//! # Safety
//!
//! What each function of this module asks of its caller, beside what its own text says:
//!
//! * Pointers to trees and states are valid, and were initialised by the macros or functions of the header; a tree is not
//!   moved while it holds entries or while it is locked.
//! * A `mas_…` function that looks is called by a writer, or between the read-side hooks (or [`maple_read_lock`] and [`maple_read_unlock`]); a `mas_…` function that
//!   writes is called by the only writer. Normal functions may be called from any thread.
//! * A state is not used by two threads at once. One that is kept over the end of a read-side section, or over the dropping of the
//!   lock, is paused or reset before.
//! * Outside RCU mode nobody reads while somebody writes.

mod abi;
mod advanced;
mod cursor;
mod dump;
mod entry;
mod hooks;
mod lock;
mod memory;
mod normal;
mod pool;
mod rcu;
mod write;

pub use abi::{MaState, MapleTree, RcuHead, Status};
pub use advanced::*;
pub use dump::*;
pub use hooks::{MapleBulkHooks, MapleHooks, maple_set_bulk_hooks, maple_set_hooks};
pub use lock::Lock;
pub use normal::*;
pub use pool::{MaplePoolStats, maple_pool_stats, maple_trim};
pub use rcu::{maple_read_lock, maple_read_unlock};

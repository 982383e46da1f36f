//! `maple_tree.h`: Linux's documented interface of the maple tree.
//!
//! A `struct maple_tree` is a lock, followed by the two words that are the whole state of a tree
//! ([`WordTree`](maple_tree::raw::WordTree)). A `struct ma_state` is a position that can be copied.
//! There are two families of functions. The *normal* ones (`mtree_…`, `mt_…`) lock and protect
//! themselves. The *advanced* ones (`mas_…`) leave both to the caller and keep their position
//! between calls.
//!
//! # Protocol
//!
//! * Writers exclude each other by the tree's lock, or, with `MT_FLAGS_LOCK_EXTERN`, by a lock of
//!   the caller that this library never touches.
//! * Readers of a tree in RCU mode run concurrently with the writer, between the read-side hooks.
//!   In other trees they need the lock.
//! * A write that finds no memory without blocking leaves the tree unchanged. If the caller's flags
//!   allow blocking, the tree's own lock is dropped, memory is allocated with these flags, and the
//!   lock is taken again. The write then starts from the beginning, since everything that it knew
//!   about the tree may have changed.
//! * Nodes that a write replaced in RCU mode are chained to each other and freed together after a
//!   grace period. Retiring them takes no memory that was not reserved before (see `rcu`).
//!
//! # Safety
//!
//! Each function of this module has these duties of its caller, in addition to its own text:
//!
//! * Pointers to trees and states are valid, and were initialised by the macros or functions of the
//!   header. A tree is not moved while it holds entries or while it is locked.
//! * A `mas_…` function that reads is called by a writer, or between the read-side hooks (or
//!   [`maple_read_lock`] and [`maple_read_unlock`]). A `mas_…` function that writes is called by
//!   the only writer. Normal functions may be called from any thread.
//! * No state is used by two threads at once. A state that is kept beyond the end of a read-side
//!   section, or while the lock is dropped, is paused or reset before.
//! * Outside RCU mode no thread reads while another writes.

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

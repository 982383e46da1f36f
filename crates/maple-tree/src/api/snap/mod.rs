//! A map whose clones share their nodes: a snapshot takes one counted reference to the root,
//! whatever the size, and a node is copied when one of the maps that share it first writes it.
//!
//! # Why a type of its own
//!
//! In the other trees a node names its parent, and writes climb. A node that several trees lead to has several parents: it is *counted* instead, by
//! the same [word](crate::node). So writes [make what they touch their tree's own](own) first, which copies what is counted; then they are
//! made as in the other trees. Look-ups, iterators and the search for gaps look at nothing of the first word but `end`. A tree that is never snapshotted
//! pays a look at the first words on the way down.
//!
//! # Who may write what
//!
//! A node is *owned* if it and every node above it have one reference: only this tree refers to it,
//! and `&mut self` excludes readers of this tree. Owned nodes are changed in place, and others are
//! never written except for their count. So trees that share nodes may be read and written at the
//! same time, on different threads, without a lock. `node/count.rs` argues why one load suffices to
//! know that a node is owned, and how the counts are ordered.
//!
//! A node that a snapshot shares leads to nodes that are not counted: they are led to once, from there. Only a copy of it has them counted.
//!
//! # The structure
//!
//! As in the other trees: all leaves are on one level, pivots ascend, no two holes are neighbours,
//! and gaps are exact. At least three eighths of the slots are used (and at least two), except in
//! the root and in the last node of each level. An entry never stands in the root by itself.
//! [`CowMapleTree::check`] checks this, and [`CowMapleTree::check_family`] also checks that every
//! count is exact.

mod check;
mod own;
mod write;

use core::marker::PhantomData;
use core::ops::{Bound, ControlFlow, RangeBounds, RangeInclusive};

use crate::alloc::{Counted, Global, NodeAlloc, SharedPool};
use crate::api::{Iter, makers, surveys};
use crate::base::{Key, Native, Ref, Shape, Value, inclusive};
use crate::node::{NULL, RawTree, Root, flags};

pub use check::Sharing;
use own::release;

/// An allocator of which each tree in a family of snapshots has a clone.
///
/// A node is given back by whichever tree is the last to lead to it, on whichever thread that happens. A map shares nodes only with those
/// whose allocators are clones made while it had nodes.
///
/// # Safety
///
/// Memory that one allocator has allocated may be given back to a clone of it (as [`NodeAlloc`]
/// promises), or to a clone of a clone, or the other way round. This holds also after the first has
/// been dropped, and, if the type is `Send`, on another thread while the first is in use.
#[diagnostic::on_unimplemented(
    message = "nodes of `{Self}` cannot be shared by snapshots",
    note = "a `CowMapleTree` takes over maps whose allocator is `Global`, a reference to a pool, or a `SharedPool`: make the map by `MapleTree::new_in(Global)`, `try_from_sorted_in(entries, Global)` or the like; the `Pool` that `MapleTree::new` takes belongs to one map"
)]
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

/// A map from ranges of `K` to values, of which a [`snapshot`](CowMapleTree::snapshot) takes O(1).
///
/// Snapshots share their nodes; a write copies those of its path that are shared, O(log n), and later writes nearby are in place. Each
/// snapshot is a map of its own: it can be read and written, and be sent to another thread, while the others are read and written.
///
/// When a leaf is copied its values are made once more ([`Duplicate`](crate::Duplicate)): `Arc`, integers and `&'static T` cost next to
/// nothing, a `Box` is cloned. Apart from that it is used as a [`MapleTree`](crate::MapleTree). No method aborts or panics (unless duplicating or
/// dropping a value does), and a write that fails changes no map of the family. After a panic nothing leaks and all maps are whole; a second
/// one while the first unwinds ends the program.
///
/// No map waits: maps that share nodes have no lock in common, and a change of one is never seen in
/// another. While several threads read a map through references, no thread can write it. A thread
/// that wants to write takes a snapshot.
///
/// ```
/// use maple_tree::CowMapleTree;
///
/// let mut now: CowMapleTree<u64, u32> = CowMapleTree::with_gaps();
/// now.insert_range(0x1000..0x5000, 1)?;
/// let before = now.snapshot();
/// now.store_range(0x2000..0x3000, 2)?;
///
/// assert_eq!((before.get(0x2000), now.get(0x2000)), (Some(1), Some(2)));
/// assert_eq!(before.len(), 1);
/// assert_eq!(now.iter().map(|(_, v)| v).collect::<Vec<_>>(), [1, 2, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Where nodes come from
///
/// Unless another allocator is named, nodes come from the global one, whose handles take no room and no time. With a pool, a write after a
/// snapshot, which copies a few nodes, takes about half the time. A pool in a `static`, or one that outlives the maps in another way, is referred to
/// and costs a snapshot nothing; with a counted handle ([`SharedPool`] itself, or an `Arc`) it takes half as long again.
///
/// ```
/// use maple_tree::CowMapleTree;
/// use maple_tree::alloc::SharedPool;
///
/// static NODES: SharedPool = SharedPool::new();
///
/// let mut map: CowMapleTree<u64, u32, &SharedPool> = CowMapleTree::new_in(&NODES);
/// map.insert_range(0..10, 1)?;
/// let before = map.snapshot();
/// map.store_range(3..5, 2)?;
/// assert_eq!((before.get(4), map.get(4)), (Some(1), Some(2)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CowMapleTree<K: Key, V: Value, A: SharedAlloc = Global, S: Shape = Native> {
    /// Owns one count of its root. Never an entry by itself.
    raw: RawTree<K, S>,
    alloc: A,
    marker: PhantomData<V>,
}

// SAFETY: snapshots on several threads view the same values (`V: Sync`), and the last one drops them (`V: Send`); nodes are counted
// by atomics, and given back to a clone of the allocator.
unsafe impl<K: Key, V: Value + Send + Sync, A: SharedAlloc + Send, S: Shape> Send
    for CowMapleTree<K, V, A, S>
{
}
// SAFETY: as above; a snapshot can be made, and with it a clone of the allocator, through a shared reference.
unsafe impl<K: Key, V: Value + Send + Sync, A: SharedAlloc + Send + Sync, S: Shape> Sync
    for CowMapleTree<K, V, A, S>
{
}

makers!(
    CowMapleTree,
    SharedAlloc,
    Global,
    "The map's nodes come from the [global allocator](Global); [`new_in`](CowMapleTree::new_in) takes another.",
    "use maple_tree::CowMapleTree;

let mut map = CowMapleTree::new();",
    "assert_eq!(map.snapshot().get(1), Some(1));"
);

impl<K: Key, V: Value, A: SharedAlloc, S: Shape> CowMapleTree<K, V, A, S> {
    /// Returns a map that holds what this one does, and shares its nodes. O(1): one count is
    /// raised. Allocates nothing and cannot fail. Others may take snapshots of the same map at the
    /// same time, and read it.
    ///
    /// A map whose nodes more than 2⁵⁵ others share at once (2²³ on 32-bit machines) works as any other, but those nodes are never freed.
    ///
    /// ```
    /// let mut map = maple_tree::CowMapleTree::<u64, u32>::new();
    /// map.insert_range(0..10, 1)?;
    /// let mut other = map.snapshot();
    /// other.erase_range(3..5)?;
    /// assert!(map.contains(3) && !other.contains(3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "a snapshot that is dropped at once is of no use"]
    #[inline]
    pub fn snapshot(&self) -> Self {
        if let Root::Node(root) = self.raw.root() {
            root.raise();
        }
        let raw = RawTree::new(self.raw.flags());
        raw.publish_root(self.raw.root_word(), self.raw.height());
        Self::from_parts(raw, self.alloc.clone())
    }

    /// Returns `true` if the two maps share all their nodes: neither has been written since one was
    /// made from the other. O(1). (Other maps may have the same contents, too.)
    ///
    /// ```
    /// let mut map = maple_tree::CowMapleTree::<u64, u32>::new();
    /// map.insert_range(0..10, 1)?;
    /// let before = map.snapshot();
    /// assert!(map.is_same(&before));
    /// map.erase_range(0..10)?;
    /// assert!(!map.is_same(&before));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_same(&self, other: &Self) -> bool {
        self.raw.root_word() == other.raw.root_word()
    }

    /// Drops all entries and gives up all nodes. Never fails. The map keeps its mode, and snapshots
    /// keep their contents. O(1) if a snapshot shares the whole map, otherwise O(n) in the nodes
    /// that only this map has.
    ///
    /// ```
    /// let mut map = maple_tree::CowMapleTree::<u64, u32>::new();
    /// map.insert_range(0..10, 1)?;
    /// let before = map.snapshot();
    /// map.clear();
    /// assert_eq!((before.len(), map.len()), (1, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clear(&mut self) {
        if let Root::Node(root) = self.raw.root() {
            self.raw.publish_root(NULL, 0);
            // SAFETY: the count is the tree's own, which does not lead to the root any more.
            unsafe { release::<K, V, S>(root, &self.alloc) };
        }
    }

    surveys!(
        gap_from_above,
        "# use maple_tree::CowMapleTree;
# let mut map: CowMapleTree<u64, u32> = CowMapleTree::with_gaps();
# map.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)]).unwrap();
// 1 at 10..20, 2 at 20..30, 3 at 40..50"
    );
}

impl<K: Key, V: Value, A: SharedAlloc, S: Shape> Clone for CowMapleTree<K, V, A, S> {
    /// As [`snapshot`](CowMapleTree::snapshot).
    #[inline]
    fn clone(&self) -> Self {
        self.snapshot()
    }
}

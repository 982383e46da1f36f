//! Hints: a slot, and the path to it, in few words. A hint is kept between a lookup and the write
//! that follows.

use core::marker::PhantomData;
use core::ptr::NonNull;

use crate::base::{Key, Native, Shape, opaque};
use crate::node::{Kind, NULL, Node, Word};
use crate::read::{BoundedLeaf, Found, LeafPath};
use crate::write::SlotAt;

/// The position of a key in the map of a [`Writer`](crate::Writer): a slot of a leaf, and the path
/// to it. A [lookup](crate::Writer::look) returns it for the write that follows.
///
/// It is plain data and keeps nothing alive. It *holds* until the map changes. A write that used it
/// ([`store_here`](crate::Writer::store_here) and its like, if they report success) changes nothing
/// but the leaf. The leaf is then where it was, and the hint is [near](crate::Writer::look) all
/// keys in it.
// Unlike a `SlotAt`, it has no contents of the slot. It is copied at every lookup and every write:
// words take half the space of node handles, which include their kind.
#[derive(Clone, Copy)]
pub struct Hint<K, S = Native> {
    leaf: NonNull<()>,
    /// NULL above a leaf that is the root.
    parent: Word,
    min: K,
    max: K,
    at: u32,
    slot: u32,
    marker: PhantomData<fn() -> S>,
}

// SAFETY: it is data; code that reads or writes the nodes has the tree.
unsafe impl<K: Send, S> Send for Hint<K, S> {}
// SAFETY: as above.
unsafe impl<K: Sync, S> Sync for Hint<K, S> {}

opaque!([K, S] Hint<K, S>, "Hint");

impl<K: Key, S: Shape> Hint<K, S> {
    #[inline(always)]
    pub(crate) fn of(at: &SlotAt<K, S>) -> Self {
        let path = &at.path;
        Self {
            // SAFETY: no node is at address 0.
            leaf: unsafe { NonNull::new_unchecked(path.place.leaf.as_leaf().word()) },
            parent: path.parent.map_or(NULL, Node::word),
            min: path.place.min,
            max: path.place.max,
            at: path.at as u32,
            slot: at.slot as u32,
            marker: PhantomData,
        }
    }

    /// Returns a hint at another slot of the same leaf.
    #[inline(always)]
    pub(crate) fn at_slot(self, slot: usize) -> Self {
        let slot = slot as u32;
        Self { slot, ..self }
    }

    #[inline(always)]
    pub(crate) fn slot(&self) -> usize {
        self.slot as usize
    }

    /// Returns the leaf and the path to it. The leaf is in the tree for as long as the hint holds.
    #[inline(always)]
    pub(crate) fn path(&self) -> LeafPath<K, S> {
        // SAFETY: the word came from a node handle. The node is in the tree for as long as the hint
        // holds, and nothing reads it later.
        let parent = (!self.parent.is_null()).then(|| unsafe { Node::from_word(self.parent) });
        LeafPath {
            place: self.place(),
            parent,
            at: self.at as usize,
        }
    }

    /// Returns the leaf with its range.
    #[inline(always)]
    pub(crate) fn place(&self) -> BoundedLeaf<K, S> {
        BoundedLeaf {
            // SAFETY: as in `path`.
            leaf: unsafe { Node::of_kind(self.leaf.as_ptr(), Kind::Leaf) },
            min: self.min,
            max: self.max,
        }
    }

    /// Returns the slot's word and range.
    #[inline(always)]
    pub(crate) fn found(&self) -> Found<K> {
        self.place().slot(self.slot())
    }
}

//! A slot and its path in few words: what a look-up leaves for the write that follows.

use core::marker::PhantomData;
use core::ptr::NonNull;

use crate::base::{Key, Native, Shape, opaque};
use crate::node::{Kind, NULL, Node, Word};
use crate::read::{Found, LeafPath, Place};
use crate::write::SlotAt;

/// A position in the map of a [`Writer`](crate::Writer): a slot of a leaf, and the path to it. A
/// [look-up](crate::Writer::look) returns it for the write that follows.
///
/// It is plain data and keeps nothing alive. It is *valid* until the map is changed. A write that
/// started from it ([`store_here`](crate::Writer::store_here) and the like, if they report success)
/// changes nothing but the leaf. The leaf then stays where it was, and the hint is
/// [near](crate::Writer::look) all keys in it.
// Unlike a `SlotAt` it says nothing about the slot's contents. It is copied at every look-up and
// every write: words take half the space of handles, which know their kind.
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

// SAFETY: plain data. Code that reads or writes the nodes needs access to the tree.
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

    /// In the same leaf, at another slot.
    #[inline(always)]
    pub(crate) fn at_slot(self, slot: usize) -> Self {
        let slot = slot as u32;
        Self { slot, ..self }
    }

    #[inline(always)]
    pub(crate) fn slot(&self) -> usize {
        self.slot as usize
    }

    /// The leaf, which is in the tree for as long as the hint holds, and the way to it.
    #[inline(always)]
    pub(crate) fn path(&self) -> LeafPath<K, S> {
        // SAFETY: a handle's word, whose node is in the tree for as long as the hint holds, and is not looked at later.
        let parent = (!self.parent.is_null()).then(|| unsafe { Node::from_word(self.parent) });
        LeafPath {
            place: self.place(),
            parent,
            at: self.at as usize,
        }
    }

    /// The leaf.
    #[inline(always)]
    pub(crate) fn place(&self) -> Place<K, S> {
        Place {
            // SAFETY: as in `path`.
            leaf: unsafe { Node::of_kind(self.leaf.as_ptr(), Kind::Leaf) },
            min: self.min,
            max: self.max,
        }
    }

    /// Returns the contents of the slot.
    #[inline(always)]
    pub(crate) fn found(&self) -> Found<K> {
        self.place().slot(self.slot())
    }
}

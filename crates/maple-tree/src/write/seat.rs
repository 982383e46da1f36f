//! A slot, and the way to it, in few words: what is kept between a look and the write that follows.

use core::marker::PhantomData;
use core::ptr::NonNull;

use crate::base::{Key, Native, Shape, opaque};
use crate::node::{Kind, NULL, Node, Word};
use crate::read::{Found, Place, Spot};
use crate::write::SlotAt;

/// Where a key is in the map of a [`Writer`](crate::Writer): a slot of a leaf, and the way to it. It comes from a [look](crate::Writer::look), for the write that
/// follows.
///
/// It is data, and keeps nothing. It *holds* until the map is changed. A write that went on from it ([`store_here`](crate::Writer::store_here) and its
/// like, if they say that they have done it) changes nothing but the leaf: then the leaf is where it was, and the seat is [near](crate::Writer::look)
/// all keys in it.
// Unlike a `SlotAt` it tells nothing of the slot. It is copied at every look and every write: words take half of what handles do, which know their kind.
#[derive(Clone, Copy)]
pub struct Seat<K, S = Native> {
    leaf: NonNull<()>,
    /// NULL above a leaf that is the root.
    parent: Word,
    min: K,
    max: K,
    at: u32,
    slot: u32,
    marker: PhantomData<fn() -> S>,
}

// SAFETY: it is data; who reads or writes the nodes has the tree.
unsafe impl<K: Send, S> Send for Seat<K, S> {}
// SAFETY: as above.
unsafe impl<K: Sync, S> Sync for Seat<K, S> {}

opaque!([K, S] Seat<K, S>, "Seat");

impl<K: Key, S: Shape> Seat<K, S> {
    #[inline(always)]
    pub(crate) fn of(at: &SlotAt<K, S>) -> Self {
        let spot = &at.spot;
        Self {
            // SAFETY: no node is at address 0.
            leaf: unsafe { NonNull::new_unchecked(spot.place.leaf.as_leaf().word()) },
            parent: spot.parent.map_or(NULL, Node::word),
            min: spot.place.min,
            max: spot.place.max,
            at: spot.at as u32,
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

    /// The leaf, which is in the tree for as long as the seat holds, and the way to it.
    #[inline(always)]
    pub(crate) fn spot(&self) -> Spot<K, S> {
        // SAFETY: a handle's word, whose node is in the tree for as long as the seat holds, and is not looked at later.
        let parent = (!self.parent.is_null()).then(|| unsafe { Node::from_word(self.parent) });
        Spot {
            place: self.place(),
            parent,
            at: self.at as usize,
        }
    }

    /// The leaf.
    #[inline(always)]
    pub(crate) fn place(&self) -> Place<K, S> {
        Place {
            // SAFETY: as in `spot`.
            leaf: unsafe { Node::of_kind(self.leaf.as_ptr(), Kind::Leaf) },
            min: self.min,
            max: self.max,
        }
    }

    /// What the slot is.
    #[inline(always)]
    pub(crate) fn found(&self) -> Found<K> {
        self.place().slot(self.slot())
    }
}

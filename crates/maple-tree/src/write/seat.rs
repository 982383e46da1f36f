//! A slot, and the way to it, in few words: what is kept between a look and the write that follows.

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
// Unlike a `SlotAt` it tells nothing of the slot, and copies of it are cheap.
#[derive(Clone, Copy)]
pub struct Seat<K, S = Native> {
    leaf: NonNull<()>,
    /// NULL above a leaf that is the root.
    parent: Word,
    pub(crate) min: K,
    pub(crate) max: K,
    pub(crate) at: u32,
    slot: u32,
    marker: core::marker::PhantomData<fn() -> S>,
}

opaque!([K, S] Seat<K, S>, "Seat");

// SAFETY: it is data; who reads the nodes that it names has the tree.
unsafe impl<K: Send, S> Send for Seat<K, S> {}
// SAFETY: as above.
unsafe impl<K: Sync, S> Sync for Seat<K, S> {}

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
            marker: core::marker::PhantomData,
        }
    }

    #[inline(always)]
    pub(crate) fn slot(&self) -> usize {
        self.slot as usize
    }

    /// The same way, to another slot.
    #[inline(always)]
    pub(crate) fn with_slot(self, slot: usize) -> Self {
        Self {
            slot: slot as u32,
            ..self
        }
    }

    /// The leaf.
    ///
    /// # Safety
    ///
    /// It is in the tree, and stays allocated while the handle is used.
    #[inline(always)]
    pub(crate) unsafe fn place(&self) -> Place<K, S> {
        Place {
            // SAFETY: the caller's promise.
            leaf: unsafe { Node::of_kind(self.leaf.as_ptr(), Kind::Leaf) },
            min: self.min,
            max: self.max,
        }
    }

    /// What the slot is.
    ///
    /// # Safety
    ///
    /// As for [`place`](Self::place).
    #[inline(always)]
    pub(crate) unsafe fn found(&self) -> Found<K> {
        // SAFETY: the caller's promise.
        unsafe { self.place() }.slot(self.slot())
    }

    /// The slot, the way to it, and what it is.
    ///
    /// # Safety
    ///
    /// As for [`place`](Self::place).
    #[inline(always)]
    pub(crate) unsafe fn at(&self) -> SlotAt<K, S> {
        // SAFETY: the caller's promise.
        SlotAt::of(unsafe { self.spot() }, self.slot())
    }

    /// The leaf, and the way to it.
    ///
    /// # Safety
    ///
    /// As for [`place`](Self::place).
    #[inline(always)]
    pub(crate) unsafe fn spot(&self) -> Spot<K, S> {
        // SAFETY: the caller's promise.
        let place = unsafe { self.place() };
        // SAFETY: as above.
        let parent = (!self.parent.is_null()).then(|| unsafe { Node::from_word(self.parent) });
        let at = self.at as usize;
        Spot { place, parent, at }
    }
}

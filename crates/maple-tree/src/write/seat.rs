//! A slot, and the way to it, in few words: what is kept between a look and the write that follows.

use crate::base::{Key, Native, Shape, opaque};
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
    pub(crate) spot: Spot<K, S>,
    pub(crate) slot: usize,
}

opaque!([K, S] Seat<K, S>, "Seat");

impl<K: Key, S: Shape> Seat<K, S> {
    #[inline(always)]
    pub(crate) fn of(at: &SlotAt<K, S>) -> Self {
        let SlotAt { spot, slot, .. } = *at;
        Self { spot, slot }
    }

    /// The leaf, which is in the tree for as long as the seat holds, and the way to it.
    #[inline(always)]
    pub(crate) fn spot(&self) -> Spot<K, S> {
        let place = self.place();
        Spot { place, ..self.spot }
    }

    /// The leaf.
    #[inline(always)]
    pub(crate) fn place(&self) -> Place<K, S> {
        let place = self.spot.place;
        let leaf = place.leaf.as_leaf();
        Place { leaf, ..place }
    }

    /// What the slot is.
    #[inline(always)]
    pub(crate) fn found(&self) -> Found<K> {
        self.place().slot(self.slot)
    }
}

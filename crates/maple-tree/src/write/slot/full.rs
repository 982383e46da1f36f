//! A part of a hole becomes an entry in a leaf that has no room for it. Whole slots go to a neighbour that has room, or to a new leaf;
//! then there is room in the leaf that the hole is in, and the entry is put there as into any other.
//!
//! What moves is looked at while it moves: the leaf that receives it learns its largest hole from that, and the one that gives it
//! seldom loses its largest.

use core::hint::select_unpredictable;

use crate::alloc::reserve::Reserve;
use crate::base::key::Key;
use crate::base::shape::Shape;
use crate::node::tree::RawTree;
use crate::node::{Geometry, Kind, Node};
use crate::read::walk::Place;
use crate::write::holes::{largest_of, tell_change};
use crate::write::room::SPARE;
use crate::write::slot::above::{self, Above};
use crate::write::slot::{Part, SlotAt};

/// Which leaf takes what there is no room for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taker {
    Before,
    After,
    /// A new one, after it.
    New,
}

/// How to make room for an entry in a full leaf.
pub(crate) struct Full<K, S> {
    at: SlotAt<K, S>,
    parent: Node<K, S>,
    part: Part<K>,
    taker: Taker,
    /// Slots of the taker.
    had: usize,
    /// Slots of the left leaf of the two before the entry is put in.
    keep: usize,
    /// How many nodes it takes.
    pub(crate) nodes: usize,
}

/// Where to cut a run of slots in two, so that one leaf has `target` slots when slot `slot` has become `more` slots more, or one more
/// or fewer.
#[inline(always)]
fn cut(slot: usize, target: usize, more: usize) -> usize {
    if slot + more < target {
        target - more
    } else if slot + 1 < target {
        slot + 1
    } else {
        slot.min(target)
    }
}

impl<K: Key, S: Shape> RawTree<K, S> {
    /// Finds room for an entry at `range`, within the hole that `at` is, in a leaf that has none. `None` if there is none in the nodes around
    /// it, for the [`plan`](crate::write::plan) of the general case; so for ascending entries, which fill their leaves.
    #[inline(always)]
    pub(crate) fn full_at(&self, at: SlotAt<K, S>, range: (K, K)) -> Option<Full<K, S>> {
        let SlotAt { spot, slot, found } = at;
        let leaf = spot.place.leaf;
        let parent = spot.parent?;
        let slots = Geometry::<K, S>::SLOTS;
        let used = leaf.used();
        let part = Part::of(found, range);
        let total = used + part.more();
        let ascends = spot.place.max == K::MAX && slot + 1 == used;
        if total <= slots || ascends || self.in_rcu() {
            return None;
        }
        let (taker, had) = spot.taker(total);
        let (before, both) = match taker {
            Taker::Before => (had, total + had),
            Taker::After | Taker::New => (0, total + had),
        };
        let target = both - both / 2;
        let slot = before + slot;
        let keep = cut(slot, target, part.more());
        let left = keep + if slot < keep { part.more() } else { 0 };
        let moved = match taker {
            Taker::Before => keep > before && keep < before + used,
            Taker::After | Taker::New => keep > 0 && keep < used,
        };
        let least = Geometry::<K, S>::least(Kind::Leaf);
        let right = both - left;
        if !moved || left < least || right < least || left > slots || right > slots {
            // Only in nodes of a few slots.
            return None;
        }
        let nodes = match taker {
            Taker::New => 1 + Above::of(parent, found.first).nodes,
            Taker::Before | Taker::After => 0,
        };
        Some(Full {
            at,
            parent,
            part,
            taker,
            had,
            keep,
            nodes,
        })
    }

    /// Puts an entry into a full leaf.
    ///
    /// # Safety
    ///
    /// * The caller is the only writer, and nobody reads meanwhile; the tree has not changed since `full` was made.
    /// * `reserve` holds `full.nodes` nodes.
    /// * The word may stand in this tree, and is not NULL.
    #[inline(always)]
    pub(crate) unsafe fn fill_full(
        &self,
        full: Full<K, S>,
        word: crate::node::Word,
        reserve: &mut Reserve,
    ) {
        let Full {
            at,
            parent,
            part,
            taker,
            had,
            keep,
            ..
        } = full;
        let SlotAt { spot, slot, found } = at;
        let Place { leaf, min, max } = spot.place;
        let used = leaf.used();
        let (parent, left_at) = match taker {
            Taker::Before => (parent, spot.at - 1),
            Taker::After => (parent, spot.at),
            // SAFETY: nobody reads (the caller's promise).
            Taker::New => unsafe { self.add_leaf(leaf, parent, (spot.at, found.first), reserve) },
        };
        let gaps = parent.kind() == Kind::Gap;
        // SAFETY: nobody reads (the caller's promise).
        let giver = unsafe { leaf.write() };
        let receiver = match taker {
            Taker::Before => parent.child(left_at),
            Taker::After | Taker::New => parent.child(left_at + 1),
        }
        .as_leaf();
        // SAFETY: nobody reads (the caller's promise).
        let (receiver_mut, above) = unsafe { (receiver.write(), parent.write()) };
        // The slots of the leaf that go are `from..from + count`, and become those from `to` on.
        let (from, to, count, stays) = match taker {
            Taker::Before => (0, had, keep - had, slot >= keep - had),
            Taker::After | Taker::New => (keep, 0, used - keep, slot < keep),
        };
        let bound;
        // The first index of what goes.
        let mut first;
        if taker == Taker::Before {
            receiver_mut.set_pivot(had - 1, min.wrapping_sub(K::ONE));
            bound = leaf.pivot(count - 1);
            first = min;
        } else {
            bound = leaf.pivot(keep - 1);
            first = bound.wrapping_add(K::ONE);
            if had > 0 {
                receiver_mut.slide(0, count, had);
                receiver_mut.set_end(had + count - 1);
                receiver_mut.set_pivot(count - 1, max);
            }
        }
        above.set_pivot(left_at, bound);
        // The largest hole that goes; what becomes of the one that is filled is looked at below.
        let mut moved = K::MIN;
        let mut look = |i: usize, last: K| {
            let word = leaf.slot(from + i);
            receiver_mut.set_slot(to + i, word);
            let next = last.wrapping_add(K::ONE);
            let size = next.wrapping_sub(first);
            let hole = select_unpredictable(word.is_null() & (from + i != slot), size, K::MIN);
            moved = select_unpredictable(hole > moved, hole, moved);
            first = next;
        };
        for i in 0..count - 1 {
            let last = leaf.pivot(from + i);
            receiver_mut.set_pivot(to + i, last);
            look(i, last);
        }
        look(count - 1, leaf.last(from + count - 1, max));
        if gaps {
            let (giver_at, receiver_at) = if taker == Taker::Before {
                (left_at + 1, left_at)
            } else {
                (left_at, left_at + 1)
            };
            let (gave, got) = (parent.gap(giver_at), parent.gap(receiver_at));
            let gone = K::span(found.first, found.last);
            let made = part.larger_rest(found);
            let (made_there, made_here) = if stays {
                (K::MIN, made)
            } else {
                (made, K::MIN)
            };
            let received = got.max(moved).max(made_there);
            // What leaves it, or is filled in it, may have been its largest.
            let rest = if moved.max(gone) < gave {
                gave
            } else {
                let gone = (u32::MAX >> (32 - count)) << from | 1 << slot;
                largest_of(leaf, leaf.holes() & !gone, min, max).max(made_here)
            };
            parent.set_gap(giver_at, rest);
            parent.set_gap(receiver_at, received);
            tell_change(parent, found.first, gave.max(got), rest.max(received));
        }
        if taker == Taker::Before {
            receiver_mut.set_used(had + count, had);
            giver.slide(count, 0, used - count);
        } else if had == 0 {
            receiver_mut.set_used(count, count);
        }
        giver.set_used(used - count, used);
        let (home, slot) = match (stays, taker) {
            (true, Taker::Before) => (giver, slot - count),
            (true, Taker::After | Taker::New) => (giver, slot),
            (false, _) => (receiver_mut, to + slot - from),
        };
        part.put(home, slot, home.node().end(), word);
    }

    /// Adds a leaf without slots behind one, whose slot in the node above it is `at`, and which covers `key`. Gives the node above both,
    /// and the slot of the old one there. The bound between the two is not set.
    ///
    /// # Safety
    ///
    /// As for [`fill_full`](Self::fill_full).
    #[inline(never)]
    unsafe fn add_leaf(
        &self,
        leaf: Node<K, S>,
        parent: Node<K, S>,
        (at, key): (usize, K),
        reserve: &mut Reserve,
    ) -> (Node<K, S>, usize) {
        let (mut parent, mut at) = (parent, at);
        let inner = parent.kind();
        if parent.used() == parent.capacity() {
            // SAFETY: the caller's promise.
            unsafe { above::make_room(self, parent, key, reserve) };
            // The leaf has a parent: it had one before.
            parent = leaf.parent(inner).unwrap_or(parent);
            at = parent.search(key);
        }
        let new = reserve.take::<K, S>(Kind::Leaf).node();
        new.set_parent(Some(parent));
        // SAFETY: nobody reads (the caller's promise).
        unsafe { above::insert_child(parent, at, new, K::MIN) };
        (parent, at)
    }
}

impl<K: Key, S: Shape> crate::write::spot::Spot<K, S> {
    /// Which leaf takes slots of this one, which is to have `total`, and how many it has.
    #[inline(always)]
    fn taker(self, total: usize) -> (Taker, usize) {
        let [before, after] = self.neighbours();
        let most = Self::most(total, SPARE);
        let before = before.map_or(usize::MAX, Node::used);
        let after = after.map_or(usize::MAX, Node::used);
        // The one with more room, so that it lasts longer.
        let (taker, had) = if after < before {
            (Taker::After, after)
        } else {
            (Taker::Before, before)
        };
        if had <= most {
            (taker, had)
        } else {
            (Taker::New, 0)
        }
    }
}

//! Writes that change two leaves and their parent: the leaf has no room for all its slots, or too
//! few left, or the new hole continues in the next leaf.
//!
//! A full leaf gives slots to a neighbour that has room, as in a B*-tree. It is split only if both
//! neighbours are nearly full, too. Inner nodes then mostly keep their shape, and leaves are
//! fuller. Ascending stores leave full leaves, and descending ones leave leaves with one or two
//! free slots. A leaf with too few slots also shares with a neighbour, or merges with it. A hole is
//! one slot: the written leaf takes over the adjacent hole of its neighbour, and the pivot between
//! the two moves.
//!
//! This module decides what to do. It is done [in place](in_place) without readers, and in
//! [copies](copied) under concurrent readers. A parent that has no room for one more leaf gets room
//! if there are no readers ([`above`]). Under concurrent readers, that case is left to the general
//! plan.

mod above;
mod copied;
mod cut;
mod in_place;
mod spanning;

use crate::base::{Key, Shape};
use crate::node::{Geometry, Kind, Node, RawTree, prefetch};
use crate::read::{BoundedLeaf, LeafPath};
use crate::write::last::nodes_above;
use above::nodes_for_room;

/// The way to fit the slots of a leaf after a write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rebalance {
    /// All fit into the leaf.
    None,
    /// Another leaf takes some of them, as whole slots, so that both have room. The write is then
    /// made in one of the two. (Small integers, because plans are passed by value.)
    Spill {
        receiver: Receiver,
        /// The slots of the left leaf before the write is made.
        keep: u8,
        /// The number of new nodes without readers.
        nodes: u8,
    },
    /// The last leaf is filled, and the rest goes to a new leaf after it. The number is that of new
    /// nodes without readers.
    Append(u8),
    /// Too few slots are left: the leaf shares with an adjacent one of the same parent, or the two
    /// merge if one leaf has room for all slots. They are in the slots `left` and `left + 1` of the
    /// parent.
    Underflow { left: u8 },
    /// There is room, and the new hole continues in the leaf before, or after, which keeps enough
    /// slots without it.
    HoleAcross { before: bool },
}

/// The leaf that takes the slots for which there is no room.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Receiver {
    /// The leaf before, with the same parent.
    Before,
    /// The leaf after, with the same parent.
    After,
    /// A new leaf after it.
    New,
}

/// Two leaves share their slots only if one in `SPARE` of a leaf's slots is then free. With less,
/// the next store would have to share again.
const SPARE: usize = 5;

/// `SPARE` under concurrent readers. Sharing then copies three nodes each time, so that a split,
/// which leaves more room, is cheaper.
const SPARE_IN_RCU: usize = 2;

/// Returns where to cut a run of slots in two, so that the left leaf has about `target` slots once
/// the slots `from..=to` have become `more` more. The cut is never between these.
#[inline(always)]
fn cut((from, to): (usize, usize), target: usize, more: usize) -> usize {
    if to + more < target {
        target - more
    } else if to + 1 < target {
        to + 1
    } else {
        from.min(target)
    }
}

impl<K: Key, S: Shape> LeafPath<K, S> {
    /// Finds room for `total` slots, more than the leaf has, including those that the slots
    /// `from..=to` become. Returns `None` if the adjacent nodes have none.
    #[inline(always)]
    pub(super) fn find_room(
        self,
        tree: &RawTree<K, S>,
        (from, to): (usize, usize),
        total: usize,
    ) -> Option<Rebalance> {
        let in_rcu = tree.in_rcu();
        let slots = Geometry::<K, S>::SLOTS;
        let BoundedLeaf { leaf, min, max } = self.place;
        let used = leaf.used();
        let more = total - used;
        if max == K::MAX && to + 1 == used {
            let above = nodes_above(leaf, tree.inner_kind());
            return (above == 0 || !in_rcu).then_some(Rebalance::Append(1 + above as u8));
        }
        let parent = self.parent?;
        let least = Geometry::<K, S>::least(Kind::Leaf);
        // Descending stores continue at the front of the first leaf, which keeps only that slot and
        // so has room for as long as possible. The other leaf gets the rest, and is nearly full.
        let descends = min == K::MIN && to == 0;
        let (receiver, had) = if descends {
            (Receiver::New, 0)
        } else {
            self.receiver(total, if in_rcu { SPARE_IN_RCU } else { SPARE })
        };
        let before = if receiver == Receiver::Before { had } else { 0 };
        let both = total + had;
        let target = if descends { 2 } else { both - both / 2 };
        let keep = cut((before + from, before + to), target, more);
        let left = keep + if before + to < keep { more } else { 0 };
        let right = both - left;
        let moves = keep > before && keep < before + used;
        let few = left < least && !descends;
        if !moves || few || right < least || left > slots || right > slots {
            // Only in nodes of few slots.
            return None;
        }
        let nodes = match receiver {
            Receiver::New if in_rcu && parent.used() == parent.capacity() => return None,
            Receiver::New => 1 + nodes_for_room(parent, min),
            Receiver::Before | Receiver::After => 0,
        };
        let (keep, nodes) = (keep as u8, nodes as u8);
        Some(Rebalance::Spill {
            receiver,
            keep,
            nodes,
        })
    }

    /// Returns the leaf that takes slots of this one, which would have `total`, and the receiver's
    /// number of slots. The receiver is a neighbour if one in `spare` of a leaf's slots is then
    /// free, or a new leaf.
    #[inline(always)]
    fn receiver(self, total: usize, spare: usize) -> (Receiver, usize) {
        let slots = Geometry::<K, S>::SLOTS;
        let [before, after] = self.neighbours();
        let before = before.map_or(usize::MAX, Node::used);
        let after = after.map_or(usize::MAX, Node::used);
        // The one with more room lasts longer.
        let (receiver, had) = if after < before {
            (Receiver::After, after)
        } else {
            (Receiver::Before, before)
        };
        if had <= (2 * slots - slots / spare).saturating_sub(total) {
            (receiver, had)
        } else {
            (Receiver::New, 0)
        }
    }

    /// Returns the leaves before and after, if they have the same parent, and prefetches them.
    #[inline(always)]
    fn neighbours(self) -> [Option<Node<K, S>>; 2] {
        let Self { parent, at, .. } = self;
        let Some(parent) = parent else {
            return [None; 2];
        };
        // They are examined next, and read entirely if they have room.
        let child = |at| {
            let leaf = parent.child(at).as_leaf();
            prefetch::node::<0>(leaf.word());
            leaf
        };
        let (before, after) = (at.checked_sub(1), at + 1);
        [before.map(child), (at < parent.end()).then(|| child(after))]
    }

    /// Plans a new hole that continues in the leaf before, or after. Returns `None` if that leaf
    /// would have too few slots without it.
    #[inline(never)]
    pub(super) fn rebalance_hole(self, before: bool) -> Option<Rebalance> {
        let adjacent = if before {
            self.at.checked_sub(1)?
        } else {
            self.at + 1
        };
        let used = self.parent?.child(adjacent).used();
        (used > Geometry::<K, S>::least(Kind::Leaf)).then_some(Rebalance::HoleAcross { before })
    }

    /// Finds a neighbour for a leaf with too few slots, `total`. Returns `None` if the inner nodes
    /// must change their shape.
    #[inline(never)]
    pub(super) fn rebalance_underfull(self, total: usize) -> Option<Rebalance> {
        let Self { parent, at, .. } = self;
        let parent = parent?;
        let (left, neighbour) = if at < parent.end() {
            (at, at + 1)
        } else {
            let before = at.checked_sub(1)?;
            (before, before)
        };
        let joins = total + parent.child(neighbour).used() <= Geometry::<K, S>::SLOTS;
        // Nor may a root be left with one child.
        let few = !joins || parent.used() > Geometry::<K, S>::least(parent.kind());
        few.then_some(Rebalance::Underflow { left: left as u8 })
    }
}

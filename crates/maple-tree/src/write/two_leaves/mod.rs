//! Writes that concern two leaves and the node above them: a leaf has no space for all its slots,
//! or too few left, or the hole goes on in the next leaf.
//!
//! A full leaf gives slots to a neighbour that has space (as in a B*-tree), and is split only if
//! both neighbours are nearly full, too. So the nodes above keep their shape most of the time, and
//! leaves are fuller. Ascending stores leave full leaves behind, and descending ones leave leaves
//! with one or two free slots. A leaf that would keep too few slots shares with a neighbour, too,
//! or merges with it. A hole is one slot: the leaf that is written takes in the part of the hole in
//! its neighbour, and the bound between them moves.
//!
//! This module decides what to do. It is done [in place](in_place) without concurrent readers, and
//! in [copies](copied) with them. A full node above gets space only without concurrent readers
//! ([`above`]). With them, this is left to the general plan.

mod above;
mod copied;
mod cut;
mod in_place;
mod spanning;

use crate::base::{Key, Shape};
use crate::node::{Geometry, Kind, Node, RawTree, prefetch};
use crate::read::{LeafPath, Place};
use crate::write::last::nodes_above;
use above::nodes_for_room;

/// The way to fit the slots of a leaf after a write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rebalance {
    /// All fit into the leaf.
    None,
    /// Another leaf takes some of them, as whole slots, so that both have space, and the write is
    /// made in one of them. (Small numbers in small words, because plans are passed by value.)
    Spill {
        taker: Taker,
        /// Slots of the left leaf of the two before the write is made.
        keep: u8,
        /// The number of new nodes that it takes without concurrent readers.
        nodes: u8,
    },
    /// The last leaf keeps as many slots as fit, and the others, which are new, go to a new leaf
    /// after it. The number of new nodes that it takes without concurrent readers.
    Append(u8),
    /// Too few are left: the leaf shares slots with its neighbour below the same parent, or the two
    /// merge if all fit into one. They are in the slots `left` and `left + 1` of the parent.
    Underflow { left: u8 },
    /// All fit, and the new hole goes on in the leaf before, or after, which can give up its part.
    HoleAcross { before: bool },
}

/// The leaf that takes the slots that do not fit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taker {
    /// The one before, which has the same parent.
    Before,
    /// The one after, which has the same parent.
    After,
    /// A new one, after it.
    New,
}

/// Two leaves share their slots only if both have at least one free slot for this many slots of a
/// leaf afterwards. With less, the next store would have to share again.
const SPARE: usize = 5;

/// As `SPARE`, with concurrent readers. There, each sharing takes copies of three nodes, so a
/// split, which leaves more space, is cheaper in the long run.
const SPARE_BESIDE: usize = 2;

/// Returns where to cut a run of slots in two, so that one leaf has about `target` slots after the
/// slots `from..=to` have become `more` slots more. These are not cut.
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
    /// Finds room for what the leaf has no room for: `total` slots, with those that the slots `from..=to` become. `None` if there is none in the
    /// nodes around it.
    #[inline(always)]
    pub(super) fn elsewhere(
        self,
        tree: &RawTree<K, S>,
        (from, to): (usize, usize),
        total: usize,
    ) -> Option<Rebalance> {
        let in_rcu = tree.in_rcu();
        let slots = Geometry::<K, S>::SLOTS;
        let Place { leaf, min, max } = self.place;
        let used = leaf.used();
        let more = total - used;
        if max == K::MAX && to + 1 == used {
            let above = nodes_above(leaf, tree.inner_kind());
            return (above == 0 || !in_rcu).then_some(Rebalance::Append(1 + above as u8));
        }
        let parent = self.parent?;
        let least = Geometry::<K, S>::least(Kind::Leaf);
        // What comes in descending order goes on at the front of the first leaf, which keeps that slot alone: so it has room for the longest time. The other one
        // gets all the rest, and is nearly full.
        let descends = min == K::MIN && to == 0;
        let (taker, had) = if descends {
            (Taker::New, 0)
        } else {
            self.taker(total, if in_rcu { SPARE_BESIDE } else { SPARE })
        };
        let before = if taker == Taker::Before { had } else { 0 };
        let both = total + had;
        let target = if descends { 2 } else { both - both / 2 };
        let keep = cut((before + from, before + to), target, more);
        let left = keep + if before + to < keep { more } else { 0 };
        let right = both - left;
        let moves = keep > before && keep < before + used;
        let few = left < least && !descends;
        if !moves || few || right < least || left > slots || right > slots {
            // Only in nodes of a few slots.
            return None;
        }
        let nodes = match taker {
            Taker::New if in_rcu && parent.used() == parent.capacity() => return None,
            Taker::New => 1 + nodes_for_room(parent, min),
            Taker::Before | Taker::After => 0,
        };
        let (keep, nodes) = (keep as u8, nodes as u8);
        Some(Rebalance::Spill { taker, keep, nodes })
    }

    /// Which leaf takes slots of this one, which is to have `total`, and how many it has: a neighbour that has room for one in `spare` of a leaf's
    /// slots then, or a new one.
    #[inline(always)]
    fn taker(self, total: usize, spare: usize) -> (Taker, usize) {
        let slots = Geometry::<K, S>::SLOTS;
        let [before, after] = self.neighbours();
        let before = before.map_or(usize::MAX, Node::used);
        let after = after.map_or(usize::MAX, Node::used);
        // The one with more room, so that it lasts longer.
        let (taker, had) = if after < before {
            (Taker::After, after)
        } else {
            (Taker::Before, before)
        };
        if had <= (2 * slots - slots / spare).saturating_sub(total) {
            (taker, had)
        } else {
            (Taker::New, 0)
        }
    }

    /// The leaves before and after one, if they have the same parent. They are asked for.
    #[inline(always)]
    fn neighbours(self) -> [Option<Node<K, S>>; 2] {
        let Self { parent, at, .. } = self;
        let Some(parent) = parent else {
            return [None; 2];
        };
        // They are looked at next, and read as a whole if they have room.
        let child = |at| {
            let leaf = parent.child(at).as_leaf();
            prefetch::node::<0>(leaf.word());
            leaf
        };
        let (before, after) = (at.checked_sub(1), at + 1);
        [before.map(child), (at < parent.end()).then(|| child(after))]
    }

    /// Finds room where the hole to be goes on in the leaf before, or after. `None` if that one cannot do without it.
    #[inline(never)]
    pub(super) fn across(self, before: bool) -> Option<Rebalance> {
        let beside = if before {
            self.at.checked_sub(1)?
        } else {
            self.at + 1
        };
        let used = self.parent?.child(beside).used();
        (used > Geometry::<K, S>::least(Kind::Leaf)).then_some(Rebalance::HoleAcross { before })
    }

    /// Finds a neighbour for a leaf that has too few slots left, `total`; `None` if the nodes above must change their shape.
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
        // A root must not be left with one child, either.
        let few = !joins || parent.used() > Geometry::<K, S>::least(parent.kind());
        few.then_some(Rebalance::Underflow { left: left as u8 })
    }
}

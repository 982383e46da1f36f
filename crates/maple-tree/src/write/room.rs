//! Where the slots of a leaf go that has no room for all, or too few left, or a hole that goes on in the next leaf.
//!
//! A leaf that has no room shares its slots with a neighbour that has some (as in a B*-tree), and is split
//! only if both neighbours are nearly full, too: the nodes above keep their shape most of the time, and leaves are fuller. Ascending
//! stores leave full leaves behind. A leaf that is left with too few slots shares with a neighbour, too, or becomes one with it.
//! A hole is one slot: of two leaves that it lies in, one gives its part up, and the bound between them moves.
//!
//! All of this concerns two leaves and the node above them, and leaves the nodes further up as they are.

use crate::base::key::Key;
use crate::base::shape::Shape;
use crate::node::prefetch;
use crate::node::{Geometry, Kind, Node};
use crate::write::spot::Spot;

/// Where the slots of a leaf go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// There is room.
    Here,
    /// The leaf shares them with the leaf before, which has the same parent.
    Before,
    /// As `Before`, with the leaf after.
    After,
    /// The leaf keeps so many of them, the others go to a new leaf after it. The parent has room for that.
    Split(usize),
    /// Too few are left: the leaf shares them with the one before, which has the same parent; if one leaf has room for all, the two
    /// become one.
    FewBefore,
    /// As `FewBefore`, with the leaf after.
    FewAfter,
    /// There is room, and the hole to be goes on in the leaf before, which has the same parent. It becomes all of this leaf's.
    TakeBefore,
    /// As `TakeBefore`, in the leaf after.
    TakeAfter,
    /// As `TakeBefore`, but it becomes all of the leaf's before.
    GiveBefore,
    /// As `GiveBefore`, of the leaf's after.
    GiveAfter,
}

/// Two leaves that share their slots have room for one in so many of a leaf's slots then.
pub(super) const SPARE: usize = 5;

/// As `SPARE`, beside readers, where each time takes copies of three nodes, so that a split, after which there is more room, is the better bargain.
const SPARE_BESIDE: usize = 2;

impl<K: Key, S: Shape> Spot<K, S> {
    /// Finds room for what the leaf has no room for: `total` slots, of which those that are new are the last if `at_end`. `None`
    /// if the nodes above must change their shape.
    #[inline(never)]
    pub(super) fn elsewhere(self, total: usize, at_end: bool, in_rcu: bool) -> Option<Room> {
        let slots = Geometry::<K, S>::SLOTS;
        let Self { place, parent, .. } = self;
        let parent = parent?;
        let may_grow = parent.used() < parent.capacity();
        if place.max == K::MAX && at_end {
            // Ascending stores fill the leaves.
            return may_grow.then_some(Room::Split(slots));
        }
        let [before, after] = self.neighbours();
        let most = Self::most(total, if in_rcu { SPARE_BESIDE } else { SPARE });
        if before.is_some_and(|node| node.used() <= most) {
            return Some(Room::Before);
        }
        if after.is_some_and(|node| node.used() <= most) {
            return Some(Room::After);
        }
        may_grow.then_some(Room::Split(total - total / 2))
    }

    /// The leaves before and after one, if they have the same parent. They are asked for.
    #[inline(always)]
    pub(super) fn neighbours(self) -> [Option<Node<K, S>>; 2] {
        let Self { parent, at, .. } = self;
        let Some(parent) = parent else {
            return [None; 2];
        };
        let before = (at > 0).then(|| parent.child(at - 1).as_leaf());
        let after = (at < parent.end()).then(|| parent.child(at + 1).as_leaf());
        // They are looked at next, and read as a whole if they have room.
        if let Some(node) = before {
            prefetch::node::<0>(node.word());
        }
        if let Some(node) = after {
            prefetch::node::<0>(node.word());
        }
        [before, after]
    }

    /// How many slots a neighbour may have that shares with a leaf which is to have `total`: with less room than one in `spare` of a
    /// leaf's slots the next store would have to share again.
    #[inline(always)]
    pub(super) fn most(total: usize, spare: usize) -> usize {
        let slots = Geometry::<K, S>::SLOTS;
        (2 * slots - slots / spare).saturating_sub(total)
    }

    /// Finds the leaf that can do without its part of a hole which goes on in the leaf before, or after. `total` slots are to be in this one, of which
    /// the hole is one; `enough` tells whether so many may be left. `None` if neither can.
    #[inline(never)]
    pub(super) fn across(self, before: bool, total: usize, enough: bool) -> Option<Room> {
        let least = Geometry::<K, S>::least(Kind::Leaf);
        let Self { parent, at, .. } = self;
        let parent = parent?;
        let neighbour = match before {
            true => parent.child(at.checked_sub(1)?),
            false => parent.child(at + 1),
        };
        let used = neighbour.used();
        let (takes, gives) = (enough && used > least, total > least);
        // An entry that is stored there again needs room: the hole goes where there is more.
        let takes = takes && (total <= used || !gives);
        match (takes, before) {
            (true, true) => Some(Room::TakeBefore),
            (true, false) => Some(Room::TakeAfter),
            (false, _) if !gives => None,
            (false, true) => Some(Room::GiveBefore),
            (false, false) => Some(Room::GiveAfter),
        }
    }

    /// Finds a neighbour for a leaf that has too few slots left, `total`; `None` if the nodes above must change their shape.
    #[inline(never)]
    pub(super) fn company(self, total: usize) -> Option<Room> {
        let Self { parent, at, .. } = self;
        let parent = parent?;
        let (room, neighbour) = if at < parent.end() {
            (Room::FewAfter, at + 1)
        } else {
            (Room::FewBefore, at.checked_sub(1)?)
        };
        let joins = total + parent.child(neighbour).used() <= Geometry::<K, S>::SLOTS;
        // A root must not be left with one child, either.
        (!joins || parent.used() > Geometry::<K, S>::least(parent.kind())).then_some(room)
    }
}

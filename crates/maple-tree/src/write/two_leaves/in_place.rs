//! Changes of two leaves in place, without readers or in copies: slots move from leaf to leaf by
//! the block.

use core::hint::select_unpredictable;

use crate::alloc::{Reserve, TakeNodes};
use crate::base::{Key, Offset, Shape, either};
use crate::node::{Geometry, Kind, NULL, Node, NodeMut, RawTree, Unread, Word};
use crate::read::BoundedLeaf;
use crate::write::holes::{
    largest_in_leaf, largest_of, propagate_change, propagate_first, propagate_from,
};
use crate::write::last::{link, propagate_above};
use crate::write::one_leaf::Holes;
use crate::write::two_leaves::Receiver;
use crate::write::two_leaves::above::add_leaf;
use crate::write::two_leaves::cut::{Cut, cut_anew};
#[cfg(feature = "tracing")]
use crate::write::watch::Watch;
use crate::write::{Quick, Rebalance};

impl<K: Key, S: Shape> RawTree<K, S> {
    /// Applies a write that makes a part of a hole an entry, without readers. The effect is that of
    /// [`apply_quick`](Self::apply_quick), but this code relies on the change of exactly one slot.
    /// The tree must not have changed since `quick` was made, and `reserve` holds its nodes.
    #[inline(always)]
    pub(crate) fn fill_full(&self, quick: Quick<K, S>, reserve: &mut Reserve, unread: Unread) {
        #[cfg(feature = "tracing")]
        let watch = Watch::rebalancing(self, quick);
        match (quick.rebalance, quick.path.parent) {
            (Rebalance::Spill { receiver, keep, .. }, Some(parent)) => {
                quick.give_to(self, parent, (receiver, keep), reserve, unread);
            }
            _ => drop(quick.apply_to_both(self, reserve, unread)),
        }
        #[cfg(feature = "tracing")]
        watch.made(self);
    }
}

impl<K: Key, S: Shape> Quick<K, S> {
    /// Makes the change in a leaf that has no room for it, or too few slots left. Returns the leaf
    /// that is not needed any more, if two became one. If the parent has room, only it and the
    /// leaves change.
    #[inline(never)]
    pub(in crate::write) fn apply_to_both(
        self,
        tree: &RawTree<K, S>,
        reserve: &mut Reserve,
        unread: Unread,
    ) -> Option<Node<K, S>> {
        if let Rebalance::Append(_) = self.rebalance {
            self.append(tree, reserve, unread);
            return None;
        }
        let Some(parent) = self.path.parent else {
            debug_assert!(false, "a leaf that is the root has no neighbours");
            return None;
        };
        match self.rebalance {
            Rebalance::Spill { receiver, keep, .. } => {
                self.give_to(tree, parent, (receiver, keep), reserve, unread);
            }
            Rebalance::Underflow { left } => return self.merge(parent, usize::from(left), unread),
            Rebalance::HoleAcross { before: true } => self.join::<false>(parent, unread),
            Rebalance::HoleAcross { before: false } => self.join::<true>(parent, unread),
            Rebalance::Append(_) | Rebalance::None => debug_assert!(false, "it concerns one leaf"),
        }
        None
    }

    /// Gives whole slots to another leaf, and then makes the change in the leaf that has the
    /// affected slots.
    #[inline(always)]
    fn give_to(
        self,
        tree: &RawTree<K, S>,
        parent: Node<K, S>,
        (receiver, keep): (Receiver, u8),
        reserve: &mut Reserve,
        unread: Unread,
    ) {
        let BoundedLeaf { leaf, min, max } = self.path.place;
        let leaf = leaf.as_leaf();
        let here = (leaf, leaf.used());
        let keep = usize::from(keep);
        match receiver {
            Receiver::Before => {
                let at = self.path.at - 1;
                let left = parent.child(at).as_leaf();
                let cut = Cut::<K, S, true>::new((left, left.used()), here, keep, unread);
                self.give(parent, at, cut, min.wrapping_sub(K::ONE));
            }
            Receiver::After => {
                let right = parent.child(self.path.at + 1).as_leaf();
                let cut = Cut::<K, S, false>::new(here, (right, right.used()), keep, unread);
                self.give(parent, self.path.at, cut, max);
            }
            Receiver::New if self.prepends() => self.prepend(tree, parent, reserve, unread),
            Receiver::New => {
                let at = (self.path.at, min);
                let (parent, at) = add_leaf(tree, leaf, parent, at, reserve, unread);
                let right = parent.child(at + 1).as_leaf();
                let cut = Cut::<K, S, false>::new(here, (right, 0), keep, unread);
                self.give(parent, at, cut, max);
            }
        }
    }

    /// Returns `true` if a part of the hole at the front of the first leaf becomes an entry.
    #[inline(always)]
    fn prepends(self) -> bool {
        let BoundedLeaf { leaf, min, .. } = self.path.place;
        min == K::MIN && self.to == 0 && !self.word.is_null() && leaf.slot(0).is_null()
    }

    /// Stores the entry, and the hole before it, in a new leaf before the first one, which is full.
    /// The first slots of the full leaf follow, up to an eighth of its slots, so that an entry in it
    /// can be split later without another leaf. [`give`](Self::give) would move all slots but one.
    #[inline(never)]
    fn prepend(
        self,
        tree: &RawTree<K, S>,
        parent: Node<K, S>,
        reserve: &mut Reserve,
        unread: Unread,
    ) {
        let Self { first, last, .. } = self;
        let BoundedLeaf { leaf, max, .. } = self.path.place;
        let leaf = leaf.as_leaf();
        let (parent, at) = add_leaf(tree, leaf, parent, (0, K::MIN), reserve, unread);
        debug_assert!(at == 0, "it is the first leaf");
        let new = parent.child(1).as_leaf();
        let write = new.write(unread);
        let at = usize::from(self.head);
        if self.head {
            write.set_pivot(0, first.wrapping_sub(K::ONE));
        }
        write.set_slot(at, self.word);
        let gone = K::span(K::MIN, leaf.pivot(0));
        if !self.tail {
            leaf.write(unread).close_up(1, 0, leaf.end());
        }
        let slots = Geometry::<K, S>::SLOTS;
        let moved = leaf.used().saturating_sub(slots - slots / 8);
        let (mut bound, mut largest) = (last, first.wrapping_sub(K::MIN));
        for i in 0..moved {
            let (word, end) = (leaf.slot(i), leaf.pivot(i));
            if word.is_null() {
                largest = largest.max(K::span(bound.wrapping_add(K::ONE), end));
            }
            write.set_pivot(at + i, bound);
            write.set_slot(at + i + 1, word);
            bound = end;
        }
        write.set_end(at + moved);
        if moved > 0 {
            leaf.write(unread).close_up(moved, 0, leaf.end());
        }
        let above = parent.write(unread);
        above.set_slot(0, new.word());
        above.set_slot(1, leaf.word());
        above.set_pivot(0, bound);
        if parent.kind() == Kind::Gap {
            let old = parent.gap(0);
            let rest = if gone < old && largest < old {
                old
            } else {
                largest_in_leaf(leaf, bound.wrapping_add(K::ONE), max)
            };
            parent.set_gap(1, rest);
            propagate_first(parent, 0, first, largest);
        }
    }

    /// Moves slots as [`give_to`](Self::give_to) does. The two leaves are in the
    /// slots `at` and `at + 1`, and the left one ends at `middle`.
    ///
    /// Only the moving holes are examined: the giving leaf seldom loses its largest hole.
    #[inline(always)]
    fn give<const TO_LEFT: bool>(
        self,
        parent: Node<K, S>,
        at: usize,
        cut: Cut<K, S, TO_LEFT>,
        middle: K,
    ) {
        let Cut { keep, unread, .. } = cut;
        let ((left, in_left), (right, _)) = (cut.left, cut.right);
        let min = self.path.place.min;
        // The moving slots of the leaf. `stays`: the changing slots do not move.
        let (first, count, stays) = if TO_LEFT {
            (0, keep - in_left, self.from >= keep - in_left)
        } else {
            (keep, in_left - keep, self.to < keep)
        };
        // The largest moving hole, without those that change.
        let mut moved = K::MIN;
        let look = |i: usize, word: Word, size: K| {
            let changes = self.from <= i && i <= self.to;
            let hole = select_unpredictable(word.is_null() & !changes, size, K::MIN);
            moved = select_unpredictable(hole > moved, hole, moved);
        };
        let bound = cut.copy(min, middle, look);
        parent.write(unread).set_pivot(at, bound);
        if parent.kind() == Kind::Gap {
            let (giver, receiver) = if TO_LEFT { (at + 1, at) } else { (at, at + 1) };
            self.propagate_moved(parent, (giver, receiver), (first, count), moved, stays);
        }
        cut.close();
        // The changing slots, where they are now.
        let (home, from) = match (stays, TO_LEFT) {
            (true, true) => (right, self.from - count),
            (true, false) => (left, self.from),
            (false, true) => (left, self.from + in_left),
            (false, false) => (right, self.from - keep),
        };
        let moved = Self {
            from,
            to: from + self.to - self.from,
            total: self.total_of(home.used()),
            ..self
        };
        moved.edit(home.write(unread));
    }

    /// Propagates the largest holes of the leaf and of the one that gets its slots, which are in
    /// the slots `giver` and `receiver` of their parent. `moved` is the largest hole among the
    /// `count` slots that go, from `first` on, and `stays` as in [`give`](Self::give). Call it
    /// before the leaf changes.
    #[inline(always)]
    fn propagate_moved(
        self,
        parent: Node<K, S>,
        (giver, receiver): (usize, usize),
        (first, count): (usize, usize),
        moved: K,
        stays: bool,
    ) {
        let BoundedLeaf { leaf, min, max } = self.path.place;
        let Holes { gone, made, .. } = self.look(|_| {});
        let (gave, got) = (parent.gap(giver), parent.gap(receiver));
        let (made_here, made_there) = if stays {
            (made, K::MIN)
        } else {
            (K::MIN, made)
        };
        let received = got.max(moved).max(made_there);
        // A hole that leaves the giver, or is filled in it, may have been its largest.
        let rest = if moved.max(gone) < gave {
            gave
        } else {
            let bits = |first: usize, count: usize| (u32::MAX >> (32 - count)) << first;
            let others = !bits(first, count) & !bits(self.from, self.to + 1 - self.from);
            largest_of(leaf, leaf.holes() & others, min, max)
        };
        let rest = rest.max(made_here);
        parent.set_gap(giver, rest);
        parent.set_gap(receiver, received);
        propagate_change(parent, min, gave.max(got), rest.max(received));
    }

    /// Writes the last slots of the tree: fills the leaf, and puts the rest into a new one.
    fn append(self, tree: &RawTree<K, S>, reserve: &mut Reserve, unread: Unread) {
        let slots = Geometry::<K, S>::SLOTS;
        let BoundedLeaf { leaf, min, max } = self.path.place;
        // The new contents of the last slots.
        let mut new = [(NULL, max); 3];
        let mut count = 0;
        if self.head {
            new[0] = (leaf.slot(self.from), self.first.wrapping_sub(K::ONE));
            count = 1;
        }
        new[count] = (self.word, self.last);
        if self.tail {
            new[count + 1] = (leaf.slot(self.to), max);
        }
        let new = &new[..self.total - self.from];
        let right = reserve.take_node::<K, S>(Kind::Leaf);
        let left = leaf.write(unread);
        let mut bound = max;
        for (i, &(word, last)) in (self.from..).zip(new) {
            let (node, i) = match i.checked_sub(slots) {
                None => (left, i),
                Some(i) => (right, i),
            };
            node.set_slot(i, word);
            if i + 1 == slots {
                bound = last;
            } else if last < max {
                node.set_pivot(i, last);
            }
        }
        left.set_end(slots - 1);
        right.set_end(self.total - slots - 1);
        let first = bound.wrapping_add(K::ONE);
        let inner = tree.inner_kind();
        let (gap, gap_after) = if inner == Kind::Gap {
            let after = largest_in_leaf(right.node(), first, max);
            (largest_in_leaf(leaf, min, bound), after)
        } else {
            (K::MIN, K::MIN)
        };
        let root = link(leaf, gap, right, first, inner, reserve, unread);
        propagate_above(right.node(), gap_after, inner);
        if let Some(root) = root {
            tree.publish_root(root.word(), tree.height() + 1);
        }
    }

    /// Sets the pivot between the leaves in the slots `at` and `at + 1`, and propagates their
    /// largest holes. The two leaves cover `min..=max`.
    #[inline(always)]
    pub(super) fn set_pair(above: NodeMut<K, S>, at: usize, (min, max): (K, K), last: K) {
        let parent = above.node();
        above.set_pivot(at, last);
        if parent.kind() != Kind::Gap {
            return;
        }
        let old = parent.gap(at).max(parent.gap(at + 1));
        let left = largest_in_leaf(parent.child(at), min, last);
        let right = largest_in_leaf(parent.child(at + 1), last.wrapping_add(K::ONE), max);
        parent.set_gap(at, left);
        parent.set_gap(at + 1, right);
        propagate_change(parent, min, old, left.max(right));
    }

    /// Makes the change in one of the leaves in the slots `at` and `at + 1`. Then merges the two if
    /// one leaf has room for all slots; otherwise gives each half. Returns the leaf that is not
    /// needed any more.
    fn merge(self, parent: Node<K, S>, at: usize, unread: Unread) -> Option<Node<K, S>> {
        let BoundedLeaf { min, max, .. } = self.path.place;
        let bounds = if self.path.at > at {
            (parent.edge::<false>(at, min, parent.kind()), max)
        } else {
            (min, parent.edge::<true>(at + 1, min, parent.kind()))
        };
        let (left, right) = (parent.child(at).as_leaf(), parent.child(at + 1).as_leaf());
        let middle = parent.pivot(at);
        self.edit(self.path.place.leaf.write(unread));
        let (in_left, in_right) = (left.used(), right.used());
        let both = in_left + in_right;
        let (left, right) = ((left, in_left), (right, in_right));
        if both <= Geometry::<K, S>::SLOTS {
            Cut::<K, S, true>::new(left, right, both, unread).copy(K::MIN, middle, |_, _, _| {});
            Self::remove_merged(parent, at, bounds, unread);
            return Some(right.0);
        }
        let keep = both - both / 2;
        let last = cut_anew(left, right, keep, middle, unread);
        Self::set_pair(parent.write(unread), at, bounds, last);
        None
    }

    /// Makes the change in a leaf that takes over an adjacent hole: the hole that starts the next
    /// leaf (`UP`), or the hole that ends the one before.
    fn join<const UP: bool>(self, parent: Node<K, S>, unread: Unread) {
        let Some(BoundedLeaf { leaf, min, max }) = self.path.absorb_hole::<UP>(unread) else {
            debug_assert!(false, "the other one can do without");
            return;
        };
        self.edit(leaf.write(unread));
        if parent.kind() == Kind::Gap {
            // The hole only grows, and the others stay.
            let made = either::<UP, _>(K::span(self.first, max), K::span(min, self.last));
            let gap = parent.gap(self.path.at).max(made);
            propagate_from(parent, self.path.at, min, gap);
        }
    }

    /// Removes the slot after `at` from the parent, once its slots have moved to the leaf in slot
    /// `at`. That leaf covers `min..=max`.
    #[inline(always)]
    fn remove_merged(parent: Node<K, S>, at: usize, (min, max): (K, K), unread: Unread) {
        let gaps = parent.kind() == Kind::Gap;
        let old = if gaps {
            parent.gap(at).max(parent.gap(at + 1))
        } else {
            K::MIN
        };
        let above = parent.write(unread);
        let bound = (at + 1 < parent.end()).then(|| parent.pivot(at + 1));
        above.shift(at + 2, at + 1);
        if let Some(bound) = bound {
            above.set_pivot(at, bound);
        }
        if gaps {
            let gap = largest_in_leaf(parent.child(at), min, max);
            parent.set_gap(at, gap);
            propagate_change(parent, min, old, gap);
        }
    }
}

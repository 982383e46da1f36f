//! Spreading the slots of a leaf that is full over a neighbour, or over a new leaf after it; joining a leaf that is nearly empty with a
//! neighbour; and the holes that meet where two leaves do. All in place: slots move from leaf to leaf by the block.

use crate::alloc::reserve::Reserve;
use crate::base::key::Key;
use crate::base::shape::Shape;
use crate::node::{Geometry, Kind, NULL, Node, NodeMut, Word};
use crate::read::walk::{Place, lower_bound, upper_bound};
use crate::write::holes::{largest_in_leaf, tell_change};
use crate::write::quick::Quick;
use crate::write::room::Room;

/// The slots of a leaf as they are to be, of which there may be more than it has room for: the first of those that it has, then new ones, then the last of
/// those that it has.
struct Wanted<K, S> {
    leaf: Node<K, S>,
    /// Where the leaf ends.
    max: K,
    /// How many slots there are of the first.
    head: usize,
    /// The new ones, with their last indices.
    new: [(Word, K); 3],
    count: usize,
    /// Where the last ones start in the leaf.
    tail: usize,
    /// How many there are in all.
    total: usize,
}

impl<K: Key, S: Shape> Wanted<K, S> {
    #[inline(always)]
    fn of(quick: Quick<K, S>) -> Self {
        let leaf = quick.place.leaf;
        let max = quick.place.max;
        let mut new = [(NULL, K::MIN); 3];
        let mut count = 0;
        if quick.head {
            new[0] = (leaf.slot(quick.from), quick.first.wrapping_sub(K::ONE));
            count = 1;
        }
        new[count] = (quick.word, quick.last);
        count += 1;
        if quick.tail {
            new[count] = (leaf.slot(quick.to), leaf.last(quick.to, max));
            count += 1;
        }
        Self {
            leaf,
            max,
            head: quick.from,
            new,
            count,
            tail: quick.to + 1,
            total: quick.total,
        }
    }

    /// Where slot `i`, which is none of the first or new ones, is in the leaf.
    #[inline(always)]
    fn behind(&self, i: usize) -> usize {
        i - self.head - self.count + self.tail
    }

    /// The last index of slot `i`.
    #[inline(always)]
    fn last(&self, i: usize) -> K {
        if i < self.head {
            self.leaf.pivot(i)
        } else if i < self.head + self.count {
            self.new[i - self.head].1
        } else {
            self.leaf.last(self.behind(i), self.max)
        }
    }

    /// Puts those of the new slots that are among `from..to` where they belong, if slot `from` belongs to slot `at` of a leaf.
    #[inline(always)]
    fn put_new(&self, leaf: NodeMut<K, S>, from: usize, to: usize, at: usize) {
        let pivots = leaf.node().capacity() - 1;
        for (i, &(word, last)) in (self.head..).zip(&self.new[..self.count]) {
            if (from..to).contains(&i) {
                let at = at + i - from;
                leaf.set_slot(at, word);
                if at < pivots {
                    leaf.set_pivot(at, last);
                }
            }
        }
    }

    /// Puts the slots `from..to`, of which there is at least one, into another leaf from slot `at` on. The caller sets the bound of the last.
    #[inline(always)]
    fn put(&self, leaf: NodeMut<K, S>, from: usize, to: usize, at: usize) {
        let (head, tail) = (self.head, self.head + self.count);
        let pivots = leaf.node().capacity() - 1;
        if from < head {
            let count = head.min(to) - from;
            leaf.copy_slots(at, self.leaf, from, count);
            let last = at + count - 1;
            if last < pivots {
                leaf.set_pivot(last, self.leaf.pivot(from + count - 1));
            }
        }
        self.put_new(leaf, from, to, at);
        if to > tail {
            let first = from.max(tail);
            leaf.copy_slots(at + first - from, self.leaf, self.behind(first), to - first);
        }
    }

    /// Leaves the slots `from..to` in the leaf itself.
    ///
    /// # Safety
    ///
    /// The caller is the only writer, and nobody reads meanwhile.
    #[inline(always)]
    unsafe fn keep(&self, from: usize, to: usize) {
        let before = self.leaf.used();
        // SAFETY: the caller's promise.
        let leaf = unsafe { self.leaf.write() };
        let tail = self.head + self.count;
        if from < self.head {
            leaf.slide(from, 0, self.head.min(to) - from);
        }
        if to > tail {
            let first = from.max(tail);
            leaf.slide(self.behind(first), first - from, to - first);
        }
        self.put_new(leaf, from, to, 0);
        leaf.set_used(to - from, before);
    }
}

impl<K: Key, S: Shape> Quick<K, S> {
    /// Makes the change in a leaf that has no room for it, or too few slots left. Gives the leaf that is not needed any more, if two
    /// have become one.
    ///
    /// # Safety
    ///
    /// The caller is the only writer, and nobody reads meanwhile.
    pub(super) unsafe fn spread(self, reserve: &mut Reserve) -> Option<Node<K, S>> {
        let Some(parent) = self.parent else {
            debug_assert!(false, "a leaf that is the root has no neighbours");
            return None;
        };
        // SAFETY: the caller's promise.
        unsafe {
            match self.room {
                Room::Before => self.share_before(parent),
                Room::After => self.share_after(parent),
                Room::Split(keep) => self.split(parent, keep, reserve),
                Room::FewBefore => return self.merge(parent, self.at - 1),
                Room::FewAfter => return self.merge(parent, self.at),
                Room::TakeBefore => self.join(parent, self.at - 1, false),
                Room::GiveBefore => self.join(parent, self.at - 1, true),
                Room::TakeAfter => self.join(parent, self.at, true),
                Room::GiveAfter => self.join(parent, self.at, false),
                Room::Here => debug_assert!(false, "the leaf has room"),
            }
        }
        None
    }

    /// The first slots go to the leaf before.
    ///
    /// # Safety
    ///
    /// As for [`spread`](Self::spread).
    unsafe fn share_before(self, parent: Node<K, S>) {
        let bounds = self.bounds_of_pair(parent, self.at - 1);
        let wanted = Wanted::of(self);
        let before = parent.child(self.at - 1).as_leaf();
        let had = before.used();
        let both = had + wanted.total;
        let moved = both - both / 2 - had;
        let last = wanted.last(moved - 1);
        // SAFETY: nobody reads (the caller's promise).
        unsafe {
            let left = before.write();
            left.set_pivot(had - 1, self.place.min.wrapping_sub(K::ONE));
            wanted.put(left, 0, moved, had);
            left.set_used(had + moved, had);
            wanted.keep(moved, wanted.total);
            Self::set_pair(parent, self.at - 1, bounds, last);
        }
    }

    /// The last slots go to the leaf after.
    ///
    /// # Safety
    ///
    /// As for [`spread`](Self::spread).
    unsafe fn share_after(self, parent: Node<K, S>) {
        let bounds = self.bounds_of_pair(parent, self.at);
        let wanted = Wanted::of(self);
        let after = parent.child(self.at + 1).as_leaf();
        let had = after.used();
        let both = had + wanted.total;
        let keep = both - both / 2;
        let moved = wanted.total - keep;
        let last = wanted.last(keep - 1);
        // SAFETY: nobody reads (the caller's promise).
        unsafe {
            let right = after.write();
            right.shift(0, moved);
            wanted.put(right, keep, wanted.total, 0);
            right.set_pivot(moved - 1, wanted.max);
            wanted.keep(0, keep);
            Self::set_pair(parent, self.at, bounds, last);
        }
    }

    /// The first `keep` slots stay, the others go to a new leaf.
    ///
    /// # Safety
    ///
    /// As for [`spread`](Self::spread).
    unsafe fn split(self, parent: Node<K, S>, keep: usize, reserve: &mut Reserve) {
        let wanted = Wanted::of(self);
        let Self { place, at, .. } = self;
        let Place { min, max, .. } = place;
        let moved = wanted.total - keep;
        let last = wanted.last(keep - 1);
        let right = reserve.take::<K, S>(Kind::Leaf);
        right.node().set_parent(Some(parent));
        wanted.put(right, keep, wanted.total, 0);
        right.set_used(moved, moved);
        // SAFETY: nobody reads (the caller's promise).
        unsafe {
            wanted.keep(0, keep);
            let above = parent.write();
            above.shift(at + 1, at + 2);
            above.set_slot(at + 1, right.node().word());
            // What the leaf covered is what the two cover.
            if at + 1 < parent.end() {
                above.set_pivot(at + 1, parent.pivot(at));
            }
            if parent.kind() == Kind::Gap {
                parent.set_gap(at + 1, K::MIN);
            }
            Self::set_pair(parent, at, (min, max), last);
        }
    }

    /// What the leaves in the slots `at` and `at + 1` of the parent cover; this leaf is one of them.
    #[inline(always)]
    fn bounds_of_pair(self, parent: Node<K, S>, at: usize) -> (K, K) {
        let Place { min, max, .. } = self.place;
        if self.at > at {
            let min = match at {
                0 => lower_bound(parent, min, parent.kind()),
                _ => parent.first(at, min),
            };
            (min, max)
        } else if at + 1 < parent.end() {
            (min, parent.pivot(at + 1))
        } else {
            (min, upper_bound(parent, min, parent.kind()))
        }
    }

    /// Sets what bounds the leaves in the slots `at` and `at + 1` of the parent, and tells what their largest holes are. The two cover
    /// `min..=max`.
    ///
    /// # Safety
    ///
    /// As for [`spread`](Self::spread).
    #[inline(always)]
    unsafe fn set_pair(parent: Node<K, S>, at: usize, (min, max): (K, K), last: K) {
        // SAFETY: nobody reads (the caller's promise).
        unsafe { parent.write() }.set_pivot(at, last);
        if parent.kind() != Kind::Gap {
            return;
        }
        let old = parent.gap(at).max(parent.gap(at + 1));
        let left = largest_in_leaf(parent.child(at), min, last);
        let right = largest_in_leaf(parent.child(at + 1), last.wrapping_add(K::ONE), max);
        parent.set_gap(at, left);
        parent.set_gap(at + 1, right);
        tell_change(parent, min, old, left.max(right));
    }

    /// Makes the change, and the leaves in the slots `at` and `at + 1`, of which it concerns one, one if that has room for all; else gives
    /// each half. Gives the leaf that is left over.
    ///
    /// # Safety
    ///
    /// As for [`spread`](Self::spread).
    unsafe fn merge(self, parent: Node<K, S>, at: usize) -> Option<Node<K, S>> {
        let bounds = self.bounds_of_pair(parent, at);
        let (left, right) = (parent.child(at).as_leaf(), parent.child(at + 1).as_leaf());
        let middle = parent.pivot(at);
        // SAFETY: nobody reads (the caller's promise).
        let (left_mut, right_mut) = unsafe {
            self.edit(self.place.leaf.write());
            (left.write(), right.write())
        };
        let (in_left, in_right) = (left.used(), right.used());
        let both = in_left + in_right;
        if both <= Geometry::<K, S>::SLOTS {
            left_mut.set_pivot(in_left - 1, middle);
            left_mut.copy_slots(in_left, right, 0, in_right);
            left_mut.set_used(both, in_left);
            // SAFETY: nobody reads (the caller's promise).
            unsafe { Self::unite(parent, at, bounds) };
            return Some(right);
        }
        let keep = both - both / 2;
        let last;
        if keep > in_left {
            let moved = keep - in_left;
            last = right.pivot(moved - 1);
            left_mut.set_pivot(in_left - 1, middle);
            left_mut.copy_slots(in_left, right, 0, moved);
            left_mut.set_used(keep, in_left);
            right_mut.shift(moved, 0);
        } else {
            let moved = in_left - keep;
            last = left.pivot(keep - 1);
            right_mut.shift(0, moved);
            right_mut.copy_slots(0, left, keep, moved);
            right_mut.set_pivot(moved - 1, middle);
            left_mut.set_used(keep, in_left);
        }
        // SAFETY: nobody reads (the caller's promise).
        unsafe { Self::set_pair(parent, at, bounds, last) };
        None
    }

    /// Makes the change, after which the leaves in the slots `at` and `at + 1`, of which it concerns one, meet in a hole. It becomes all of the left
    /// one's, or all of the right one's.
    ///
    /// # Safety
    ///
    /// As for [`spread`](Self::spread).
    unsafe fn join(self, parent: Node<K, S>, at: usize, of_left: bool) {
        let bounds = self.bounds_of_pair(parent, at);
        let (left, right) = (parent.child(at).as_leaf(), parent.child(at + 1).as_leaf());
        // SAFETY: nobody reads (the caller's promise).
        unsafe {
            self.edit(self.place.leaf.write());
            let last = if of_left {
                let last = right.pivot(0);
                right.write().shift(1, 0);
                last
            } else {
                let used = left.used();
                let last = left.pivot(used - 2);
                left.write().set_used(used - 1, used);
                last
            };
            Self::set_pair(parent, at, bounds, last);
        }
    }

    /// Takes the slot after `at`, the slots of whose leaf are in the leaf before it now, out of the parent. That leaf covers `min..=max`.
    ///
    /// # Safety
    ///
    /// As for [`spread`](Self::spread).
    #[inline(always)]
    unsafe fn unite(parent: Node<K, S>, at: usize, (min, max): (K, K)) {
        let gaps = parent.kind() == Kind::Gap;
        let old = if gaps {
            parent.gap(at).max(parent.gap(at + 1))
        } else {
            K::MIN
        };
        // SAFETY: nobody reads (the caller's promise).
        let above = unsafe { parent.write() };
        let bound = (at + 1 < parent.end()).then(|| parent.pivot(at + 1));
        above.shift(at + 2, at + 1);
        if let Some(bound) = bound {
            above.set_pivot(at, bound);
        }
        if gaps {
            let gap = largest_in_leaf(parent.child(at), min, max);
            parent.set_gap(at, gap);
            tell_change(parent, min, old, gap);
        }
    }
}

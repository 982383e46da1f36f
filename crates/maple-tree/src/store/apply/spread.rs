//! Spreading the slots of a leaf that is full over a neighbour, or over a new leaf after it; and joining a leaf that is nearly empty with a
//! neighbour. All in place.

use core::mem::MaybeUninit;

use crate::gap_upkeep::{largest_below, tell_ancestors};
use crate::key::Key;
use crate::node::{Kind, NULL, Node, NodeMut, Word};
use crate::reserve::Reserve;
use crate::shape::Shape;
use crate::store::quick::{Quick, Room};
use crate::walk::{Place, lower_bound, upper_bound};

/// Two nodes have no more slots, and a write adds two.
const MOST: usize = 2 * 32 + 2;

/// The slots of one or two leaves, in order.
struct Slots<K> {
    words: [MaybeUninit<Word>; MOST],
    lasts: [MaybeUninit<K>; MOST],
    count: usize,
}

impl<K: Key> Slots<K> {
    fn new() -> Self {
        Self {
            words: [const { MaybeUninit::uninit() }; MOST],
            lasts: [const { MaybeUninit::uninit() }; MOST],
            count: 0,
        }
    }

    #[inline]
    fn push(&mut self, word: Word, last: K) {
        self.words[self.count].write(word);
        self.lasts[self.count].write(last);
        self.count += 1;
    }

    /// Adds the slots `from..to` of a leaf that ends at `max`.
    #[inline]
    fn extend<S: Shape>(&mut self, leaf: Node<K, S>, from: usize, to: usize, max: K) {
        for i in from..to {
            self.push(leaf.slot(i), leaf.last(i, max));
        }
    }

    /// The last index of slot `i`, of which there are more.
    fn last(&self, i: usize) -> K {
        debug_assert!(i < self.count);
        // SAFETY: the first `count` were written by `push`.
        unsafe { self.lasts[i].assume_init() }
    }

    /// Makes the slots `from..to` those of a leaf that starts at `min`. Gives the size of its largest hole.
    fn give<S: Shape>(&self, from: usize, to: usize, leaf: NodeMut<K, S>, min: K) -> K {
        let used = to - from;
        let end = leaf.node().end();
        let pivots = leaf.node().capacity() - 1;
        let mut first = min;
        let mut largest = K::MIN;
        let pairs = self.words[from..to].iter().zip(&self.lasts[from..to]);
        for (i, (word, last)) in pairs.enumerate() {
            // SAFETY: the first `count` were written by `push`; `to` is not above it.
            let (word, last) = unsafe { (word.assume_init(), last.assume_init()) };
            leaf.set_slot(i, word);
            if i < pivots {
                leaf.set_pivot(i, if i + 1 < used { last } else { K::MAX });
            }
            if word.is_null() {
                largest = largest.max(K::span(first, last));
            }
            first = last.wrapping_add(K::ONE);
        }
        for i in used..=end {
            leaf.set_slot(i, NULL);
            if i < pivots {
                leaf.set_pivot(i, K::MAX);
            }
        }
        leaf.set_end(used - 1);
        largest
    }
}

impl<K: Key, S: Shape> Quick<K, S> {
    /// Makes the change in a leaf that has no room for it, or too few slots left. Gives the leaf that is not needed any more, if two
    /// have become one.
    ///
    /// # Safety
    ///
    /// The caller is the only writer, and nobody reads meanwhile.
    pub(super) unsafe fn spread(&self, inner: Kind, reserve: &mut Reserve) -> Option<Node<K, S>> {
        let Place { leaf, min, max } = self.place;
        let Some(parent) = leaf.parent(inner) else {
            debug_assert!(false, "a leaf that is the root has no neighbours");
            return None;
        };
        let at = parent.search(min);
        let mut slots = Slots::new();
        // The two leaves, where the first starts, and its place in the parent.
        let (left, right, start, i) = match self.room {
            Room::Before => {
                let before = parent.child(at - 1);
                let end = min.wrapping_sub(K::ONE);
                slots.extend(before, 0, before.used(), end);
                self.collect(&mut slots);
                (before, Some(leaf), lower_bound(before, end, inner), at - 1)
            }
            Room::After => {
                let after = parent.child(at + 1);
                let begin = max.wrapping_add(K::ONE);
                self.collect(&mut slots);
                slots.extend(after, 0, after.used(), upper_bound(after, begin, inner));
                (leaf, Some(after), min, at)
            }
            Room::Split(_) | Room::Here | Room::End => {
                self.collect(&mut slots);
                (leaf, None, min, at)
            }
        };
        let keep = match self.room {
            Room::Split(keep) => keep,
            _ if slots.count <= leaf.capacity() => slots.count,
            _ => slots.count - slots.count / 2,
        };
        // SAFETY: nobody reads (the caller's promise).
        let parent_mut = unsafe { parent.write() };
        if keep == slots.count {
            // SAFETY: as above.
            let gap = slots.give(0, keep, unsafe { left.write() }, start);
            let bound = (i + 1 < parent.end()).then(|| parent.pivot(i + 1));
            parent_mut.shift(i + 2, i + 1);
            if let Some(bound) = bound {
                parent_mut.set_pivot(i, bound);
            }
            if inner == Kind::Gap {
                parent.set_gap(i, gap);
                tell_ancestors(parent, start, largest_below(parent));
            }
            return right;
        }
        let right = match right {
            // SAFETY: as above.
            Some(right) => unsafe { right.write() },
            None => {
                let new = reserve.take::<K, S>(Kind::Leaf);
                new.node().set_parent(Some(parent));
                parent_mut.shift(i + 1, i + 2);
                parent_mut.set_slot(i + 1, new.node().word());
                // What the leaf covered is what the two cover.
                if i + 1 < parent.end() {
                    parent_mut.set_pivot(i + 1, parent.pivot(i));
                }
                new
            }
        };
        let middle = slots.last(keep - 1);
        // SAFETY: as above.
        let left_gap = slots.give(0, keep, unsafe { left.write() }, start);
        let right_gap = slots.give(keep, slots.count, right, middle.wrapping_add(K::ONE));
        parent_mut.set_pivot(i, middle);
        if inner == Kind::Gap {
            parent.set_gap(i, left_gap);
            parent.set_gap(i + 1, right_gap);
            tell_ancestors(parent, middle, largest_below(parent));
        }
        None
    }

    /// Collects the slots that there are to be.
    fn collect(&self, slots: &mut Slots<K>) {
        let Place { leaf, max, .. } = self.place;
        slots.extend(leaf, 0, self.from, max);
        if self.head {
            slots.push(leaf.slot(self.from), self.first.wrapping_sub(K::ONE));
        }
        slots.push(self.word, self.last);
        if self.tail {
            slots.push(leaf.slot(self.to), leaf.last(self.to, max));
        }
        slots.extend(leaf, self.to + 1, leaf.used(), max);
    }
}

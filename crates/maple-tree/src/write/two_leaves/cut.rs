//! Moving the boundary between two leaves, or two inner nodes: slots move from one to the other in
//! blocks.

use crate::base::{Key, Offset, Shape};
use crate::node::{Kind, Node, Unread, Word};

/// Two nodes of a level, with how many slots they have, of which the left one is to have `keep` of all: more than it has if `TO_LEFT`, else fewer. The right one may
/// have none.
pub(super) struct Cut<K, S, const TO_LEFT: bool> {
    pub(super) left: (Node<K, S>, usize),
    pub(super) right: (Node<K, S>, usize),
    pub(super) keep: usize,
    pub(super) unread: Unread,
}

impl<K: Key, S: Shape, const TO_LEFT: bool> Cut<K, S, TO_LEFT> {
    #[inline(always)]
    pub(super) fn new(
        left: (Node<K, S>, usize),
        right: (Node<K, S>, usize),
        keep: usize,
        unread: Unread,
    ) -> Self {
        Self {
            left,
            right,
            keep,
            unread,
        }
    }

    /// Copies the slots that go from the one to the other, which has room, and shows each (its place, its word, and its size if `min` is where the
    /// leaf begins that has it). The left one ends at `middle`. Gives where it is to end.
    #[inline(always)]
    pub(super) fn copy(&self, min: K, middle: K, mut look: impl FnMut(usize, Word, K)) -> K {
        let Self { keep, unread, .. } = *self;
        let ((left, in_left), (right, in_right)) = (self.left, self.right);
        debug_assert!(keep != in_left && TO_LEFT == (keep > in_left));
        let (giver, receiver, from, to, count) = if TO_LEFT {
            (right, left, 0, in_left, keep - in_left)
        } else {
            (left, right, keep, 0, in_left - keep)
        };
        let new = receiver.write(unread);
        let bound;
        if TO_LEFT {
            bound = giver.pivot(count - 1);
            new.set_pivot(in_left - 1, middle);
        } else {
            bound = giver.pivot(keep - 1);
            new.slide(0, count, in_right);
        }
        let mut first = giver.first(from, min);
        let mut put = |i: usize, last: K| {
            let word = giver.slot(from + i);
            new.set_slot(to + i, word);
            if giver.kind() == Kind::Gap {
                receiver.set_gap(to + i, giver.gap(from + i));
            }
            if !giver.is_leaf() {
                giver.child(from + i).set_parent(Some(receiver));
            }
            let next = last.wrapping_add(K::ONE);
            look(from + i, word, next.wrapping_sub(first));
            first = next;
        };
        for i in 0..count - 1 {
            let last = giver.pivot(from + i);
            new.set_pivot(to + i, last);
            put(i, last);
        }
        // The last slot of a leaf has no bound of its own.
        put(count - 1, if TO_LEFT { bound } else { middle });
        if TO_LEFT {
            new.set_end(keep - 1);
        } else {
            if in_right > 0 {
                new.set_pivot(count - 1, middle);
            }
            new.set_end(in_right + count - 1);
        }
        bound
    }

    /// [Copies](Self::copy) the slots, and [takes](Self::close) them from where they were.
    #[inline(always)]
    fn make(&self, middle: K) -> K {
        let bound = self.copy(K::MIN, middle, |_, _, _| {});
        self.close();
        bound
    }

    /// Takes what has been copied from the leaf that had it.
    #[inline(always)]
    pub(super) fn close(&self) {
        let ((left, in_left), (right, in_right)) = (self.left, self.right);
        let (node, from, to) = if TO_LEFT {
            (right, self.keep - in_left, 0)
        } else {
            (left, in_left, self.keep)
        };
        let new = node.write(self.unread);
        if !node.is_leaf() {
            new.shift(from, to);
        } else if TO_LEFT {
            new.close_up(from, 0, in_right - 1);
        } else {
            new.set_used(self.keep, in_left);
        }
    }
}

/// Cuts two nodes anew, and tells children that move: the left one, which ends at `middle`, is to have `keep` slots. Gives where it ends then.
pub(super) fn cut_anew<K: Key, S: Shape>(
    left: (Node<K, S>, usize),
    right: (Node<K, S>, usize),
    keep: usize,
    middle: K,
    unread: Unread,
) -> K {
    if keep > left.1 {
        Cut::<K, S, true>::new(left, right, keep, unread).make(middle)
    } else {
        Cut::<K, S, false>::new(left, right, keep, unread).make(middle)
    }
}

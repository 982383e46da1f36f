//! Moving slots between two adjacent leaves, or two adjacent inner nodes, by the block.

use crate::base::{Key, Offset, Shape};
use crate::node::{Kind, Node, Unread, Word};

/// Two adjacent nodes of a level, each with its number of slots. Of all slots, the left node will
/// have `keep`: more than now if `TO_LEFT`, else fewer. The right one may have none.
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

    /// Copies the moving slots to the receiver, which has room. Calls `look` with each: its index,
    /// its word, and its size. The sizes are valid if `min` is the first index of the giving leaf.
    /// The left node ends at `middle`. Returns its new end.
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
        // The last slot of a leaf has no pivot of its own.
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

    /// [Copies](Self::copy) the slots, and [removes](Self::close) them from the giver.
    #[inline(always)]
    fn make(&self, middle: K) -> K {
        let bound = self.copy(K::MIN, middle, |_, _, _| {});
        self.close();
        bound
    }

    /// Removes the copied slots from the node that had them.
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

/// Moves slots between two nodes, and sets the parent of moved children. The left one, which ends
/// at `middle`, will have `keep` slots. Returns its new end.
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

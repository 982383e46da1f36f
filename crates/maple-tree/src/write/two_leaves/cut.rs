//! Where two leaves are cut anew: slots move from one to the other by the block.

use crate::base::{Key, Shape};
use crate::node::{Node, Word};

/// Two leaves, of which the left one is to have `keep` slots of all that there are: more than it has if `TO_LEFT`, else fewer.
pub(super) struct Cut<K, S, const TO_LEFT: bool> {
    pub(super) left: Node<K, S>,
    pub(super) in_left: usize,
    pub(super) right: Node<K, S>,
    /// It may have none.
    in_right: usize,
    pub(super) keep: usize,
}

impl<K: Key, S: Shape, const TO_LEFT: bool> Cut<K, S, TO_LEFT> {
    #[inline(always)]
    pub(super) fn new(
        (left, in_left): (Node<K, S>, usize),
        (right, in_right): (Node<K, S>, usize),
        keep: usize,
    ) -> Self {
        debug_assert!(keep != in_left && TO_LEFT == (keep > in_left));
        Self {
            left,
            in_left,
            right,
            in_right,
            keep,
        }
    }

    /// Moves the slots. The left one ends at `middle`. Gives where it ends then.
    ///
    /// # Safety
    ///
    /// The caller is the only writer, and nobody reads meanwhile.
    pub(super) unsafe fn make(&self, middle: K) -> K {
        // SAFETY: the caller's promise.
        unsafe {
            let bound = self.copy(K::MIN, middle, |_, _, _| {});
            self.close();
            bound
        }
    }

    /// Copies the slots that go from the one to the other, which has room, and shows each (its place, its word, and its size if `min` is where the
    /// leaf begins that has it). The left one ends at `middle`. Gives where it is to end.
    ///
    /// # Safety
    ///
    /// As for [`make`](Self::make).
    #[inline(always)]
    pub(super) unsafe fn copy(&self, min: K, middle: K, mut look: impl FnMut(usize, Word, K)) -> K {
        let Self {
            left,
            in_left,
            right,
            in_right,
            keep,
        } = *self;
        let (giver, receiver, from, to, count) = if TO_LEFT {
            (right, left, 0, in_left, keep - in_left)
        } else {
            (left, right, keep, 0, in_left - keep)
        };
        // SAFETY: the caller's promise.
        let new = unsafe { receiver.write() };
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

    /// Takes what has been copied from the leaf that had it.
    ///
    /// # Safety
    ///
    /// As for [`make`](Self::make).
    #[inline(always)]
    pub(super) unsafe fn close(&self) {
        if TO_LEFT {
            let count = self.keep - self.in_left;
            // SAFETY: the caller's promise.
            let right = unsafe { self.right.write() };
            right.slide(count, 0, self.in_right - count);
            right.set_used(self.in_right - count, self.in_right);
        } else {
            // SAFETY: the caller's promise.
            unsafe { self.left.write() }.set_used(self.keep, self.in_left);
        }
    }
}

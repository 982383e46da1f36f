//! A change of a few slots of one leaf, made at once and without readers: it starts from a known
//! slot and takes the steps of any other write within one leaf.
//!
//! It makes the writes for which the leaf has room and keeps enough slots. Others are left to the
//! more general paths.

use crate::base::{Key, Shape};
use crate::node::{Geometry, RawTree, Unread, Word};
use crate::read::BoundedLeaf;
use crate::write::{Hint, Quick, Removed, SlotAt};

impl<K: Key, S: Shape> SlotAt<K, S> {
    /// Returns `true` if the range, which starts in the slot, is strictly within an entry.
    #[inline(always)]
    pub(crate) fn is_within(&self, first: K, last: K) -> bool {
        let found = self.found;
        found.first < first && last < found.last && !found.word.is_null()
    }

    /// Returns `true` if the leaf has room for two more slots.
    #[inline(always)]
    pub(crate) fn has_room_for_two(&self) -> bool {
        self.path.place.leaf.used() + 2 <= Geometry::<K, S>::SLOTS
    }

    /// Returns the write of `word` to a range strictly [within](Self::is_within) the entry, which
    /// remains on both sides. The leaf has [room](Self::has_room_for_two).
    #[inline(always)]
    pub(crate) fn split(self, (first, last): (K, K), word: Word) -> Quick<K, S> {
        debug_assert!(self.is_within(first, last) && self.has_room_for_two());
        let Self { path, slot, .. } = self;
        Quick {
            head: true,
            tail: true,
            total: path.place.leaf.used() + 2,
            ..Quick::over(path, (slot, slot), (first, last), word)
        }
    }
}

impl<K: Key, S: Shape> RawTree<K, S> {
    /// Stores `word` (NULL erases) at `first..=last`, if the range is within the leaf, and the leaf
    /// has room and keeps enough slots. The range begins in the slot `hint` or in the one before.
    /// Returns `true` if it did; `removed` then has the covered entries. Otherwise nothing has
    /// changed.
    ///
    /// If the range splits an entry, the part above gets the word `twin`. Otherwise `twin` is NULL.
    /// The tree must not have changed since `hint` was found.
    #[inline(never)]
    pub(crate) fn store_here(
        &self,
        hint: &Hint<K, S>,
        range: (K, K),
        words: (Word, Word),
        removed: &mut Removed<K>,
        unread: Unread,
    ) -> bool {
        self.store_here_inline(hint, range, words, removed, unread)
    }

    /// Does what [`store_here`](Self::store_here) does, inlined into its caller.
    #[inline(always)]
    pub(crate) fn store_here_inline(
        &self,
        hint: &Hint<K, S>,
        (first, last): (K, K),
        (word, twin): (Word, Word),
        removed: &mut Removed<K>,
        unread: Unread,
    ) -> bool {
        let path = hint.path();
        let BoundedLeaf { leaf, min, max } = path.place;
        if last > max {
            return false;
        }
        let mut from = hint.slot();
        if first < leaf.first(from, min) {
            if from == 0 || first < leaf.first(from - 1, min) {
                return false;
            }
            from -= 1;
        }
        let end = leaf.end();
        let mut to = from;
        while to < end && leaf.pivot(to) < last {
            to += 1;
        }
        let Some((quick, (false, false))) = Quick::of_slots(path, (from, to), (first, last), word)
        else {
            return false;
        };
        if !quick.fits() || !quick.keeps_enough() || quick.splits() == twin.is_null() {
            return false;
        }
        let holes = quick.look(|found| removed.record(found));
        quick.edit_with(leaf.write(unread), twin);
        quick.propagate(leaf, holes);
        true
    }
}

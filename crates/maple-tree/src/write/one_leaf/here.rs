//! A change of a few slots of one leaf, made at once where nobody reads: from a slot that is known, by the steps of any other write within one leaf.
//!
//! It makes the writes for which the leaf has room and keeps enough. What concerns more is left as it is, for the ways that look further.

use crate::base::{Key, Shape};
use crate::node::{Geometry, RawTree, Word};
use crate::read::Place;
use crate::write::Quick;
use crate::write::apply::Removed;
use crate::write::one_slot::SlotAt;
use crate::write::seat::Seat;

impl<K: Key, S: Shape> SlotAt<K, S> {
    /// Whether the range, which starts in the slot, is within an entry, which goes on at both ends of it.
    #[inline(always)]
    pub(crate) fn is_within(&self, first: K, last: K) -> bool {
        let found = self.found;
        found.first < first && last < found.last && !found.word.is_null()
    }

    /// Whether the leaf has room for two slots more.
    #[inline(always)]
    pub(crate) fn has_room_for_two(&self) -> bool {
        self.spot.place.leaf.used() + 2 <= Geometry::<K, S>::SLOTS
    }
}

impl<K: Key, S: Shape> RawTree<K, S> {
    /// Makes `first..=last`, which begin in the slot `seat` or in the one before, hold `word` (NULL erases), if they are within the leaf, that has room and
    /// keeps enough, and nobody reads. Tells whether that is so; if not, nothing has changed. The entries that it covers are in `removed` then.
    ///
    /// Of an entry that goes on at both ends the part above gets the word `twin`, which is NULL otherwise.
    ///
    /// # Safety
    ///
    /// * The caller is the only writer, and the tree has not changed since `seat` was found.
    /// * Unless the tree is in RCU mode, nobody reads it meanwhile.
    /// * The words may stand in this tree.
    #[inline(never)]
    pub(crate) unsafe fn store_here(
        &self,
        seat: &Seat<K, S>,
        (first, last): (K, K),
        word: Word,
        twin: Word,
        removed: &mut Removed<K>,
    ) -> bool {
        // SAFETY: the caller's promise.
        let unread = unsafe { self.unread() };
        let spot = seat.spot();
        let Place { leaf, min, max } = spot.place;
        let Some(unread) = unread.filter(|_| last <= max) else {
            return false;
        };
        let mut from = seat.slot;
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
        let Some((quick, (false, false))) = Quick::of_slots(spot, (from, to), (first, last), word)
        else {
            return false;
        };
        if !quick.fits() || !quick.keeps_enough() || quick.splits() == twin.is_null() {
            return false;
        }
        let holes = quick.look(removed);
        quick.edit_with(leaf.write(unread), twin);
        quick.tell(leaf, holes);
        true
    }
}

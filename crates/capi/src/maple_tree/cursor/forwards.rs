//! Moves upwards from slot to slot: within the current leaf, into the next one, or through the
//! root.

use maple_tree::raw::Slot;

use super::NULL;
use crate::maple_tree::abi::{MaState, Status};

impl MaState {
    /// Moves from `at` to the next entry (with `holes`: the next slot) that starts at or below
    /// `limit`.
    ///
    /// # Safety
    ///
    /// As for [`seek`](MaState::seek).
    unsafe fn advance(&mut self, at: Slot, limit: usize, holes: bool) -> *mut () {
        let mut at = at;
        loop {
            if at.place.leaf.is_null() {
                // Nothing is after the only entry, or in an empty tree.
                self.index = usize::from((at.first, at.last) != (0, usize::MAX));
                self.last = usize::MAX;
                self.reset_position(Status::NONE);
                return NULL;
            }
            if at.last >= limit {
                self.status = Status::OVERFLOW;
                return NULL;
            }
            // SAFETY: the caller's promise. The slot ends below the limit, so that it has a
            // successor.
            at = unsafe { self.seek(at.last + 1) };
            self.set_slot(&at);
            if holes || !at.entry.is_null() {
                return at.entry;
            }
        }
    }

    /// Moves within the leaf, from the state's slot, to the next entry (with `holes`: the next
    /// slot) that starts at or below `limit`. Returns `None`, and changes nothing, if that takes
    /// more than a look at the next two slots.
    ///
    /// A state continues from its slot if the slot ends where the state does. The state must look
    /// up its slot again if it was stored through, if its range was set to a part of its slot, or
    /// if its leaf was changed in place through another state.
    ///
    /// # Safety
    ///
    /// As for [`seek`](MaState::seek). The state is active and [current](MaState::is_current).
    #[inline(always)]
    pub(super) unsafe fn advance_here(&mut self, limit: usize, holes: bool) -> Option<*mut ()> {
        // SAFETY: no leaf has been moved since this one, if any, was looked up. The rest is the
        // caller's promise.
        let next = unsafe {
            let words = &self.tree().words;
            words.after_amid(self.in_leaf(), self.last, limit, holes)
        }?;
        self.step_to(&next);
        Some(next.entry)
    }

    /// As [`advance_here`](MaState::advance_here), up to the end of the leaf, and from any status.
    /// Returns NULL and sets [overflow](Status::OVERFLOW) if there is no such entry. Returns `None`
    /// if the leaf does not decide it: then the state is on the last slot that was examined.
    ///
    /// # Safety
    ///
    /// As for [`seek`](MaState::seek).
    #[inline(always)]
    unsafe fn advance_in_leaf(&mut self, limit: usize, holes: bool) -> Option<*mut ()> {
        // SAFETY: the caller's promise.
        let tree = unsafe { self.tree() };
        if !self.has_current_leaf(tree) {
            return None;
        }
        // SAFETY: no leaf has been moved since this one was looked up. The rest is the caller's
        // promise.
        let next = unsafe {
            tree.words
                .beside::<true>(self.in_leaf(), self.last, limit, holes)
        }?;
        self.step_to(&next);
        self.status = Status::ACTIVE;
        if next.entry.is_null() && !holes {
            if next.last < limit {
                return None;
            }
            self.status = Status::OVERFLOW;
        }
        Some(next.entry)
    }

    /// As [`advance_in_leaf`](MaState::advance_in_leaf), in the next leaf, if the state's slot is
    /// the last one of its own leaf.
    ///
    /// # Safety
    ///
    /// As for [`seek`](MaState::seek).
    #[inline(always)]
    unsafe fn advance_into_next(&mut self, limit: usize, holes: bool) -> Option<*mut ()> {
        // SAFETY: the caller's promise.
        unsafe {
            if !self.ends_leaf() {
                return None;
            }
            let tree = self.tree();
            // A state that moves to the next leaf will most likely move to those after it.
            let (next, depth) = tree.words.next_leaf::<true>(self.in_leaf(), self.depth)?;
            self.enter(next.place, self.store_type);
            self.end = next.place.end();
            self.depth = depth;
            self.index = next.first;
            self.last = next.last;
            self.status = Status::ACTIVE;
            if next.entry.is_null() && !holes {
                if next.last < limit {
                    return self.advance_in_leaf(limit, false);
                }
                self.status = Status::OVERFLOW;
            }
            Some(next.entry)
        }
    }

    /// As [`advance_in_leaf`](MaState::advance_in_leaf), in the whole tree. With `FIND` a state
    /// that meets its limit stays active, unless `holes` is set.
    ///
    /// # Safety
    ///
    /// As for [`seek`](MaState::seek).
    #[inline(never)]
    pub(super) unsafe fn advance_from_here<const FIND: bool>(
        &mut self,
        limit: usize,
        holes: bool,
    ) -> *mut () {
        // SAFETY: the caller's promise.
        let entry = unsafe {
            if self.last < limit
                && let Some(entry) = self
                    .advance_in_leaf(limit, holes)
                    .or_else(|| self.advance_into_next(limit, holes))
            {
                entry
            } else {
                self.advance_far(limit, holes)
            }
        };
        if FIND && !holes && self.status == Status::OVERFLOW {
            self.status = Status::ACTIVE;
        }
        entry
    }

    /// As [`advance_from_here`](MaState::advance_from_here), through the root.
    ///
    /// # Safety
    ///
    /// As for [`seek`](MaState::seek).
    #[inline(never)]
    unsafe fn advance_far(&mut self, limit: usize, holes: bool) -> *mut () {
        // SAFETY: the caller's promise.
        unsafe {
            let next = if self.last < limit && self.ends_leaf() {
                // As in `advance_into_next`.
                let (next, depth) = self.tree().words.seek_along::<true>(self.last + 1);
                self.remember(&next, self.store_type);
                self.depth = depth;
                self.set_slot(&next);
                if holes || !next.entry.is_null() {
                    return next.entry;
                }
                next
            } else {
                // If a writer has split the state's range, a reader must not meet its upper parts
                // again.
                self.seek(self.last)
            };
            self.advance(next, limit, holes)
        }
    }
}

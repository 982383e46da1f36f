//! From slot to slot upwards: within the leaf at hand, into the next one, or by way of the root.

use maple_tree::raw::Slot;

use super::NULL;
use crate::maple_tree::abi::{MaState, Status};

impl MaState {
    /// From `at` to the next entry (with `holes`: the next slot) that starts at or below `limit`.
    ///
    /// # Safety
    ///
    /// As for [`seek`](MaState::seek).
    unsafe fn advance(&mut self, at: Slot, limit: usize, holes: bool) -> *mut () {
        let mut at = at;
        loop {
            if at.place.leaf.is_null() {
                // Behind the only entry, if there is one, there is nothing.
                self.index = usize::from((at.first, at.last) != (0, usize::MAX));
                self.last = usize::MAX;
                self.reset_position(Status::NONE);
                return NULL;
            }
            if at.last >= limit {
                self.status = Status::OVERFLOW;
                return NULL;
            }
            // SAFETY: the caller's promise. The slot ends below the limit, so that an index follows.
            at = unsafe { self.seek(at.last + 1) };
            self.set_slot(&at);
            if holes || !at.entry.is_null() {
                return at.entry;
            }
        }
    }

    /// Within its leaf, from the slot that the state stands on, to the next entry (with `holes`: the next slot) that starts at or below `limit`. `None` if that takes more than a look at the next two slots; then nothing has changed.
    ///
    /// A state goes on from the slot that it was in if that ends where the state does. One that was stored through, or whose range was set to a
    /// part of its slot, or whose leaf was changed in place by way of another state, has to look again.
    ///
    /// # Safety
    ///
    /// As for [`seek`](MaState::seek); the state is active, and [has seen all changes](MaState::is_current).
    #[inline(always)]
    pub(super) unsafe fn advance_here(&mut self, limit: usize, holes: bool) -> Option<*mut ()> {
        // SAFETY: no leaf has been moved since this one was looked up, if any, and the caller's promise.
        let next = unsafe {
            let words = &self.tree().words;
            words.after_amid(self.in_leaf(), self.last, limit, holes)
        }?;
        self.step_to(&next);
        Some(next.entry)
    }

    /// As [`advance_here`](MaState::advance_here), as far as the leaf goes, and from any status; NULL and [overflow](Status::OVERFLOW) if there is
    /// no such entry. `None` if that cannot be told from the leaf: the state stands on the last slot that could be.
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
        // SAFETY: no leaf has been moved since this one was looked up, and the caller's promise.
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

    /// As [`advance_in_leaf`](MaState::advance_in_leaf), in the next leaf, where the state's slot is the last one of its own.
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
            // Whoever goes on to the next leaf will most likely go on to those after it.
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

    /// As [`advance_in_leaf`](MaState::advance_in_leaf), in the whole tree. With `FIND` a state that meets its limit keeps active, unless holes were asked for.
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

    /// [`advance_from_here`](MaState::advance_from_here) by way of the root.
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
                // If a writer has divided the range that the state is on, a reader does not meet its upper parts again.
                self.seek(self.last)
            };
            self.advance(next, limit, holes)
        }
    }
}

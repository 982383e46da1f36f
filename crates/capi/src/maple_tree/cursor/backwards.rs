//! Moves downwards from slot to slot: within the current leaf, through the leaf before it, or
//! through the root.

use maple_tree::raw::Slot;

use super::NULL;
use crate::maple_tree::abi::{MaState, Status};

impl MaState {
    /// Moves from `at` to the entry (with `holes`: the slot) before it that ends at or above
    /// `limit`.
    ///
    /// # Safety
    ///
    /// As for [`seek`](MaState::seek).
    unsafe fn retreat(&mut self, at: Slot, limit: usize, holes: bool) -> *mut () {
        let mut at = at;
        loop {
            if at.place.leaf.is_null() && at.first == 0 {
                // Nothing is before the only entry, or in an empty tree.
                self.set_slot(&at);
                self.reset_position(Status::NONE);
                return NULL;
            }
            if at.first <= limit {
                self.status = Status::UNDERFLOW;
                return NULL;
            }
            // SAFETY: the caller's promise. The slot starts above the limit, so that it has a
            // predecessor.
            at = unsafe { self.seek(at.first - 1) };
            self.set_slot(&at);
            if holes || !at.entry.is_null() {
                return at.entry;
            }
        }
    }

    /// Moves within the leaf, from the state's slot, which starts above `limit`, to the entry (with
    /// `holes`: the slot) before it that ends at or above `limit`. Returns NULL and sets
    /// [underflow](Status::UNDERFLOW) if there is none. Returns `None` in the cases of
    /// [`advance_here`](MaState::advance_here).
    ///
    /// # Safety
    ///
    /// As for [`seek`](MaState::seek).
    #[inline(always)]
    pub(super) unsafe fn retreat_here(&mut self, limit: usize, holes: bool) -> Option<*mut ()> {
        // SAFETY: the caller's promise.
        let tree = unsafe { self.tree() };
        if !self.has_current_leaf(tree) {
            return None;
        }
        // SAFETY: as in `advance_here`.
        let before = unsafe {
            tree.words
                .beside::<false>(self.in_leaf(), self.index, limit, holes)
        }?;
        self.step_to(&before);
        if before.entry.is_null() && !holes {
            if before.first > limit {
                return None;
            }
            self.status = Status::UNDERFLOW;
        }
        Some(before.entry)
    }

    /// As [`retreat_here`](MaState::retreat_here), in the whole tree.
    ///
    /// # Safety
    ///
    /// As for [`seek`](MaState::seek).
    #[inline(never)]
    pub(super) unsafe fn retreat_from_here(&mut self, limit: usize, holes: bool) -> *mut () {
        // SAFETY: the caller's promise.
        unsafe {
            let tree = self.tree();
            let begins_here = self.index == self.min
                && self.has_current_leaf(tree)
                && !self.in_leaf().is_replaced();
            let before = if begins_here && self.index > limit {
                // As in `advance_from_here`.
                let (before, depth) = tree
                    .words
                    .next_leaf::<false>(self.in_leaf(), self.depth)
                    .unwrap_or_else(|| tree.words.seek_along::<false>(self.index - 1));
                self.remember(&before, self.store_type);
                self.depth = depth;
                self.set_slot(&before);
                if holes || !before.entry.is_null() {
                    return before.entry;
                }
                before
            } else {
                self.seek(self.index)
            };
            self.retreat(before, limit, holes)
        }
    }
}

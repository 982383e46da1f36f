//! Moves of a state through a tree: where each operation continues from each status.
//!
//! A state is on one slot, or next to it. The moves are [`walk`](MaState::walk) (to the slot that
//! covers `index`), [`advance`](MaState::advance) and [`retreat`](MaState::retreat) (from slot to
//! slot up to a limit). The operations differ in where they begin:
//!
//! | status | `next`, `next_range` | `find`, `find_range` | `prev`, `prev_range` | `find_rev`, … |
//! |---|---|---|---|---|
//! | start | after the slot at `index` | from `index` on | before that slot | from `index` down |
//! | pause | likewise | from `last + 1` on | likewise | from `index - 1` down |
//! | none | likewise | from `last` on | likewise | from `index` down |
//! | active | after its slot | after its slot | before its slot | before its slot |
//! | overflow (after its slot) | after its slot | after its slot | its slot, if it has an entry | likewise |
//! | underflow (before its slot) | its slot, if it has an entry | likewise | before its slot | before its slot |
//! | root (entry 0 of a tree without nodes) | none | none | none | none |
//! | error | nothing | nothing | nothing | nothing |
//!
//! `index` and `last` become the range of the slot on which a move ended, entry or gap. A move that
//! meets its limit ends as overflow or underflow. Only `find` stays active then, so that a search
//! for the last entry leaves a state that can continue. In a tree without nodes, a state is root on
//! the entry at index 0. It is none on the gap, which is `1..=MAX`, or everything.

mod backwards;
mod forwards;
mod operations;

use core::ptr;

use maple_tree::raw::{InLeaf, NO_SLOT, Slot};

use crate::maple_tree::abi::{MaState, MapleTree, Status, error_word};

const NULL: *mut () = ptr::null_mut();

impl MaState {
    /// Creates a state for `first..=last`.
    pub(crate) fn at(tree: *const MapleTree, first: usize, last: usize) -> Self {
        Self {
            tree,
            index: first,
            last,
            node: NULL,
            min: 0,
            max: usize::MAX,
            alloc: NULL,
            status: Status::START,
            depth: 0,
            offset: 0,
            mas_flags: 0,
            end: 0,
            store_type: 0,
        }
    }

    /// Forgets the position.
    pub(crate) fn reset_position(&mut self, status: Status) {
        self.status = status;
        self.node = NULL;
        self.offset = NO_SLOT;
    }

    /// Sets the state to an error.
    pub(crate) fn fail(&mut self, errno: core::ffi::c_int) {
        self.status = Status::ERROR;
        self.node = error_word(errno);
    }

    /// Returns the tree.
    ///
    /// # Safety
    ///
    /// The state's tree is valid for `'a`.
    pub(crate) unsafe fn tree<'a>(&self) -> &'a MapleTree {
        // SAFETY: the caller's promise.
        unsafe { &*self.tree }
    }

    /// Looks up the slot that covers `key`, in the current leaf if that covers it, and remembers
    /// its leaf.
    ///
    /// # Safety
    ///
    /// Nodes are protected from being freed: see the module `maple_tree`.
    pub(crate) unsafe fn seek(&mut self, key: usize) -> Slot {
        // SAFETY: the caller's promise.
        let tree = unsafe { self.tree() };
        let changes = tree.ma_lock.changes();
        let known = if self.leaf_covers(tree, key) {
            // SAFETY: no leaf has been moved since this one was looked up. The rest is the caller's
            // promise.
            unsafe { tree.words.seek_in(self.in_leaf(), key) }
        } else {
            None
        };
        // SAFETY: the caller's promise.
        let slot = known.unwrap_or_else(|| unsafe { tree.words.seek(key) });
        // SAFETY: as above.
        unsafe { self.remember(&slot, changes) };
        slot
    }

    /// Remembers the position of a slot, and the number of changes before it was looked up.
    #[inline(always)]
    pub(crate) fn enter(&mut self, slot: InLeaf, changes: u32) {
        self.node = slot.leaf;
        self.min = slot.min;
        self.max = slot.max;
        self.offset = slot.offset;
        self.store_type = changes;
    }

    /// [Enters](MaState::enter) a slot that was just looked up, and remembers the end of its leaf.
    ///
    /// # Safety
    ///
    /// As for [`seek`](MaState::seek).
    #[inline(always)]
    unsafe fn remember(&mut self, slot: &Slot, changes: u32) {
        self.enter(slot.place, changes);
        self.end = if slot.place.leaf.is_null() {
            0
        } else {
            // SAFETY: the caller's promise.
            unsafe { slot.place.end() }
        };
    }

    /// Moves to another slot of the current leaf.
    #[inline(always)]
    fn step_to(&mut self, slot: &Slot) {
        self.index = slot.first;
        self.last = slot.last;
        self.offset = slot.place.offset;
    }

    /// Sets range and status to those of a slot, and returns its entry.
    pub(crate) fn set_slot(&mut self, slot: &Slot) -> *mut () {
        self.index = slot.first;
        self.last = slot.last;
        self.status = if !slot.place.leaf.is_null() {
            Status::ACTIVE
        } else if !slot.entry.is_null() {
            Status::ROOT
        } else {
            Status::NONE
        };
        slot.entry
    }

    /// Moves to the slot that covers `index`, and returns its entry.
    ///
    /// # Safety
    ///
    /// As for [`seek`](MaState::seek).
    pub(crate) unsafe fn walk(&mut self) -> *mut () {
        // SAFETY: the caller's promise.
        let slot = unsafe { self.seek(self.index) };
        self.set_slot(&slot)
    }

    /// Returns `true` if no leaf has been moved since the state's last look-up.
    ///
    /// Then the state's leaf, if any, is still in the tree with the same bounds, for a writer. For
    /// a reader it may be retired.
    ///
    /// An active state that is in no leaf, or has no slot in its leaf, is at [`NO_SLOT`].
    #[inline(always)]
    pub(crate) fn is_current(&self, tree: &MapleTree) -> bool {
        self.store_type == tree.ma_lock.changes()
    }

    /// Returns `true` if the state was in a leaf at its last look-up, and is
    /// [current](MaState::is_current).
    #[inline(always)]
    pub(crate) fn has_current_leaf(&self, tree: &MapleTree) -> bool {
        !self.node.is_null() && self.is_current(tree)
    }

    /// Returns `true` if that leaf covers `key`.
    #[inline(always)]
    pub(crate) fn leaf_covers(&self, tree: &MapleTree, key: usize) -> bool {
        matches!(
            self.status,
            Status::ACTIVE | Status::OVERFLOW | Status::UNDERFLOW
        ) && self.has_current_leaf(tree)
            && self.min <= key
            && key <= self.max
    }

    /// Returns `true` if the state is on the last slot of its leaf, and the leaf is still in the
    /// tree.
    ///
    /// # Safety
    ///
    /// As for [`seek`](MaState::seek).
    #[inline(always)]
    unsafe fn ends_leaf(&self) -> bool {
        // SAFETY: the caller's promise. A remembered leaf came from a look-up.
        unsafe {
            self.last == self.max
                && self.has_current_leaf(self.tree())
                && !self.in_leaf().is_replaced()
        }
    }
}

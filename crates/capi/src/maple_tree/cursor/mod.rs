//! Moving a state through a tree: how each operation goes on from each status.
//!
//! A state always stands on one slot, or beside it. The moves are [`walk`](MaState::walk) (to the slot that covers
//! `index`), [`advance`](MaState::advance) and [`retreat`](MaState::retreat) (from slot to slot up to a limit); the
//! operations differ in where they begin:
//!
//! | status | `next`, `next_range` | `find`, `find_range` | `prev`, `prev_range` | `find_rev`, … |
//! |---|---|---|---|---|
//! | start | after the slot at `index` | from `index` on | before that slot | from `index` down |
//! | pause | likewise | from `last + 1` on | likewise | from `index - 1` down |
//! | none | likewise | from `last` on | likewise | from `index` down |
//! | active | after its slot | after its slot | before its slot | before its slot |
//! | overflow (behind its slot) | after its slot | after its slot | its slot, if it has an entry | likewise |
//! | underflow (ahead of its slot) | its slot, if it has an entry | likewise | before its slot | before its slot |
//! | root (entry 0 of a tree without nodes) | none | none | none | none |
//! | error | nothing | nothing | nothing | nothing |
//!
//! `index` and `last` become the range of the slot that a move ended on, entry or hole. A move that meets its limit ends as
//! overflow or underflow; `find` alone keeps active then, so that looking for the last entry leaves a state that goes on.
//! In a tree without nodes a state is root on the entry at index 0 and none on the hole, which is `1..=MAX`, or all.

mod backwards;
mod forwards;
mod operations;

use core::ptr;

use maple_tree::raw::{InLeaf, NO_SLOT, Slot};

use crate::maple_tree::abi::{MaState, MapleTree, Status, error_word};

const NULL: *mut () = ptr::null_mut();

impl MaState {
    /// A state about `first..=last`.
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

    /// Notes an error.
    pub(crate) fn fail(&mut self, errno: core::ffi::c_int) {
        self.status = Status::ERROR;
        self.node = error_word(errno);
    }

    /// The tree.
    ///
    /// # Safety
    ///
    /// The state's tree is valid for `'a`.
    pub(crate) unsafe fn tree<'a>(&self) -> &'a MapleTree {
        // SAFETY: the caller's promise.
        unsafe { &*self.tree }
    }

    /// Looks up the slot that covers `key`, in the leaf at hand if that has it, and has_current_leaf its leaf.
    ///
    /// # Safety
    ///
    /// Nodes are protected from being freed: see the module `maple_tree`.
    pub(crate) unsafe fn seek(&mut self, key: usize) -> Slot {
        // SAFETY: the caller's promise.
        let tree = unsafe { self.tree() };
        let changes = tree.ma_lock.changes();
        let known = if self.leaf_covers(tree, key) {
            // SAFETY: no leaf has been moved since this one was looked up, and the caller's promise.
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

    /// Remembers where a slot is, and how many changes there had been before it was looked up.
    #[inline(always)]
    pub(crate) fn enter(&mut self, slot: InLeaf, changes: u32) {
        self.node = slot.leaf;
        self.min = slot.min;
        self.max = slot.max;
        self.offset = slot.offset;
        self.store_type = changes;
    }

    /// [Enters](MaState::enter) a slot that was just looked up, and notes where its leaf ends.
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

    /// Goes to another slot of the leaf at hand.
    #[inline(always)]
    fn step_to(&mut self, slot: &Slot) {
        self.index = slot.first;
        self.last = slot.last;
        self.offset = slot.place.offset;
    }

    /// Stands on a slot.
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

    /// To the slot that covers `index`.
    ///
    /// # Safety
    ///
    /// As for [`seek`](MaState::seek).
    pub(crate) unsafe fn walk(&mut self) -> *mut () {
        // SAFETY: the caller's promise.
        let slot = unsafe { self.seek(self.index) };
        self.set_slot(&slot)
    }

    /// Whether no leaf has been moved since the state last looked. Then the leaf that it was in, if any, is still in the tree, with the bounds that it
    /// had, as far as a writer is concerned; to a reader it may be dead.
    ///
    /// An active state that is in no leaf, or does not know where in its leaf, is at [`NO_SLOT`].
    #[inline(always)]
    pub(crate) fn is_current(&self, tree: &MapleTree) -> bool {
        self.store_type == tree.ma_lock.changes()
    }

    /// Whether the state was in a leaf when it last looked, and [has seen all changes](MaState::is_current).
    #[inline(always)]
    pub(crate) fn has_current_leaf(&self, tree: &MapleTree) -> bool {
        !self.node.is_null() && self.is_current(tree)
    }

    /// Whether that leaf is the one that covers `key`.
    #[inline(always)]
    pub(crate) fn leaf_covers(&self, tree: &MapleTree, key: usize) -> bool {
        matches!(
            self.status,
            Status::ACTIVE | Status::OVERFLOW | Status::UNDERFLOW
        ) && self.has_current_leaf(tree)
            && self.min <= key
            && key <= self.max
    }

    /// Whether the state stands on the last slot of its leaf, and that is still in the tree.
    ///
    /// # Safety
    ///
    /// As for [`seek`](MaState::seek).
    #[inline(always)]
    unsafe fn ends_leaf(&self) -> bool {
        // SAFETY: the caller's promise; a leaf that is remembered came from a look-up.
        unsafe {
            self.last == self.max
                && self.has_current_leaf(self.tree())
                && !self.in_leaf().is_replaced()
        }
    }
}

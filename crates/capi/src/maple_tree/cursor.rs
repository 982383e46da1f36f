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

use core::ptr;

use maple_tree::raw::{Home, NO_SLOT, Slot, WordTree};

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
    pub(crate) fn forget(&mut self, status: Status) {
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

    /// Looks up the slot that covers `key`, in the leaf at hand if that has it, and remembers its leaf.
    ///
    /// # Safety
    ///
    /// Nodes are protected from being freed: see the module `maple_tree`.
    pub(crate) unsafe fn seek(&mut self, key: usize) -> Slot {
        // SAFETY: the caller's promise.
        let tree = unsafe { self.tree() };
        let changes = tree.ma_lock.changes();
        let known = if self.knows_leaf_of(tree, key) {
            // SAFETY: no leaf has been moved since this one was looked up, and the caller's promise.
            unsafe { tree.words.seek_in(self.node, self.min, self.max, key) }
        } else {
            None
        };
        // SAFETY: the caller's promise.
        let slot = known.unwrap_or_else(|| unsafe { tree.words.seek(key) });
        self.remember(&slot, changes);
        slot
    }

    /// Remembers a slot's leaf, and how many changes there had been before it was looked up.
    #[inline(always)]
    fn remember(&mut self, slot: &Slot, changes: u32) {
        self.node = slot.leaf;
        self.min = slot.min;
        self.max = slot.max;
        self.offset = slot.offset;
        self.end = slot.end;
        self.store_type = changes;
    }

    /// Stands on a slot.
    pub(crate) fn stand_on(&mut self, slot: &Slot) -> *mut () {
        self.index = slot.first;
        self.last = slot.last;
        self.status = match slot.home {
            Home::Leaf => Status::ACTIVE,
            Home::Root if slot.first == 0 => Status::ROOT,
            Home::Root | Home::Empty => Status::NONE,
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
        self.stand_on(&slot)
    }

    /// From `at` to the next entry (with `holes`: the next slot) that starts at or below `limit`.
    ///
    /// # Safety
    ///
    /// As for [`seek`](MaState::seek).
    unsafe fn advance(&mut self, at: Slot, limit: usize, holes: bool) -> *mut () {
        let mut at = at;
        loop {
            if at.home != Home::Leaf {
                // Behind the only entry, if there is one, there is nothing.
                self.index = usize::from(at.home == Home::Root);
                self.last = usize::MAX;
                self.forget(Status::NONE);
                return NULL;
            }
            if at.last >= limit {
                self.status = Status::OVERFLOW;
                return NULL;
            }
            // SAFETY: the caller's promise. The slot ends below the limit, so that an index follows.
            at = unsafe { self.seek(at.last + 1) };
            self.stand_on(&at);
            if holes || !at.entry.is_null() {
                return at.entry;
            }
        }
    }

    /// From `at` to the entry (with `holes`: the slot) before it that ends at or above `limit`.
    ///
    /// # Safety
    ///
    /// As for [`seek`](MaState::seek).
    unsafe fn retreat(&mut self, at: Slot, limit: usize, holes: bool) -> *mut () {
        let mut at = at;
        loop {
            if at.home != Home::Leaf && at.first == 0 {
                // Before the only entry, or in a tree without, there is nothing.
                self.stand_on(&at);
                self.forget(Status::NONE);
                return NULL;
            }
            if at.first <= limit {
                self.status = Status::UNDERFLOW;
                return NULL;
            }
            // SAFETY: the caller's promise. The slot starts above the limit, so that an index precedes.
            at = unsafe { self.seek(at.first - 1) };
            self.stand_on(&at);
            if holes || !at.entry.is_null() {
                return at.entry;
            }
        }
    }

    /// Whether no leaf has been moved since the state last looked. Then the leaf that it was in, if any, is still in the tree, with the bounds that it
    /// had, as far as a writer is concerned; to a reader it may be dead.
    ///
    /// An active state that is in no leaf, or does not know where in its leaf, is at [`NO_SLOT`].
    #[inline(always)]
    pub(crate) fn has_seen_all(&self, tree: &MapleTree) -> bool {
        self.store_type == tree.ma_lock.changes()
    }

    /// Whether the state was in a leaf when it last looked, and [has seen all changes](MaState::has_seen_all).
    #[inline(always)]
    pub(crate) fn remembers(&self, tree: &MapleTree) -> bool {
        !self.node.is_null() && self.has_seen_all(tree)
    }

    /// Whether that leaf is the one that covers `key`.
    #[inline(always)]
    pub(crate) fn knows_leaf_of(&self, tree: &MapleTree, key: usize) -> bool {
        matches!(
            self.status,
            Status::ACTIVE | Status::OVERFLOW | Status::UNDERFLOW
        ) && self.remembers(tree)
            && self.min <= key
            && key <= self.max
    }

    /// Within its leaf, from the slot that the state stands on, to the next entry (with `holes`: the next slot) that starts at or below `limit`. `None` if that takes more than a look at the next two slots; then nothing has changed.
    ///
    /// A state goes on from the slot that it was in if that ends where the state does. One that was stored through, or whose range was set to a
    /// part of its slot, or whose leaf was changed in place by way of another state, has to look again.
    ///
    /// # Safety
    ///
    /// As for [`seek`](MaState::seek); the state is active, and [has seen all changes](MaState::has_seen_all).
    #[inline(always)]
    unsafe fn advance_here(&mut self, limit: usize, holes: bool) -> Option<*mut ()> {
        let (leaf, slot) = ((self.node, self.max), (self.offset, self.last));
        // SAFETY: no leaf has been moved since this one was looked up, if any, and the caller's promise.
        let next = unsafe { self.tree().words.after_amid(leaf, slot, limit, holes) }?;
        self.index = next.first;
        self.last = next.last;
        self.offset = next.offset;
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
        if !self.remembers(tree) {
            return None;
        }
        let (leaf, slot) = ((self.node, self.max), (self.offset, self.last));
        // SAFETY: no leaf has been moved since this one was looked up, and the caller's promise.
        let next = unsafe { tree.words.after(leaf, slot, limit, holes) }?;
        self.index = next.first;
        self.last = next.last;
        self.offset = next.offset;
        self.status = Status::ACTIVE;
        if next.entry.is_null() && !holes {
            if next.last < limit {
                return None;
            }
            self.status = Status::OVERFLOW;
        }
        Some(next.entry)
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
                && self.remembers(self.tree())
                && !WordTree::is_replaced(self.node)
        }
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
            let next = tree
                .words
                .next_leaf::<true>(self.node, (self.min, self.max), self.depth)?;
            self.remember(&next, self.store_type);
            self.depth = next.at;
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
    unsafe fn advance_from_here<const FIND: bool>(&mut self, limit: usize, holes: bool) -> *mut () {
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
                let next = self.tree().words.seek_ahead(self.last + 1);
                self.remember(&next, self.store_type);
                self.depth = next.at;
                self.stand_on(&next);
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

    /// Within its leaf, from the slot that the state stands on, and that starts above `limit`, to the entry (with `holes`: the slot) before
    /// it that ends at or above `limit`; NULL and [underflow](Status::UNDERFLOW) if there is none. As
    /// [`advance_here`](MaState::advance_here).
    ///
    /// # Safety
    ///
    /// As for [`seek`](MaState::seek).
    #[inline(always)]
    unsafe fn retreat_here(&mut self, limit: usize, holes: bool) -> Option<*mut ()> {
        let Self {
            node,
            min,
            offset,
            index,
            ..
        } = *self;
        // SAFETY: the caller's promise.
        let tree = unsafe { self.tree() };
        if !self.remembers(tree) {
            return None;
        }
        // SAFETY: as in `advance_here`.
        let before = unsafe {
            tree.words
                .before((node, min), (offset, index), limit, holes)
        }?;
        self.index = before.first;
        self.last = before.last;
        self.offset = before.offset;
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
    unsafe fn retreat_from_here(&mut self, limit: usize, holes: bool) -> *mut () {
        // SAFETY: the caller's promise.
        unsafe {
            let tree = self.tree();
            let begins_here =
                self.index == self.min && self.remembers(tree) && !WordTree::is_replaced(self.node);
            let before = if begins_here && self.index > limit {
                // As in `advance_from_here`.
                let before = tree
                    .words
                    .next_leaf::<false>(self.node, (self.min, self.max), self.depth)
                    .unwrap_or_else(|| tree.words.seek_back(self.index - 1));
                self.remember(&before, self.store_type);
                self.depth = before.at;
                self.stand_on(&before);
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

    /// `mas_next`, or with `holes` `mas_next_range`.
    ///
    /// # Safety
    ///
    /// As for [`seek`](MaState::seek).
    #[inline(always)]
    pub(crate) unsafe fn next(&mut self, max: usize, holes: bool) -> *mut () {
        // SAFETY: the caller's promise.
        unsafe {
            if self.status == Status::ACTIVE
                && self.has_seen_all(self.tree())
                && let Some(entry) = self.advance_here(max, holes)
            {
                return entry;
            }
            self.next_anew(max, holes)
        }
    }

    /// [`next`](MaState::next) from any status.
    ///
    /// # Safety
    ///
    /// As for [`seek`](MaState::seek).
    #[inline(never)]
    unsafe fn next_anew(&mut self, max: usize, holes: bool) -> *mut () {
        if self.status == Status::ERROR {
            return NULL;
        }
        if self.last >= max {
            self.status = Status::OVERFLOW;
            return NULL;
        }
        // SAFETY: the caller's promise.
        unsafe {
            match self.status {
                Status::ACTIVE | Status::OVERFLOW | Status::ROOT => {}
                Status::UNDERFLOW => {
                    let entry = self.walk();
                    if !entry.is_null() {
                        return entry;
                    }
                }
                _ => {
                    self.walk();
                }
            }
            self.advance_from_here::<false>(max, holes)
        }
    }

    /// `mas_prev`, or with `holes` `mas_prev_range`.
    ///
    /// # Safety
    ///
    /// As for [`seek`](MaState::seek).
    #[inline(always)]
    pub(crate) unsafe fn prev(&mut self, min: usize, holes: bool) -> *mut () {
        if self.status == Status::ACTIVE && self.index > min {
            // SAFETY: the caller's promise.
            return match unsafe { self.retreat_here(min, holes) } {
                Some(entry) => entry,
                // SAFETY: as above.
                None => unsafe { self.retreat_from_here(min, holes) },
            };
        }
        // SAFETY: as above.
        unsafe { self.prev_anew(min, holes) }
    }

    /// [`prev`](MaState::prev) from any status.
    ///
    /// # Safety
    ///
    /// As for [`seek`](MaState::seek).
    #[inline(never)]
    unsafe fn prev_anew(&mut self, min: usize, holes: bool) -> *mut () {
        if self.status == Status::ERROR {
            return NULL;
        }
        if self.index <= min {
            self.status = Status::UNDERFLOW;
            return NULL;
        }
        // SAFETY: the caller's promise.
        unsafe {
            match self.status {
                Status::ACTIVE | Status::UNDERFLOW | Status::ROOT => {}
                Status::OVERFLOW => {
                    let entry = self.walk();
                    if !entry.is_null() {
                        return entry;
                    }
                }
                _ => {
                    self.walk();
                }
            }
            self.retreat_from_here(min, holes)
        }
    }

    /// `mas_find`, or with `holes` `mas_find_range`.
    ///
    /// # Safety
    ///
    /// As for [`seek`](MaState::seek).
    #[inline(always)]
    pub(crate) unsafe fn find(&mut self, max: usize, holes: bool) -> *mut () {
        // SAFETY: the caller's promise.
        unsafe {
            if self.status == Status::ACTIVE
                && self.has_seen_all(self.tree())
                && let Some(entry) = self.advance_here(max, holes)
            {
                return entry;
            }
            self.find_anew(max, holes)
        }
    }

    /// [`find`](MaState::find) from any status.
    ///
    /// # Safety
    ///
    /// As for [`seek`](MaState::seek).
    #[inline(never)]
    unsafe fn find_anew(&mut self, max: usize, holes: bool) -> *mut () {
        match self.status {
            Status::ERROR => return NULL,
            Status::ROOT => {
                self.index = 1;
                self.last = usize::MAX;
                self.forget(Status::NONE);
                return NULL;
            }
            Status::UNDERFLOW if self.index > max => {
                self.status = Status::OVERFLOW;
                return NULL;
            }
            Status::UNDERFLOW => {}
            Status::ACTIVE | Status::OVERFLOW | Status::PAUSE | Status::NONE
                if self.last >= max =>
            {
                return NULL;
            }
            Status::PAUSE => {
                self.last += 1;
                self.index = self.last;
            }
            Status::NONE => self.index = self.last,
            Status::ACTIVE | Status::OVERFLOW => {}
            _ if self.index > max => return NULL,
            _ => {}
        }
        // SAFETY: the caller's promise.
        unsafe {
            if !matches!(self.status, Status::ACTIVE | Status::OVERFLOW) {
                let entry = self.walk();
                if !entry.is_null() {
                    return entry;
                }
            }
            self.advance_from_here::<true>(max, holes)
        }
    }

    /// `mas_find_rev`, or with `holes` `mas_find_range_rev`.
    ///
    /// # Safety
    ///
    /// As for [`seek`](MaState::seek).
    #[inline(always)]
    pub(crate) unsafe fn find_rev(&mut self, min: usize, holes: bool) -> *mut () {
        if self.status == Status::ACTIVE && self.index > min {
            // SAFETY: the caller's promise.
            if let Some(entry) = unsafe { self.retreat_here(min, holes) } {
                return entry;
            }
        }
        // SAFETY: as above.
        unsafe { self.find_rev_anew(min, holes) }
    }

    /// [`find_rev`](MaState::find_rev) from any status.
    ///
    /// # Safety
    ///
    /// As for [`seek`](MaState::seek).
    #[inline(never)]
    unsafe fn find_rev_anew(&mut self, min: usize, holes: bool) -> *mut () {
        match self.status {
            Status::ERROR => return NULL,
            Status::ROOT => {
                self.index = 0;
                self.last = 0;
                self.forget(Status::NONE);
                return NULL;
            }
            Status::OVERFLOW if self.last < min => {
                self.status = Status::UNDERFLOW;
                return NULL;
            }
            Status::OVERFLOW => {}
            Status::ACTIVE | Status::UNDERFLOW | Status::NONE if self.index <= min => {
                return NULL;
            }
            Status::PAUSE if self.index <= min => {
                self.status = Status::UNDERFLOW;
                return NULL;
            }
            Status::PAUSE => {
                self.index -= 1;
                self.last = self.index;
            }
            Status::NONE => self.last = self.index,
            Status::ACTIVE | Status::UNDERFLOW => {}
            _ if self.index < min => return NULL,
            _ => {}
        }
        // SAFETY: the caller's promise.
        unsafe {
            if !matches!(self.status, Status::ACTIVE | Status::UNDERFLOW) {
                let entry = self.walk();
                if !entry.is_null() {
                    return entry;
                }
            }
            self.retreat_from_here(min, holes)
        }
    }
}

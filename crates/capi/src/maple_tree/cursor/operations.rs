//! The operations, and where each begins in each status.

use super::NULL;
use crate::maple_tree::abi::{MaState, Status};

impl MaState {
    /// Implements `mas_next`, or `mas_next_range` with `holes`.
    ///
    /// # Safety
    ///
    /// As for [`seek`](MaState::seek).
    #[inline(always)]
    pub(crate) unsafe fn next(&mut self, max: usize, holes: bool) -> *mut () {
        // SAFETY: the caller's promise.
        unsafe {
            if self.status == Status::ACTIVE
                && self.is_current(self.tree())
                && let Some(entry) = self.advance_here(max, holes)
            {
                return entry;
            }
            self.next_anew(max, holes)
        }
    }

    /// As [`next`](MaState::next), from any status.
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

    /// Implements `mas_prev`, or `mas_prev_range` with `holes`.
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

    /// As [`prev`](MaState::prev), from any status.
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

    /// Implements `mas_find`, or `mas_find_range` with `holes`.
    ///
    /// # Safety
    ///
    /// As for [`seek`](MaState::seek).
    #[inline(always)]
    pub(crate) unsafe fn find(&mut self, max: usize, holes: bool) -> *mut () {
        // SAFETY: the caller's promise.
        unsafe {
            if self.status == Status::ACTIVE
                && self.is_current(self.tree())
                && let Some(entry) = self.advance_here(max, holes)
            {
                return entry;
            }
            self.find_anew(max, holes)
        }
    }

    /// As [`find`](MaState::find), from any status.
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
                self.reset_position(Status::NONE);
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

    /// Implements `mas_find_rev`, or `mas_find_range_rev` with `holes`.
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

    /// As [`find_rev`](MaState::find_rev), from any status.
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
                self.reset_position(Status::NONE);
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

//! The callback list: callbacks that wait for a grace period.
//!
//! Callbacks are collected in `pending`. When there are [`BATCH`] of them and no period is under
//! way, one grace period begins for all of them together and they move to `waiting`.

use std::vec::Vec;

use crate::callback::Callback;
use crate::user::readers::Readers;

/// The number of callbacks for which a grace period begins.
const BATCH: usize = if cfg!(samara_loom) { 1 } else { 64 };

pub(super) struct CallbackList {
    pending: Vec<Callback>,
    waiting: Vec<Callback>,
    /// The grace period that `waiting` waits for.
    period: u64,
}

impl CallbackList {
    pub(super) const fn new() -> Self {
        Self {
            pending: Vec::new(),
            waiting: Vec::new(),
            period: 0,
        }
    }

    /// Adds a callback. Returns it as the error if there is no memory.
    pub(super) fn push(&mut self, free: Callback) -> Result<(), Callback> {
        if self.pending.try_reserve(1).is_err() {
            return Err(free);
        }
        self.pending.push(free);
        Ok(())
    }

    /// Returns the callbacks that may run now. Begins a grace period for the pending ones if there
    /// are enough of them and no other period is under way.
    pub(super) fn advance(&mut self, readers: &Readers) -> Vec<Callback> {
        if self.pending.len() < BATCH || !self.waiting.is_empty() && !readers.is_over(self.period) {
            return Vec::new();
        }
        let over = core::mem::take(&mut self.waiting);
        if let Some(period) = readers.begin() {
            self.waiting = core::mem::take(&mut self.pending);
            self.period = period;
        }
        over
    }

    pub(super) fn take_all(&mut self) -> [Vec<Callback>; 2] {
        [
            core::mem::take(&mut self.pending),
            core::mem::take(&mut self.waiting),
        ]
    }
}

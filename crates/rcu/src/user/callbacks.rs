//! What is to be called when a grace period is over.

use std::vec::Vec;

use crate::callback::Callback;
use crate::user::readers::Readers;

/// So many wait for a grace period together.
const BATCH: usize = if cfg!(samara_loom) { 1 } else { 64 };

pub(super) struct CallbackList {
    pending: Vec<Callback>,
    waiting: Vec<Callback>,
    /// What `waiting` waits for.
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

    /// Adds one; back if there is no memory.
    pub(super) fn push(&mut self, free: Callback) -> Result<(), Callback> {
        if self.pending.try_reserve(1).is_err() {
            return Err(free);
        }
        self.pending.push(free);
        Ok(())
    }

    /// Those that may be called now; begins a grace period for the others, if there are enough.
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

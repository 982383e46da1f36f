//! What is to be called when a grace period is over.

use std::vec::Vec;

use crate::free::Free;
use crate::user::readers::Readers;

/// So many wait for a grace period together.
const BATCH: usize = if cfg!(samara_loom) { 1 } else { 64 };

pub(super) struct Later {
    young: Vec<Free>,
    waiting: Vec<Free>,
    /// What `waiting` waits for.
    period: u64,
}

impl Later {
    pub(super) const fn new() -> Self {
        Self {
            young: Vec::new(),
            waiting: Vec::new(),
            period: 0,
        }
    }

    /// Adds one; back if there is no memory.
    pub(super) fn push(&mut self, free: Free) -> Result<(), Free> {
        if self.young.try_reserve(1).is_err() {
            return Err(free);
        }
        self.young.push(free);
        Ok(())
    }

    /// Those that may be called now; begins a grace period for the others, if there are enough.
    pub(super) fn turn(&mut self, readers: &Readers) -> Vec<Free> {
        if self.young.len() < BATCH || !self.waiting.is_empty() && !readers.is_over(self.period) {
            return Vec::new();
        }
        let over = core::mem::take(&mut self.waiting);
        if let Some(period) = readers.begin() {
            self.waiting = core::mem::take(&mut self.young);
            self.period = period;
        }
        over
    }

    pub(super) fn take(&mut self) -> [Vec<Free>; 2] {
        [
            core::mem::take(&mut self.young),
            core::mem::take(&mut self.waiting),
        ]
    }
}

//! Grace periods for programs without RCU hooks.

use core::ptr::NonNull;

use samara_rcu::RcuGuard;

use crate::maple_tree::rcu::periods::Periods;

static PERIODS: Periods = Periods::new();

/// A read-side section, which ends when it is dropped.
pub(super) struct ReadSide(Option<RcuGuard<'static>>);

impl ReadSide {
    pub(super) fn enter() -> Self {
        Self(Some(PERIODS.enter()))
    }
}

impl Drop for ReadSide {
    fn drop(&mut self) {
        if let Some(guard) = self.0.take() {
            PERIODS.leave(guard);
        }
    }
}

/// Frees the chain of `count` nodes after a grace period.
pub(super) fn retire(newest: NonNull<u8>, oldest: NonNull<u8>, count: usize) {
    PERIODS.retire(newest, oldest, count);
}

/// From now on, readers that leave free waiting nodes, until none is left.
pub(super) fn settle() {
    PERIODS.settle();
}

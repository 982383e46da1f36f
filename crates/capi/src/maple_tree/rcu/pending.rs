//! Chains of nodes for which no grace period has begun.
//!
//! They are linked through words of the nodes themselves that no reader looks at.

use core::ptr::{self, NonNull};

use super::chain;
use crate::atomic::{AtomicPtr, Ordering};

/// A stack of chains.
pub(super) struct PendingChains(AtomicPtr<u8>);

impl PendingChains {
    const_unless_loom! {
        pub(super) const fn new() -> Self {
            Self(AtomicPtr::new(ptr::null_mut()))
        }
    }

    /// Adds the chain from `newest` to `oldest`.
    pub(super) fn push(&self, newest: NonNull<u8>, oldest: NonNull<u8>) {
        let mut top = self.0.load(Ordering::Relaxed);
        loop {
            // SAFETY: the chain is the caller's until the exchange below succeeds.
            unsafe { chain(oldest, NonNull::new(top)) };
            match self.0.compare_exchange_weak(
                top,
                newest.as_ptr(),
                Ordering::SeqCst,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }

    /// Takes all chains. None is ever taken singly, so that there is no ABA problem.
    pub(super) fn take(&self) -> Option<NonNull<u8>> {
        NonNull::new(self.0.swap(ptr::null_mut(), Ordering::Acquire))
    }

    /// Returns `true` if no chain is pending. Sequentially consistent, for threads that check this
    /// after they have released something.
    #[cfg(not(samara_loom))]
    pub(super) fn is_empty(&self) -> bool {
        self.0.load(Ordering::SeqCst).is_null()
    }
}

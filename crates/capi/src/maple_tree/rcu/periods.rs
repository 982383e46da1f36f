//! Grace periods of [`UserRcu`] for chains of nodes, so that readers pass no fence.
//!
//! One chain waits for a grace period, and what is retired meanwhile waits until that is over; `advance` goes on with both. Writes look after
//! it when enough nodes wait. After [`settle`](Periods::settle) the readers that leave do so, too, until nothing waits.
//!
//! # Nothing is forgotten
//!
//! `advance` takes no lock that one could wait at: a thread that finds another there leaves the work to it. That loses nothing:
//!
//! * *A call* is counted before the thread tries to set `taken`. If it fails, whoever had set it clears it later and then looks at the count: either
//!   there was no call that it had not seen when it had set `taken`, or it tries again. Who sets `taken` next sees that call, too: all that set and
//!   clear `taken` do so by a swap, and each sees what was done before those that came earlier.
//! * *The flag* `unsettled` is changed only under `taken`: raised for a call that nobody had seen, if nodes wait; lowered when none does. It says
//!   what those calls want that were seen, whoever sees them.
//! * *A reader that leaves.* The flag is raised before the grace period begins. The reader looks at it after it has left, which
//!   [`leave_ordered`](samara_rcu::RcuGuard::leave_ordered) orders against the beginning of the period: who asks whether it is over finds the reader gone, or
//!   the reader sees the flag and asks for itself. Of two that leave together, the one that counts its call later sees the other gone.

use core::cell::UnsafeCell;
use core::ptr::NonNull;

use samara_rcu::{RcuGuard, Reclaim, UserRcu};

use super::free_chain;
use super::pending::PendingChains;
use crate::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A grace period costs a system call: so many nodes share one.
const BATCH: usize = if cfg!(samara_loom) { 2 } else { 64 };

/// Chains that have been retired, and how far they have come.
pub(super) struct Periods {
    rcu: UserRcu,
    pending: PendingChains,
    /// How many nodes have been retired and not been freed.
    count: AtomicUsize,
    /// A tree was destroyed, and nodes may still wait that were retired before.
    unsettled: AtomicBool,
    /// Calls that must not be lost.
    calls: AtomicUsize,
    /// Whether a thread is in `advance`.
    taken: AtomicBool,
    current: UnsafeCell<Current>,
}

// SAFETY: only who has set `taken` looks at `current`.
unsafe impl Send for Periods {}
// SAFETY: as above.
unsafe impl Sync for Periods {}

/// What belongs to the thread that is in `advance`.
struct Current {
    /// The chain that waits for a grace period.
    chain: Option<Chain>,
    /// The calls that have been seen.
    calls: usize,
}

struct Chain {
    newest: NonNull<u8>,
    /// `None` if none could be begun.
    period: Option<u64>,
    /// Whether `unsettled` was up when the period began. It stays up for as long as this chain waits.
    settling: bool,
}

impl Periods {
    const_unless_loom! {
        pub(super) const fn new() -> Self {
            Self {
                rcu: UserRcu::new(),
                pending: PendingChains::new(),
                count: AtomicUsize::new(0),
                unsettled: AtomicBool::new(false),
                calls: AtomicUsize::new(0),
                taken: AtomicBool::new(false),
                current: UnsafeCell::new(Current { chain: None, calls: 0 }),
            }
        }
    }

    pub(super) fn enter(&self) -> RcuGuard<'_> {
        self.rcu.enter()
    }

    pub(super) fn leave(&self, guard: RcuGuard<'_>) {
        guard.leave_ordered();
        if self.unsettled.load(Ordering::SeqCst) {
            self.call();
        }
    }

    /// FreeBatch the chain of so many nodes after a grace period.
    pub(super) fn retire(&self, newest: NonNull<u8>, oldest: NonNull<u8>, count: usize) {
        // First, so that it is never less than what waits.
        let before = self.count.fetch_add(count, Ordering::SeqCst);
        self.pending.push(newest, oldest);
        if before + count >= BATCH {
            self.advance();
        }
    }

    /// From here on readers that leave go on with what waits, until nothing does.
    pub(super) fn settle(&self) {
        if self.count.load(Ordering::SeqCst) > 0 {
            self.call();
        }
    }

    #[cold]
    fn call(&self) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.advance();
    }

    /// FreeBatch what can be freed, and begins a grace period for what comes next; leaves it to another thread that is there.
    fn advance(&self) {
        loop {
            if self.taken.swap(true, Ordering::SeqCst) {
                return;
            }
            let calls = self.calls.load(Ordering::SeqCst);
            // SAFETY: this thread has set `taken`, and lets go of the reference before it clears it.
            self.advance_locked(unsafe { &mut *self.current.get() }, calls);
            self.taken.swap(false, Ordering::SeqCst);
            if self.calls.load(Ordering::SeqCst) == calls {
                return;
            }
        }
    }

    fn advance_locked(&self, current: &mut Current, calls: usize) {
        if current.calls != calls {
            current.calls = calls;
            if self.count.load(Ordering::SeqCst) > 0 {
                self.unsettled.store(true, Ordering::SeqCst);
            }
        }
        let current = &mut current.chain;
        let settling = self.unsettled.load(Ordering::SeqCst);
        loop {
            if current.is_none() && (settling || self.count.load(Ordering::SeqCst) >= BATCH) {
                *current = self.pending.take().map(|newest| Chain {
                    newest,
                    period: None,
                    settling: false,
                });
            }
            let Some(chain) = current else { break };
            // A period that began before the flag was raised may have readers that left without a look at it.
            if (chain.period.is_none() || settling && !chain.settling)
                && let Some(period) = self.rcu.start_poll()
            {
                chain.period = Some(period);
                chain.settling = settling;
            }
            if !chain.period.is_some_and(|period| self.rcu.poll(period)) {
                return;
            }
            // SAFETY: `RetiredNodes` and `PendingChains` built the chain; it was taken before the period began, and the readers that may have found its nodes
            // have left.
            let freed = unsafe { free_chain(Some(chain.newest)) };
            *current = None;
            self.count.fetch_sub(freed, Ordering::SeqCst);
        }
        if settling {
            self.unsettled.store(false, Ordering::SeqCst);
        }
    }
}

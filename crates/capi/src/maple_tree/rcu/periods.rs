//! Grace periods of [`UserRcu`] for chains of nodes, so that readers execute no fence.
//!
//! One chain waits for a grace period. Chains that are retired in the meantime wait until that
//! period is over. `advance` moves both forward. Writes call it when enough nodes wait. After
//! [`settle`](Periods::settle), readers that leave call it too, until nothing waits.
//!
//! # No chain is forgotten
//!
//! `advance` takes no lock that a thread could wait for: a thread that finds another one inside
//! leaves the work to it. Nothing is lost by that:
//!
//! * *A call* is counted before the thread tries to set `taken`. If that fails, the thread that had
//!   set it clears it later and then reads the count. Either there was no call that it had not seen
//!   when it had set `taken`, or it tries again. The next thread that sets `taken` sees that call,
//!   too. All threads set and clear `taken` by a swap, and each sees what was done before the
//!   earlier swaps.
//! * *The flag* `unsettled` is changed only while `taken` is set. It is set for a new call if nodes
//!   wait, and cleared when none does. It records what the calls seen so far want, whichever thread
//!   sees them.
//! * *A reader that leaves.* The flag is set before the grace period begins. The reader checks it
//!   after it has left, and [`leave_ordered`](samara_rcu::RcuGuard::leave_ordered) orders this
//!   against the beginning of the period. Either the thread that polls the period finds the reader
//!   gone, or the reader sees the flag and polls itself. If two readers leave together, the one
//!   that counts its call later sees the other gone.

use core::cell::UnsafeCell;
use core::ptr::NonNull;

use samara_rcu::{RcuGuard, Reclaim, UserRcu};

use super::free_chain;
use super::pending::PendingChains;
use crate::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The number of nodes that share a grace period, since each costs a system call.
const BATCH: usize = if cfg!(samara_loom) { 2 } else { 64 };

/// The retired chains, and their progress.
pub(super) struct Periods {
    rcu: UserRcu,
    pending: PendingChains,
    /// The number of nodes that have been retired and not freed.
    count: AtomicUsize,
    /// `true` if a tree was destroyed, and nodes that were retired before may still wait.
    unsettled: AtomicBool,
    /// The number of calls of `advance` that must not be lost.
    calls: AtomicUsize,
    /// `true` if a thread is in `advance`.
    taken: AtomicBool,
    current: UnsafeCell<Current>,
}

// SAFETY: only the thread that has set `taken` accesses `current`.
unsafe impl Send for Periods {}
// SAFETY: as above.
unsafe impl Sync for Periods {}

/// The state of the thread that is in `advance`.
struct Current {
    /// The chain that waits for a grace period.
    chain: Option<Chain>,
    /// The number of calls that have been seen.
    calls: usize,
}

struct Chain {
    newest: NonNull<u8>,
    /// The number of the grace period, or `None` if none could be begun.
    period: Option<u64>,
    /// `true` if `unsettled` was set when the period began. It stays set while this chain waits.
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

    /// Frees the chain of `count` nodes after a grace period.
    pub(super) fn retire(&self, newest: NonNull<u8>, oldest: NonNull<u8>, count: usize) {
        // First, so that the count is never less than the number of waiting nodes.
        let before = self.count.fetch_add(count, Ordering::SeqCst);
        self.pending.push(newest, oldest);
        if before + count >= BATCH {
            self.advance();
        }
    }

    /// From now on, readers that leave free waiting nodes, until none is left.
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

    /// Frees what can be freed, and begins a grace period for the next chain. Leaves this to
    /// another thread if one is inside.
    fn advance(&self) {
        loop {
            if self.taken.swap(true, Ordering::SeqCst) {
                return;
            }
            let calls = self.calls.load(Ordering::SeqCst);
            // SAFETY: this thread has set `taken`, and drops the reference before it clears it.
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
            // Readers of a period that began before the flag was set may have left without checking
            // it.
            if (chain.period.is_none() || settling && !chain.settling)
                && let Some(period) = self.rcu.start_poll()
            {
                chain.period = Some(period);
                chain.settling = settling;
            }
            if !chain.period.is_some_and(|period| self.rcu.poll(period)) {
                return;
            }
            // SAFETY: `RetiredNodes` and `PendingChains` built the chain. It was taken before the
            // period began, and the readers that may have found its nodes have left.
            let freed = unsafe { free_chain(Some(chain.newest)) };
            *current = None;
            self.count.fetch_sub(freed, Ordering::SeqCst);
        }
        if settling {
            self.unsettled.store(false, Ordering::SeqCst);
        }
    }
}

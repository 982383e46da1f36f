//! Grace periods for programs that bring none: those of [`UserRcu`], so that readers pass no fence.
//!
//! One chain waits for a grace period, and what is retired meanwhile waits until that is over; [`turn`] goes on with both. Writes look after
//! it when enough nodes wait. After [`settle`] the readers that leave do so, too, until nothing waits.
//!
//! # Nothing is forgotten
//!
//! [`turn`] takes no lock that one could wait at: a thread that finds another there leaves the work to it. That loses nothing:
//!
//! * *A call* ([`call`]) is noted before the thread tries to set `TAKEN`. If it fails, whoever had set it clears it later and then looks for calls. Either it
//!   finds one since it began, and begins again; or it had seen the note when it began, and with it all that the caller had done before.
//!   All four accesses are sequentially consistent.
//! * *A reader that leaves.* `UNSETTLED` is raised before the grace period begins. The reader looks at it after it has left, which
//!   [`leave_ordered`](maple_tree::RcuGuard::leave_ordered) orders against the beginning of the period: who asks whether it is over finds the reader gone, or
//!   the reader sees the flag and asks for itself. Of two that leave together one sees the other gone: the note of its call is a fence.
//! * *The flag* is lowered only under `TAKEN`, when nothing waits. A thread that retired something meanwhile raised the flag before its call, which is since the
//!   beginning: so there is another round, and that raises it again.

use core::cell::UnsafeCell;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use maple_tree::{RcuGuard, Reclaim, UserRcu};

use crate::maple_tree::rcu::free_chain;
use crate::maple_tree::rcu::waiting::Waiting;

static RCU: UserRcu = UserRcu::new();

/// A grace period costs a system call: so many nodes share one.
const BATCH: usize = 64;

static WAITING: Waiting = Waiting::new();

/// How many nodes have been retired and not been freed.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A tree was destroyed, and its nodes may still wait.
static UNSETTLED: AtomicBool = AtomicBool::new(false);

/// Calls that must not be lost.
static CALLS: AtomicUsize = AtomicUsize::new(0);

/// Whether a thread is in [`turn`].
static TAKEN: AtomicBool = AtomicBool::new(false);

static UNDER_WAY: UnderWay = UnderWay(UnsafeCell::new(None));

/// The chain that waits for a grace period.
struct UnderWay(UnsafeCell<Option<Chain>>);

// SAFETY: only who has set `TAKEN` looks at it.
unsafe impl Sync for UnderWay {}

struct Chain {
    newest: NonNull<u8>,
    /// `None` if none could be begun.
    period: Option<u64>,
    /// Whether `UNSETTLED` was up when the period began. It stays up for as long as this chain waits.
    settling: bool,
}

/// A read-side section, ended when dropped.
pub(super) struct ReadSide(Option<RcuGuard<'static>>);

impl ReadSide {
    pub(super) fn enter() -> Self {
        Self(Some(RCU.enter()))
    }
}

impl Drop for ReadSide {
    fn drop(&mut self) {
        if let Some(guard) = self.0.take() {
            guard.leave_ordered();
            if UNSETTLED.load(Ordering::SeqCst) {
                call();
            }
        }
    }
}

/// Frees the chain of so many nodes after a grace period.
pub(super) fn retire(newest: NonNull<u8>, oldest: NonNull<u8>, count: usize) {
    // First, so that it is never less than what waits.
    let before = COUNT.fetch_add(count, Ordering::SeqCst);
    WAITING.push(newest, oldest);
    if before + count >= BATCH {
        turn();
    }
}

/// From here on readers that leave go on with what waits, until nothing does.
pub(super) fn settle() {
    if COUNT.load(Ordering::SeqCst) > 0 {
        UNSETTLED.store(true, Ordering::SeqCst);
        call();
    }
}

#[cold]
fn call() {
    CALLS.fetch_add(1, Ordering::SeqCst);
    turn();
}

/// Frees what can be freed, and begins a grace period for what comes next; leaves it to another thread that is there.
fn turn() {
    loop {
        let seen = CALLS.load(Ordering::SeqCst);
        if TAKEN.swap(true, Ordering::SeqCst) {
            return;
        }
        // SAFETY: this thread has set `TAKEN`, and lets go of the reference before it clears it.
        go_on(unsafe { &mut *UNDER_WAY.0.get() });
        TAKEN.swap(false, Ordering::SeqCst);
        if CALLS.load(Ordering::SeqCst) == seen || COUNT.load(Ordering::SeqCst) == 0 {
            return;
        }
        UNSETTLED.store(true, Ordering::SeqCst);
    }
}

fn go_on(under_way: &mut Option<Chain>) {
    let settling = UNSETTLED.load(Ordering::SeqCst);
    loop {
        if under_way.is_none() && (settling || COUNT.load(Ordering::SeqCst) >= BATCH) {
            *under_way = WAITING.take().map(|newest| Chain {
                newest,
                period: None,
                settling: false,
            });
        }
        let Some(chain) = under_way else { break };
        // A period that began before the flag was raised may have readers that left without a look at it.
        if (chain.period.is_none() || settling && !chain.settling)
            && let Some(period) = RCU.start_poll()
        {
            chain.period = Some(period);
            chain.settling = settling;
        }
        if !chain.period.is_some_and(|period| RCU.poll(period)) {
            return;
        }
        // SAFETY: `Dead` and `Waiting` built the chain; it was taken before the period began, and the readers that may have found its nodes
        // have left.
        let freed = unsafe { free_chain(Some(chain.newest)) };
        *under_way = None;
        COUNT.fetch_sub(freed, Ordering::SeqCst);
    }
    if settling {
        UNSETTLED.store(false, Ordering::SeqCst);
    }
}

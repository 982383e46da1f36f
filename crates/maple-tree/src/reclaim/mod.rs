//! When what a write has removed is freed: not before the last reader that may have found it has left.
//!
//! # The protocol
//!
//! A reader enters, reads from the root on, and leaves. A writer builds new nodes, publishes them with one release
//! store, and then retires the nodes and values that this store unlinked. What is retired is freed when all readers that had
//! entered before have left.
//!
//! * *The reader's load of the root (or of a slot) comes after the publishing store.* It finds the new nodes, and its acquire load
//!   pairs with the release store, so that it sees them initialised. No path leads it to what was unlinked.
//! * *It comes before.* Then the reader had entered before the retirement, and the nodes and values that it finds are
//!   freed after it has left. They are whole: pivots of a published node never change, its slots still hold the words that were
//!   current when the node was replaced, and its children are freed no sooner.
//!
//! In both cases a walk down ends at an entry that was current at some moment of the walk. No dead mark is needed for this;
//! the mark is for readers that stay in a leaf, as iterators do, to tell that they should look again.

#[cfg(all(feature = "rcu", target_has_atomic = "64"))]
mod rcu;

use crate::base::atomic::{AtomicUsize, Ordering, fence};

#[cfg(all(feature = "rcu", target_has_atomic = "64"))]
pub use rcu::{RcuGuard, UserRcu};

/// Decides when what has been retired is freed.
///
/// # Safety
///
/// * What was passed to [`retire`](Reclaim::retire) is called (at most once) only after every guard that
///   [`enter`](Reclaim::enter) gave before has been dropped.
/// * `enter` orders before all that its caller reads later, as a sequentially consistent fence does against one in `retire` or
///   [`published`](Reclaim::published): if such a reader does not see what the retiring thread had published
///   before, then its guard counts as given before.
/// * All that a reader did before it dropped its guard happens before the call.
/// * The same holds for [`start_poll`](Reclaim::start_poll), of readers that entered before it, and for a [`poll`](Reclaim::poll) of the
///   number that it gave, once that has given `true`.
pub unsafe trait Reclaim {
    /// A reader's presence.
    type Guard<'a>
    where
        Self: 'a;

    /// How many nodes that have been replaced a map may collect before it asks for a [grace period](Reclaim::start_poll) for them, or
    /// [retires](Reclaim::retire) them together; small maps collect fewer. With 1, what a write has replaced is retired at its end. Values
    /// are retired at once in any case.
    const BATCH: usize = 1;

    /// Notes a reader. Never waits.
    fn enter(&self) -> Self::Guard<'_>;

    /// Comes after a change that removed something has been published, and before what it removed is retired. To
    /// wait here for the readers that are about makes it possible to free at once in `retire`.
    fn published(&self) {}

    /// Begins a grace period, which is over when all readers that have entered until now have left. Gives a number to ask for it by, or `None`
    /// if it cannot be asked for: nodes are then [retired](Reclaim::retire). May wait, as [`published`](Reclaim::published) may, which does not
    /// come before it.
    ///
    /// Linux calls this `start_poll_synchronize_rcu`.
    fn start_poll(&self) -> Option<u64> {
        None
    }

    /// Whether the grace period with this number is over. Never waits.
    fn poll(&self, period: u64) -> bool {
        let _ = period;
        false
    }

    /// Calls `free` once no reader is left that entered before; at once, later, or (to leak) never.
    ///
    /// `free` drops a value, which may panic. Who calls several of them goes on with the others then, or these leak: [`Waiting`] and
    /// `UserRcu` go on, `crossbeam-epoch` does not.
    ///
    /// # Safety
    ///
    /// No reader that enters from now on can find what `free` frees.
    unsafe fn retire<F: FnOnce() + Send + 'static>(&self, free: F);
}

/// Writers wait for the readers that are about: needs no memory and no threads, so that it suits a kernel before it has anything better.
///
/// Values are freed at once, by the write that removed them. Nodes are collected, up to 32 of them, before the writer
/// waits for the readers and uses them again.
///
/// A reader enters and leaves with one atomic addition each, on a counter that all readers share.
///
/// A thread that writes while it is itself a reader waits for ever.
#[derive(Debug)]
pub struct Waiting {
    /// Which of the counters new readers use.
    phase: AtomicUsize,
    readers: [AtomicUsize; 2],
}

impl Waiting {
    const_unless_loom! {
        /// No readers.
        #[must_use]
        pub const fn new() -> Self {
            Self { phase: AtomicUsize::new(0), readers: [AtomicUsize::new(0), AtomicUsize::new(0)] }
        }
    }

    fn wait_for(&self, phase: usize) {
        while self.readers[phase].load(Ordering::Acquire) != 0 {
            #[cfg(samara_loom)]
            loom::thread::yield_now();
            #[cfg(not(samara_loom))]
            core::hint::spin_loop();
        }
    }
}

impl Default for Waiting {
    fn default() -> Self {
        Self::new()
    }
}

/// A reader's presence with [`Waiting`].
#[derive(Debug)]
pub struct WaitingGuard<'a>(&'a AtomicUsize);

impl Drop for WaitingGuard<'_> {
    fn drop(&mut self) {
        // What was read comes before; the writer that sees the reader gone may free it.
        self.0.fetch_sub(1, Ordering::Release);
    }
}

// SAFETY: `published` returns after both counters have been seen at zero since its fence. A reader adds itself to one of them, then
// comes its fence.
// * If the reader's fence comes first in the order of all fences, the writer's loads see the addition, or what came
//   after it; zero means that the reader has left, and reading it with acquire puts the reader's accesses before.
// * If the writer's fence comes first, the reader's later loads see what was published before that fence.
// Which counter a reader took does not matter for this. The phase only keeps new readers from the counter that is being waited for.
unsafe impl Reclaim for Waiting {
    type Guard<'a> = WaitingGuard<'a>;

    fn enter(&self) -> WaitingGuard<'_> {
        let counter = &self.readers[self.phase.load(Ordering::Relaxed)];
        counter.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        WaitingGuard(counter)
    }

    // The model checker sees to every one at once.
    const BATCH: usize = if cfg!(samara_loom) { 1 } else { 32 };

    fn start_poll(&self) -> Option<u64> {
        self.published();
        Some(0)
    }

    fn poll(&self, _: u64) -> bool {
        // `start_poll` has waited.
        true
    }

    fn published(&self) {
        fence(Ordering::SeqCst);
        let phase = self.phase.load(Ordering::Relaxed);
        self.wait_for(1 - phase);
        self.phase.store(1 - phase, Ordering::Relaxed);
        self.wait_for(phase);
    }

    unsafe fn retire<F: FnOnce() + Send + 'static>(&self, free: F) {
        // All that is retired was unlinked before `published`, which has waited.
        free();
    }
}

/// The epochs of `crossbeam-epoch`: readers write only memory of their own, and what is retired is freed some time
/// after the last of them has left, by whichever thread comes by.
#[cfg(feature = "epoch")]
#[derive(Clone, Copy, Debug, Default)]
pub struct Epoch;

// SAFETY: `crossbeam-epoch` promises that what is deferred is called after all threads that were pinned when it was
// deferred have been unpinned; pinning contains the fence.
#[cfg(feature = "epoch")]
unsafe impl Reclaim for Epoch {
    type Guard<'a> = crossbeam_epoch::Guard;

    const BATCH: usize = 32;

    fn enter(&self) -> crossbeam_epoch::Guard {
        crossbeam_epoch::pin()
    }

    unsafe fn retire<F: FnOnce() + Send + 'static>(&self, free: F) {
        let guard = crossbeam_epoch::pin();
        // SAFETY: no reader that enters from now on finds what is freed (the caller's promise); `free` may run on any
        // thread and borrows nothing.
        unsafe { guard.defer_unchecked(free) };
    }
}

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
mod waiting;

#[cfg(all(feature = "rcu", target_has_atomic = "64"))]
pub use rcu::{RcuGuard, UserRcu};
pub use waiting::{Waiting, WaitingGuard};

use std_alloc::boxed::Box;

use crate::base::room;

/// What is called when readers have left.
type Free = Box<dyn FnOnce() + Send>;

/// A closure in a box of its own; back if there is no memory.
fn boxed<F: FnOnce() + Send + 'static>(free: F) -> Result<Free, F> {
    let Some(room) = room::<F>() else {
        return Err(free);
    };
    let boxed: Box<F> = Box::write(room, free);
    Ok(boxed)
}

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

//! The protocol between readers and writers: [`Reclaim`].
//!
//! # The protocol
//!
//! A reader enters, follows a shared pointer, and leaves. A writer builds a new version, publishes
//! it with one release store to the shared pointer, and retires what this store unlinked. The
//! retired version is freed when all readers that had entered before have left.
//!
//! * *The reader's load of the pointer sees the publishing store.* The reader finds the new
//!   version. Its acquire load pairs with the release store, so that it sees the version
//!   initialised. No path leads it to the unlinked one.
//! * *The load comes before the store.* Then the reader had entered before the retirement. What it
//!   finds is freed after it has left.

/// Decides when retired memory is freed.
///
/// Any number of threads [enter](Reclaim::enter) at any time. The other calls are the writer's.
/// There is one writer at a time, and what one writer has done happens before what the next does,
/// as under a lock. (`UserRcu` and `Epoch` also serve several writers at once.)
///
/// # Safety
///
/// * A closure passed to [`retire`](Reclaim::retire) is called at most once. It is called only
///   after every guard that [`enter`](Reclaim::enter) returned before has been dropped.
/// * `enter` orders like a sequentially consistent fence before everything that its caller reads
///   later. It pairs with such a fence in `retire` or [`published`](Reclaim::published). If a
///   reader does not see what the retiring thread had published before, then its guard counts as
///   returned before.
/// * Everything that a reader did before it dropped its guard happens before the call.
/// * The same holds for a grace period: for readers that entered before
///   [`start_poll`](Reclaim::start_poll), once a [`poll`](Reclaim::poll) of the number that it
///   returned has returned `true`.
pub unsafe trait Reclaim {
    /// A guard that marks a reader as inside.
    type Guard<'a>
    where
        Self: 'a;

    /// The number of retired items that a structure may collect before it
    /// [retires](Reclaim::retire) them together or asks for a [grace period](Reclaim::start_poll)
    /// for them.
    ///
    /// With 1, the items that a write has replaced are retired at its end. A map of `maple-tree`
    /// collects fewer while it is small, and retires values at once.
    const BATCH: usize = 1;

    /// Enters as a reader. Never waits.
    fn enter(&self) -> Self::Guard<'_>;

    /// Separates a change that removed something from the retirement of what it removed. The writer
    /// calls it after the change is published.
    ///
    /// An implementation that waits here for the current readers may free at once in `retire`.
    fn published(&self) {}

    /// Begins a grace period, which is over when all readers that have entered until now have left.
    /// Returns a number to [poll](Reclaim::poll), or `None` if the period cannot be polled: then
    /// [retire](Reclaim::retire) instead.
    ///
    /// May wait, as [`published`](Reclaim::published) may. The caller need not call `published`
    /// before it.
    ///
    /// Linux calls this `start_poll_synchronize_rcu`.
    fn start_poll(&self) -> Option<u64> {
        None
    }

    /// Returns `true` if the grace period with this number is over. Never waits.
    fn poll(&self, period: u64) -> bool {
        let _ = period;
        false
    }

    /// Calls `free` once all readers that entered before have left. That may be at once, later, or
    /// (as a leak) never.
    ///
    /// `free` drops a value, which may panic. An implementation that calls several closures should
    /// call the rest after a panic, or they leak. [`Waiting`](crate::Waiting) and `UserRcu` call
    /// the rest, `crossbeam-epoch` does not.
    ///
    /// # Safety
    ///
    /// * No reader that enters from now on can find what `free` frees.
    /// * The caller has called [`published`](Reclaim::published) after that became true. One call
    ///   suffices for everything that was unlinked before it.
    /// * There is one writer at a time, unless the implementation says that it serves several.
    unsafe fn retire<F: FnOnce() + Send + 'static>(&self, free: F);
}

//! When what a writer has removed is freed: not before the last reader that may have found it has left.
//!
//! # The protocol
//!
//! A reader enters, goes from a pointer that all share to what it leads to, and leaves. A writer builds something new, publishes it with one release
//! store to such a pointer, and then retires what this store unlinked. What is retired is freed when all readers that had
//! entered before have left.
//!
//! * *The reader's load of the pointer comes after the publishing store.* It finds the new, and its acquire load
//!   pairs with the release store, so that it sees the new initialised. No path leads it to what was unlinked.
//! * *It comes before.* Then the reader had entered before the retirement, and what it finds is freed after it has left.

/// Decides when what has been retired is freed.
///
/// Any number of threads [enter](Reclaim::enter) at any time. The other calls are the writer's: there is one at a time, and what one has done comes
/// before what the next does, as under a lock. (`UserRcu` and `Epoch` serve several writers at once, too.)
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

    /// How many nodes, or the like, a structure that replaces them may collect before it asks for a [grace period](Reclaim::start_poll) for them, or
    /// [retires](Reclaim::retire) them together. With 1, what a write has replaced is retired at its end. A map of `maple-tree` collects fewer as long as
    /// it is small, and retires values at once.
    const BATCH: usize = 1;

    /// Notes a reader. Never waits.
    fn enter(&self) -> Self::Guard<'_>;

    /// Comes after a change that removed something has been published, and before what it removed is retired. To
    /// wait here for the readers that are about makes it possible to free at once in `retire`.
    fn published(&self) {}

    /// Begins a grace period, which is over when all readers that have entered until now have left. Gives a number to ask for it by, or `None`
    /// if it cannot be asked for: [retire](Reclaim::retire) then. May wait, as [`published`](Reclaim::published) may, which does not
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
    /// `free` drops a value, which may panic. Who calls several of them goes on with the others then, or these leak: [`Waiting`](crate::Waiting) and
    /// `UserRcu` go on, `crossbeam-epoch` does not.
    ///
    /// # Safety
    ///
    /// * No reader that enters from now on can find what `free` frees.
    /// * [`published`](Reclaim::published) was called after that had become so. One call will do for all that was unlinked before it.
    /// * There is one writer at a time, unless the implementation says that it serves several.
    unsafe fn retire<F: FnOnce() + Send + 'static>(&self, free: F);
}

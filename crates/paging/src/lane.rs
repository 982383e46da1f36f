//! Of things that threads change all the time there are several, so that each thread has one in its own processor's cache.

/// How many of each.
pub(crate) const LANES: usize = 16;

/// Alone in its lines of the cache, which processors fetch by twos.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Apart<T>(pub(crate) T);

/// A number that this thread keeps, and that threads which run at the same time seldom have in common.
#[cfg(any(test, feature = "hosted"))]
#[inline]
pub(crate) fn here() -> usize {
    use core::cell::Cell;
    use core::sync::atomic::{AtomicUsize, Ordering};

    const NONE: usize = usize::MAX;
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    std::thread_local! {
        static LANE: Cell<usize> = const { Cell::new(NONE) };
    }
    LANE.with(|lane| {
        if lane.get() == NONE {
            // Relaxed: only that numbers differ matters.
            lane.set(NEXT.fetch_add(1, Ordering::Relaxed) % LANES);
        }
        lane.get()
    })
}

/// The same where nobody tells threads apart: by the place of their stacks, of 16 KiB, 2 MiB or 32 MiB. Near the end of such a piece a thread may take turns
/// between two numbers.
#[cfg(not(any(test, feature = "hosted")))]
#[inline]
pub(crate) fn here() -> usize {
    let local = 0u8;
    let at = (&raw const local).addr();
    (at >> 14) + (at >> 21) + (at >> 25)
}

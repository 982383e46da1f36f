//! Of things that threads change all the time there are several, so that each thread has one in its own processor's cache.

/// How many of each.
pub(crate) const SHARDS: usize = 16;

/// Alone in its lines of the cache, which processors fetch by twos.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct CachePadded<T>(pub(crate) T);

#[cfg(any(test, feature = "hosted"))]
pub(crate) use numbered::current;

/// Threads of the host.
#[cfg(any(test, feature = "hosted"))]
mod numbered {
    use core::cell::Cell;
    use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

    use super::SHARDS;

    const NONE: usize = usize::MAX;

    /// Numbers that threads have, a bit each. Relaxed, as all here: only that numbers differ matters.
    static TAKEN: AtomicU32 = AtomicU32::new(0);

    std::thread_local! {
        /// Without a destructor, so that looking at it is one load.
        static LANE: Cell<usize> = const { Cell::new(NONE) };
        static KEPT: Kept = const { Kept(Cell::new(NONE)) };
    }

    /// The number that a thread gives back at its end: the next one finds what was set aside under it, and few numbers are in use.
    struct Kept(Cell<usize>);

    impl Drop for Kept {
        fn drop(&mut self) {
            let lane = self.0.get();
            if lane != NONE {
                TAKEN.fetch_and(!(1 << lane), Ordering::Relaxed);
            }
        }
    }

    /// A number that this thread keeps, and that threads which run at the same time have in common only if there are more of them than numbers.
    #[inline]
    pub(crate) fn current() -> usize {
        LANE.with(|lane| {
            if lane.get() == NONE {
                lane.set(take());
            }
            lane.get()
        })
    }

    #[cold]
    fn take() -> usize {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let relaxed = Ordering::Relaxed;
        let lowest = |taken: u32| (!taken).trailing_zeros() as usize;
        let taken = TAKEN.fetch_update(relaxed, relaxed, |taken| {
            let lane = lowest(taken);
            (lane < SHARDS).then(|| taken | 1 << lane)
        });
        match taken.map(lowest) {
            Ok(lane) => {
                if KEPT.try_with(|kept| kept.0.set(lane)).is_err() {
                    // The thread is about to end. For so long it may share its number.
                    drop(Kept(Cell::new(lane)));
                }
                lane
            }
            Err(_) => NEXT.fetch_add(1, relaxed) % SHARDS,
        }
    }

    #[test]
    fn threads_that_end_give_their_numbers_back() {
        let of_a_thread = || std::thread::spawn(current).join().unwrap_or(NONE);
        // Other tests have threads, too; but not so many for long.
        let mut seen = [0; SHARDS];
        (0..10 * SHARDS).for_each(|_| seen[of_a_thread()] += 1);
        let most = seen.iter().max().copied().unwrap_or(0);
        assert!(most > 10, "{seen:?}");
        assert_eq!(current(), current());
    }
}

/// The same where nobody tells threads apart: by the place of their stacks, of 16 KiB, 2 MiB or 32 MiB. Near the end of such a piece a thread may take turns
/// between two numbers.
#[cfg(not(any(test, feature = "hosted")))]
#[inline]
pub(crate) fn current() -> usize {
    let local = 0u8;
    let at = (&raw const local).addr();
    (at >> 14) + (at >> 21) + (at >> 25)
}

//! Per-thread shards, which keep threads from contending for one cache line.

/// The number of shards of each sharded value.
pub(crate) const SHARDS: usize = 16;

/// A value aligned to 128 bytes, so that it shares no cache line with another. Processors fetch
/// lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct CachePadded<T>(pub(crate) T);

#[cfg(any(test, feature = "hosted"))]
pub(crate) use numbered::current;

/// Shards of a hosted program's threads.
#[cfg(any(test, feature = "hosted"))]
mod numbered {
    use core::cell::Cell;
    use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

    use super::SHARDS;

    const NONE: usize = usize::MAX;

    /// The shard numbers in use, one bit each. All accesses here are relaxed, because only the
    /// distinctness of the numbers matters.
    static TAKEN: AtomicU32 = AtomicU32::new(0);

    std::thread_local! {
        /// The number of this thread. It has no destructor, so that a read is one load.
        static SHARD: Cell<usize> = const { Cell::new(NONE) };
        static GUARD: NumberGuard = const { NumberGuard(Cell::new(NONE)) };
    }

    /// The guard that returns a thread's number when the thread ends. The next thread then finds
    /// the frames cached under that number, and few numbers are in use.
    struct NumberGuard(Cell<usize>);

    impl Drop for NumberGuard {
        fn drop(&mut self) {
            let shard = self.0.get();
            if shard != NONE {
                TAKEN.fetch_and(!(1 << shard), Ordering::Relaxed);
            }
        }
    }

    /// Returns the shard number of this thread, which does not change. Threads that run at the same
    /// time share a number only if there are more threads than numbers.
    #[inline]
    pub(crate) fn current() -> usize {
        SHARD.with(|shard| {
            if shard.get() == NONE {
                shard.set(take());
            }
            shard.get()
        })
    }

    #[cold]
    fn take() -> usize {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let relaxed = Ordering::Relaxed;
        let lowest = |taken: u32| (!taken).trailing_zeros() as usize;
        let taken = TAKEN.fetch_update(relaxed, relaxed, |taken| {
            let shard = lowest(taken);
            (shard < SHARDS).then(|| taken | 1 << shard)
        });
        match taken.map(lowest) {
            Ok(shard) => {
                if GUARD.try_with(|guard| guard.0.set(shard)).is_err() {
                    // The thread is about to end. Until then it may share its number.
                    drop(NumberGuard(Cell::new(shard)));
                }
                shard
            }
            Err(_) => NEXT.fetch_add(1, relaxed) % SHARDS,
        }
    }

    #[test]
    fn threads_that_end_give_their_numbers_back() {
        let of_a_thread = || std::thread::spawn(current).join().unwrap_or(NONE);
        // Threads of other tests take numbers as well, but only for short times.
        let mut seen = [0; SHARDS];
        (0..10 * SHARDS).for_each(|_| seen[of_a_thread()] += 1);
        let most = seen.iter().max().copied().unwrap_or(0);
        assert!(most > 10, "{seen:?}");
        assert_eq!(current(), current());
    }
}

/// Returns a shard number derived from the address of the stack, in units of 16 KiB, 2 MiB and 32
/// MiB. It serves where threads cannot be told apart. Near the end of such a unit, a thread may
/// alternate between two numbers.
#[cfg(not(any(test, feature = "hosted")))]
#[inline]
pub(crate) fn current() -> usize {
    let local = 0u8;
    let at = (&raw const local).addr();
    (at >> 14) + (at >> 21) + (at >> 25)
}

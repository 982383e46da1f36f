//! [`Waiting`]: writers wait for readers for a bounded time.
//!
//! Readers count themselves on one of two counters, which the *phase* selects. A writer turns new
//! readers to the other counter, so that the first one can reach zero. A grace period is over when
//! both counters have been seen at zero after the writer's fence. If a reader stays longer than the
//! writer spins, the writer defers the freeing and goes on.
//!
//! Invariant: a writer changes the phase only when the counter that new readers will use has been
//! seen at zero. The ordering of each access is argued at the implementation of [`Reclaim`].

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::ptr::null_mut;
// Not the model checker's atomic: it is written before other threads start, so that no thread has
// two values to read.
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::compiler_fence;

use crate::atomic::{AtomicUsize, Ordering, fence};
use crate::callback::{Callback, boxed, run_all};
use crate::reclaim::Reclaim;
use crate::try_box_uninit;

/// The number of times that a writer checks for readers before it defers.
///
/// One check costs one spin-loop instruction of the processor: 5 ns on some, 50 ns on others. The
/// total is one to six microseconds for each of two counters. The model checker's writers wait
/// without limit, since the checker tries every order anyway.
const SPINS: usize = if cfg!(samara_loom) {
    usize::MAX
} else if cfg!(miri) {
    8
} else {
    128
};

/// As [`SPINS`], after a reader outlasted the previous attempt.
///
/// That reader may still be inside. It may also belong to the writer's own thread, for which no
/// wait is long enough. A reader that looks up one entry leaves within this many checks.
const SPINS_AFTER_TIMEOUT: usize = if cfg!(samara_loom) { usize::MAX } else { 4 };

/// The number of counters over which readers are spread.
const SHARDS: usize = if cfg!(samara_loom) { 2 } else { 16 };

type Shards = [Shard; SHARDS];

/// A pair of reader counters, alone in its cache lines. Processors may fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard([AtomicUsize; 2]);

/// Returns a number that concurrent threads seldom share. It mixes the numbers of the 16 KiB, 2 MiB
/// and 32 MiB regions that contain the stack.
#[cfg(not(samara_loom))]
#[inline]
fn stack_region() -> usize {
    let local = 0u8;
    let at = (&raw const local).addr();
    (at >> 14) + (at >> 21) + (at >> 25)
}

/// Spins until the counter is zero. Returns `false` if `left` checks were not enough.
fn wait_for(counter: &AtomicUsize, left: &mut usize) -> bool {
    while counter.load(Ordering::Acquire) != 0 {
        if *left == 0 {
            return false;
        }
        if *left != usize::MAX {
            *left -= 1;
        }
        #[cfg(samara_loom)]
        loom::thread::yield_now();
        #[cfg(not(samara_loom))]
        core::hint::spin_loop();
    }
    true
}

/// Reclamation in which writers wait for readers, for some microseconds.
///
/// If a reader stays longer, the freeing of what it may have found is deferred until it has left.
/// While that reader stays, writers hardly wait for it. `Waiting` needs no threads, and memory only
/// while a reader stays. A kernel can use it before it has anything better.
///
/// If all readers have left, [`retire`](Reclaim::retire) frees at once. Otherwise the freeing
/// happens at the first retirement after the last of those readers has left, or when the `Waiting`
/// is dropped. There is one writer at a time.
///
/// A reader enters and leaves with one atomic addition each, on a counter that all readers share,
/// until they are [`spread`](Waiting::spread).
///
/// # A thread that writes while it reads
///
/// This is allowed. The first [`published`](Reclaim::published) during its own read takes those
/// microseconds, and each later one 0.1 to 0.2 µs. What it retires stays as long as its reader.
///
/// If there is also no memory to defer the freeing, the writer waits until the readers have left.
/// Linux does the same in this case. If the reader is on the writer's own thread, that wait never
/// ends. [Grace periods](Reclaim::start_poll) need no memory.
///
/// ```
/// use samara_rcu::{Reclaim, Waiting};
///
/// let rcu = Waiting::new();
/// let (sender, freed) = std::sync::mpsc::channel();
/// let retire = |number: u32| {
///     let sender = sender.clone();
///     rcu.published();
///     // SAFETY: nothing is freed. One thread is the writer.
///     unsafe { rcu.retire(move || drop(sender.send(number))) };
/// };
/// let reader = rcu.enter();
/// retire(1);
/// assert!(freed.try_recv().is_err());
/// drop(reader);
/// retire(2);
/// assert_eq!(freed.try_iter().collect::<Vec<_>>(), [1, 2]);
/// ```
pub struct Waiting {
    /// The counter of each pair that new readers use: 0 or 1.
    phase: AtomicUsize,
    readers: [AtomicUsize; 2],
    /// More counters, or null until [`spread`](Waiting::spread) has been called.
    shards: AtomicPtr<Shards>,
    #[cfg(samara_loom)]
    next_shard: core::sync::atomic::AtomicUsize,
    /// The number of completed grace periods, modulo 2 to the width of a word. Only for the writer.
    completed: AtomicUsize,
    /// Not 0 if readers had stayed when [`published`](Reclaim::published) last checked. Only for
    /// the writer.
    readers_stayed: AtomicUsize,
    /// Not 0 if a reader was still inside when the last attempt gave up. Only for the writer.
    timed_out: AtomicUsize,
    /// Not 0 if `deferred` holds callbacks. Only for the writer.
    has_deferred: AtomicUsize,
    /// Callbacks that wait for readers to leave. Only the writer takes the lock, and briefly.
    deferred: spin::Mutex<Vec<Callback>>,
}

impl Waiting {
    const_unless_loom! {
        /// Creates one without readers.
        #[must_use]
        pub const fn new() -> Self {
            Self {
                phase: AtomicUsize::new(0),
                readers: [AtomicUsize::new(0), AtomicUsize::new(0)],
                shards: AtomicPtr::new(null_mut()),
                #[cfg(samara_loom)]
                next_shard: core::sync::atomic::AtomicUsize::new(0),
                completed: AtomicUsize::new(0),
                readers_stayed: AtomicUsize::new(0),
                timed_out: AtomicUsize::new(0),
                has_deferred: AtomicUsize::new(0),
                deferred: spin::Mutex::new(Vec::new()),
            }
        }
    }

    /// Spreads readers that enter from now on over sixteen counters, each in cache lines of its
    /// own.
    ///
    /// A thread mostly uses one of them. This helps readers that enter so often, on several
    /// processors, that they contend for one counter's cache line. Writers then check all of the
    /// counters. Takes 2 KiB. Returns `false`, and changes nothing, if there is no memory.
    ///
    /// ```
    /// use samara_rcu::{Reclaim, Waiting};
    ///
    /// let rcu = Waiting::new();
    /// assert!(rcu.spread());
    /// let _reader = rcu.enter();
    /// ```
    pub fn spread(&self) -> bool {
        if !self.shards.load(Ordering::Acquire).is_null() {
            return true;
        }
        let Some(uninit) = try_box_uninit::<Shards>() else {
            return false;
        };
        let new = Box::into_raw(Box::write(uninit, Shards::default()));
        // Release: a thread that finds the counters finds them at zero. Acquire: so does this
        // thread, if another has installed them.
        let first =
            self.shards
                .compare_exchange(null_mut(), new, Ordering::AcqRel, Ordering::Acquire);
        if first.is_err() {
            // SAFETY: it is still a box of this thread's, since the exchange failed.
            drop(unsafe { Box::from_raw(new) });
        }
        true
    }

    #[inline]
    fn shards(&self) -> Option<&Shards> {
        // SAFETY: the pointer came from a box in `spread`, and is freed when this is dropped.
        unsafe { self.shards.load(Ordering::Acquire).as_ref() }
    }

    /// Returns the counters for a new reader of this thread. Any pair would be correct.
    #[inline]
    fn my_counters(&self) -> &[AtomicUsize; 2] {
        let Some(shards) = self.shards() else {
            return &self.readers;
        };
        // The checker needs the same choice in each run.
        #[cfg(samara_loom)]
        let shard = self
            .next_shard
            .fetch_add(1, core::sync::atomic::Ordering::Relaxed);
        #[cfg(not(samara_loom))]
        let shard = stack_region();
        &shards[shard % SHARDS].0
    }

    /// Spins until all counters of a phase are zero. Returns `false` if `spins` checks were not
    /// enough.
    fn wait_for(&self, phase: usize, spins: usize) -> bool {
        let shards = self.shards().map_or(&[][..], |shards| &shards[..]);
        let mut left = spins;
        wait_for(&self.readers[phase], &mut left)
            && shards
                .iter()
                .all(|shard| wait_for(&shard.0[phase], &mut left))
    }

    /// Attempts to complete a grace period: returns `true` if all readers that had entered before
    /// have left within `spins` checks.
    ///
    /// After a failure the next attempt resumes. It waits first for the counter at which this one
    /// gave up, which new readers no longer use.
    fn try_grace_period(&self, spins: usize) -> bool {
        fence(Ordering::SeqCst);
        let phase = self.phase.load(Ordering::Relaxed);
        if !self.wait_for(1 - phase, spins) {
            return false;
        }
        self.phase.store(1 - phase, Ordering::Relaxed);
        if !self.wait_for(phase, spins) {
            return false;
        }
        let completed = self.completed.load(Ordering::Relaxed).wrapping_add(1);
        self.completed.store(completed, Ordering::Relaxed);
        true
    }

    /// As [`try_grace_period`](Self::try_grace_period), with the limit that the outcome of the last
    /// attempt calls for.
    #[inline]
    fn try_grace_period_bounded(&self) -> bool {
        let spins = if self.timed_out.load(Ordering::Relaxed) == 0 {
            SPINS
        } else {
            SPINS_AFTER_TIMEOUT
        };
        let completed = self.try_grace_period(spins);
        self.timed_out
            .store(usize::from(!completed), Ordering::Relaxed);
        completed
    }

    /// Runs the deferred callbacks, and then `last`. If one panics, the others still run.
    #[cold]
    fn free_deferred(&self, last: impl FnOnce()) {
        self.has_deferred.store(0, Ordering::Relaxed);
        let count = self.deferred.lock().len();
        // The lock is not held while a callback runs.
        run_all((0..count).map_while(|_| self.deferred.lock().pop()), last);
    }

    /// Defers a callback. Returns it as the error if there is no memory.
    fn defer<F: FnOnce() + Send + 'static>(&self, free: F) -> Result<(), F> {
        let mut deferred = self.deferred.lock();
        if deferred.try_reserve(1).is_err() {
            return Err(free);
        }
        deferred.push(boxed(free)?);
        self.has_deferred.store(1, Ordering::Relaxed);
        Ok(())
    }
}

impl Default for Waiting {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // Guards borrow `self`, so that no reader is inside.
        self.free_deferred(|| {});
        let shards = *self.shards.get_mut();
        if !shards.is_null() {
            // SAFETY: `spread` made it from a box, and no reference to it is left.
            drop(unsafe { Box::from_raw(shards) });
        }
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting")
            .field("readers", &self.readers)
            .field("shards", &self.shards())
            .field("deferred", &self.deferred.lock().len())
            .finish_non_exhaustive()
    }
}

/// `true` if an atomic addition is also a full fence. An instruction with the lock prefix waits for
/// all earlier stores, its own included, and no later access begins before it.
const ADD_IS_FENCE: bool = cfg!(all(
    not(miri),
    not(samara_loom),
    any(target_arch = "x86", target_arch = "x86_64")
));

/// Adds a reader, with a full fence between the addition and everything that the reader loads.
///
/// Where the addition is a fence itself, only the compiler must be told. A separate fence
/// instruction would wait once more, for longer than the addition takes.
#[inline]
fn add_reader(counter: &AtomicUsize) {
    if ADD_IS_FENCE {
        counter.fetch_add(1, Ordering::SeqCst);
        compiler_fence(Ordering::SeqCst);
    } else {
        counter.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }
}

/// The guard of a reader of [`Waiting`].
#[derive(Debug)]
pub struct WaitingGuard<'a>(&'a AtomicUsize);

impl Drop for WaitingGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: the reads come before. A writer that sees the reader gone may free.
        self.0.fetch_sub(1, Ordering::Release);
    }
}

// SAFETY: `try_grace_period` returns `true` after all counters have been seen at zero since its
// fence. A reader adds itself to one of them and then executes its fence (`add_reader`).
//
// * If the reader's fence comes first in the order of all fences, the writer's loads see the
//   addition or a later value. They also see the shards, if the reader has found them. Zero then
//   means that the reader has left. The load is an acquire, so that the reader's accesses come
//   before.
// * If the writer's fence comes first, the reader's later loads see what was published before that
//   fence.
//
// This argument does not depend on which counter a reader took. The phase only keeps new readers
// away from the counter that a writer waits for.
//
// What `retire` frees was unlinked before the fence of a `try_grace_period` that returned `true`:
// the one in `published`, or, if it was deferred, a later one. A period is over when a
// `try_grace_period` that began after the period has returned `true`.
unsafe impl Reclaim for Waiting {
    type Guard<'a> = WaitingGuard<'a>;

    #[inline]
    fn enter(&self) -> WaitingGuard<'_> {
        let counter = &self.my_counters()[self.phase.load(Ordering::Relaxed)];
        add_reader(counter);
        WaitingGuard(counter)
    }

    // The model checker needs every retirement to take effect at once.
    const BATCH: usize = if cfg!(samara_loom) { 1 } else { 32 };

    #[inline]
    fn start_poll(&self) -> Option<u64> {
        let completed = self.completed.load(Ordering::Relaxed);
        self.try_grace_period_bounded();
        Some(completed.wrapping_add(1) as u64)
    }

    #[inline]
    fn poll(&self, period: u64) -> bool {
        let over = || {
            let completed = self.completed.load(Ordering::Relaxed);
            completed.wrapping_sub(period as usize).cast_signed() >= 0
        };
        over() || (self.try_grace_period(0) && over())
    }

    #[inline]
    fn published(&self) {
        let stayed = usize::from(!self.try_grace_period_bounded());
        self.readers_stayed.store(stayed, Ordering::Relaxed);
    }

    unsafe fn retire<F: FnOnce() + Send + 'static>(&self, free: F) {
        let free = if self.readers_stayed.load(Ordering::Relaxed) == 0 {
            free
        } else {
            match self.defer(free) {
                Ok(()) => return,
                Err(free) => {
                    while !self.try_grace_period(usize::MAX) {}
                    free
                }
            }
        };
        // Everything retired was unlinked before `published`, which saw the readers leave, or
        // before the wait above. The same holds for the deferred callbacks.
        if self.has_deferred.load(Ordering::Relaxed) == 0 {
            return free();
        }
        self.free_deferred(free);
    }
}

//! Writers wait for the readers that are about, but not for ever.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::ptr::null_mut;
// Not the model checker's: written before other threads come, and so read by none of them in two ways.
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::compiler_fence;

use crate::atomic::{AtomicUsize, Ordering, fence};
use crate::callback::{Callback, boxed, run_all};
use crate::reclaim::Reclaim;
use crate::try_box_uninit;

/// How often a writer looks whether a reader has left before it goes on without. A look costs what the processor's instruction for waiting does:
/// 5 ns on some, 50 ns on others, so that this is a microsecond to six for each of two counters. The model checker's writers wait, as it tries every order
/// anyway.
const SPINS: usize = if cfg!(samara_loom) {
    usize::MAX
} else if cfg!(miri) {
    8
} else {
    128
};

/// As [`SPINS`], where a reader stayed beyond that the last time: it may be about still, and may be one of the writer's own thread, for which no wait is
/// long enough. A reader that looks one thing up leaves within so many looks.
const SPINS_AFTER_TIMEOUT: usize = if cfg!(samara_loom) { usize::MAX } else { 4 };

/// Over how many counters readers are spread.
const SHARDS: usize = if cfg!(samara_loom) { 2 } else { 16 };

type Shards = [Shard; SHARDS];

/// Counters of readers, alone in their lines of the cache, which processors fetch by twos.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard([AtomicUsize; 2]);

/// A number that threads which run at the same time seldom have in common: that of the piece of 16 KiB, of 2 MiB or of 32 MiB in which the stack is.
#[cfg(not(samara_loom))]
#[inline]
fn stack_region() -> usize {
    let local = 0u8;
    let at = (&raw const local).addr();
    (at >> 14) + (at >> 21) + (at >> 25)
}

/// Whether a counter comes to zero, while looks are left.
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

/// Writers wait for the readers that are about, for some microseconds; what a reader that stays longer may have found is freed when it has
/// left. As long as that one is about, writers no longer wait for it. Needs no threads, and memory only where a reader stays, so that it suits a kernel before it has anything better.
///
/// Where the readers have left, what is [retired](Reclaim::retire) is freed at once. Else it is freed when something is retired for the first time after
/// the last of those readers has left, or with this. There is one writer at a time.
///
/// A reader enters and leaves with one atomic addition each, on a counter that all readers share, until they are [`spread`](Waiting::spread).
///
/// # A thread that writes while it reads
///
/// It may: the first time that something is [published](Reclaim::published) beside its reader takes those microseconds, each later time a tenth of one or two, and
/// what is retired stays as long as its reader.
///
/// Where there is no memory to note what is retired either, the writer does wait until the readers have left, as Linux does in the same place; for
/// its own thread's reader it then waits for ever. [Grace periods](Reclaim::start_poll) need no such note.
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
    /// Which of the counters new readers use.
    phase: AtomicUsize,
    readers: [AtomicUsize; 2],
    /// More counters, once readers are to be spread over them: `null` before.
    shards: AtomicPtr<Shards>,
    #[cfg(samara_loom)]
    next_shard: core::sync::atomic::AtomicUsize,
    /// How often all readers that had been about have been seen to have left, modulo 2 to the width. Only for the writer.
    completed: AtomicUsize,
    /// Whether they had when it last looked: 0 for yes. Only for the writer.
    readers_stayed: AtomicUsize,
    /// Not 0 if a reader was still there when the last attempt gave up. Used by the writer alone.
    timed_out: AtomicUsize,
    /// Whether something waits for them: 0 for no. Only for the writer.
    has_deferred: AtomicUsize,
    /// What waits for them. Taken for a moment, and by the writer alone.
    deferred: spin::Mutex<Vec<Callback>>,
}

impl Waiting {
    const_unless_loom! {
        /// No readers.
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

    /// Lets readers that enter from now on count themselves on sixteen counters, in cache lines of their own, of which each thread mostly uses one: for readers
    /// that come so often, on several processors, that they would wait for the line of one counter. Writes then look at all of
    /// them. Takes 2 KiB; without memory all stays as it is. False: so it was.
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
        // Release: whoever finds the counters finds them at zero. Acquire: so does this thread, those of another.
        let first =
            self.shards
                .compare_exchange(null_mut(), new, Ordering::AcqRel, Ordering::Acquire);
        if first.is_err() {
            // SAFETY: a box just now, and shown to nobody.
            drop(unsafe { Box::from_raw(new) });
        }
        true
    }

    #[inline]
    fn shards(&self) -> Option<&Shards> {
        // SAFETY: what is there was made by `spread`, and is freed with this.
        unsafe { self.shards.load(Ordering::Acquire).as_ref() }
    }

    /// The counters that a new reader of this thread uses: any would do.
    #[inline]
    fn my_counters(&self) -> &[AtomicUsize; 2] {
        let Some(shards) = self.shards() else {
            return &self.readers;
        };
        // The checker wants the same each time.
        #[cfg(samara_loom)]
        let shard = self
            .next_shard
            .fetch_add(1, core::sync::atomic::Ordering::Relaxed);
        #[cfg(not(samara_loom))]
        let shard = stack_region();
        &shards[shard % SHARDS].0
    }

    /// Whether there are no readers on the counters of a phase, after so many looks.
    fn wait_for(&self, phase: usize, spins: usize) -> bool {
        let shards = self.shards().map_or(&[][..], |shards| &shards[..]);
        let mut left = spins;
        wait_for(&self.readers[phase], &mut left)
            && shards
                .iter()
                .all(|shard| wait_for(&shard.0[phase], &mut left))
    }

    /// Whether all readers that had entered before have left, after some spins. If not, the next attempt goes on where this one was left: the counter at which it gave up is one that new readers no longer use.
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

    /// As [`try_grace_period`](Self::try_grace_period), with the spins that the last attempt has left.
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

    /// Frees what has been noted, and then `last`. If one of them panics, goes on with the others.
    #[cold]
    fn free_deferred(&self, last: impl FnOnce()) {
        self.has_deferred.store(0, Ordering::Relaxed);
        let count = self.deferred.lock().len();
        // The lock is not held while something is freed.
        run_all((0..count).map_while(|_| self.deferred.lock().pop()), last);
    }

    /// Notes what is to be freed, if there is memory for that; else gives it back.
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
        // Readers borrow it, so that there are none.
        self.free_deferred(|| {});
        let shards = *self.shards.get_mut();
        if !shards.is_null() {
            // SAFETY: a box that `spread` has made, and nobody uses any more.
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

/// Whether an atomic addition is a fence: an instruction with the lock prefix waits for the stores before it, its own among them, and nothing after it begins
/// before.
const ADD_IS_FENCE: bool = cfg!(all(
    not(miri),
    not(samara_loom),
    any(target_arch = "x86", target_arch = "x86_64")
));

/// Adds a reader, and is a fence between that and all that the reader loads. Where the addition is one already just the compiler is to be told; the instruction
/// that a fence is made of would wait once more, for longer than the addition takes.
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

/// A reader's presence with [`Waiting`].
#[derive(Debug)]
pub struct WaitingGuard<'a>(&'a AtomicUsize);

impl Drop for WaitingGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        // What was read comes before; the writer that sees the reader gone may free it.
        self.0.fetch_sub(1, Ordering::Release);
    }
}

// SAFETY: `try_grace_period` gives `true` after all counters have been seen at zero since its fence. A reader adds itself to one of them, then
// comes its fence (`add_reader`).
// * If the reader's fence comes first in the order of all fences, the writer's loads see the addition, or what came
//   after it, and before that the shards, if the reader has found them; zero means that the reader has left, and reading it with acquire puts the reader's accesses before.
// * If the writer's fence comes first, the reader's later loads see what was published before that fence.
// Which counter a reader took does not matter for this. The phase only keeps new readers from the counter that is being waited for.
// What is freed in `retire`, or is noted there and freed by a later `try_grace_period`, was unlinked before the fence of a `try_grace_period` that gave `true`: the one
// before `retire`, or that later one. A period is over when a `try_grace_period` that began after it had begun has given `true`.
unsafe impl Reclaim for Waiting {
    type Guard<'a> = WaitingGuard<'a>;

    #[inline]
    fn enter(&self) -> WaitingGuard<'_> {
        let counter = &self.my_counters()[self.phase.load(Ordering::Relaxed)];
        add_reader(counter);
        WaitingGuard(counter)
    }

    // The model checker sees to every one at once.
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
        // All that is retired was unlinked before `published`, which has seen the readers leave (or that was waited for just now); and so
        // was all that has been noted.
        if self.has_deferred.load(Ordering::Relaxed) == 0 {
            return free();
        }
        self.free_deferred(free);
    }
}

//! Writers wait for the readers that are about, but not for ever.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::ptr::null_mut;
// Not the model checker's: written before other threads come, and so read by none of them in two ways.
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::compiler_fence;

use crate::atomic::{AtomicUsize, Ordering, fence};
use crate::free::{Free, boxed, call};
use crate::reclaim::Reclaim;
use crate::room;

/// How often a writer looks whether a reader has left before it goes on without. A look costs what the processor's instruction for waiting does:
/// 5 ns on some, 50 ns on others, so that this is a microsecond to six for each of two counters. The model checker's writers wait, as it tries every order
/// anyway.
const PATIENCE: usize = if cfg!(samara_loom) {
    usize::MAX
} else if cfg!(miri) {
    8
} else {
    128
};

/// As [`PATIENCE`], where a reader stayed beyond that the last time: it may be about still, and may be one of the writer's own thread, for which no wait is
/// long enough. A reader that looks one thing up leaves within so many looks.
const PATIENCE_IN_VAIN: usize = if cfg!(samara_loom) { usize::MAX } else { 4 };

/// Over how many counters readers are spread.
const LANES: usize = if cfg!(samara_loom) { 2 } else { 16 };

type Lanes = [Lane; LANES];

/// Counters of readers, alone in their lines of the cache, which processors fetch by twos.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Lane([AtomicUsize; 2]);

/// A number that threads which run at the same time seldom have in common: that of the piece of 16 KiB, of 2 MiB or of 32 MiB in which the stack is.
#[cfg(not(samara_loom))]
#[inline]
fn place_of_stack() -> usize {
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
    lanes: AtomicPtr<Lanes>,
    #[cfg(samara_loom)]
    turn: core::sync::atomic::AtomicUsize,
    /// How often all readers that had been about have been seen to have left, modulo 2 to the width. Only for the writer.
    passed: AtomicUsize,
    /// Whether they had when it last looked: 0 for yes. Only for the writer.
    late: AtomicUsize,
    /// Not 0 if a reader was still there when the last attempt gave up. Used by the writer alone.
    stayed: AtomicUsize,
    /// Whether something waits for them: 0 for no. Only for the writer.
    noted: AtomicUsize,
    /// What waits for them. Taken for a moment, and by the writer alone.
    later: spin::Mutex<Vec<Free>>,
}

impl Waiting {
    const_unless_loom! {
        /// No readers.
        #[must_use]
        pub const fn new() -> Self {
            Self {
                phase: AtomicUsize::new(0),
                readers: [AtomicUsize::new(0), AtomicUsize::new(0)],
                lanes: AtomicPtr::new(null_mut()),
                #[cfg(samara_loom)]
                turn: core::sync::atomic::AtomicUsize::new(0),
                passed: AtomicUsize::new(0),
                late: AtomicUsize::new(0),
                stayed: AtomicUsize::new(0),
                noted: AtomicUsize::new(0),
                later: spin::Mutex::new(Vec::new()),
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
        if !self.lanes.load(Ordering::Acquire).is_null() {
            return true;
        }
        let Some(room) = room::<Lanes>() else {
            return false;
        };
        let new = Box::into_raw(Box::write(room, Lanes::default()));
        // Release: whoever finds the counters finds them at zero. Acquire: so does this thread, those of another.
        let first =
            self.lanes
                .compare_exchange(null_mut(), new, Ordering::AcqRel, Ordering::Acquire);
        if first.is_err() {
            // SAFETY: a box just now, and shown to nobody.
            drop(unsafe { Box::from_raw(new) });
        }
        true
    }

    #[inline]
    fn lanes(&self) -> Option<&Lanes> {
        // SAFETY: what is there was made by `spread`, and is freed with this.
        unsafe { self.lanes.load(Ordering::Acquire).as_ref() }
    }

    /// The counters that a new reader of this thread uses: any would do.
    #[inline]
    fn mine(&self) -> &[AtomicUsize; 2] {
        let Some(lanes) = self.lanes() else {
            return &self.readers;
        };
        // The checker wants the same each time.
        #[cfg(samara_loom)]
        let lane = self
            .turn
            .fetch_add(1, core::sync::atomic::Ordering::Relaxed);
        #[cfg(not(samara_loom))]
        let lane = place_of_stack();
        &lanes[lane % LANES].0
    }

    /// Whether there are no readers on the counters of a phase, after so many looks.
    fn wait_for(&self, phase: usize, patience: usize) -> bool {
        let lanes = self.lanes().map_or(&[][..], |lanes| &lanes[..]);
        let mut left = patience;
        wait_for(&self.readers[phase], &mut left)
            && lanes.iter().all(|lane| wait_for(&lane.0[phase], &mut left))
    }

    /// Whether all readers that had entered before have left, after some patience. If not, the next attempt goes on where this one was left: the counter at which it gave up is one that new readers no longer use.
    fn pass(&self, patience: usize) -> bool {
        fence(Ordering::SeqCst);
        let phase = self.phase.load(Ordering::Relaxed);
        if !self.wait_for(1 - phase, patience) {
            return false;
        }
        self.phase.store(1 - phase, Ordering::Relaxed);
        if !self.wait_for(phase, patience) {
            return false;
        }
        let passed = self.passed.load(Ordering::Relaxed).wrapping_add(1);
        self.passed.store(passed, Ordering::Relaxed);
        true
    }

    /// As [`pass`](Self::pass), with the patience that the last attempt has left.
    #[inline]
    fn pass_in_time(&self) -> bool {
        let patience = if self.stayed.load(Ordering::Relaxed) == 0 {
            PATIENCE
        } else {
            PATIENCE_IN_VAIN
        };
        let passed = self.pass(patience);
        self.stayed.store(usize::from(!passed), Ordering::Relaxed);
        passed
    }

    /// Frees what has been noted, and then `last`. If one of them panics, goes on with the others.
    #[cold]
    fn free_noted(&self, last: impl FnOnce()) {
        self.noted.store(0, Ordering::Relaxed);
        let count = self.later.lock().len();
        // The lock is not held while something is freed.
        call((0..count).map_while(|_| self.later.lock().pop()), last);
    }

    /// Notes what is to be freed, if there is memory for that; else gives it back.
    fn note<F: FnOnce() + Send + 'static>(&self, free: F) -> Result<(), F> {
        let mut later = self.later.lock();
        if later.try_reserve(1).is_err() {
            return Err(free);
        }
        later.push(boxed(free)?);
        self.noted.store(1, Ordering::Relaxed);
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
        self.free_noted(|| {});
        let lanes = *self.lanes.get_mut();
        if !lanes.is_null() {
            // SAFETY: a box that `spread` has made, and nobody uses any more.
            drop(unsafe { Box::from_raw(lanes) });
        }
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting")
            .field("readers", &self.readers)
            .field("lanes", &self.lanes())
            .field("later", &self.later.lock().len())
            .finish_non_exhaustive()
    }
}

/// Whether an atomic addition is a fence: an instruction with the lock prefix waits for the stores before it, its own among them, and nothing after it begins
/// before.
const ADDING_IS_A_FENCE: bool = cfg!(all(
    not(miri),
    not(samara_loom),
    any(target_arch = "x86", target_arch = "x86_64")
));

/// Adds a reader, and is a fence between that and all that the reader loads. Where the addition is one already just the compiler is to be told; the instruction
/// that a fence is made of would wait once more, for longer than the addition takes.
#[inline]
fn arrive(counter: &AtomicUsize) {
    if ADDING_IS_A_FENCE {
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

// SAFETY: `pass` gives `true` after all counters have been seen at zero since its fence. A reader adds itself to one of them, then
// comes its fence (`arrive`).
// * If the reader's fence comes first in the order of all fences, the writer's loads see the addition, or what came
//   after it, and before that the lanes, if the reader has found them; zero means that the reader has left, and reading it with acquire puts the reader's accesses before.
// * If the writer's fence comes first, the reader's later loads see what was published before that fence.
// Which counter a reader took does not matter for this. The phase only keeps new readers from the counter that is being waited for.
// What is freed in `retire`, or is noted there and freed by a later `pass`, was unlinked before the fence of a `pass` that gave `true`: the one
// before `retire`, or that later one. A period is over when a `pass` that began after it had begun has given `true`.
unsafe impl Reclaim for Waiting {
    type Guard<'a> = WaitingGuard<'a>;

    #[inline]
    fn enter(&self) -> WaitingGuard<'_> {
        let counter = &self.mine()[self.phase.load(Ordering::Relaxed)];
        arrive(counter);
        WaitingGuard(counter)
    }

    // The model checker sees to every one at once.
    const BATCH: usize = if cfg!(samara_loom) { 1 } else { 32 };

    #[inline]
    fn start_poll(&self) -> Option<u64> {
        let passed = self.passed.load(Ordering::Relaxed);
        self.pass_in_time();
        Some(passed.wrapping_add(1) as u64)
    }

    #[inline]
    fn poll(&self, period: u64) -> bool {
        let over = || {
            let passed = self.passed.load(Ordering::Relaxed);
            passed.wrapping_sub(period as usize).cast_signed() >= 0
        };
        over() || (self.pass(0) && over())
    }

    #[inline]
    fn published(&self) {
        let late = usize::from(!self.pass_in_time());
        self.late.store(late, Ordering::Relaxed);
    }

    unsafe fn retire<F: FnOnce() + Send + 'static>(&self, free: F) {
        let free = if self.late.load(Ordering::Relaxed) == 0 {
            free
        } else {
            match self.note(free) {
                Ok(()) => return,
                Err(free) => {
                    while !self.pass(usize::MAX) {}
                    free
                }
            }
        };
        // All that is retired was unlinked before `published`, which has seen the readers leave (or that was waited for just now); and so
        // was all that has been noted.
        if self.noted.load(Ordering::Relaxed) == 0 {
            return free();
        }
        self.free_noted(free);
    }
}

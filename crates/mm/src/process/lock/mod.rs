//! A lock for programs: it sleeps, and takes no memory.
//!
//! One word holds the state of the lock, and a list holds the sleeping threads. The entries of the
//! list lie on the stacks of these threads. A mutex of the standard library, called the *queue*
//! here, protects the list. A thread that finds the lock free never touches the queue.
//!
//! # No lost wake-up
//!
//! A thread holds the queue from where it sets [`WAITING`] to where it sleeps. [`WAITING`] is
//! cleared with the queue held, when the list is empty.
//!
//! ```text
//! a waiter, W                              a releaser, H
//! 1  take the queue                        A  word -= its share
//! 2  take the lock, or set WAITING         B  WAITING was set: take the queue
//! 3  enter the list                        C  remove the next waiters, notify them
//! 4  sleep, and release the queue          D  release the queue
//! ```
//!
//! 2 and A are single steps on one word, so one comes before the other.
//!
//! - 2 before A: A finds `WAITING`. B waits until 4, where W releases the queue and begins to wait
//!   for its condition variable in one step. C finds W in the list.
//! - A before 2: 2 finds the lock free, and W has it. Or another thread has it, and releases it
//!   later, as H.
//!
//! A woken thread begins at 1 again, since another thread may have taken the lock first. Until
//! then it is in no list. But it takes the lock, or finds it held and sets `WAITING` again. So while the
//! lock is free and threads sleep, there is an awake thread about to take it, or a releaser between
//! A and C.
//!
//! # No starvation
//!
//! The list is in order of arrival. A releaser wakes the first waiter: a writer, or all readers
//! before the first writer. Running threads may take the lock first, which makes a busy lock fast.
//! But a thread that was woken [`TRIES`] times in vain sets [`STARVING`]. Then no running thread
//! takes the lock. C hands it to the first of the list, until no starved thread is left there. So a
//! thread waits for those before it in the list, and is then woken in vain at most `TRIES` times.
//!
//! A reader that finds other readers and a writer in the list waits behind the writer. That
//! includes a reader that holds the lock already. As with most locks, a thread that reads must not
//! read again if another thread may want to write. Readers alone never keep each other waiting.
//!
//! # Memory order
//!
//! Taking acquires, releasing releases, and every change of the word is a read-modify-write. So a
//! thread that takes the lock sees everything that earlier holders did. If C hands the lock over, C
//! acquires, and the queue passes on what C saw.
//!
//! `loom/mm/host.rs` tries every interleaving of two and three threads.

mod queue;
#[cfg(not(samara_loom))]
mod raw;

use core::fmt;
#[cfg(not(samara_loom))]
use std::sync::{Mutex, MutexGuard};

#[cfg(samara_loom)]
use loom::sync::{Mutex, MutexGuard};

use crate::atomic::{AtomicU32, Ordering};
pub(crate) use queue::Mode;
use queue::{Queue, Waiter, entered};

/// A writer has the lock.
const WRITER: u32 = 1;
/// The list is not empty.
const WAITING: u32 = 2;
/// A thread in the list is starved.
const STARVING: u32 = 4;
/// One reader.
const READER: u32 = 8;
/// No more readers are admitted. The count comes here only if guards are forgotten again and again,
/// and must not overflow.
const FULL: u32 = 1 << 31;

/// The number of vain wake-ups after which a thread is starved.
const TRIES: u32 = if cfg!(samara_loom) { 1 } else { 8 };
/// The number of attempts before a thread sleeps.
const TURNS: u32 = if cfg!(samara_loom) { 0 } else { 10 };
/// The number of first attempts that do not yield the processor.
const SPINNING: u32 = 3;

/// A mutex and a reader-writer lock in one, for programs. Waiting threads sleep.
///
/// Neither waiting nor waking takes memory on Linux, Android, Windows 10, FreeBSD, OpenBSD and
/// DragonFly. There the standard library's `Mutex` and `Condvar` are words that the system's kernel
/// knows. On other systems, for example macOS, the standard library allocates when the first thread
/// waits, and ends the program without memory. Locks that keep sleeping threads in a table of their
/// own allocate on every system.
///
/// Waiting threads get the lock in order of arrival. Running threads may take it first, but only a
/// few times. A thread that reads must not read again before it ends: if a writer waits in between, all
/// wait forever.
///
/// ```
/// use samara_mm::process::HostLock;
///
/// let list = lock_api::Mutex::<HostLock, _>::new(vec![1]);
/// list.lock().push(2);
/// let map = lock_api::RwLock::<HostLock, _>::new(3);
/// assert_eq!((list.lock().len(), *map.read()), (2, 3));
/// ```
pub struct HostLock {
    word: AtomicU32,
    queue: Mutex<Queue>,
}

impl HostLock {
    #[cfg(not(samara_loom))]
    const fn new() -> Self {
        HostLock {
            word: AtomicU32::new(0),
            queue: Mutex::new(Queue::new()),
        }
    }

    #[cfg(samara_loom)]
    pub(crate) fn new() -> Self {
        HostLock {
            word: AtomicU32::new(0),
            queue: Mutex::new(Queue::new()),
        }
    }

    #[inline]
    pub(crate) fn read(&self) {
        // Any other state takes the slow path.
        let word = self.word.load(Ordering::Relaxed);
        let free = word & (WRITER | WAITING | STARVING | FULL) == 0;
        if !free || self.exchange(word, word + READER).is_err() {
            self.wait(Mode::Read);
        }
    }

    #[inline]
    pub(crate) fn write(&self) {
        if self.exchange(0, WRITER).is_err() {
            self.wait(Mode::Write);
        }
    }

    /// As [`read`](Self::read) and [`write`](Self::write), if possible at once.
    #[inline]
    pub(crate) fn attempt(&self, mode: Mode) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while let Some(next) = taken(word, mode, word & WAITING != 0) {
            match self.exchange(word, next) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Releases the lock of a reader.
    ///
    /// # Safety
    /// The caller has taken it by [`read`](Self::read).
    #[inline]
    pub(crate) unsafe fn end_read(&self) {
        // The last reader wakes.
        let before = self.word.fetch_sub(READER, Ordering::Release);
        if before & !STARVING == READER | WAITING {
            self.wake();
        }
    }

    /// Releases the lock of a writer.
    ///
    /// # Safety
    /// The caller has taken it by [`write`](Self::write).
    #[inline]
    pub(crate) unsafe fn end_write(&self) {
        if self.word.fetch_sub(WRITER, Ordering::Release) != WRITER {
            self.wake();
        }
    }

    #[inline]
    fn exchange(&self, word: u32, next: u32) -> Result<u32, u32> {
        self.word
            .compare_exchange(word, next, Ordering::Acquire, Ordering::Relaxed)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        entered(self.queue.lock())
    }

    #[cold]
    fn wait(&self, mode: Mode) {
        if self.spin(mode) {
            return;
        }
        let mut queue = self.queue();
        let waiter = Waiter::new(mode, &queue);
        while !self.take_or_mark(&queue, &waiter) {
            let (again, given) = queue::sleep(queue, &waiter);
            if given {
                return;
            }
            queue = again;
        }
    }

    /// Tries again for a while: most holders have the lock for less time than falling asleep takes.
    /// Gives up if other threads sleep.
    fn spin(&self, mode: Mode) -> bool {
        for turn in 0..TURNS {
            if self.attempt(mode) {
                return true;
            }
            if self.word.load(Ordering::Relaxed) & WAITING != 0 {
                return false;
            }
            pause(turn);
        }
        false
    }

    /// Takes the lock, or sets the mark that a thread is about to sleep, in one step.
    fn take_or_mark(&self, queue: &Queue, waiter: &Waiter) -> bool {
        let mark = match waiter.is_starved() {
            true => WAITING | STARVING,
            false => WAITING,
        };
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            // Tested only if it matters. Then few threads in the list are before a writer.
            let barred = word & WRITER == 0 && queue.has_writer_before(waiter);
            let next = taken(word, waiter.mode, barred);
            match self.exchange(word, next.unwrap_or(word | mark)) {
                Ok(_) => return next.is_some(),
                Err(now) => word = now,
            }
        }
    }

    /// Wakes the next waiters, unless another thread has the lock again, and wakes them later.
    #[cold]
    fn wake(&self) {
        let mut queue = self.queue();
        let Some(group) = queue.front() else {
            return;
        };
        let (held, one) = match group.mode {
            Mode::Read => (WRITER, READER),
            Mode::Write => (!(WAITING | STARVING), WRITER),
        };
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word & held != 0 {
                return;
            }
            let given = word & STARVING != 0;
            let mut next = word & !(WAITING | STARVING);
            next |= if group.others { WAITING } else { 0 };
            if given {
                next |= if queue.has_starved_behind(group.count) {
                    STARVING
                } else {
                    0
                };
                // There are far fewer threads than would overflow beyond `FULL`.
                next += group.count * one;
            }
            match self.exchange(word, next) {
                Ok(_) => return queue.wake(group.count, given),
                Err(now) => word = now,
            }
        }
    }
}

/// Returns the next word if a thread may take the lock. A barred reader does not join other
/// readers.
#[inline]
fn taken(word: u32, mode: Mode, barred: bool) -> Option<u32> {
    let free = word & !WAITING == 0;
    match mode {
        Mode::Write => free.then_some(word | WRITER),
        Mode::Read => {
            let shared = word & (WRITER | STARVING | FULL) == 0 && !barred;
            (free || shared).then_some(word + READER)
        }
    }
}

/// Pauses: longer and longer, and at last for a turn of another thread.
fn pause(turn: u32) {
    #[cfg(not(samara_loom))]
    match turn < SPINNING {
        true => (0..2_u32 << turn).for_each(|_| core::hint::spin_loop()),
        false => std::thread::yield_now(),
    }
    #[cfg(samara_loom)]
    let _ = (turn, SPINNING);
}

impl fmt::Debug for HostLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostLock")
    }
}

//! The lock of a machine of the host: it sleeps, and takes no memory.
//!
//! One word says who has the lock; a list says who sleeps. The list's entries lie on the stacks of those who sleep, and a mutex of the standard library,
//! called the *queue* here, protects it. Whoever finds the lock free never touches the queue.
//!
//! # Nobody sleeps for ever
//!
//! A thread has the queue from where it sets [`WAITING`] to where it sleeps, and [`WAITING`] is taken away by who has the queue, when the list is empty.
//!
//! ```text
//! one that waits, W                        one that lets go, H
//! 1  take the queue                        A  word -= what it has
//! 2  take the lock, or set WAITING         B  WAITING was set: take the queue
//! 3  enter the list                        C  remove who comes next, ring its bell
//! 4  sleep, and let go of the queue        D  let go of the queue
//! ```
//!
//! 2 and A are single steps on one word, so one comes before the other.
//!
//! - 2 before A: A finds `WAITING`. B waits until 4, where W lets go of the queue and begins to listen to its bell in one step, and C finds W in the list.
//! - A before 2: 2 finds the lock free, and W has it; or another one has it, who lets go of it later, as H.
//!
//! Who has been woken begins at 1 again, as others may have been faster. Meanwhile it is in no list; but it takes the lock, or finds it held and sets `WAITING`
//! anew. So a free lock with sleepers always has one who is awake and about to take it, or one between A and C.
//!
//! # Everybody has a turn
//!
//! The list is in the order in which threads came, and who wakes wakes the first one: a writer, or all readers in front of the first writer. Threads that
//! are running may be faster, which is what makes a busy lock fast. But who has been woken [`TRIES`] times in vain sets [`TIRED`]. Then nobody takes the lock any more:
//! C gives it to the first of the list until no tired one is left there. So a thread waits for those before it in the list, and is then woken in vain at most
//! `TRIES` times.
//!
//! Who comes to read while others read, and finds a writer in the list, waits behind it; so does a reader who reads already. As with most locks, a
//! thread that reads must not read again where another may mode to write. Readers alone never keep each other waiting.
//!
//! # What is seen
//!
//! Who takes acquires, who lets go releases, and every change of the word is a read-modify-write, so that whoever takes the lock sees what all did who had it
//! before. Where C gives it, C acquires, and the queue hands on what C saw.
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

/// Somebody changes what is locked.
const WRITER: u32 = 1;
/// The list is not empty.
const WAITING: u32 = 2;
/// Somebody in the list is tired of waiting.
const TIRED: u32 = 4;
/// One that reads.
const READER: u32 = 8;
/// No more readers are let in. There are as many only where guards are forgotten again and again, and then the number must not come round.
const FULL: u32 = 1 << 31;

/// How often one is woken in vain before it is tired.
const TRIES: u32 = if cfg!(samara_loom) { 1 } else { 8 };
/// How often who waits looks again before it sleeps.
const TURNS: u32 = if cfg!(samara_loom) { 0 } else { 10 };
/// So many turns, the first ones, without giving the processor away.
const SPINNING: u32 = 3;

/// The lock of a machine of the host: a mutex and a reader-writer lock in one, which sleep where they wait.
///
/// Neither waiting nor waking takes memory on Linux, Android, Windows 10, FreeBSD, OpenBSD and DragonFly, where the standard library's `Mutex` and `Condvar`
/// are words that the system's kernel knows. Elsewhere, on macOS say, the standard library allocates when the first thread waits, and ends the program if there is no memory.
/// Locks that keep their sleepers in a table of their own do so on every system.
///
/// Threads come in by the order in which they came to wait. Others, who need not be woken, may be faster, but only a few times. A thread that reads must not
/// read again while it does: where a writer waits in between, all wait for ever.
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
        // Whatever is special about the word goes the long way.
        let word = self.word.load(Ordering::Relaxed);
        let free = word & (WRITER | WAITING | TIRED | FULL) == 0;
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

    /// As [`read`](Self::read) and [`write`](Self::write), if that is possible at once.
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

    /// # Safety
    /// The caller has come in by [`read`](Self::read).
    #[inline]
    pub(crate) unsafe fn end_read(&self) {
        // The last one wakes.
        let before = self.word.fetch_sub(READER, Ordering::Release);
        if before & !TIRED == READER | WAITING {
            self.wake();
        }
    }

    /// # Safety
    /// The caller has come in by [`write`](Self::write).
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

    /// Most hold it for less time than it takes to fall asleep. Who finds others asleep joins them.
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

    /// In one step: either it is taken, or who has it knows that somebody is about to sleep.
    fn take_or_mark(&self, queue: &Queue, waiter: &Waiter) -> bool {
        let mark = match waiter.is_starved() {
            true => WAITING | TIRED,
            false => WAITING,
        };
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            // Looked at only where it matters: then few are in the list before a writer.
            let barred = word & WRITER == 0 && queue.has_writer_before(waiter);
            let next = taken(word, waiter.mode, barred);
            match self.exchange(word, next.unwrap_or(word | mark)) {
                Ok(_) => return next.is_some(),
                Err(now) => word = now,
            }
        }
    }

    /// Wakes those of whom it is the turn, unless somebody has the lock again, who does it then.
    #[cold]
    fn wake(&self) {
        let mut queue = self.queue();
        let Some(group) = queue.front() else {
            return;
        };
        let (held, one) = match group.mode {
            Mode::Read => (WRITER, READER),
            Mode::Write => (!(WAITING | TIRED), WRITER),
        };
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word & held != 0 {
                return;
            }
            let given = word & TIRED != 0;
            let mut next = word & !(WAITING | TIRED);
            next |= if group.others { WAITING } else { 0 };
            if given {
                next |= if queue.has_starved_behind(group.count) {
                    TIRED
                } else {
                    0
                };
                // There are far fewer threads than would come round beyond `FULL`.
                next += group.count * one;
            }
            match self.exchange(word, next) {
                Ok(_) => return queue.wake(group.count, given),
                Err(now) => word = now,
            }
        }
    }
}

/// What the word becomes, if one may come in. A reader who is barred does not come to other readers.
#[inline]
fn taken(word: u32, mode: Mode, barred: bool) -> Option<u32> {
    let free = word & !WAITING == 0;
    match mode {
        Mode::Write => free.then_some(word | WRITER),
        Mode::Read => {
            let shared = word & (WRITER | TIRED | FULL) == 0 && !barred;
            (free || shared).then_some(word + READER)
        }
    }
}

/// A little while; longer and longer, and then as long as another thread runs.
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

//! The list of sleeping threads, in order of arrival. Its entries lie on their stacks.

use core::cell::Cell;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::{iter, ptr};
#[cfg(not(samara_loom))]
use std::sync::{Condvar, LockResult, MutexGuard, PoisonError};

#[cfg(samara_loom)]
use {
    loom::sync::{Condvar, LockResult, MutexGuard},
    std::sync::PoisonError,
};

use super::TRIES;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Read,
    Write,
}

/// A thread that sleeps or is about to. While it is in the list, only the holder of the queue uses
/// it.
pub(super) struct Waiter {
    pub(super) mode: Mode,
    /// Lower for earlier arrivals, modulo overflow.
    ticket: usize,
    /// The number of vain wake-ups.
    wakeups: Cell<u32>,
    next: Cell<*const Waiter>,
    state: Cell<State>,
    condvar: Condvar,
}

#[derive(Clone, Copy)]
enum State {
    Listed,
    /// Not in the list, and awake: it must try again.
    Woken,
    /// Not in the list, awake, and it has the lock.
    Given,
}

/// The list, protected by the mutex around it: a ring with a pointer to the last entry, so that it
/// is small when empty.
pub(super) struct Queue {
    last: *const Waiter,
}

// SAFETY: it is in a mutex, and only the holder of the mutex uses its entries.
unsafe impl Send for Queue {}

/// The waiters that are next: the first writer, or all readers before the first writer.
pub(super) struct Group {
    pub(super) mode: Mode,
    pub(super) count: u32,
    /// `true` if there are others behind it.
    pub(super) others: bool,
}

impl Waiter {
    /// Creates the entry of an arriving thread. The caller holds the queue, so that the tickets of
    /// one lock are in order.
    pub(super) fn new(mode: Mode, _: &Queue) -> Self {
        static TICKETS: AtomicUsize = AtomicUsize::new(0);
        Waiter {
            mode,
            // Relaxed: the queue orders the tickets of one lock.
            ticket: TICKETS.fetch_add(1, Ordering::Relaxed),
            wakeups: Cell::new(0),
            next: Cell::new(ptr::null()),
            state: Cell::new(State::Woken),
            condvar: Condvar::new(),
        }
    }

    fn is_before(&self, other: &Waiter) -> bool {
        self.ticket.wrapping_sub(other.ticket).cast_signed() < 0
    }

    pub(super) fn is_starved(&self) -> bool {
        self.wakeups.get() >= TRIES
    }
}

impl Queue {
    pub(super) const fn new() -> Self {
        Queue { last: ptr::null() }
    }

    pub(super) fn has_writer_before(&self, waiter: &Waiter) -> bool {
        (self.entries())
            .take_while(|other| other.is_before(waiter))
            .any(|other| other.mode == Mode::Write)
    }

    pub(super) fn front(&self) -> Option<Group> {
        let mode = self.entries().next()?.mode;
        let most = if mode == Mode::Write { 1 } else { usize::MAX };
        let turn = |waiter: &&Waiter| waiter.mode == mode;
        let mut count = 0;
        (self.entries().take_while(turn).take(most)).for_each(|_| count += 1);
        Some(Group {
            mode,
            count,
            others: self.entries().nth(count as usize).is_some(),
        })
    }

    /// Returns `true` if there is a starved thread behind the first `count`.
    pub(super) fn has_starved_behind(&self, count: u32) -> bool {
        self.entries().skip(count as usize).any(Waiter::is_starved)
    }

    /// Removes the first waiters and notifies them. `given` says if they have been given the lock.
    pub(super) fn wake(&mut self, count: u32, given: bool) {
        for _ in 0..count {
            // SAFETY: an entry stays valid until its thread is notified, which is below.
            let Some(last) = (unsafe { self.last.as_ref() }) else {
                return;
            };
            // SAFETY: as above, and the last entry of a ring points to the first.
            let first = unsafe { &*last.next.get() };
            match ptr::eq(first, last) {
                true => self.last = ptr::null(),
                false => last.next.set(first.next.get()),
            }
            first.state.set(match given {
                true => State::Given,
                false => State::Woken,
            });
            // The thread continues, and its entry may be gone, only after the caller has released
            // the queue.
            first.condvar.notify_one();
        }
    }

    /// Returns the waiters from first to last.
    fn entries(&self) -> impl Iterator<Item = &Waiter> {
        // SAFETY: an entry stays valid until it is removed, and points to another entry or itself.
        let next = |waiter: &Waiter| unsafe { &*waiter.next.get() };
        // SAFETY: as above.
        let last = unsafe { self.last.as_ref() };
        iter::successors(last.map(next), move |waiter| {
            (!ptr::eq(*waiter, self.last)).then(|| next(waiter))
        })
    }

    fn insert(&mut self, new: &Waiter) {
        let at = ptr::from_ref(new);
        // SAFETY: an entry stays valid until it is removed.
        let Some(last) = (unsafe { self.last.as_ref() }) else {
            new.next.set(at);
            self.last = at;
            return;
        };
        // Most threads arrive last. A woken thread that waits again belongs before the first later
        // arrival. That may be the first of all, behind the last one of the ring.
        let is_last = last.is_before(new);
        let before = match is_last {
            true => None,
            false => (self.entries())
                .take_while(|other| other.is_before(new))
                .last(),
        };
        new.next.set(before.unwrap_or(last).next.replace(at));
        if is_last {
            self.last = at;
        }
    }
}

/// Sleeps until the thread is woken. Returns `true` if it was given the lock.
///
/// It returns only when the entry is out of the list. The condition variable is used with one
/// mutex, so waiting does not panic.
pub(super) fn sleep<'a>(
    mut queue: MutexGuard<'a, Queue>,
    waiter: &Waiter,
) -> (MutexGuard<'a, Queue>, bool) {
    waiter.state.set(State::Listed);
    queue.insert(waiter);
    loop {
        queue = entered(waiter.condvar.wait(queue));
        match waiter.state.get() {
            // A spurious wake-up.
            State::Listed => {}
            State::Woken => {
                // Checked under the model checker: "no starvation" rests on it.
                assert!(cfg!(not(samara_loom)) || !waiter.is_starved());
                waiter.wakeups.set(waiter.wakeups.get() + 1);
                return (queue, false);
            }
            State::Given => return (queue, true),
        }
    }
}

/// Returns the guard. A poisoned queue is consistent, because no step on it can panic.
pub(super) fn entered<T>(queue: LockResult<T>) -> T {
    queue.unwrap_or_else(PoisonError::into_inner)
}

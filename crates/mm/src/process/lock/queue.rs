//! Those who sleep, in the order in which they came: a list whose entries lie on their stacks.

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

/// A thread that sleeps, or is about to. While it is in the list, only who has the queue looks at it.
pub(super) struct Waiter {
    pub(super) mode: Mode,
    /// Who came earlier has a lower one, but for those that have come round.
    ticket: usize,
    /// How often it was woken in vain.
    wakeups: Cell<u32>,
    next: Cell<*const Waiter>,
    state: Cell<State>,
    condvar: Condvar,
}

#[derive(Clone, Copy)]
enum State {
    Listed,
    /// Out of the list, and awake: to try again.
    Woken,
    /// The same, and the lock is its.
    Given,
}

/// The list, which is looked at and changed by who has it: a ring, of which it knows the last entry, so that it is small where nobody sleeps.
pub(super) struct Queue {
    last: *const Waiter,
}

// SAFETY: it is in a mutex, and what its entries have is looked at only by who has that.
unsafe impl Send for Queue {}

/// Those of whom it is the turn: the first writer, or all readers in front of it.
pub(super) struct Group {
    pub(super) mode: Mode,
    pub(super) count: u32,
    /// Whether there are others behind it.
    pub(super) others: bool,
}

impl Waiter {
    /// One that comes. The caller has the queue, so that those of one lock are in order.
    pub(super) fn new(mode: Mode, _: &Queue) -> Self {
        static TICKETS: AtomicUsize = AtomicUsize::new(0);
        Waiter {
            mode,
            // Relaxed: the queue puts those of one lock in order.
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

    /// Whether a tired one is behind so many.
    pub(super) fn has_starved_behind(&self, count: u32) -> bool {
        self.entries().skip(count as usize).any(Waiter::is_starved)
    }

    /// Removes the first ones and rings their bells; whether they have been given the lock.
    pub(super) fn wake(&mut self, count: u32, given: bool) {
        for _ in 0..count {
            // SAFETY: entries of the list stay until they are told, which is below.
            let Some(last) = (unsafe { self.last.as_ref() }) else {
                return;
            };
            // SAFETY: as above, and the last one of a ring has the first one behind it.
            let first = unsafe { &*last.next.get() };
            match ptr::eq(first, last) {
                true => self.last = ptr::null(),
                false => last.next.set(first.next.get()),
            }
            first.state.set(match given {
                true => State::Given,
                false => State::Woken,
            });
            // It goes on, and may be gone, only when the caller has let go of the queue.
            first.condvar.notify_one();
        }
    }

    /// From the first one to the last.
    fn entries(&self) -> impl Iterator<Item = &Waiter> {
        // SAFETY: entries of the list stay until they are out of it, and each has another one, or itself, behind it.
        let next = |waiter: &Waiter| unsafe { &*waiter.next.get() };
        // SAFETY: as above.
        let last = unsafe { self.last.as_ref() };
        iter::successors(last.map(next), move |waiter| {
            (!ptr::eq(*waiter, self.last)).then(|| next(waiter))
        })
    }

    fn insert(&mut self, new: &Waiter) {
        let at = ptr::from_ref(new);
        // SAFETY: entries of the list stay until they are out of it.
        let Some(last) = (unsafe { self.last.as_ref() }) else {
            new.next.set(at);
            self.last = at;
            return;
        };
        // Most have just come and go behind the last one. Else before the first one that came later, which may be the first of all, behind the last one of the ring.
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

/// Until one is woken. Whether the lock is then one's own.
///
/// It returns only when the entry is out of the list: waiting for a bell with the one mutex that it was ever waited for with does not panic.
pub(super) fn sleep<'a>(
    mut queue: MutexGuard<'a, Queue>,
    waiter: &Waiter,
) -> (MutexGuard<'a, Queue>, bool) {
    waiter.state.set(State::Listed);
    queue.insert(waiter);
    loop {
        queue = entered(waiter.condvar.wait(queue));
        match waiter.state.get() {
            // Bells ring for nothing at times.
            State::Listed => {}
            State::Woken => {
                // What everybody's turn rests on, for the model checker.
                assert!(cfg!(not(samara_loom)) || !waiter.is_starved());
                waiter.wakeups.set(waiter.wakeups.get() + 1);
                return (queue, false);
            }
            State::Given => return (queue, true),
        }
    }
}

/// The queue, which nothing that could panic is done with.
pub(super) fn entered<T>(queue: LockResult<T>) -> T {
    queue.unwrap_or_else(PoisonError::into_inner)
}

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
pub(crate) enum Want {
    Read,
    Write,
}

/// A thread that sleeps, or is about to. While it is in the list, only who has the queue looks at it.
pub(super) struct Sleeper {
    pub(super) want: Want,
    /// Who came earlier has a lower one, but for those that have come round.
    ticket: usize,
    /// How often it was woken in vain.
    tries: Cell<u32>,
    next: Cell<*const Sleeper>,
    state: Cell<State>,
    bell: Condvar,
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
    last: *const Sleeper,
}

// SAFETY: it is in a mutex, and what its entries have is looked at only by who has that.
unsafe impl Send for Queue {}

/// Those of whom it is the turn: the first writer, or all readers in front of it.
pub(super) struct Group {
    pub(super) want: Want,
    pub(super) count: u32,
    /// Whether there are others behind it.
    pub(super) others: bool,
}

impl Sleeper {
    /// One that comes. The caller has the queue, so that those of one lock are in order.
    pub(super) fn new(want: Want, _: &Queue) -> Self {
        static TICKETS: AtomicUsize = AtomicUsize::new(0);
        Sleeper {
            want,
            // Relaxed: the queue puts those of one lock in order.
            ticket: TICKETS.fetch_add(1, Ordering::Relaxed),
            tries: Cell::new(0),
            next: Cell::new(ptr::null()),
            state: Cell::new(State::Woken),
            bell: Condvar::new(),
        }
    }

    fn is_before(&self, other: &Sleeper) -> bool {
        self.ticket.wrapping_sub(other.ticket).cast_signed() < 0
    }

    pub(super) fn is_tired(&self) -> bool {
        self.tries.get() >= TRIES
    }
}

impl Queue {
    pub(super) const fn new() -> Self {
        Queue { last: ptr::null() }
    }

    pub(super) fn has_writer_before(&self, sleeper: &Sleeper) -> bool {
        (self.entries())
            .take_while(|other| other.is_before(sleeper))
            .any(|other| other.want == Want::Write)
    }

    pub(super) fn front(&self) -> Option<Group> {
        let want = self.entries().next()?.want;
        let most = if want == Want::Write { 1 } else { usize::MAX };
        let turn = |sleeper: &&Sleeper| sleeper.want == want;
        let mut count = 0;
        (self.entries().take_while(turn).take(most)).for_each(|_| count += 1);
        Some(Group {
            want,
            count,
            others: self.entries().nth(count as usize).is_some(),
        })
    }

    /// Whether a tired one is behind so many.
    pub(super) fn has_tired_behind(&self, count: u32) -> bool {
        self.entries().skip(count as usize).any(Sleeper::is_tired)
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
            first.bell.notify_one();
        }
    }

    /// From the first one to the last.
    fn entries(&self) -> impl Iterator<Item = &Sleeper> {
        // SAFETY: entries of the list stay until they are out of it, and each has another one, or itself, behind it.
        let next = |sleeper: &Sleeper| unsafe { &*sleeper.next.get() };
        // SAFETY: as above.
        let last = unsafe { self.last.as_ref() };
        iter::successors(last.map(next), move |sleeper| {
            (!ptr::eq(*sleeper, self.last)).then(|| next(sleeper))
        })
    }

    fn insert(&mut self, new: &Sleeper) {
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
    sleeper: &Sleeper,
) -> (MutexGuard<'a, Queue>, bool) {
    sleeper.state.set(State::Listed);
    queue.insert(sleeper);
    loop {
        queue = entered(sleeper.bell.wait(queue));
        match sleeper.state.get() {
            // Bells ring for nothing at times.
            State::Listed => {}
            State::Woken => {
                // What everybody's turn rests on, for the model checker.
                assert!(cfg!(not(samara_loom)) || !sleeper.is_tired());
                sleeper.tries.set(sleeper.tries.get() + 1);
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

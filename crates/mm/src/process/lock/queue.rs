//! Those who sleep, in the order in which they came: a list whose entries lie on their stacks.

use core::cell::Cell;
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
    /// Who came earlier has a lower one.
    ticket: u64,
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

/// The list, which is looked at and changed by who has it.
pub(super) struct Queue {
    first: *const Sleeper,
    last: *const Sleeper,
    tickets: u64,
    /// How many of the list are tired.
    tired: u32,
    /// How many of the list are writers.
    writers: u32,
}

// SAFETY: it is in a mutex, and what its entries have is looked at only by who has that.
unsafe impl Send for Queue {}

/// Those of whom it is the turn: the first writer, or all readers in front of it.
pub(super) struct Group {
    pub(super) want: Want,
    pub(super) count: u32,
    /// Whether there are others behind it, and tired ones among them.
    pub(super) others: bool,
    pub(super) others_tired: bool,
}

impl Sleeper {
    pub(super) fn new(want: Want, ticket: u64) -> Self {
        Sleeper {
            want,
            ticket,
            tries: Cell::new(0),
            next: Cell::new(ptr::null()),
            state: Cell::new(State::Woken),
            bell: Condvar::new(),
        }
    }

    pub(super) fn is_tired(&self) -> bool {
        self.tries.get() >= TRIES
    }
}

impl Queue {
    pub(super) const fn new() -> Self {
        Queue {
            first: ptr::null(),
            last: ptr::null(),
            tickets: 0,
            tired: 0,
            writers: 0,
        }
    }

    /// The place of one who comes.
    pub(super) fn ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    pub(super) fn is_tired(&self) -> bool {
        self.tired > 0
    }

    pub(super) fn has_writer_before(&self, sleeper: &Sleeper) -> bool {
        // All have come before one who has just come. One who was woken has few before it, if any.
        let before = |other: &&Sleeper| other.ticket < sleeper.ticket;
        self.writers > 0
            && (sleeper.tries.get() == 0
                || (self.entries().take_while(before)).any(|other| other.want == Want::Write))
    }

    pub(super) fn front(&self) -> Option<Group> {
        let want = self.entries().next()?.want;
        let (mut count, mut tired) = (0, 0);
        let most = if want == Want::Write { 1 } else { usize::MAX };
        let turn = |sleeper: &&Sleeper| sleeper.want == want;
        for sleeper in self.entries().take_while(turn).take(most) {
            count += 1;
            tired += u32::from(sleeper.is_tired());
        }
        Some(Group {
            want,
            count,
            others: self.entries().nth(count as usize).is_some(),
            others_tired: self.tired > tired,
        })
    }

    /// Removes the first ones and rings their bells; whether they have been given the lock.
    pub(super) fn wake(&mut self, count: u32, given: bool) {
        for _ in 0..count {
            // SAFETY: entries of the list stay until they are told, which is below.
            let Some(sleeper) = (unsafe { self.first.as_ref() }) else {
                return;
            };
            self.first = sleeper.next.get();
            if self.first.is_null() {
                self.last = ptr::null();
            }
            self.tired -= u32::from(sleeper.is_tired());
            self.writers -= u32::from(sleeper.want == Want::Write);
            sleeper.state.set(match given {
                true => State::Given,
                false => State::Woken,
            });
            // It goes on, and may be gone, only when the caller has let go of the queue.
            sleeper.bell.notify_one();
        }
    }

    fn entries(&self) -> impl Iterator<Item = &Sleeper> {
        // SAFETY: entries of the list stay until they are out of it.
        let first = unsafe { self.first.as_ref() };
        // SAFETY: as above.
        iter::successors(first, |sleeper| unsafe { sleeper.next.get().as_ref() })
    }

    fn insert(&mut self, new: &Sleeper) {
        // SAFETY: entries of the list stay until they are out of it.
        let last = unsafe { self.last.as_ref() };
        let before = match last {
            // As all that have just come.
            Some(last) if last.ticket < new.ticket => Some(last),
            _ => (self.entries())
                .take_while(|other| other.ticket < new.ticket)
                .last(),
        };
        let at = ptr::from_ref(new);
        let next = match before {
            Some(before) => before.next.replace(at),
            None => self.first,
        };
        let first = before.is_none();
        new.next.set(next);
        if first {
            self.first = at;
        }
        if next.is_null() {
            self.last = at;
        }
        self.tired += u32::from(new.is_tired());
        self.writers += u32::from(new.want == Want::Write);
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

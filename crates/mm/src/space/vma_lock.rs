//! The lock of one area (Linux's per-VMA lock): held by faults, closed by the call that changes the area.
//!
//! A fault *holds* an area's lock for as long as it handles a page of it. A call *closes* the locks of the areas that it is about to change, and of their
//! neighbours that they join; it waits until nobody holds them. They stay closed until the call has ended, which opens all of them at once: a closed
//! lock carries the number of the call, and is closed only while that call is under way. Holding never waits: whoever finds a lock closed waits
//! for the lock of the address space instead, and whoever has been overtaken by the end of a call begins anew, since that call need not have changed this area.
//!
//! # Protocol
//!
//! ```text
//! fault                                    call (one at a time)
//! 1  number = calls                        A  closed_in = calls
//! 2  find the area, under RCU              B  wait until holders == 0
//! 3  holders += 1                          C  change the tree, the tables; free the area after the readers have left
//! 4  closed_in == number: let go, give up  D  calls += 1
//! 5  calls != number: let go, begin anew at 1
//! 6  leave the RCU section
//! ```
//!
//! All these accesses are sequentially consistent. Take a fault that comes past 5, and a call that closes the same lock, of number `n`.
//!
//! - `n == number`: if A comes before 4 in the one order of all such accesses, then 4 finds the lock closed, or, if the call has ended meanwhile, 5 finds
//!   another number. Else 4 comes before A, so 3 comes before B, and the call waits.
//! - `n > number`: the number had not changed at 5, so 5 comes before the D of the call before, that comes before A, and 3 before B: the call waits.
//! - `n < number`: D comes before 1. What the call did to the tree is seen at 2.
//!
//! So the range that 2 found is the area's until the fault lets go, and the area is not freed: until 6 by RCU, and after 3 because no call that would remove it
//! comes past B.
//!
//! # An area that is remembered
//!
//! A fault that has held a lock may note what it found, with what it read of `closed_in` at 4. While the lock has not been closed since, the area is as it was, whatever
//! calls have done to others. So the next fault there begins with that instead of 1 and 2 (`remembered` says how it knows that the area has not been freed):
//!
//! ```text
//! 3  holders += 1
//! 4' closed_in is as it was noted? else let go, and begin at 1
//! ```
//!
//! If A of a call comes before 4', it is found; else 3 comes before B, and the call waits. No number that has been noted comes again: when numbers
//! begin anew, all is forgotten.
//!
//! `loom/protocol` has all of this as a state machine, with areas that split, join, move and are freed, and shows what fails without each step.
//!
//! Numbers wrap around: a lock that was closed 2^32 calls ago is taken for closed during one call, and its faults take the longer way. Whoever holds it
//! since before that call is waited for all the same.

use core::fmt;

use crate::atomic::{AtomicU32, Ordering, checkers_fence, relax};

/// How many calls there have been: the number of the one under way.
pub(crate) struct Calls(AtomicU32);

/// Number of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number(u32);

impl Number {
    pub(crate) const fn new(number: u32) -> Self {
        Number(number)
    }

    pub(crate) const fn get(self) -> u32 {
        self.0
    }
}

impl Calls {
    pub(crate) fn new() -> Self {
        // Above that of locks that were never closed.
        Calls(AtomicU32::new(1))
    }

    /// The call that is under way, or the next.
    #[inline]
    pub(crate) fn now(&self) -> Number {
        Number(self.0.load(Ordering::SeqCst))
    }

    /// As if there had been so many calls.
    #[cfg(all(test, not(samara_loom)))]
    pub(crate) fn jump(&self, number: u32) {
        self.0.store(number, Ordering::SeqCst);
    }

    /// The call has ended: whatever it closed is open. Calls of this are ordered by the lock of the address space. Whether numbers begin anew.
    pub(crate) fn end(&self) -> bool {
        self.0.fetch_add(1, Ordering::SeqCst) == u32::MAX
    }
}

/// What an attempt to hold a lock came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// It is held, and was closed last in this call.
    Held(Number),
    /// A call is changing the area.
    Closed,
    /// A call, of this area or another, has ended since the number was read: what was found says nothing.
    Overtaken,
}

/// The lock of one area.
pub(crate) struct VmaLock {
    /// Faults under way in the area.
    holders: AtomicU32,
    /// The call that closed it last.
    closed_in: AtomicU32,
}

impl VmaLock {
    pub(crate) fn new() -> Self {
        VmaLock {
            holders: AtomicU32::new(0),
            closed_in: AtomicU32::new(0),
        }
    }

    /// That of an area which takes the place of a part of this one's: closed if this is.
    pub(crate) fn of_part(&self) -> Self {
        VmaLock {
            holders: AtomicU32::new(0),
            closed_in: AtomicU32::new(self.closed_in.load(Ordering::Relaxed)),
        }
    }

    /// Steps 3 to 5: holds the lock, if it is open. `number` was read before the area was found.
    #[inline]
    pub(crate) fn try_hold(&self, calls: &Calls, number: Number) -> Hold {
        if self.closed_in.load(Ordering::Relaxed) == number.0 {
            return Hold::Closed;
        }
        self.holders.fetch_add(1, Ordering::SeqCst);
        checkers_fence();
        let closed_in = Number(self.closed_in.load(Ordering::SeqCst));
        let result = if closed_in == number {
            Hold::Closed
        } else if calls.now() != number {
            Hold::Overtaken
        } else {
            return Hold::Held(closed_in);
        };
        self.let_go();
        result
    }

    /// Steps 3 and 4': holds the lock, if it has not been closed since it was [held](Hold::Held) with this number.
    #[inline]
    pub(crate) fn try_hold_again(&self, closed_in: Number) -> bool {
        self.holders.fetch_add(1, Ordering::SeqCst);
        checkers_fence();
        let held = self.closed_in.load(Ordering::SeqCst) == closed_in.0;
        if !held {
            self.let_go();
        }
        held
    }

    /// The holder has done. Release: the call that waits for it sees what it did.
    #[inline]
    pub(crate) fn let_go(&self) {
        self.holders.fetch_sub(1, Ordering::Release);
    }

    /// Steps A and B: closes the lock for the rest of a call, and waits until nobody holds it.
    pub(crate) fn close(&self, number: Number) {
        // Also one that carries this number already is waited for: it may be that of a call 2^32 ago.
        if self.closed_in.load(Ordering::Relaxed) != number.0 {
            self.closed_in.store(number.0, Ordering::SeqCst);
        }
        checkers_fence();
        // Faults hold locks while they copy a page at the most: what takes longer is done without.
        while self.holders.load(Ordering::SeqCst) != 0 {
            relax();
        }
    }

    /// Closes the lock of an area that is in no tree yet.
    pub(crate) fn close_new(&mut self, number: Number) {
        self.closed_in = AtomicU32::new(number.0);
    }
}

/// A lock says nothing about what an area is.
impl PartialEq for VmaLock {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for VmaLock {}

impl fmt::Debug for VmaLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "held by {}", self.holders.load(Ordering::Relaxed))
    }
}

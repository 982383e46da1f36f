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
//! A fault that holds a lock may note what it found, and the next ones there hold that instead, without 1 to 6: `vma_cache` has that part of the protocol.
//! Between A and B the call takes away what is noted of the area that it closes, and waits for those who hold it there. Nobody notes it after A: whoever does asks first
//! whether the lock [is open](VmaLock::is_open). Whether there may be something to take away, the lock tells: whoever notes the area [says so](VmaLock::mark_cached) before that.
//!
//! `loom/protocol` has all of this as a state machine, with areas that split, join, move and are freed, and shows what fails without each step.
//!
//! Numbers wrap around: a lock that was closed 2^32 calls ago is taken for closed during one call, and its faults take the longer way. Whoever holds it
//! since before that call is waited for all the same.

use core::fmt;

use super::vma_cache::release;
use crate::atomic::{AtomicU32, Ordering, checkers_fence, relax};

/// How many calls there have been: the number of the one under way.
pub(crate) struct Calls(AtomicU32);

/// Number of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number(u32);

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

    /// The call has ended: whatever it closed is open. Calls of this are ordered by the lock of the address space.
    pub(crate) fn end(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// What an attempt to hold a lock came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    Held,
    /// A call is changing the area.
    Closed,
    /// A call, of this area or another, has ended since the number was read: what was found says nothing.
    Overtaken,
}

/// Beside the holders: the area may be noted.
const CACHED: u32 = 1 << 31;

/// The lock of one area.
pub(crate) struct VmaLock {
    /// Faults under way in the area, and [`CACHED`].
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
        let result = if self.closed_in.load(Ordering::SeqCst) == number.0 {
            Hold::Closed
        } else if calls.now() != number {
            Hold::Overtaken
        } else {
            return Hold::Held;
        };
        self.release();
        result
    }

    /// Those that hold it, of whom each [lets go](release).
    #[inline]
    pub(crate) fn holders(&self) -> &AtomicU32 {
        &self.holders
    }

    #[inline]
    pub(crate) fn release(&self) {
        release(&self.holders);
    }

    /// Comes before a holder notes the area.
    #[inline]
    pub(crate) fn mark_cached(&self) {
        if self.holders.load(Ordering::Relaxed) & CACHED == 0 {
            self.holders.fetch_or(CACHED, Ordering::SeqCst);
        }
    }

    /// Whether no call has closed it yet that waits for who holds it, as the caller does.
    #[inline]
    pub(crate) fn is_open(&self, calls: &Calls) -> bool {
        let closed_in = Number(self.closed_in.load(Ordering::SeqCst));
        closed_in != calls.now()
    }

    /// Steps A and B: closes the lock for the rest of a call, and waits until nobody holds it. `forget` is called in between if the area may be noted: takes that away, and waits
    /// for who holds it there.
    #[inline]
    pub(crate) fn close(&self, number: Number, forget: impl FnOnce()) {
        // Also one that carries this number already is waited for: it may be that of a call 2^32 ago.
        if self.closed_in.load(Ordering::Relaxed) != number.0 {
            self.closed_in.store(number.0, Ordering::SeqCst);
        }
        checkers_fence();
        if self.holders.load(Ordering::SeqCst) != 0 {
            self.wait(forget);
        }
    }

    #[cold]
    fn wait(&self, forget: impl FnOnce()) {
        if self.holders.load(Ordering::SeqCst) & CACHED != 0 {
            forget();
        }
        // Faults hold locks while they copy a page at the most: what takes longer is done without.
        while self.holders.load(Ordering::SeqCst) & !CACHED != 0 {
            relax();
        }
        // Who had said so has noted nothing, or that is taken away.
        self.holders.fetch_and(!CACHED, Ordering::Relaxed);
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
        let holders = self.holders.load(Ordering::Relaxed);
        write!(f, "held by {}", holders & !CACHED)
    }
}

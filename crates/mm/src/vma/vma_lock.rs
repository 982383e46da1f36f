//! The per-VMA lock: held by faults, closed by the call that changes the VMA.
//!
//! A fault *holds* the lock of a VMA while it handles a page of it. A call *closes* the locks of
//! the VMAs that it is about to change, and of their neighbours that they merge with, and waits
//! until no fault holds them. They stay closed until the call ends, which opens all of them at
//! once: a closed lock carries the number of its call, and counts as closed only during that call.
//! Holding never waits. A fault that finds a lock closed takes the lock of the address space
//! instead. A fault that the end of a call has overtaken starts over, since that call need not have
//! changed this VMA.
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
//! All these accesses are sequentially consistent. Consider a fault that has passed step 5, and a
//! call with number `n` that closes the same lock.
//!
//! - `n == number`: if A comes before 4 in the single order of all such accesses, 4 finds the lock
//!   closed, or, if the call has ended by then, 5 finds another number. If 4 comes before A, 3
//!   comes before B, and the call waits.
//! - `n > number`: the number had not changed at 5. So 5 comes before the D of the preceding call,
//!   which comes before A, and 3 comes before B: the call waits.
//! - `n < number`: D comes before 1. The fault sees at 2 what the call did to the tree.
//!
//! So the range that 2 found belongs to the VMA until the fault releases it. The VMA is not freed:
//! until 6 RCU keeps it, and after 3 no call that would remove it passes B.
//!
//! # A VMA in the cache
//!
//! A fault that holds a lock may put what it found into the VMA cache, and later faults there hold
//! that instead, without steps 1 to 6: `vma_cache` has that part of the protocol. Between A and B
//! the call removes the VMA that it closes from the cache, and waits for the faults that hold it
//! there. No fault caches it after A: each first checks that the lock [is open](VmaLock::is_open).
//! The lock says whether there may be an entry to remove: a fault [marks](VmaLock::mark_cached) it
//! before it writes the entry.
//!
//! `loom/protocol` has all of this as a state machine, with VMAs that split, merge, move and are
//! freed, and shows what fails without each step.
//!
//! Numbers wrap around. A lock that was closed 2^32 calls ago counts as closed during one call, and
//! its faults take the slower path. A call still waits for a fault that has held the lock since
//! before.

use core::fmt;

use super::vma_cache::release;
use crate::atomic::{AtomicU32, Ordering, checkers_fence, relax};

/// The number of the call that is under way, counted from 1.
pub(crate) struct Calls(AtomicU32);

/// The number of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number(u32);

impl Calls {
    pub(crate) fn new() -> Self {
        // Above the number in locks that were never closed.
        Calls(AtomicU32::new(1))
    }

    /// Returns the number of the call that is under way, or of the next one.
    #[inline]
    pub(crate) fn now(&self) -> Number {
        Number(self.0.load(Ordering::SeqCst))
    }

    /// Ends the call, which opens all locks that it closed. The lock of the address space orders
    /// the callers of this.
    pub(crate) fn end(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// The result of an attempt to hold a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    Held,
    /// A call is changing the VMA.
    Closed,
    /// A call has ended since the number was read, so what was found may be stale.
    Overtaken,
}

/// A bit next to the number of holders: the VMA cache may have the VMA.
const CACHED: u32 = 1 << 31;

/// The lock of one VMA.
pub(crate) struct VmaLock {
    /// The number of faults that hold the lock, and [`CACHED`].
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

    /// Returns the lock of a VMA that replaces a part of this one's: closed if this one is.
    pub(crate) fn of_part(&self) -> Self {
        VmaLock {
            holders: AtomicU32::new(0),
            closed_in: AtomicU32::new(self.closed_in.load(Ordering::Relaxed)),
        }
    }

    /// Steps 3 to 5: holds the lock if it is open. `number` was read before the VMA was found.
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

    /// Returns the counter of holders, which each holder [releases](release).
    #[inline]
    pub(crate) fn holders(&self) -> &AtomicU32 {
        &self.holders
    }

    #[inline]
    pub(crate) fn release(&self) {
        release(&self.holders);
    }

    /// Marks that the VMA cache may have the VMA. A holder calls this before it writes the entry.
    #[inline]
    pub(crate) fn mark_cached(&self) {
        if self.holders.load(Ordering::Relaxed) & CACHED == 0 {
            self.holders.fetch_or(CACHED, Ordering::SeqCst);
        }
    }

    /// Returns `true` if no call has closed the lock yet. The caller holds the lock, so such a call
    /// waits for it.
    #[inline]
    pub(crate) fn is_open(&self, calls: &Calls) -> bool {
        let closed_in = Number(self.closed_in.load(Ordering::SeqCst));
        closed_in != calls.now()
    }

    /// Steps A and B: closes the lock for the rest of a call, and waits until no fault holds it. If
    /// the VMA cache may have the VMA, `forget` is called in between: it removes the entry and
    /// waits for the faults that hold the VMA there.
    #[inline]
    pub(crate) fn close(&self, number: Number, forget: impl FnOnce()) {
        // A lock that carries this number already is waited for too: the number may be that of a
        // call 2^32 ago.
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
        // A fault holds the lock for at most the copy of a page. What takes longer does not hold
        // it.
        while self.holders.load(Ordering::SeqCst) & !CACHED != 0 {
            relax();
        }
        // The entry that was announced was never written, or `forget` has removed it.
        self.holders.fetch_and(!CACHED, Ordering::Relaxed);
    }

    /// Closes the lock of a VMA that is in no tree yet.
    pub(crate) fn close_new(&mut self, number: Number) {
        self.closed_in = AtomicU32::new(number.0);
    }
}

/// Locks are equal: they are no attribute of a VMA.
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

//! The words that a virtual processor and an invalidating thread share.

use crate::atomic::{AtomicU32, Ordering, fence, relax};

/// The state of one virtual processor. Numbers of requests wrap around, so only their distance
/// counts.
pub(crate) struct Handshake {
    /// Not 0 while the virtual processor is in its section. Written by it alone.
    running: AtomicU32,
    /// The number of the last request. Written with the list of requests locked.
    asked: AtomicU32,
    /// The number of the last answered request. Written by the virtual processor alone, or by the
    /// thread that takes the slot.
    answered: AtomicU32,
}

impl Handshake {
    pub(crate) fn new() -> Self {
        Handshake {
            running: AtomicU32::new(0),
            asked: AtomicU32::new(0),
            answered: AtomicU32::new(0),
        }
    }

    /// Enters the section. The caller then reads [`asked`](Self::asked) before it uses an entry.
    #[inline]
    pub(crate) fn enter(&self) {
        self.running.store(1, Ordering::Relaxed);
        // Between the store and the read of `asked`, as the fence of `wait` is between the store to
        // `asked` and the read of `running`. If this fence comes first, `wait` sees `running`. If
        // that one comes first, this thread sees `asked`. Without either of them, both could read
        // the old value.
        fence(Ordering::SeqCst);
    }

    /// Leaves the section.
    #[inline]
    pub(crate) fn leave(&self) {
        // Release: a thread that sees this in `wait` continues after all accesses of the section.
        self.running.store(0, Ordering::Release);
    }

    /// Returns the number of the last request.
    #[inline(always)]
    pub(crate) fn asked(&self) -> u32 {
        // Acquire: a thread that sees a request sees the tables as they were when it was made.
        self.asked.load(Ordering::Acquire)
    }

    /// Returns the number of the last answer. Called by the virtual processor.
    #[inline(always)]
    pub(crate) fn answered(&self) -> u32 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Answers all requests up to this number.
    pub(crate) fn answer(&self, number: u32) {
        // Release: as `leave`.
        self.answered.store(number, Ordering::Release);
    }

    /// Makes a request, which is in the list already.
    ///
    /// Preconditions: the list is locked.
    pub(crate) fn ask(&self) {
        // Release: the tables and the list come before. A read-modify-write, so that a thread that
        // sees a later request sees this one's data, too.
        self.asked.fetch_add(1, Ordering::AcqRel);
    }

    /// Waits until the virtual processor has answered all earlier requests, or is outside of its
    /// section. When it enters again, it checks for requests before it uses an entry.
    pub(crate) fn wait(&self) {
        let number = self.asked.load(Ordering::Relaxed);
        // As in `enter`.
        fence(Ordering::SeqCst);
        let mut turns = 0;
        // Acquire: what follows comes after the accesses of the section.
        while self.running.load(Ordering::Acquire) != 0 && self.owes(number) {
            pause(&mut turns);
        }
    }

    fn owes(&self, number: u32) -> bool {
        let answered = self.answered.load(Ordering::Acquire);
        (number.wrapping_sub(answered) as i32) > 0
    }
}

/// Pauses. The waited-for thread may have lost its real processor, so this one is offered.
fn pause(turns: &mut u32) {
    #[cfg(all(feature = "hosted", not(samara_loom)))]
    if *turns >= SPINNING {
        std::thread::yield_now();
        return;
    }
    *turns = turns.wrapping_add(1);
    relax();
}

/// The number of pauses before a waiting thread yields its processor.
#[cfg(all(feature = "hosted", not(samara_loom)))]
const SPINNING: u32 = 64;

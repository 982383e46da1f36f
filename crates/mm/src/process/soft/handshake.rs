//! Who waits for whom: the words that a virtual processor and those who invalidate have in common.

use crate::atomic::{AtomicU32, Ordering, fence, relax};

/// The state of one virtual processor. Numbers of requests come round, so that only their distance counts.
pub(crate) struct Handshake {
    /// Not 0 while the virtual processor is in its section. Written by it alone.
    running: AtomicU32,
    /// The number of the last request. Written with the list of requests locked.
    asked: AtomicU32,
    /// The number of the last request that has been answered. Written by the virtual processor alone, or by who takes the place.
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

    /// Enters the section. The caller then looks at [`asked`](Self::asked) before it uses an entry.
    #[inline]
    pub(crate) fn enter(&self) {
        self.running.store(1, Ordering::Relaxed);
        // Between the store and the look at `asked`, as the fence of `wait` is between the store to `asked` and the look at `running`. One of the two comes
        // first: its side is seen by the other. Without either of them, both could read the old value.
        fence(Ordering::SeqCst);
    }

    /// Leaves the section.
    #[inline]
    pub(crate) fn leave(&self) {
        // Release: who sees this in `wait` goes on after all accesses of the section.
        self.running.store(0, Ordering::Release);
    }

    /// Returns the number of the last request.
    #[inline(always)]
    pub(crate) fn asked(&self) -> u32 {
        // Acquire: who sees a request sees the tables as they were when it was made.
        self.asked.load(Ordering::Acquire)
    }

    /// Returns the number of the last answer, to the virtual processor.
    #[inline(always)]
    pub(crate) fn answered(&self) -> u32 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Says that everything up to this request has been forgotten.
    pub(crate) fn answer(&self, number: u32) {
        // Release: as `leave`.
        self.answered.store(number, Ordering::Release);
    }

    /// Asks the virtual processor for something, which is in the list already. Called with the list locked.
    pub(crate) fn ask(&self) {
        // Release: what the tables are, and the list, comes before. A read-modify-write, so that who sees a later request sees this one's, too.
        self.asked.fetch_add(1, Ordering::AcqRel);
    }

    /// Waits until the virtual processor has answered all that was asked before this call, or is outside of its section, after which it will look before it
    /// uses an entry.
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

/// One more look. A program's virtual processor may have lost its real one, which is given to it then.
fn pause(turns: &mut u32) {
    #[cfg(all(feature = "hosted", not(samara_loom)))]
    if *turns >= SPINNING {
        std::thread::yield_now();
        return;
    }
    *turns = turns.wrapping_add(1);
    relax();
}

/// How often who waits looks again before it gives its processor away.
#[cfg(all(feature = "hosted", not(samara_loom)))]
const SPINNING: u32 = 64;

//! The lock inside a tree: 40 bytes, free if they are all zero, so that a tree in a zeroed page needs no set-up.
//!
//! Sections under it are short (no allocation that blocks, no callback but the hooks), so that a waiter spins for a while and
//! then gives the processor away. Parking threads would need a queue, or a system call of one operating system.

use core::hint;
use core::sync::atomic::{AtomicU32, Ordering};

const FREE: u32 = 0;
const HELD: u32 = 1;

/// Rounds of spinning before a waiter yields.
const SPINS: u32 = 64;

const BYTES: usize = 40;

/// A lock without set-up, and a count of the changes that made remembered positions stale.
#[repr(C)]
pub struct Lock {
    word: AtomicU32,
    changes: AtomicU32,
    rest: [u8; BYTES - 8],
    /// Aligned as in C, where a pointer is in the union.
    align: [usize; 0],
}

impl Default for Lock {
    fn default() -> Self {
        Self::new()
    }
}

impl Lock {
    /// A free lock.
    pub const fn new() -> Self {
        Self {
            word: AtomicU32::new(FREE),
            changes: AtomicU32::new(0),
            rest: [0; BYTES - 8],
            align: [],
        }
    }

    /// Waits until the lock is free, and takes it.
    pub fn lock(&self) {
        let mut round = 0;
        while self
            .word
            .compare_exchange_weak(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            // Only look until it seems free: waiters do not take the line from the holder.
            while self.word.load(Ordering::Relaxed) != FREE {
                round += 1;
                if round % SPINS == 0 {
                    std::thread::yield_now();
                } else {
                    hint::spin_loop();
                }
            }
        }
    }

    /// Whether somebody has the lock.
    pub(crate) fn is_held(&self) -> bool {
        self.word.load(Ordering::Relaxed) == HELD
    }

    /// Lets go of the lock.
    pub fn unlock(&self) {
        self.word.store(FREE, Ordering::Release);
    }

    /// How many writes have moved leaves or their bounds, modulo 2³². A position that was remembered under another number is looked up
    /// anew, so that outside RCU mode a forgotten state does not lead into freed memory.
    pub(crate) fn changes(&self) -> u32 {
        self.changes.load(Ordering::Acquire)
    }

    /// Notes that leaves are moved. Only for the writer.
    pub(crate) fn note_change(&self) {
        let changes = self.changes.load(Ordering::Relaxed);
        self.changes
            .store(changes.wrapping_add(1), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::UnsafeCell;

    struct Shared {
        lock: Lock,
        value: UnsafeCell<u64>,
    }
    // SAFETY: the value is only touched under the lock.
    unsafe impl Sync for Shared {}

    impl Shared {
        fn add(&self) {
            self.lock.lock();
            // SAFETY: under the lock.
            unsafe { *self.value.get() += 1 };
            self.lock.unlock();
        }
    }

    #[test]
    fn many_threads_exclude_each_other() {
        let shared = Shared {
            lock: Lock::new(),
            value: UnsafeCell::new(0),
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        shared.add();
                    }
                });
            }
        });
        assert_eq!(shared.value.into_inner(), 4000);
    }

    #[test]
    fn zeroes_are_a_free_lock() {
        // SAFETY: any bytes are a lock.
        let lock: Lock = unsafe { core::mem::zeroed() };
        lock.lock();
        lock.unlock();
        assert_eq!(lock.rest, [0; 32]);
    }
}

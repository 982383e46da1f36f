//! The lock of a tree: 40 bytes, all zero while it is free, so that a tree in a zeroed page needs
//! no setup.
//!
//! Sections under it are short: they contain no blocking allocation and no callback except the
//! hooks. So a waiter spins for a while and then yields the processor. Parking threads would need a
//! queue, or a system call of one operating system.

use core::hint;
use core::sync::atomic::{AtomicU32, Ordering};

const FREE: u32 = 0;
const HELD: u32 = 1;

/// The number of spins before a waiter yields.
const SPINS: u32 = 64;

const BYTES: usize = 40;

/// A lock that needs no setup, and a counter of the changes that invalidate remembered positions.
#[repr(C)]
pub struct Lock {
    word: AtomicU32,
    changes: AtomicU32,
    rest: [u8; BYTES - 8],
    /// Aligns the structure as in C, where the union contains a pointer.
    align: [usize; 0],
}

impl Default for Lock {
    fn default() -> Self {
        Self::new()
    }
}

impl Lock {
    /// Creates a free lock.
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
            // Reads until the lock seems free, so that waiters do not take the cache line from the
            // holder.
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

    /// Returns `true` if any thread holds the lock.
    pub(crate) fn is_held(&self) -> bool {
        self.word.load(Ordering::Relaxed) == HELD
    }

    /// Releases the lock.
    pub fn unlock(&self) {
        self.word.store(FREE, Ordering::Release);
    }

    /// Returns the number of writes that have moved leaves or their bounds, modulo 2³². A position
    /// remembered under another number is looked up again, so that outside RCU mode an old state
    /// does not lead into freed memory.
    pub(crate) fn changes(&self) -> u32 {
        self.changes.load(Ordering::Acquire)
    }

    /// Records that leaves are moved. Only for the writer.
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
    // SAFETY: the value is accessed only under the lock.
    unsafe impl Sync for Shared {}

    impl Shared {
        fn add(&self) {
            self.lock.lock();
            // SAFETY: the lock is held.
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
        // SAFETY: all bit patterns are valid for a lock.
        let lock: Lock = unsafe { core::mem::zeroed() };
        lock.lock();
        lock.unlock();
        assert_eq!(lock.rest, [0; 32]);
    }
}

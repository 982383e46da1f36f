//! The traits of `lock_api`.

use lock_api::{GuardNoSend, RawMutex, RawRwLock};

use super::queue::Mode;
use super::{HostLock, STARVING, WAITING, WRITER};
use crate::atomic::Ordering;

// SAFETY: a writer enters only without others, a reader only without a writer, in one step each.
// Taking acquires what the release released.
unsafe impl RawRwLock for HostLock {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "what `lock_api` asks for"
    )]
    const INIT: Self = Self::new();
    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock_shared(&self) {
        self.read();
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        self.attempt(Mode::Read)
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        // SAFETY: the caller reads.
        unsafe { self.end_read() };
    }

    #[inline]
    fn lock_exclusive(&self) {
        self.write();
    }

    #[inline]
    fn try_lock_exclusive(&self) -> bool {
        self.attempt(Mode::Write)
    }

    #[inline]
    unsafe fn unlock_exclusive(&self) {
        // SAFETY: the caller writes.
        unsafe { self.end_write() };
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.word.load(Ordering::Relaxed) & !(WAITING | STARVING) != 0
    }

    #[inline]
    fn is_locked_exclusive(&self) -> bool {
        self.word.load(Ordering::Relaxed) & WRITER != 0
    }
}

// SAFETY: the lock of a writer, of which there is one at a time.
unsafe impl RawMutex for HostLock {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "what `lock_api` asks for"
    )]
    const INIT: Self = Self::new();
    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock(&self) {
        self.write();
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.attempt(Mode::Write)
    }

    #[inline]
    unsafe fn unlock(&self) {
        // SAFETY: the caller has the lock.
        unsafe { self.end_write() };
    }

    #[inline]
    fn is_locked(&self) -> bool {
        RawRwLock::is_locked(self)
    }
}

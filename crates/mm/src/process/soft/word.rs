//! Integers in guest memory.

use core::ptr::NonNull;
#[cfg(target_has_atomic = "64")]
use core::sync::atomic::AtomicU64;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering};

mod sealed {
    pub trait Sealed {}
}

/// An integer that [`Running`](super::Running) loads and stores in one piece, little-endian: `u8`,
/// `u16`, `u32`, and `u64` if the host has atomics of that size.
pub trait Word: Copy + Default + sealed::Sealed {
    /// An array of its bytes.
    #[doc(hidden)]
    type Bytes: AsRef<[u8]> + AsMut<[u8]>;

    /// Loads the word at an address that is a multiple of its size.
    ///
    /// # Safety
    /// The address is valid and aligned. Other accesses to the bytes are atomic.
    #[doc(hidden)]
    unsafe fn load(at: NonNull<u8>) -> Self;

    /// Stores the word.
    ///
    /// # Safety
    /// As [`load`](Self::load).
    #[doc(hidden)]
    unsafe fn store(self, at: NonNull<u8>);

    #[doc(hidden)]
    fn bytes(self) -> Self::Bytes;

    #[doc(hidden)]
    fn of_bytes(bytes: Self::Bytes) -> Self;
}

macro_rules! words {
    ($($word:ident by $atomic:ident,)*) => {$(
        impl sealed::Sealed for $word {}

        impl Word for $word {
            type Bytes = [u8; size_of::<$word>()];

            #[inline(always)]
            unsafe fn load(at: NonNull<u8>) -> Self {
                // Relaxed: as a processor's. The guest orders its accesses itself.
                // SAFETY: the caller's promise.
                Self::from_le(unsafe { at.cast::<$atomic>().as_ref() }.load(Ordering::Relaxed))
            }

            #[inline(always)]
            unsafe fn store(self, at: NonNull<u8>) {
                // SAFETY: the caller's promise.
                unsafe { at.cast::<$atomic>().as_ref() }.store(self.to_le(), Ordering::Relaxed);
            }

            fn bytes(self) -> Self::Bytes {
                self.to_le_bytes()
            }

            fn of_bytes(bytes: Self::Bytes) -> Self {
                Self::from_le_bytes(bytes)
            }
        }
    )*};
}

words! {
    u8 by AtomicU8,
    u16 by AtomicU16,
    u32 by AtomicU32,
}

#[cfg(target_has_atomic = "64")]
words! {
    u64 by AtomicU64,
}

//! Detection of the end of a thread, so that its slot goes to another thread.
//!
//! On Linux this uses a POSIX key, since setting one [can be refused][setspecific]. A thread-local
//! variable with a destructor would be registered by the C library, which aborts the program if
//! there is no memory for that.
//!
//! [setspecific]: https://man7.org/linux/man-pages/man3/pthread_setspecific.3p.html

#[cfg(not(target_os = "linux"))]
pub(super) use destructor::{is_running, register};
#[cfg(target_os = "linux")]
pub(super) use key::{is_running, register};

#[cfg(target_os = "linux")]
mod key {
    use core::cell::Cell;
    use core::ffi::c_void;
    use core::hint::black_box;
    use core::ptr;
    use core::sync::atomic::{AtomicU64, Ordering};

    use super::super::readers::Slot;
    use super::super::release_slot;

    /// The program's key, [`NONE`] or [`CLOSED`]. Relaxed: it publishes nothing else.
    static KEY: AtomicU64 = AtomicU64::new(NONE);
    /// No key has been created yet.
    const NONE: u64 = u64::MAX;
    /// The destructor's code is about to be unloaded.
    const CLOSED: u64 = u64::MAX - 1;

    std::thread_local! {
        /// Set when the thread has released its slot. Destructors that run later must not acquire
        /// another one, which would never be released.
        static ENDED: Cell<bool> = const { Cell::new(false) };
    }

    /// Runs when the library that contains this code is unloaded, or when the program ends. Threads
    /// that end later must not call code that is gone.
    #[used]
    #[unsafe(link_section = ".fini_array")]
    static UNLOADED: extern "C" fn() = unloaded;

    extern "C" fn unloaded() {
        if let Ok(key) = KEY.swap(CLOSED, Ordering::Relaxed).try_into() {
            // SAFETY: `key` created it, and only this function deletes it: the swap returns it
            // once.
            unsafe { libc::pthread_key_delete(key) };
        }
    }

    unsafe extern "C" fn thread_ends(_slot: *mut c_void) {
        ENDED.set(true);
        release_slot();
    }

    fn key() -> Option<libc::pthread_key_t> {
        // A linker that keeps only referenced sections must keep this one.
        black_box(&UNLOADED);
        let there = KEY.load(Ordering::Relaxed);
        if there != NONE {
            return there.try_into().ok();
        }
        let mut key = 0;
        // SAFETY: the call writes the key.
        if unsafe { libc::pthread_key_create(&raw mut key, Some(thread_ends)) } != 0 {
            return None;
        }
        match KEY.compare_exchange(NONE, key.into(), Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => Some(key),
            Err(there) => {
                // SAFETY: it was created above, and no other thread knows it.
                unsafe { libc::pthread_key_delete(key) };
                there.try_into().ok()
            }
        }
    }

    /// Returns `true` if the thread has not yet run its destructors.
    pub(crate) fn is_running() -> bool {
        !ENDED.get()
    }

    /// Arranges for the slot to be released when the thread ends. Returns `false` if that was
    /// refused.
    pub(crate) fn register(slot: &'static Slot) -> bool {
        // The value only has to be non-null: the destructor is not called for a thread whose value
        // is null.
        let value = ptr::from_ref(slot).cast();
        // SAFETY: the value is not dereferenced.
        key().is_some_and(|key| unsafe { libc::pthread_setspecific(key, value) == 0 })
    }
}

#[cfg(not(target_os = "linux"))]
mod destructor {
    use super::super::readers::Slot;
    use super::super::release_slot;

    struct End;

    impl Drop for End {
        fn drop(&mut self) {
            release_slot();
        }
    }

    std::thread_local! {
        static END: End = const { End };
    }

    /// Returns `true` if the thread has not yet run its destructors. In this case it will release
    /// its slot when it ends.
    pub(crate) fn is_running() -> bool {
        END.try_with(|_| ()).is_ok()
    }

    pub(crate) fn register(_slot: &'static Slot) -> bool {
        true
    }
}

//! How it is learned that a thread ends, so that its slot goes to another.
//!
//! On Linux a key of POSIX tells, since setting one [can be refused][setspecific]: a variable of the thread's with a destructor is
//! registered by the C library, which ends the program if there is no memory for that.
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

    /// The program's key, [`NONE`] or [`CLOSED`]. Relaxed: it brings nothing else with it.
    static KEY: AtomicU64 = AtomicU64::new(NONE);
    /// Not made yet.
    const NONE: u64 = u64::MAX;
    /// What a thread's end calls is about to be unloaded.
    const CLOSED: u64 = u64::MAX - 1;

    std::thread_local! {
        /// Set when the thread has given its slot up. What it calls after that must not take another, which nobody would give up.
        static ENDED: Cell<bool> = const { Cell::new(false) };
    }

    /// Runs when a library that this is a part of is unloaded, or the program ends: threads that end later must not call what is no longer there.
    #[used]
    #[unsafe(link_section = ".fini_array")]
    static UNLOADED: extern "C" fn() = unloaded;

    extern "C" fn unloaded() {
        if let Ok(key) = KEY.swap(CLOSED, Ordering::Relaxed).try_into() {
            // SAFETY: it was made by `key`, and nobody else deletes it.
            unsafe { libc::pthread_key_delete(key) };
        }
    }

    unsafe extern "C" fn thread_ends(_slot: *mut c_void) {
        ENDED.set(true);
        release_slot();
    }

    fn key() -> Option<libc::pthread_key_t> {
        // Where only what is mentioned is linked, this has it linked.
        black_box(&UNLOADED);
        let there = KEY.load(Ordering::Relaxed);
        if there != NONE {
            return there.try_into().ok();
        }
        let mut key = 0;
        // SAFETY: it writes the key.
        if unsafe { libc::pthread_key_create(&raw mut key, Some(thread_ends)) } != 0 {
            return None;
        }
        match KEY.compare_exchange(NONE, key.into(), Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => Some(key),
            Err(there) => {
                // SAFETY: it was made here, and nobody else knows it.
                unsafe { libc::pthread_key_delete(key) };
                there.try_into().ok()
            }
        }
    }

    /// Whether the thread has not ended yet.
    pub(crate) fn is_running() -> bool {
        !ENDED.get()
    }

    /// Has the thread give the slot up when it ends. `false` if that was refused.
    pub(crate) fn register(slot: &'static Slot) -> bool {
        // Only whether it is null is of interest: a thread without a value is not told of.
        let value = ptr::from_ref(slot).cast();
        // SAFETY: the value is not read through.
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

    /// Whether the thread has not ended yet. If so, it gives its slot up when it does.
    pub(crate) fn is_running() -> bool {
        END.try_with(|_| ()).is_ok()
    }

    pub(crate) fn register(_slot: &'static Slot) -> bool {
        true
    }
}

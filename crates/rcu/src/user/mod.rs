//! [`UserRcu`]: RCU in user space, whose readers only write to memory of their own thread, without
//! a fence.

mod barrier;
mod callbacks;
mod readers;
#[cfg(not(samara_loom))]
mod thread_exit;

use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::callback::{boxed, run_all};
use crate::reclaim::Reclaim;
use callbacks::CallbackList;
use readers::{Readers, Slot};

#[cfg(not(samara_loom))]
#[inline(always)]
fn readers() -> &'static Readers {
    static READERS: Readers = Readers::new();
    &READERS
}

#[cfg(samara_loom)]
fn readers() -> &'static Readers {
    loom::lazy_static! {
        static ref READERS: Readers = Readers::new();
    }
    &READERS
}

#[cfg(not(samara_loom))]
std::thread_local! {
    /// The thread's slot. It has no destructor, so that reading it is one load.
    static SLOT: Cell<*const Slot> = const { Cell::new(ptr::null()) };
}

#[cfg(samara_loom)]
loom::thread_local! {
    static SLOT: Cell<*const Slot> = Cell::new(ptr::null());
}

/// Returns the thread's slot, if it has one.
#[inline(always)]
fn slot() -> Option<&'static Slot> {
    // SAFETY: slots are never freed.
    unsafe { SLOT.with(Cell::get).as_ref() }
}

/// Acquires a slot for the thread. Returns `None` if there is no memory, or if the thread is
/// ending.
#[cold]
fn new_slot() -> Option<&'static Slot> {
    #[cfg(not(samara_loom))]
    if !thread_exit::is_running() {
        return None;
    }
    let slot = readers().acquire_slot()?;
    #[cfg(not(samara_loom))]
    if !thread_exit::register(slot) {
        // SAFETY: the thread has just acquired it, and has not entered with it.
        unsafe { slot.release() };
        return None;
    }
    SLOT.with(|s| s.set(slot));
    Some(slot)
}

/// Releases the thread's slot when the thread ends.
#[cfg(not(samara_loom))]
fn release_slot() {
    let slot = SLOT.replace(ptr::null());
    // SAFETY: slots are never freed.
    if let Some(slot) = unsafe { slot.as_ref() } {
        // SAFETY: it was this thread's slot until now.
        unsafe { slot.release() };
    }
}

/// RCU in user space, as the flavour `memb` of `liburcu`.
///
/// A reader writes only to memory of its own thread, with no fence and no locked instruction. A
/// writer that must know if readers have left makes all threads execute a barrier, by Linux's
/// `membarrier`. Without that call, readers execute a fence.
///
/// All `UserRcu`s of a program share their readers: a reader also keeps what has been retired with
/// another one. Callbacks run at a later retirement, in [`barrier`](UserRcu::barrier), or when this
/// is dropped, whichever comes first. Any number of writers may retire at once.
///
/// ```
/// use samara_rcu::{Reclaim, UserRcu};
///
/// static RCU: UserRcu = UserRcu::new();
///
/// let (sender, freed) = std::sync::mpsc::channel();
/// let reader = RCU.enter();
/// // SAFETY: nothing is freed.
/// unsafe { RCU.retire(move || drop(sender.send(()))) };
/// assert!(freed.try_recv().is_err());
/// drop(reader);
/// RCU.barrier();
/// assert!(freed.try_recv().is_ok());
/// ```
///
/// The algorithm is described in Desnoyers, McKenney, Stern, Dagenais, Walpole: *User-Level
/// Implementations of Read-Copy Update*, IEEE Transactions on Parallel and Distributed Systems 23
/// (2012).
pub struct UserRcu {
    callbacks: Mutex<CallbackList>,
}

impl UserRcu {
    /// Creates one with nothing retired.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            callbacks: Mutex::new(CallbackList::new()),
        }
    }

    fn callbacks(&self) -> MutexGuard<'_, CallbackList> {
        // No code panics while the lock is held.
        self.callbacks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the current readers, and runs all callbacks that have been retired until now.
    /// Linux calls this `rcu_barrier`.
    ///
    /// Does nothing on a thread that is a reader itself, since it would wait for ever.
    pub fn barrier(&self) {
        let retired = self.callbacks().take_all();
        if synchronize() {
            run_all(retired.into_iter().flatten(), || {});
        } else {
            let mut callbacks = self.callbacks();
            for free in retired.into_iter().flatten() {
                if let Err(free) = callbacks.push(free) {
                    // There is no memory, and readers are inside.
                    core::mem::forget(free);
                }
            }
        }
    }
}

/// Waits for a grace period. Returns `false`, without waiting, if the thread is a reader itself, or
/// if readers cannot be detected.
fn synchronize() -> bool {
    if slot().is_some_and(Slot::is_inside) {
        return false;
    }
    let readers = readers();
    let Some(period) = readers.begin() else {
        return false;
    };
    while !readers.is_over(period) {
        #[cfg(samara_loom)]
        loom::thread::yield_now();
        #[cfg(not(samara_loom))]
        std::thread::yield_now();
    }
    true
}

/// Handles a callback for which there is no memory.
fn free_now_or_leak(free: impl FnOnce()) {
    if synchronize() {
        free();
    } else {
        core::mem::forget(free);
    }
}

impl Default for UserRcu {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for UserRcu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserRcu").finish_non_exhaustive()
    }
}

impl Drop for UserRcu {
    fn drop(&mut self) {
        // Guards borrow `self`: all readers that may have found what was retired have left.
        let retired = self.callbacks().take_all();
        run_all(retired.into_iter().flatten(), || {});
    }
}

/// The guard of a reader of [`UserRcu`].
#[derive(Debug)]
pub struct RcuGuard<'a> {
    /// The thread's slot, or `None` if the reader is counted instead.
    slot: Option<&'static Slot>,
    /// Not `Send`: a slot is used only by its thread.
    marker: PhantomData<(&'a UserRcu, *mut ())>,
}

impl RcuGuard<'_> {
    /// Leaves as dropping the guard does, and orders the leaving before what the thread does next.
    ///
    /// A thread may write something, begin a grace period and [poll](Reclaim::poll) it. Then either
    /// the poll finds that this reader has left, or this thread sees what was written.
    ///
    /// Costs what entering costs: nothing where there is `membarrier`, a fence elsewhere.
    ///
    /// ```
    /// use samara_rcu::{Reclaim, UserRcu};
    ///
    /// let rcu = UserRcu::new();
    /// rcu.enter().leave_ordered();
    /// assert!(rcu.start_poll().is_none_or(|period| rcu.poll(period)));
    /// ```
    #[inline]
    pub fn leave_ordered(self) {
        drop(self);
        barrier::light();
    }
}

impl Drop for RcuGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        match self.slot {
            // SAFETY: guards stay on the thread that made them, and this is its slot.
            Some(slot) => unsafe { slot.leave() },
            None => readers().leave_unslotted(),
        }
    }
}

// SAFETY: the module `readers` argues the ordering. A thread that polls a grace period comes after
// the one that began it: the writers' lock orders them, or the lock of the callbacks. A callback
// runs when a period is over that began after the retirement, or when no guard is left.
unsafe impl Reclaim for UserRcu {
    type Guard<'a> = RcuGuard<'a>;

    // The model checker needs every retirement to take effect at once.
    const BATCH: usize = if cfg!(samara_loom) { 1 } else { 512 };

    #[inline]
    fn enter(&self) -> RcuGuard<'_> {
        let slot = slot().or_else(new_slot);
        match slot {
            // SAFETY: it is this thread's slot.
            Some(slot) => unsafe { readers().enter(slot) },
            None => readers().enter_unslotted(),
        }
        let marker = PhantomData;
        RcuGuard { slot, marker }
    }

    #[inline]
    fn start_poll(&self) -> Option<u64> {
        readers().begin()
    }

    #[inline]
    fn poll(&self, period: u64) -> bool {
        readers().is_over(period)
    }

    unsafe fn retire<F: FnOnce() + Send + 'static>(&self, free: F) {
        let free = match boxed(free) {
            Ok(free) => free,
            Err(free) => return free_now_or_leak(free),
        };
        let mut callbacks = self.callbacks();
        let over = match callbacks.push(free) {
            Ok(()) => callbacks.advance(readers()),
            Err(free) => {
                drop(callbacks);
                return free_now_or_leak(free);
            }
        };
        drop(callbacks);
        run_all(over.into_iter(), || {});
    }
}

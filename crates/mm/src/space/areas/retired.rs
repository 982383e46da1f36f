//! Areas that calls have taken out of the tree while faults may be looking at them.
//!
//! To free one is to ask first whether all readers have left that may have found it: a look at the counters of all of them, each of which the faults of some
//! processor write to all the time, so that both sides wait for these lines of the cache. A call that did so for each area that it replaces would slow down faults all over the
//! address space. So areas are put aside, and one look is for [`ROOM`] of them. None of them is held by faults; they are but memory.
//!
//! What is to go with its last mapping (a file, shared memory) does not wait for that: a call that takes such a mapping away [asks](Retired::flush) at its end.

use alloc::boxed::Box;
use core::cell::UnsafeCell;
use core::fmt;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use maple_tree::{Reclaim, Waiting};

use crate::heap::boxed::try_box;

/// How many areas are put aside: some 4 KiB.
const ROOM: usize = 32;

/// What frees an area: a closure that holds no more than the pointer to it.
struct Free {
    closure: MaybeUninit<NonNull<()>>,
    /// # Safety
    /// Called once, with that closure, when no reader can have found the area.
    call: unsafe fn(MaybeUninit<NonNull<()>>),
}

// SAFETY: the closure may be sent, as `Reclaim::retire` demands.
unsafe impl Send for Free {}

impl Free {
    /// Whether the closure has its place here.
    const fn fits<F>() -> bool {
        size_of::<F>() <= size_of::<NonNull<()>>() && align_of::<F>() <= align_of::<NonNull<()>>()
    }

    /// The closure must [fit](Self::fits).
    fn new<F: FnOnce() + Send + 'static>(free: F) -> Self {
        /// # Safety
        /// The bytes are those of an `F`, which goes with this call.
        unsafe fn call<F: FnOnce()>(closure: MaybeUninit<NonNull<()>>) {
            // SAFETY: the caller's promise.
            let free = unsafe { closure.as_ptr().cast::<F>().read() };
            free();
        }
        let mut closure = MaybeUninit::<NonNull<()>>::uninit();
        // SAFETY: there is room for it, as the caller has seen.
        unsafe { closure.as_mut_ptr().cast::<F>().write(free) };
        Free {
            closure,
            call: call::<F>,
        }
    }

    /// # Safety
    /// No reader is left that may have found the area.
    unsafe fn free(self) {
        // SAFETY: once, as it is consumed; the caller's promise.
        unsafe { (self.call)(self.closure) };
    }
}

/// What is put aside: in memory of its own, for which maps that nobody reads have no use.
struct Aside {
    count: usize,
    room: [MaybeUninit<Free>; ROOM],
}

/// How areas are reclaimed: as by [`Waiting`], but many at once.
pub(crate) struct Retired {
    waiting: Waiting,
    /// Only for the writer. Without it, areas are freed one by one.
    aside: UnsafeCell<Option<Box<Aside>>>,
}

// SAFETY: what is put aside may be sent, and is used by the writer alone: readers only enter and leave.
unsafe impl Sync for Retired {}

impl Retired {
    pub(super) const fn new() -> Self {
        Retired {
            waiting: Waiting::new(),
            aside: UnsafeCell::new(None),
        }
    }

    /// There are readers from now on, of several threads: see [`Waiting::spread`]. Without memory all goes on as before.
    ///
    /// # Safety
    /// The caller is the writer of the tree.
    pub(super) unsafe fn prepare(&self) {
        self.waiting.spread();
        // SAFETY: only the writer uses it, as the caller promises.
        let aside = unsafe { &mut *self.aside.get() };
        if aside.is_none() {
            let room = [const { MaybeUninit::uninit() }; ROOM];
            *aside = try_box(Aside { count: 0, room }).ok();
        }
    }

    /// Frees what is put aside, or sees to it that it is freed when the readers have left that are still about.
    ///
    /// # Safety
    /// The caller is the writer of the tree.
    pub(super) unsafe fn flush(&self) {
        let Some(first) = self.pop() else {
            return;
        };
        self.waiting.published();
        let mut next = Some(first);
        while let Some(free) = next {
            // SAFETY: it was out of the tree before.
            unsafe { self.waiting.retire(move || free.free()) };
            next = self.pop();
        }
    }

    /// One of those that are put aside.
    fn pop(&self) -> Option<Free> {
        // SAFETY: only the writer comes here; the borrow ends with this.
        let aside = unsafe { &mut *self.aside.get() }.as_mut()?;
        aside.count = aside.count.checked_sub(1)?;
        // SAFETY: there were more of them than that.
        Some(unsafe { aside.room[aside.count].assume_init_read() })
    }
}

impl Drop for Retired {
    fn drop(&mut self) {
        while let Some(free) = self.pop() {
            // SAFETY: readers borrow this, so that there are none.
            unsafe { free.free() };
        }
    }
}

// SAFETY: readers enter and leave as with `Waiting`, which decides when it is asked: for what was put aside, after all of that was unlinked.
unsafe impl Reclaim for Retired {
    type Guard<'a> = <Waiting as Reclaim>::Guard<'a>;

    const BATCH: usize = <Waiting as Reclaim>::BATCH;

    #[inline]
    fn enter(&self) -> Self::Guard<'_> {
        self.waiting.enter()
    }

    fn start_poll(&self) -> Option<u64> {
        self.waiting.start_poll()
    }

    fn poll(&self, period: u64) -> bool {
        self.waiting.poll(period)
    }

    unsafe fn retire<F: FnOnce() + Send + 'static>(&self, free: F) {
        // SAFETY: only the writer retires. The borrow ends before anything is freed.
        let aside = unsafe { &mut *self.aside.get() };
        let Some(aside) = aside.as_mut().filter(|_| Free::fits::<F>()) else {
            self.waiting.published();
            // SAFETY: the caller's promise; it was unlinked before.
            return unsafe { self.waiting.retire(free) };
        };
        if let Some(place) = aside.room.get_mut(aside.count) {
            place.write(Free::new(free));
            aside.count += 1;
        }
        if aside.count == ROOM {
            // SAFETY: the writer.
            unsafe { self.flush() };
        }
    }
}

impl fmt::Debug for Retired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.waiting.fmt(f)
    }
}

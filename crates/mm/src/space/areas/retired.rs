//! VMAs that calls have removed from the tree while faults may still read them.
//!
//! A VMA may be freed only after all readers that may have found it have left. Finding that out
//! means reading the counters of all readers, which the faults of each processor write all the
//! time, so both sides wait for these cache lines. If a call did so for each VMA that it replaces,
//! it would slow down faults everywhere in the address space. So VMAs are set aside, and one check
//! serves [`CAPACITY`] of them. Faults hold none of them: they are only memory.
//!
//! What must go with its last mapping (a file, shared memory) does not wait for that: a call that
//! removes such a mapping [flushes](Retired::flush) at its end.

use alloc::boxed::Box;
use core::cell::UnsafeCell;
use core::fmt;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use maple_tree::{Reclaim, Waiting};

use crate::heap::boxed::try_box;

/// The number of VMAs that are set aside at most: about 4 KiB.
const CAPACITY: usize = 32;

/// A closure that frees a VMA and holds no more than the pointer to it.
struct Free {
    closure: MaybeUninit<NonNull<()>>,
    /// # Safety
    /// Call it once, with that closure, when no reader can have found the VMA.
    call: unsafe fn(MaybeUninit<NonNull<()>>),
}

// SAFETY: the closure is `Send`, as `Reclaim::retire` demands.
unsafe impl Send for Free {}

impl Free {
    /// Returns `true` if the closure fits into one pointer.
    const fn fits<F>() -> bool {
        size_of::<F>() <= size_of::<NonNull<()>>() && align_of::<F>() <= align_of::<NonNull<()>>()
    }

    /// Stores a closure, which must [fit](Self::fits).
    fn new<F: FnOnce() + Send + 'static>(free: F) -> Self {
        /// # Safety
        /// The bytes are those of an `F`, which this call consumes.
        unsafe fn call<F: FnOnce()>(closure: MaybeUninit<NonNull<()>>) {
            // SAFETY: the caller says that the bytes are an `F`.
            let free = unsafe { closure.as_ptr().cast::<F>().read() };
            free();
        }
        let mut closure = MaybeUninit::<NonNull<()>>::uninit();
        // SAFETY: the closure fits, as the caller has checked.
        unsafe { closure.as_mut_ptr().cast::<F>().write(free) };
        Free {
            closure,
            call: call::<F>,
        }
    }

    /// # Safety
    /// No reader is left that may have found the VMA.
    unsafe fn free(self) {
        // SAFETY: called once, since `self` is consumed, and no reader is left, as the caller says.
        unsafe { (self.call)(self.closure) };
    }
}

/// VMAs that are set aside. A separate allocation, which maps without readers do not need.
struct Aside {
    count: usize,
    room: [MaybeUninit<Free>; CAPACITY],
}

/// The way VMAs are reclaimed: as by [`Waiting`], but many at once.
pub(crate) struct Retired {
    waiting: Waiting,
    /// Used by the writer alone. Without it, VMAs are freed one by one.
    aside: UnsafeCell<Option<Box<Aside>>>,
}

// SAFETY: what is set aside is `Send`, and only the writer uses it: readers only enter and leave.
unsafe impl Sync for Retired {}

impl Retired {
    pub(super) const fn new() -> Self {
        Retired {
            waiting: Waiting::new(),
            aside: UnsafeCell::new(None),
        }
    }

    /// Prepares for readers of several threads: see [`Waiting::spread`]. If an allocation fails,
    /// everything continues as before.
    ///
    /// # Safety
    /// The caller is the writer of the tree.
    pub(super) unsafe fn prepare(&self) {
        self.waiting.spread();
        // SAFETY: only the writer uses it, and the caller is the writer.
        let aside = unsafe { &mut *self.aside.get() };
        if aside.is_none() {
            let room = [const { MaybeUninit::uninit() }; CAPACITY];
            *aside = try_box(Aside { count: 0, room }).ok();
        }
    }

    /// Frees what is set aside, or schedules that for when the remaining readers have left.
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
            // SAFETY: the VMA left the tree before `published`.
            unsafe { self.waiting.retire(move || free.free()) };
            next = self.pop();
        }
    }

    /// Returns one of those that are set aside.
    fn pop(&self) -> Option<Free> {
        // SAFETY: only the writer calls this, and the borrow ends with it.
        let aside = unsafe { &mut *self.aside.get() }.as_mut()?;
        aside.count = aside.count.checked_sub(1)?;
        // SAFETY: the count said that this entry is initialised.
        Some(unsafe { aside.room[aside.count].assume_init_read() })
    }
}

impl Drop for Retired {
    fn drop(&mut self) {
        while let Some(free) = self.pop() {
            // SAFETY: readers borrow this value, so there are none.
            unsafe { free.free() };
        }
    }
}

// SAFETY: readers enter and leave as with `Waiting`, which decides when it is asked. It is asked
// for VMAs that were all unlinked before.
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
            // SAFETY: passed on to the caller; the VMA was unlinked before `published`.
            return unsafe { self.waiting.retire(free) };
        };
        if let Some(place) = aside.room.get_mut(aside.count) {
            place.write(Free::new(free));
            aside.count += 1;
        }
        if aside.count == CAPACITY {
            // SAFETY: the caller is the writer.
            unsafe { self.flush() };
        }
    }
}

impl fmt::Debug for Retired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.waiting.fmt(f)
    }
}

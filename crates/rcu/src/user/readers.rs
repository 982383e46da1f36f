//! The readers that are inside, and the epochs in which they entered.
//!
//! Each thread that reads has a slot. The slot holds the epoch in which the thread entered, or says
//! that the thread is outside. A grace period begins with a new epoch. It is over when no slot
//! holds an earlier epoch.
//!
//! # Ordering
//!
//! A reader writes the epoch to its slot, executes the [light](super::barrier) side of the barrier,
//! and reads. A writer unlinks and then calls [`begin`](Readers::begin), which begins the new epoch
//! and executes the heavy side.
//!
//! * *The reader's side comes first.* A thread that checks the slots after the heavy side sees
//!   the reader's epoch, or what it wrote later. If the slot holds an earlier epoch, the writer waits
//!   for the reader. If it holds the new epoch or a later one, the reader has loaded it from
//!   `epoch`. That value was released after the unlinking, so that the reader cannot find what was
//!   unlinked. If the slot says outside, the reader has left, and its leaving was released after
//!   its reads.
//! * *The heavy side comes first.* Then the reader sees that everything was unlinked, and need not
//!   be waited for, whatever its slot holds. If it holds an earlier epoch, the writer waits all the
//!   same until the reader leaves.
//!
//! Every store to a slot is a release: a thread that sees a later value knows that the reads of the
//! earlier visit are over.

use alloc::boxed::Box;
use core::cell::Cell;
use core::ptr::{self, NonNull};

use crate::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use crate::try_box_uninit;
use crate::user::barrier;

/// The value of a slot whose thread is outside. No epoch has this number.
const OUTSIDE: u64 = 0;

/// The state of a reading thread.
#[derive(Debug)]
#[cfg_attr(not(samara_loom), repr(align(128)))]
pub(super) struct Slot {
    /// The epoch in which the thread entered, or [`OUTSIDE`].
    entered: AtomicU64,
    /// The number of guards that the thread has. Only for the thread that owns the slot.
    depth: Cell<usize>,
    taken: AtomicBool,
    /// The next slot in the list. Set before other threads see the slot.
    next: *const Slot,
}

// SAFETY: `depth` is used by one thread at a time, the owner of the slot. `next` does not change.
unsafe impl Sync for Slot {}

/// All readers of the program.
pub(super) struct Readers {
    epoch: AtomicU64,
    /// The list of slots. They are never freed: a thread that ends releases its slot to another.
    slots: AtomicPtr<Slot>,
    /// The number of readers without a slot: there was no memory for one, or their thread is
    /// ending.
    unslotted: AtomicUsize,
}

impl Readers {
    const_unless_loom! {
        pub(super) const fn new() -> Self {
            Self {
                epoch: AtomicU64::new(OUTSIDE + 1),
                slots: AtomicPtr::new(ptr::null_mut()),
                unslotted: AtomicUsize::new(0),
            }
        }
    }

    fn slots(&self) -> impl Iterator<Item = &'static Slot> {
        let mut next: *const Slot = self.slots.load(Ordering::Acquire);
        core::iter::from_fn(move || {
            // SAFETY: slots are never freed. The load pairs with the release in `acquire_slot`, so
            // that a slot is seen initialised.
            let slot = unsafe { next.as_ref() }?;
            next = slot.next;
            Some(slot)
        })
    }

    /// Acquires a slot for a thread. Returns `None` if there is no memory.
    #[cold]
    pub(super) fn acquire_slot(&self) -> Option<&'static Slot> {
        for slot in self.slots() {
            // The swap pairs with the release in `release`.
            if !slot.taken.load(Ordering::Relaxed) && !slot.taken.swap(true, Ordering::Acquire) {
                return Some(slot);
            }
        }
        let slot = NonNull::from(Box::leak(try_box_uninit::<Slot>()?)).cast::<Slot>();
        let mut head = self.slots.load(Ordering::Relaxed);
        loop {
            // SAFETY: the memory is fresh, large enough and aligned, and no other thread has seen
            // it yet.
            unsafe {
                slot.write(Slot {
                    entered: AtomicU64::new(OUTSIDE),
                    depth: Cell::new(0),
                    taken: AtomicBool::new(true),
                    next: head,
                });
            }
            let pushed = self.slots.compare_exchange(
                head,
                slot.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed,
            );
            match pushed {
                // SAFETY: it is never freed.
                Ok(_) => return Some(unsafe { slot.as_ref() }),
                Err(now) => head = now,
            }
        }
    }

    /// Enters with the thread's slot.
    ///
    /// # Safety
    ///
    /// The slot is the calling thread's.
    #[inline(always)]
    pub(super) unsafe fn enter(&self, slot: &Slot) {
        let depth = slot.depth.get();
        slot.depth.set(depth + 1);
        if depth == 0 {
            let now = self.epoch.load(Ordering::Acquire);
            slot.entered.store(now, Ordering::Release);
            barrier::light();
        }
    }

    /// Enters without a slot.
    pub(super) fn enter_unslotted(&self) {
        self.unslotted.fetch_add(1, Ordering::Relaxed);
        barrier::light();
    }

    pub(super) fn leave_unslotted(&self) {
        self.unslotted.fetch_sub(1, Ordering::Release);
    }

    /// Begins a grace period and returns its number, or `None` if the kernel refuses the barrier.
    pub(super) fn begin(&self) -> Option<u64> {
        // The new epoch is released after the unlinking.
        let period = self.epoch.fetch_add(1, Ordering::AcqRel) + 1;
        barrier::heavy().then_some(period)
    }

    /// Returns `true` if all readers that entered before the period began have left.
    pub(super) fn is_over(&self, period: u64) -> bool {
        let left = |slot: &Slot| {
            let entered = slot.entered.load(Ordering::Acquire);
            entered == OUTSIDE || entered >= period
        };
        self.slots().all(left) && self.unslotted.load(Ordering::Acquire) == 0
    }
}

impl Slot {
    /// Leaves with the thread's slot.
    ///
    /// # Safety
    ///
    /// The slot is the calling thread's, which has entered at least once more than it has left.
    #[inline(always)]
    pub(super) unsafe fn leave(&self) {
        let depth = self.depth.get() - 1;
        self.depth.set(depth);
        if depth == 0 {
            // Release: the thread's reads come before.
            self.entered.store(OUTSIDE, Ordering::Release);
        }
    }

    pub(super) fn is_inside(&self) -> bool {
        self.depth.get() > 0
    }

    /// Releases the slot to other threads.
    ///
    /// If its thread is still a reader, the slot is never reused. This happens when a guard was
    /// forgotten or outlives the thread-local destructor.
    ///
    /// # Safety
    ///
    /// The slot is the calling thread's, which does not enter with it again.
    pub(super) unsafe fn release(&self) {
        if !self.is_inside() {
            self.taken.store(false, Ordering::Release);
        }
    }
}

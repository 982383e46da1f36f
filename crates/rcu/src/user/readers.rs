//! Who reads, and since when.
//!
//! Each thread that reads has a slot of its own, which says in which epoch the thread entered, or that it is outside. A grace period begins
//! with a new epoch and is over when no slot says that its thread entered in an earlier one.
//!
//! # Ordering
//!
//! A reader notes the epoch in its slot, passes the [light](super::barrier) side of the barrier, and reads. [`begin`](Readers::begin)
//! comes after what is to be freed was unlinked; it begins the new epoch, then passes the heavy side.
//!
//! * *The reader's side comes first.* Whoever looks at the slots after the heavy side sees the reader's note, or what it wrote later. If
//!   the note has an earlier epoch, the reader is waited for. If it has the new one or a later, then the reader has read that epoch from `epoch`,
//!   which was released after the unlinking, and cannot find what was unlinked. If it says that the reader is outside, the reader has left: its
//!   leaving was released after its reads.
//! * *The heavy side comes first.* The reader sees that all was unlinked. Whatever its slot says, it need not be waited for; if
//!   it noted an epoch that was over by then, it is waited for all the same, until it leaves.
//!
//! A note is released, like a leaving: who sees a later note knows that the reads of the earlier visit are over.

use alloc::boxed::Box;
use core::cell::Cell;
use core::ptr::{self, NonNull};

use crate::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use crate::try_box_uninit;
use crate::user::barrier;

/// What a slot says while its thread is outside. No epoch has this number.
const OUTSIDE: u64 = 0;

/// A thread's note.
#[derive(Debug)]
#[cfg_attr(not(samara_loom), repr(align(128)))]
pub(super) struct Slot {
    /// The epoch in which the thread entered, or [`OUTSIDE`].
    entered: AtomicU64,
    /// How many guards the thread has. Only for the thread that has the slot.
    depth: Cell<usize>,
    taken: AtomicBool,
    /// Set before others see the slot.
    next: *const Slot,
}

// SAFETY: `depth` is used by one thread at a time, the one that has taken the slot; `next` does not change.
unsafe impl Sync for Slot {}

/// All readers of the program.
pub(super) struct Readers {
    epoch: AtomicU64,
    /// Slots are never freed: a thread that ends leaves its slot to another.
    slots: AtomicPtr<Slot>,
    /// Readers without a slot: those for which there was no memory, or whose thread is ending.
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
            // SAFETY: slots are never freed. Pairs with the release in `acquire_slot`, so that they are seen whole.
            let slot = unsafe { next.as_ref() }?;
            next = slot.next;
            Some(slot)
        })
    }

    /// A slot for a thread; `None` if there is no memory.
    #[cold]
    pub(super) fn acquire_slot(&self) -> Option<&'static Slot> {
        for slot in self.slots() {
            // Pairs with the release in `release`.
            if !slot.taken.load(Ordering::Relaxed) && !slot.taken.swap(true, Ordering::Acquire) {
                return Some(slot);
            }
        }
        let slot = NonNull::from(Box::leak(try_box_uninit::<Slot>()?)).cast::<Slot>();
        let mut head = self.slots.load(Ordering::Relaxed);
        loop {
            // SAFETY: the memory is fresh, large enough and aligned, and nobody else sees it yet.
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

    /// Notes a thread that has a slot.
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

    /// Notes a reader without a slot.
    pub(super) fn enter_unslotted(&self) {
        self.unslotted.fetch_add(1, Ordering::Relaxed);
        barrier::light();
    }

    pub(super) fn leave_unslotted(&self) {
        self.unslotted.fetch_sub(1, Ordering::Release);
    }

    /// Begins a grace period. `None` if that cannot be done.
    pub(super) fn begin(&self) -> Option<u64> {
        // What was unlinked is released with the new epoch.
        let period = self.epoch.fetch_add(1, Ordering::AcqRel) + 1;
        barrier::heavy().then_some(period)
    }

    /// Whether all that entered before the period began have left.
    pub(super) fn is_over(&self, period: u64) -> bool {
        let left = |slot: &Slot| {
            let entered = slot.entered.load(Ordering::Acquire);
            entered == OUTSIDE || entered >= period
        };
        self.slots().all(left) && self.unslotted.load(Ordering::Acquire) == 0
    }
}

impl Slot {
    /// # Safety
    ///
    /// The slot is the calling thread's, which has entered as often as it leaves.
    #[inline(always)]
    pub(super) unsafe fn leave(&self) {
        let depth = self.depth.get() - 1;
        self.depth.set(depth);
        if depth == 0 {
            // The thread's reads come before.
            self.entered.store(OUTSIDE, Ordering::Release);
        }
    }

    pub(super) fn is_inside(&self) -> bool {
        self.depth.get() > 0
    }

    /// Gives the slot up. If its thread is a reader still (a guard was forgotten, or outlives what calls this), nobody else gets it.
    ///
    /// # Safety
    ///
    /// The slot is the calling thread's, which does not enter by it again.
    pub(super) unsafe fn release(&self) {
        if !self.is_inside() {
            self.taken.store(false, Ordering::Release);
        }
    }
}

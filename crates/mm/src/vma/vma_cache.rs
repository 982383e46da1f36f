//! The VMA cache of faults: after a fault, the next one is often nearby, and to find and hold the
//! VMA anew is a quarter of the cost of a fault.
//!
//! Each region of 2 MiB has a slot. Regions share slots, because there are more of them than slots.
//! A fault that uses the cache *holds* the entry: it counts itself in the slot and not in the VMA,
//! and needs no RCU. So threads that fault in different regions of one VMA write to different cache
//! lines. An entry is written by a fault that holds the lock of the VMA (see `vma_lock`), and
//! removed by the call that closes that lock. So the VMA of an entry is unchanged since it was
//! found.
//!
//! # Protocol
//!
//! A slot is a lock with many readers or one writer. Only calls wait for it. Its word counts the
//! readers, and has a bit for the writer.
//!
//! ```text
//! fault                                        fault that notes an area, which it holds (3 to 5 of `vma_lock`)
//! a  word += 1; writer? let go, give up        u  the area's lock is noted
//! b  area of the place, none or another?       v  word: 0 to writer, else give up
//!    let go, give up                           w  the area's lock is closed now? leave all as it was
//! c  word -= 1, when the page is there         x  write the range and the area; word -= writer
//!
//! call, after A: nothing if the lock is not noted. Else for all places of the area P, and then for all of them Q:
//! P  wait until word has no writer; none, or another area? leave the place. Else word |= writer; area = none
//! Q  wait until word has no reader; word -= writer
//! ```
//!
//! *No fault writes an entry of the VMA once a call is past P.* u, v, w, A and P are sequentially
//! consistent. If w comes before A in the single order of all such accesses, so do u and v: the
//! call finds the lock marked, and at P the writer or its entry. If A comes before w, w finds the
//! lock closed. (A lock that already carries the number of this call from long ago is not written
//! at A. The end of the preceding call takes the place of A: w reads the number of the call after
//! that of the lock.)
//!
//! *No fault holds the VMA in the cache once a call is past Q.* If a comes before the writer's bit
//! is set at P, Q waits for c. If it comes after, a finds the writer, or b finds no entry, which no
//! fault writes any more. If P finds the entry of another VMA, a writer has replaced it since, and
//! that writer had found no reader at v: a later fault finds the other VMA, or the writer. Readers
//! release when they leave; v, P and Q acquire.
//!
//! So from P until the call ends, no fault starts to hold the VMA: neither here nor by its lock,
//! which is closed. Only then does the call wait for the faults that hold it since before: here at
//! Q, and at B for those that hold its lock. In the other order, faults would continue to arrive
//! while the call waits.
//!
//! *What b finds is consistent.* Only a writer writes the range, and v succeeds only if no fault is
//! past a. A call that is past P writes only `none`.
//!
//! P ends, because writers that are not calls never wait. Q ends, because faults check for an entry
//! and a writer before a.
//!
//! # When an entry is written
//!
//! Writing and removing an entry costs as much as two or three faults gain by it. So the first
//! fault in a region only leaves its page number in the slot, and the next one in the same VMA, at
//! another page, writes the entry. VMAs that are mapped, touched once and unmapped are as fast as
//! without the cache.

use core::ptr::{self, NonNull};

use crate::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, checkers_fence, relax};

/// A VMA that was found, with its range `[start, end)`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found<T> {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) area: NonNull<T>,
}

impl<T> Clone for Found<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Found<T> {}

impl<T> Found<T> {
    #[inline]
    fn has(&self, address: u64) -> bool {
        self.start <= address && address < self.end
    }
}

/// The number of slots: 8 KiB of them.
const SLOTS: usize = if cfg!(samara_loom) { 1 } else { 64 };

/// The size of a region that has a slot, as a power of two.
const REGION_SHIFT: u32 = 21;

/// The first of this many pages replaces the entry of another VMA in its slot.
const CONFLICT_INTERVAL: u64 = 8;

/// A bit in the word of a slot: a writer has it.
const WRITER: u32 = 1 << 31;

/// A slot. Aligned to cache lines of its own, which processors fetch in pairs.
#[repr(align(128))]
struct Slot<T> {
    /// The number of faults that hold the entry, and [`WRITER`].
    word: AtomicU32,
    start: AtomicU64,
    end: AtomicU64,
    /// Null for no entry.
    area: AtomicPtr<T>,
    /// The page of the last fault that found no entry.
    last: AtomicU64,
}

impl<T> Slot<T> {
    fn new() -> Self {
        Slot {
            word: AtomicU32::new(0),
            start: AtomicU64::new(0),
            end: AtomicU64::new(0),
            area: AtomicPtr::new(ptr::null_mut()),
            last: AtomicU64::new(0),
        }
    }

    /// Returns the entry. It is consistent for readers that have counted themselves; for others it
    /// may not be.
    #[inline]
    fn read(&self) -> Option<Found<T>> {
        let area = NonNull::new(self.area.load(Ordering::Relaxed))?;
        let start = self.start.load(Ordering::Relaxed);
        let end = self.end.load(Ordering::Relaxed);
        Some(Found { start, end, area })
    }

    /// Steps a and b.
    #[inline]
    fn hold(&self, address: u64) -> CacheLookup<'_, T> {
        match self.read() {
            None => return CacheLookup::Miss,
            Some(found) if !found.has(address) => return CacheLookup::Conflict,
            Some(_) => {}
        }
        if self.word.load(Ordering::Relaxed) & WRITER == 0 {
            let before = self.word.fetch_add(1, Ordering::SeqCst);
            if before & WRITER == 0
                && let Some(found) = self.read()
                && found.has(address)
            {
                return CacheLookup::Hit(found, &self.word);
            }
            release(&self.word);
        }
        CacheLookup::Miss
    }

    /// Steps v to x.
    fn write(&self, found: Found<T>, is_open: impl FnOnce() -> bool) {
        let (none, writer) = (0, WRITER);
        let order = Ordering::SeqCst;
        if (self
            .word
            .compare_exchange(none, writer, order, Ordering::Relaxed))
        .is_err()
        {
            return;
        }
        checkers_fence();
        if is_open() {
            self.start.store(found.start, Ordering::Relaxed);
            self.end.store(found.end, Ordering::Relaxed);
            // Release: a call that finds another VMA than its own sees what earlier readers of the
            // slot did.
            self.area.store(found.area.as_ptr(), Ordering::Release);
        }
        self.word.fetch_sub(WRITER, Ordering::Release);
    }

    /// Step P. Returns `true` if step Q must follow.
    fn close(&self, area: *const T) -> bool {
        loop {
            if self.word.load(Ordering::SeqCst) & WRITER != 0 {
                relax();
                continue;
            }
            if !ptr::eq(self.area.load(Ordering::Acquire), area) {
                return false;
            }
            if self.word.fetch_or(WRITER, Ordering::SeqCst) & WRITER == 0 {
                break;
            }
        }
        // Another entry may have been written in between.
        let is_here = ptr::eq(self.area.load(Ordering::Acquire), area);
        if is_here {
            self.area.store(ptr::null_mut(), Ordering::Relaxed);
        } else {
            self.word.fetch_sub(WRITER, Ordering::Release);
        }
        is_here
    }

    /// Step Q.
    fn open(&self) {
        while self.word.load(Ordering::Acquire) != WRITER {
            relax();
        }
        self.word.fetch_sub(WRITER, Ordering::Release);
    }
}

/// Releases a hold. Release ordering: the call that waits for the holder sees what it did.
#[inline]
pub(crate) fn release(holders: &AtomicU32) {
    holders.fetch_sub(1, Ordering::Release);
}

/// Returns the index of the slot of a region.
#[inline]
fn slot_of(region: u64) -> usize {
    // The upper bits of a multiple of 2^64 divided by the golden ratio, so that regions at regular
    // distances are spread, too.
    let spread = region.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (spread >> 58) as usize % SLOTS
}

/// The cache.
pub(crate) struct VmaCache<T>([Slot<T>; SLOTS]);

impl<T> VmaCache<T> {
    pub(crate) fn new() -> Self {
        VmaCache(core::array::from_fn(|_| Slot::new()))
    }

    #[inline]
    fn slot(&self, address: u64) -> &Slot<T> {
        &self.0[slot_of(address >> REGION_SHIFT)]
    }

    /// Holds the entry around an address, if there is one.
    #[inline]
    pub(crate) fn hold(&self, address: u64) -> CacheLookup<'_, T> {
        self.slot(address).hold(address)
    }

    /// Returns `true` if the preceding fault of the region was in the same VMA at another page: the
    /// VMA should then be [inserted](Self::insert).
    #[inline]
    pub(crate) fn should_insert(&self, address: u64, found: &Found<T>) -> bool {
        let slot = self.slot(address);
        let page = address >> 12 << 12;
        let last = slot.last.load(Ordering::Relaxed);
        if last != page {
            slot.last.store(page, Ordering::Relaxed);
        }
        last != page && found.has(last)
    }

    /// Writes the entry around an address, if no other fault uses the slot. The caller holds the
    /// lock of the VMA and has [marked](super::vma_lock::VmaLock::mark_cached) it. `is_open`
    /// returns `true` while that lock is open.
    #[inline]
    pub(crate) fn insert(&self, address: u64, found: Found<T>, is_open: impl FnOnce() -> bool) {
        self.slot(address).write(found, is_open);
    }

    /// Removes all entries of a VMA whose lock is closed, and waits until no fault holds one.
    pub(crate) fn remove(&self, found: &Found<T>) {
        let area = found.area.as_ptr().cast_const();
        let (first, last) = (found.start >> REGION_SHIFT, (found.end - 1) >> REGION_SHIFT);
        // Slots, one bit each.
        let mut closed: u64 = 0;
        let mut close = |slot: usize| {
            // Several regions may share a slot.
            if closed >> slot & 1 == 0 && self.0[slot].close(area) {
                closed |= 1 << slot;
            }
        };
        if last - first >= SLOTS as u64 {
            (0..SLOTS).for_each(close);
        } else {
            (first..=last).for_each(|region| close(slot_of(region)));
        }
        while closed != 0 {
            self.0[closed.trailing_zeros() as usize].open();
            closed &= closed - 1;
        }
    }
}

/// The result of a look-up in the cache.
pub(crate) enum CacheLookup<'a, T> {
    /// The VMA, which is held by this count.
    Hit(Found<T>, &'a AtomicU32),
    /// The slot has another VMA.
    Conflict,
    Miss,
}

impl<T> CacheLookup<'_, T> {
    /// Returns `true` if the VMA that is found now should be inserted. It replaces another one only
    /// rarely, since two VMAs that are used in turn would otherwise be written all the time.
    #[inline]
    pub(crate) fn may_be_replaced(&self, address: u64) -> bool {
        !matches!(self, CacheLookup::Conflict) || (address >> 12).is_multiple_of(CONFLICT_INTERVAL)
    }
}

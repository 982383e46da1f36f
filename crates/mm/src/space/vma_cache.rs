//! Areas that faults have found: where one was, the next one often is, and to find and hold it anew is a quarter of what a fault costs.
//!
//! A stretch of 2 MiB has a place, which stretches share where there are more of them than places. A fault that comes this way *holds* what is noted there:
//! it counts itself in the place, not in the area, and needs no RCU. So threads that fault in different stretches of one area write to different lines of the
//! cache. A note is made by who holds the area's own lock (see `vma_lock`), and taken away by the call that closes that lock: what is noted is as it was found.
//!
//! # Protocol
//!
//! A place is a lock of many readers or one writer, for which nobody waits but calls. Its word counts the readers, and has a bit for the writer.
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
//! *Nobody notes the area any more, once a call is past P.* u, v, w, A and P are sequentially consistent. If w comes before A in the one order of all such accesses, so do u and v: the
//! call finds the lock noted, and at P the writer, or what it has written. Else A comes before w, and w finds the lock closed. (A lock that carries the number of this call since long
//! ago is not written at A. The end of the call before takes A's place: w asks for the number of the call after that of the lock.)
//!
//! *Nobody holds the area there any more, once a call is past Q.* If a comes before the writer's bit is set at P, Q waits for c. If it comes after, a finds the writer, or b
//! finds no area, which nobody notes any more. If P finds another area, somebody has written it since, and that one had found nobody at v: whoever comes later finds the other area,
//! or the writer. Those who let go release; v, P and Q acquire.
//!
//! So nobody comes to hold the area, from P until the call has ended: neither here, nor by its lock, which is closed. Only then those are waited for that hold it
//! since before: here at Q, those that hold its lock at B. In the other order, faults would go on to come while the call waits.
//!
//! *What b finds is of one piece.* Nobody but a writer writes the range, and v finds nobody who is past a. The call that is past P writes no more than `none`.
//!
//! P comes to its end, since writers that are not calls wait for nothing; and Q, since faults look for an area and a writer before a.
//!
//! # When an area is noted
//!
//! To note an area and to take it away again costs as much as two or three faults gain by it. So the first fault in a stretch leaves its page there, and the next one that was in the
//! same area, at another page, notes it. Areas that are mapped, touched once and unmapped stay as quick as they are without any of this.

use core::ptr::{self, NonNull};

use crate::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, checkers_fence, relax};

/// What was found, in `[start, end)`.
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

/// How many places there are: 8 KiB of them.
const SLOTS: usize = if cfg!(samara_loom) { 1 } else { 64 };

/// What has a place, as a power of two.
const REGION_SHIFT: u32 = 21;

/// Of so many pages whose place another area has, the first takes it away.
const CONFLICT_INTERVAL: u64 = 8;

/// In the word of a place: somebody writes there.
const WRITER: u32 = 1 << 31;

/// On lines of the cache of its own, which processors fetch by twos.
#[repr(align(128))]
struct Slot<T> {
    /// Faults under way that have found their area here, and [`WRITER`].
    word: AtomicU32,
    start: AtomicU64,
    end: AtomicU64,
    /// Null for none.
    area: AtomicPtr<T>,
    /// Where the last fault was that found nothing here.
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

    /// What is noted here: of one piece for readers, for others perhaps not.
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
            // Release: the call that finds another area than its own sees what those did who were here before.
            self.area.store(found.area.as_ptr(), Ordering::Release);
        }
        self.word.fetch_sub(WRITER, Ordering::Release);
    }

    /// Step P. Whether Q is to come.
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
        // Another may have come in between.
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

/// The holder has done. Release: the call that waits for it sees what it did.
#[inline]
pub(crate) fn release(holders: &AtomicU32) {
    holders.fetch_sub(1, Ordering::Release);
}

/// The place of a stretch.
#[inline]
fn slot_of(region: u64) -> usize {
    // The upper bits of a multiple of 2^64 over the golden ratio: stretches at regular distances are spread, too.
    let spread = region.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (spread >> 58) as usize % SLOTS
}

/// What faults have found.
pub(crate) struct VmaCache<T>([Slot<T>; SLOTS]);

impl<T> VmaCache<T> {
    pub(crate) fn new() -> Self {
        VmaCache(core::array::from_fn(|_| Slot::new()))
    }

    #[inline]
    fn slot(&self, address: u64) -> &Slot<T> {
        &self.0[slot_of(address >> REGION_SHIFT)]
    }

    /// Holds what was found around an address, if it is there as it was.
    #[inline]
    pub(crate) fn hold(&self, address: u64) -> CacheLookup<'_, T> {
        self.slot(address).hold(address)
    }

    /// Whether the fault before was in the same area, at another page: then this one is to be [noted](Self::set).
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

    /// Notes what was found around an address. The caller holds the area's lock, and has [said so](super::vma_lock::VmaLock::note); whether that is open, it tells.
    #[inline]
    pub(crate) fn insert(&self, address: u64, found: Found<T>, is_open: impl FnOnce() -> bool) {
        self.slot(address).write(found, is_open);
    }

    /// Takes away what is noted of an area, and then waits until nobody holds it. Its lock is closed.
    pub(crate) fn remove(&self, found: &Found<T>) {
        let area = found.area.as_ptr().cast_const();
        let (first, last) = (found.start >> REGION_SHIFT, (found.end - 1) >> REGION_SHIFT);
        // Places, a bit each.
        let mut closed: u64 = 0;
        let mut close = |slot: usize| {
            // Several stretches may have the same place.
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

/// What is remembered around an address.
pub(crate) enum CacheLookup<'a, T> {
    /// This was found there, and is held: by this count.
    Hit(Found<T>, &'a AtomicU32),
    /// Something that may still be there, but elsewhere.
    Conflict,
    Miss,
}

impl<T> CacheLookup<'_, T> {
    /// Whether what is found now at an address is to be noted: in the place of another only now and then, since two areas that are used in turn would be written all the time.
    #[inline]
    pub(crate) fn may_be_replaced(&self, address: u64) -> bool {
        !matches!(self, CacheLookup::Conflict) || (address >> 12).is_multiple_of(CONFLICT_INTERVAL)
    }
}

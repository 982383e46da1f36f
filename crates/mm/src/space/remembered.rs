//! Areas that faults have found: where one was, the next one often is, and the walk through the tree is a quarter of what a fault costs.
//!
//! What was found is looked at under RCU, before the tree. It serves as long as
//!
//! - *the area is as it was*: its lock has not been closed since, as `vma_lock` explains. Calls that change other areas do no harm;
//! - *the area is there*. Whoever frees areas counts that first, and then waits for the readers that have entered before. The count is noted before an area is looked for, and
//!   compared before one is gone on with, both under RCU. If the area had been freed, or is about to be, the count is another. Else it is freed after a count that
//!   comes later than the comparison, and so later than the reader has entered: this one is waited for.
//!
//! `loom/protocol` has this, too, and shows what fails without each part.
//!
//! What was found in a stretch of 2 MiB has a place, which stretches share where there are more of them than places. Threads seldom write to a place that others
//! use. All of it is atomic words, between two looks at the place's version.

use core::ptr::NonNull;

use super::vma_lock::Number;
use crate::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

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
    fn holds(&self, address: u64) -> bool {
        self.start <= address && address < self.end
    }
}

/// How many places there are: 4 KiB of them.
const PLACES: usize = if cfg!(samara_loom) { 1 } else { 64 };

/// Of so many pages whose place another area has, the first takes it away.
const PATIENCE: u64 = 8;

/// On a line of the cache of its own: read by many, written by few.
#[repr(align(64))]
struct Place<T> {
    /// Odd while the others are written. As wide as the count: neither comes again.
    version: AtomicU64,
    freed: AtomicU64,
    closed_in: AtomicU32,
    start: AtomicU64,
    end: AtomicU64,
    area: AtomicPtr<T>,
}

/// What is in a place.
struct Note<T> {
    found: Found<T>,
    freed: u64,
    closed_in: Number,
}

impl<T> Place<T> {
    fn new() -> Self {
        Place {
            version: AtomicU64::new(0),
            freed: AtomicU64::new(0),
            closed_in: AtomicU32::new(0),
            // Holds no address.
            start: AtomicU64::new(0),
            end: AtomicU64::new(0),
            area: AtomicPtr::new(core::ptr::null_mut()),
        }
    }

    /// What is here, unless it is being written.
    ///
    /// Whichever of these loads gives what a writer has stored, what comes after sees that this writer had made the version odd before: it is no longer the
    /// same in the end.
    #[inline]
    fn read(&self) -> Option<Note<T>> {
        let version = self.version.load(Ordering::Acquire);
        let freed = self.freed.load(Ordering::Acquire);
        let closed_in = Number::new(self.closed_in.load(Ordering::Acquire));
        let start = self.start.load(Ordering::Acquire);
        let end = self.end.load(Ordering::Acquire);
        let area = NonNull::new(self.area.load(Ordering::Acquire))?;
        let found = Found { start, end, area };
        let same = self.version.load(Ordering::Relaxed) == version;
        (same && version.is_multiple_of(2)).then_some(Note {
            found,
            freed,
            closed_in,
        })
    }

    /// Puts something else here, unless another does so.
    fn write(&self, note: &Note<T>) {
        let version = self.version.load(Ordering::Relaxed);
        // Acquire: what the writer before stored comes before what is stored here.
        let mine = version.is_multiple_of(2)
            && self
                .version
                .compare_exchange(version, version | 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        if !mine {
            return;
        }
        self.freed.store(note.freed, Ordering::Release);
        self.closed_in
            .store(note.closed_in.get(), Ordering::Release);
        self.start.store(note.found.start, Ordering::Release);
        self.end.store(note.found.end, Ordering::Release);
        self.area.store(note.found.area.as_ptr(), Ordering::Release);
        self.version
            .store(version.wrapping_add(2), Ordering::Release);
    }
}

/// What faults have found.
pub(crate) struct Remembered<T>([Place<T>; PLACES]);

impl<T> Remembered<T> {
    pub(crate) fn new() -> Self {
        Remembered(core::array::from_fn(|_| Place::new()))
    }

    #[inline]
    fn place(&self, address: u64) -> &Place<T> {
        // The upper bits of a multiple of 2^64 over the golden ratio: stretches at regular distances are spread, too.
        let spread = (address >> 21).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.0[(spread >> 58) as usize % PLACES]
    }

    /// What was found around an address; `freed` is how often areas have been freed, read under RCU.
    #[inline]
    pub(crate) fn get(&self, address: u64, freed: u64) -> Known<T> {
        match self.place(address).read() {
            Some(note) if note.freed != freed => Known::Nothing,
            Some(note) if note.found.holds(address) => Known::This(note.found, note.closed_in),
            Some(_) => Known::Another,
            None => Known::Nothing,
        }
    }

    /// Notes what was found around an address: after areas had been freed so often, and held, having been closed in this call before.
    #[inline]
    pub(crate) fn set(&self, address: u64, freed: u64, found: Found<T>, closed_in: Number) {
        self.place(address).write(&Note {
            found,
            freed,
            closed_in,
        });
    }
}

/// What is remembered around an address.
pub(crate) enum Known<T> {
    /// This was found there, and its lock had been closed last in this call.
    This(Found<T>, Number),
    /// Something that may still be there, but elsewhere.
    Another,
    Nothing,
}

impl<T> Known<T> {
    /// Whether what is found now at an address is to be noted: in the place of another only now and then, since two areas that are used in turn would be written all the time.
    #[inline]
    pub(crate) fn yields_to(&self, address: u64) -> bool {
        !matches!(self, Known::Another) || (address >> 12).is_multiple_of(PATIENCE)
    }
}

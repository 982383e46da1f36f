//! The counts of frames: one 32-bit word for each frame, in one dense array. Holes in physical
//! memory take no place in it.
//!
//! ```text
//! anonymous, file:  kind (2 bits) | references (10) | mappings (20)   kind: 0 anonymous and pinned, 1 anonymous, 2 file, 3 table
//! table:            kind (2) | lock (1) | users (19) | entries in use (10)
//! ```
//!
//! *Mappings* are table entries that point to the frame. A huge page counts once for each of its
//! frames, so that splitting it changes no count. *References* are all others, for example those of
//! a page cache or of a copy in progress. A frame with neither is unreferenced: see
//! [`DeferredFree`](crate::deferred_free::DeferredFree).
//!
//! # One mapping and no reference
//!
//! A thread that holds the lock of a table with an entry for a frame, and finds one mapping and no
//! reference in the frame's word, may change the word by a plain store. A new mapping or reference
//! can only be derived from an existing one: from an entry, under its table's lock, which is held
//! here; or from a reference, and there is none. A fork of private memory can therefore raise a
//! million counts without one locked instruction. All other changes are atomic additions.
//!
//! # Pinned
//!
//! A frame of private memory is *pinned* for a device by a reference that is taken while one entry
//! maps the frame, under the lock of that entry's table. Pinned is a kind of its own, so that fast
//! paths, which test for the usual words, do not match it. A pinned frame stays exclusive to its
//! address space. While it has a reference it gets no second mapping (a fork copies its bytes), and
//! a write to it needs no copy, whatever its references. When the references are gone, the next
//! mapping ends the pinned state.

mod claim;
mod counts;
mod exclusive;
mod info;
mod mappings;
pub(crate) mod numbering;
mod references;
mod words;

use core::mem::MaybeUninit;
use core::ops::Range;
use core::slice;

use crate::atomic::{AtomicU32, Ordering};
use crate::entry::PAGE_SIZE;
use crate::error::Error;
use crate::shard::CachePadded;

pub(crate) use claim::FreeUnit;
pub(crate) use counts::Counts;
pub use info::{Census, FrameInfo};
use numbering::{FrameRange, Numbering, PAGEBLOCK};
use words::Words;

/// The use of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Private memory, copied at the first write after a fork.
    Anon,
    /// A file's page or shared memory, which all mappers see.
    File,
}

impl Kind {
    const fn bits(self) -> u32 {
        match self {
            Self::Anon => ANON,
            Self::File => FILE,
        }
    }
}

const MAPPINGS: u32 = (1 << 20) - 1;
const ONE_REFERENCE: u32 = 1 << 20;
const REFERENCES: u32 = ((1 << 10) - 1) << 20;
const COUNTS: u32 = MAPPINGS | REFERENCES;
const KIND: u32 = 3 << 30;
/// With a count. Without one, the frame is free.
const PINNED: u32 = 0;
const ANON: u32 = 1 << 30;
const FILE: u32 = 2 << 30;
const TABLE: u32 = 3 << 30;

/// The index that belongs to no frame.
const NO_INDEX: u32 = u32::MAX;

/// The end of a list of unreferenced frames.
pub(crate) const NO_FRAME: u32 = (1 << 30) - 1;

/// The counts of all frames.
#[derive(Debug)]
pub struct Frames {
    /// The first byte of the largest range, whose indices start at 0, and its number of frames.
    base: u64,
    main: u64,
    words: Words,
    /// For each pageblock of 2 MiB, the block allocated there: its order in the top two bits (0:
    /// single frames, 1: 2 MiB, 2: 1 GiB, 3: inside a block of 1 GiB), and its number of frames in
    /// use.
    blocks: Words,
    /// The other ranges.
    others: &'static [FrameRange],
    /// The number of frames in all ranges.
    count: u64,
    /// The lowest frame that was ever given out, and the one after the highest. They are apart from
    /// the fields above, which all threads read.
    edges: CachePadded<Edges>,
}

#[derive(Debug)]
struct Edges {
    lowest: AtomicU32,
    highest: AtomicU32,
}

impl Frames {
    pub(crate) fn new(base: u64, count: u64) -> Result<Self, Error> {
        let end = count
            .checked_mul(PAGE_SIZE)
            .and_then(|len| base.checked_add(len));
        let range = base..end.ok_or(Error::TooMany)?;
        let plan = Numbering::new(slice::from_ref(&range), PAGEBLOCK, |_| {})?;
        let (words, blocks) = (Words::new(plan.numbers)?, Words::new(plan.pageblocks())?);
        Ok(Self::of(plan, words, blocks, &[]))
    }

    /// Creates the counts of the frames in these ranges, in memory of the caller.
    pub(crate) fn within(
        ranges: &[Range<u64>],
        memory: &'static mut [MaybeUninit<u8>],
    ) -> Result<Self, Error> {
        let plan = Numbering::new(ranges, PAGEBLOCK, |_| {})?;
        let (words, memory) = Words::within(plan.numbers, memory)?;
        let (blocks, memory) = Words::within(plan.pageblocks(), memory)?;
        let others = numbering::place(ranges, PAGEBLOCK, plan.others, memory)?;
        Ok(Self::of(plan, words, blocks, others))
    }

    fn of(plan: Numbering, words: Words, blocks: Words, others: &'static [FrameRange]) -> Self {
        Self {
            base: plan.main.start,
            main: (plan.main.end - plan.main.start) / PAGE_SIZE,
            words,
            blocks,
            others,
            count: plan.frames,
            edges: CachePadded(Edges {
                lowest: AtomicU32::new(u32::MAX),
                highest: AtomicU32::new(0),
            }),
        }
    }

    /// Returns the number of bytes that [`Physical::with_counts`](crate::Physical::with_counts)
    /// needs for the counts of the frames in these ranges of physical memory. That is four for each
    /// frame and a little for each range; holes take none.
    ///
    /// # Errors
    ///
    /// As for that function.
    pub fn size_for(ranges: &[Range<u64>]) -> Result<usize, Error> {
        let plan = Numbering::new(ranges, PAGEBLOCK, |_| {})?;
        Ok(Words::size_of(plan.numbers)
            + Words::size_of(plan.pageblocks())
            + numbering::size_of(plan.others))
    }

    /// Returns the range of indices that contains every frame ever given out.
    pub(crate) fn given_out(&self) -> Range<u32> {
        // Relaxed: a thread that must not miss a frame already knows that it was given out.
        let Edges { lowest, highest } = &self.edges.0;
        let highest = highest.load(Ordering::Relaxed);
        lowest.load(Ordering::Relaxed).min(highest)..highest
    }

    /// Returns the range of physical addresses that contains every frame ever given out. A caller
    /// that scans frames looks only there if far more are counted than used.
    pub fn used(&self) -> Range<u64> {
        let numbers = self.given_out();
        let main = |index: u32| self.base + u64::from(index).min(self.main) * PAGE_SIZE;
        let of_main = main(numbers.start)..main(numbers.end);
        let all = self.others.iter().map(|piece| piece.within(&numbers));
        all.filter(|range| !range.is_empty())
            .fold(of_main, |all, range| match all.is_empty() {
                true => range,
                false => all.start.min(range.start)..all.end.max(range.end),
            })
    }

    /// Records that frames are given out.
    #[inline]
    fn widen(&self, first: u32, count: u32) {
        let Edges { lowest, highest } = &self.edges.0;
        if first < lowest.load(Ordering::Relaxed) {
            lowest.fetch_min(first, Ordering::Relaxed);
        }
        if first + count > highest.load(Ordering::Relaxed) {
            highest.fetch_max(first + count, Ordering::Relaxed);
        }
    }

    /// Returns the number of counted frames.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the first physical address of the largest range.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Returns `true` if the address lies in one of the frames.
    pub fn contains(&self, phys: u64) -> bool {
        phys.wrapping_sub(self.base) / PAGE_SIZE < self.main || self.index_slow(phys) != NO_INDEX
    }

    /// Returns the index of a frame, or [`NO_INDEX`] if the address lies in none.
    #[inline]
    pub(crate) fn index(&self, phys: u64) -> u32 {
        let frame = phys.wrapping_sub(self.base) / PAGE_SIZE;
        if frame < self.main {
            return frame as u32;
        }
        self.index_slow(phys)
    }

    #[cold]
    fn index_slow(&self, phys: u64) -> u32 {
        let mut found = self.others.iter().filter_map(|piece| piece.index(phys));
        found.next().unwrap_or(NO_INDEX)
    }

    /// Returns the physical address of the frame with this index, or an address beyond all memory
    /// if there is none.
    #[inline]
    pub(crate) fn phys(&self, index: u32) -> u64 {
        if u64::from(index) < self.main {
            return self.base + u64::from(index) * PAGE_SIZE;
        }
        self.phys_slow(index)
    }

    #[cold]
    fn phys_slow(&self, index: u32) -> u64 {
        let mut found = self.others.iter().filter_map(|piece| piece.phys(index));
        found.next().unwrap_or(u64::MAX)
    }

    #[inline]
    pub(crate) fn at(&self, index: u32) -> &AtomicU32 {
        let word = self.words.get(index as usize);
        assert!(word.is_some(), "a frame outside of the counted memory");
        // SAFETY: the assertion above holds.
        unsafe { word.unwrap_unchecked() }
    }

    #[inline]
    fn word(&self, phys: u64) -> &AtomicU32 {
        let frame = phys.wrapping_sub(self.base) / PAGE_SIZE;
        if frame < self.main {
            // SAFETY: the frames of the largest range have the first words.
            return unsafe { self.words.get_unchecked(frame as usize) };
        }
        self.word_slow(phys)
    }

    /// Not inlined, so that loops keep their registers.
    #[cold]
    #[inline(never)]
    fn word_slow(&self, phys: u64) -> &AtomicU32 {
        self.at(self.index_slow(phys))
    }

    #[inline]
    pub(crate) fn table_word(&self, phys: u64) -> &AtomicU32 {
        self.word(phys)
    }
}

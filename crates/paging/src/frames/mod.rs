//! What is counted of each frame: one word of 32 bits, all in one dense array, in which holes in physical memory have no place.
//!
//! ```text
//! anonymous, file:  kind (2 bits) | references (10) | mappings (20)   kind: 0 anonymous and pinned, 1 anonymous, 2 file, 3 table
//! table:            kind (2) | lock (1) | users (19) | entries in use (10)
//! ```
//!
//! *Mappings* are entries of tables that point to the frame; a huge page counts once for each of its frames, so that splitting it changes no
//! count. *References* are all others: a page cache, a copy under way. A frame with neither is dead: see [`DeferredFree`](crate::deferred_free::DeferredFree).
//!
//! # One mapping and no reference
//!
//! Who holds the lock of a table with an entry that points to a frame, and finds the frame's word at one mapping and no reference, may change
//! the word by an ordinary store. Another mapping or reference comes only from one that there is already: from an entry, under its table's lock,
//! which is held here; or from a reference, and there is none. So a fork of private memory raises a million counts without one locked instruction.
//! All other changes are atomic additions.
//!
//! # Pinned
//!
//! A frame of private memory is *pinned* for a device by a reference that is taken while one entry maps the frame, under that entry's lock. Its other
//! mark is a kind of its own, so that no loop that knows the usual words takes it for a usual one. A pinned frame stays the address space's own: as
//! long as there is a reference it gets no second mapping (a fork copies its bytes), and a write to it needs no copy, whatever its references. When
//! the references are gone, the next mapping takes the mark away.

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

/// What a frame is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Private memory: copied at the first write after a fork.
    Anon,
    /// A file's page, or shared memory: seen by all who map it.
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
/// With a count; without, the frame is free.
const PINNED: u32 = 0;
const ANON: u32 = 1 << 30;
const FILE: u32 = 2 << 30;
const TABLE: u32 = 3 << 30;

/// No number of a frame.
const NO_INDEX: u32 = u32::MAX;

/// The end of a list of dead frames.
pub(crate) const NO_FRAME: u32 = (1 << 30) - 1;

/// The counts of all frames.
#[derive(Debug)]
pub struct Frames {
    /// The first frame of the largest range, whose numbers count from 0; how many there are.
    base: u64,
    main: u64,
    words: Words,
    /// For each 2 MiB, what was allocated as one block there: its order in the top two bits (0: single frames, 1: 2 MiB, 2: 1 GiB, 3: inside such
    /// a block) and how many of its frames are alive.
    blocks: Words,
    /// The other ranges.
    others: &'static [FrameRange],
    /// Of all ranges.
    count: u64,
    /// The lowest frame that was ever given out, and the one after the highest. They change, while all read what is above.
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

    /// Counts of frames in these ranges, in memory of the caller's.
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

    /// Returns how many bytes the counts of the frames in these ranges of physical memory take: what [`Physical::with_counts`](crate::Physical::with_counts) is
    /// given. That is four for each frame, and some more for each range; holes take none.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn size_for(ranges: &[Range<u64>]) -> Result<usize, Error> {
        let plan = Numbering::new(ranges, PAGEBLOCK, |_| {})?;
        Ok(Words::size_of(plan.numbers)
            + Words::size_of(plan.pageblocks())
            + numbering::size_of(plan.others))
    }

    /// Numbers of frames among which lie those of all that were ever given out.
    pub(crate) fn given_out(&self) -> Range<u32> {
        // Relaxed: who must not miss a frame knows already that it was given out.
        let Edges { lowest, highest } = &self.edges.0;
        let highest = highest.load(Ordering::Relaxed);
        lowest.load(Ordering::Relaxed).min(highest)..highest
    }

    /// Physical addresses among which lie all frames that were ever given out: what there is to look at where far more are counted than are used.
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

    /// Frames are given out.
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

    /// How many frames are counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The first physical address of the largest range.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Whether this is an address in one of the frames.
    pub fn contains(&self, phys: u64) -> bool {
        phys.wrapping_sub(self.base) / PAGE_SIZE < self.main || self.index_slow(phys) != NO_INDEX
    }

    /// The number of a frame; [`NO_INDEX`] if it is none.
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

    /// The physical address of the frame with this number; beyond all memory if none has it.
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
        // SAFETY: as was just seen.
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

    /// A call of its own, so that loops have the registers.
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

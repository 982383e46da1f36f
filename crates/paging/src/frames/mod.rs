//! What is counted of each frame: one word of 32 bits, all in one dense array.
//!
//! ```text
//! anonymous, file:  kind (2 bits) | references (10) | mappings (20)   kind: 0 anonymous and pinned, 1 anonymous, 2 file, 3 table
//! table:            kind (2) | lock (1) | users (19) | entries in use (10)
//! ```
//!
//! *Mappings* are entries of tables that point to the frame; a huge page counts once for each of its frames, so that splitting it changes no
//! count. *References* are all others: a page cache, a copy under way. A frame with neither is dead: see [`Dead`](crate::dead::Dead).
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

mod alone;
mod claim;
mod counts;
mod info;
mod mappings;
mod references;
mod words;

use core::ops::Range;

use crate::atomic::{AtomicU32, Ordering};
use crate::entry::PAGE_SIZE;
use crate::error::Error;
use crate::lane::Apart;

pub(crate) use claim::Buried;
pub(crate) use counts::Counts;
pub use info::{Census, FrameInfo};
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

/// The end of a list of dead frames.
pub(crate) const NO_FRAME: u32 = (1 << 30) - 1;

/// The counts of all frames.
#[derive(Debug)]
pub struct Frames {
    base: u64,
    count: u64,
    words: Words,
    /// For each 2 MiB, what was allocated as one block there: its order in the top two bits (0: single frames, 1: 2 MiB, 2: 1 GiB, 3: inside such
    /// a block) and how many of its frames are alive.
    blocks: Words,
    /// The lowest frame that was ever given out, and the one after the highest. They change, while all read what is above.
    edges: Apart<Edges>,
}

#[derive(Debug)]
struct Edges {
    lowest: AtomicU32,
    highest: AtomicU32,
}

impl Frames {
    pub(crate) fn new(base: u64, count: u64) -> Result<Self, Error> {
        if !base.is_multiple_of(PAGE_SIZE) {
            return Err(Error::Misaligned);
        }
        if count >= u64::from(NO_FRAME) || count == 0 {
            return Err(Error::TooMany);
        }
        Ok(Self {
            base,
            count,
            words: Words::new(count as usize)?,
            blocks: Words::new(Self::stretches(base, count))?,
            edges: Apart(Edges {
                lowest: AtomicU32::new(u32::MAX),
                highest: AtomicU32::new(0),
            }),
        })
    }

    /// Physical addresses among which lie all frames that were ever given out: what there is to look at where far more are counted than are used.
    pub fn used(&self) -> Range<u64> {
        // Relaxed: who must not miss a frame knows already that it was given out.
        let Edges { lowest, highest } = &self.edges.0;
        let highest = highest.load(Ordering::Relaxed);
        let lowest = lowest.load(Ordering::Relaxed).min(highest);
        self.phys(lowest)..self.phys(highest)
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

    /// How many pieces of 2 MiB, counted from physical address 0, the frames lie in.
    fn stretches(base: u64, count: u64) -> usize {
        (((base / PAGE_SIZE) % 512 + count).div_ceil(512)) as usize
    }

    /// How many frames are counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The first physical address.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Whether this is an address in one of the frames.
    pub fn contains(&self, phys: u64) -> bool {
        phys.wrapping_sub(self.base) / PAGE_SIZE < self.count
    }

    #[inline]
    fn index(&self, phys: u64) -> u32 {
        (phys.wrapping_sub(self.base) / PAGE_SIZE) as u32
    }

    pub(crate) fn phys(&self, index: u32) -> u64 {
        self.base + u64::from(index) * PAGE_SIZE
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
        self.at(self.index(phys))
    }

    #[inline]
    pub(crate) fn table_word(&self, phys: u64) -> &AtomicU32 {
        self.word(phys)
    }
}

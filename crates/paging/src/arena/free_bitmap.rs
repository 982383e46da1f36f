//! The frames that are free and in no per-CPU cache: a bit for each, and a count for each
//! pageblock.

use core::ops::Range;

use super::fixed_array::{FixedArray, GivenMemory};
use super::recency::Recency;
use crate::error::Error;
use crate::frame_cache::BATCH;

/// Frames in a pageblock of 2 MiB.
pub(super) const PAGEBLOCK: usize = 512;

pub(super) struct FreeBitmap {
    free: FixedArray<[u64; PAGEBLOCK / 64]>,
    counts: FixedArray<u16>,
    pub(super) total: usize,
    pub(super) recency: Recency,
    /// No pageblock below this one has a free frame.
    hint: usize,
    /// The number of pageblocks of the largest range, which come first.
    main: usize,
    /// No pageblock of the largest range from this one on has a free frame.
    tables: usize,
    pub(super) refuse: Option<u64>,
}

impl FreeBitmap {
    /// Creates a bitmap of `frames` frames, all free.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`].
    pub(super) fn new(frames: usize) -> Result<Self, Error> {
        let pageblocks = frames.div_ceil(PAGEBLOCK);
        let here = |pageblock: usize| (frames - pageblock * PAGEBLOCK).min(PAGEBLOCK);
        let free = FixedArray::on_heap(pageblocks, |pageblock| {
            let mut bits = [0; PAGEBLOCK / 64];
            for i in 0..here(pageblock) {
                bits[i / 64] |= 1 << (i % 64);
            }
            bits
        })?;
        let counts = FixedArray::on_heap(pageblocks, |pageblock| here(pageblock) as u16)?;
        Ok(FreeBitmap {
            free,
            counts,
            total: frames,
            recency: Recency::new(pageblocks)?,
            hint: 0,
            main: pageblocks,
            tables: pageblocks,
            refuse: None,
        })
    }

    /// Creates a bitmap in given memory, without a free frame. The largest range has the first
    /// `main` pageblocks.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`].
    pub(super) fn within(
        pageblocks: usize,
        main: usize,
        memory: &mut GivenMemory,
    ) -> Result<Self, Error> {
        Ok(FreeBitmap {
            free: FixedArray::within(memory, pageblocks, |_| [0; PAGEBLOCK / 64])?,
            counts: FixedArray::within(memory, pageblocks, |_| 0)?,
            total: 0,
            recency: Recency::within(pageblocks, memory)?,
            hint: 0,
            main,
            tables: main,
            refuse: None,
        })
    }

    /// Counts an allocation, and returns `true` if a test wants it refused.
    pub(super) fn refuses(&mut self) -> bool {
        match &mut self.refuse {
            None | Some(0) => self.refuse.is_some(),
            Some(left) => {
                *left -= 1;
                false
            }
        }
    }

    /// Returns a pageblock with a free frame, and the first word of its bits that has one.
    fn lowest(&mut self) -> Option<(usize, usize)> {
        let pageblock = match self.counts.get(self.hint) {
            Some(1..) => self.hint,
            _ => self.next_pageblock()?,
        };
        let word = self.free[pageblock].iter().position(|&word| word != 0)?;
        Some((pageblock, word))
    }

    /// Takes the lowest adjacent frames of one word of bits, at most `most`. Returns the first and
    /// their number.
    pub(super) fn take_run(&mut self, most: usize) -> Option<(usize, usize)> {
        let (pageblock, word) = self.lowest()?;
        let bits = &mut self.free[pageblock][word];
        let first = bits.trailing_zeros() as usize;
        let count = ((!(*bits >> first)).trailing_zeros() as usize).min(most);
        *bits &= !(u64::MAX >> (64 - count) << first);
        self.counts[pageblock] -= count as u16;
        self.total -= count;
        self.recency.give(count);
        Some((pageblock * PAGEBLOCK + word * 64 + first, count))
    }

    /// Takes a batch of frames and returns their number. Prefers frames of the lowest pageblock
    /// whose counts fill whole cache lines, so that no two processors write to the same lines.
    /// Otherwise takes the lowest frames of one word of bits.
    pub(super) fn take_batch(&mut self, into: &mut [u32; BATCH]) -> usize {
        let Some((pageblock, word)) = self.lowest() else {
            return 0;
        };
        let words = &mut self.free[pageblock];
        let whole = words.iter().enumerate().find_map(|(word, &bits)| {
            let mut halves = [0, 32].into_iter();
            let shift = halves.find(|shift| (bits >> shift) as u32 == u32::MAX)?;
            Some((word, u64::from(u32::MAX) << shift))
        });
        let (word, within) = whole.unwrap_or((word, u64::MAX));
        let first = pageblock * PAGEBLOCK + word * 64;
        let bits = &mut words[word];
        let mut count = 0;
        while *bits & within != 0 && count < BATCH {
            let bit = (*bits & within).trailing_zeros();
            into[count] = (first + bit as usize) as u32;
            *bits &= !(1 << bit);
            count += 1;
        }
        self.counts[pageblock] -= count as u16;
        self.total -= count;
        self.recency.give(count);
        count
    }

    pub(super) fn take_page(&mut self) -> Option<usize> {
        let (pageblock, word) = self.lowest()?;
        let bits = &mut self.free[pageblock][word];
        let bit = bits.trailing_zeros() as usize;
        *bits &= *bits - 1;
        self.counts[pageblock] -= 1;
        self.total -= 1;
        Some(pageblock * PAGEBLOCK + word * 64 + bit)
    }

    pub(super) fn take_block(&mut self, order: u32) -> Option<usize> {
        let pageblocks = 1usize << order.checked_sub(9)?;
        // From the top, to keep single frames and blocks apart.
        let groups = self.counts.len() / pageblocks;
        let whole = |group: &usize| {
            let from = group * pageblocks;
            self.counts[from..from + pageblocks]
                .iter()
                .all(|&count| count as usize == PAGEBLOCK)
        };
        let from = (0..groups).rev().find(whole)? * pageblocks;
        for pageblock in from..from + pageblocks {
            self.free[pageblock] = [0; PAGEBLOCK / 64];
            self.counts[pageblock] = 0;
        }
        self.total -= pageblocks * PAGEBLOCK;
        Some(from * PAGEBLOCK)
    }

    /// Returns the first pageblock with a free frame, searching from the hint on.
    #[cold]
    fn next_pageblock(&mut self) -> Option<usize> {
        let counts = &self.counts;
        let mut pageblocks = (self.hint..counts.len()).chain(0..self.hint);
        self.hint = pageblocks.find(|&pageblock| counts[pageblock] > 0)?;
        Some(self.hint)
    }

    /// Takes a frame for a table, from the highest pageblock that has one. Prefers the largest
    /// range, whose count words are found fastest. Consecutive tables are 32 frames apart, because
    /// their locks are in their count words: these then lie in different cache lines, of which
    /// processors fetch two at once.
    pub(super) fn take_table(&mut self) -> Option<usize> {
        const EACH: u64 = 0x0000_0001_0000_0001;
        let counts = &self.counts;
        let pageblock = (0..self.tables)
            .rev()
            .chain((self.main..counts.len()).rev())
            .find(|&pageblock| counts[pageblock] > 0)?;
        self.tables = (pageblock + 1).min(self.main);
        let bits = &mut self.free[pageblock];
        // Of each group of 32 frames, the frame at this offset: the lowest offset that is free in
        // any word.
        let all = bits.iter().fold(0, |all, word| all | word);
        let offset = (all | all >> 32).trailing_zeros() % 32;
        let word = bits.iter().position(|word| word & EACH << offset != 0)?;
        let bit = (bits[word] & EACH << offset).trailing_zeros();
        bits[word] &= !(1 << bit);
        self.counts[pageblock] -= 1;
        self.total -= 1;
        Some(pageblock * PAGEBLOCK + word * 64 + bit as usize)
    }

    /// Frees single frames. The end of the range is exclusive.
    pub(super) fn free_run(&mut self, run: Range<usize>) {
        let mut at = run.start;
        while at < run.end {
            let word_end = ((at | 63) + 1).min(run.end);
            let pageblock = at / PAGEBLOCK;
            let bits = u64::MAX >> (64 - (word_end - at)) << (at % 64);
            debug_assert!(self.free[pageblock][at % PAGEBLOCK / 64] & bits == 0);
            self.free[pageblock][at % PAGEBLOCK / 64] |= bits;
            self.counts[pageblock] += (word_end - at) as u16;
            at = word_end;
        }
        self.total += run.len();
        self.recency.free(run.clone());
        self.hint = self.hint.min(run.start / PAGEBLOCK);
        self.has_frame_below(run.end.div_ceil(PAGEBLOCK));
    }

    pub(super) fn free_block(&mut self, frame: usize, order: u32) {
        let pageblock = frame / PAGEBLOCK;
        for pageblock in pageblock..pageblock + (1 << (order - 9)) {
            self.free[pageblock] = [u64::MAX; PAGEBLOCK / 64];
            self.counts[pageblock] = PAGEBLOCK as u16;
        }
        self.has_frame_below(pageblock + (1 << (order - 9)));
        self.total += 1 << order;
    }

    /// Records that a pageblock below `end` has a free frame.
    fn has_frame_below(&mut self, end: usize) {
        self.tables = self.tables.max(end.min(self.main));
    }
}

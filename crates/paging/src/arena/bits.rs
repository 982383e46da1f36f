//! Which frames are free and not set aside: a bit for each, and a count for each piece of 2 MiB.

use core::ops::Range;

use super::recency::Recency;
use super::room::{Given, Room};
use crate::error::Error;
use crate::stock::BATCH;

/// Frames in a piece of 2 MiB.
pub(super) const PIECE: usize = 512;

pub(super) struct State {
    free: Room<[u64; PIECE / 64]>,
    counts: Room<u16>,
    pub(super) total: usize,
    pub(super) recency: Recency,
    /// No piece below has a frame.
    hint: usize,
    /// Pieces of the largest range, which have the lowest numbers.
    main: usize,
    /// No piece of the largest range from here on has a frame.
    tables: usize,
    pub(super) refuse: Option<u64>,
}

impl State {
    /// All of so many frames are free.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(super) fn new(frames: usize) -> Result<Self, Error> {
        let pieces = frames.div_ceil(PIECE);
        let here = |piece: usize| (frames - piece * PIECE).min(PIECE);
        let free = Room::on_heap(pieces, |piece| {
            let mut bits = [0; PIECE / 64];
            for i in 0..here(piece) {
                bits[i / 64] |= 1 << (i % 64);
            }
            bits
        })?;
        let counts = Room::on_heap(pieces, |piece| here(piece) as u16)?;
        Ok(State {
            free,
            counts,
            total: frames,
            recency: Recency::new(pieces)?,
            hint: 0,
            main: pieces,
            tables: pieces,
            refuse: None,
        })
    }

    /// None of the frames in so many pieces is free; the largest range has the first `main` of them. In memory that is given.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(super) fn within(pieces: usize, main: usize, memory: &mut Given) -> Result<Self, Error> {
        Ok(State {
            free: Room::within(memory, pieces, |_| [0; PIECE / 64])?,
            counts: Room::within(memory, pieces, |_| 0)?,
            total: 0,
            recency: Recency::within(pieces, memory)?,
            hint: 0,
            main,
            tables: main,
            refuse: None,
        })
    }

    /// Whether an allocation is refused for no reason; it is counted.
    pub(super) fn refuses(&mut self) -> bool {
        match &mut self.refuse {
            None | Some(0) => self.refuse.is_some(),
            Some(left) => {
                *left -= 1;
                false
            }
        }
    }

    /// A piece that has a frame, and a word of its bits that has one.
    fn lowest(&mut self) -> Option<(usize, usize)> {
        let piece = match self.counts.get(self.hint) {
            Some(1..) => self.hint,
            _ => self.next_piece()?,
        };
        let word = self.free[piece].iter().position(|&word| word != 0)?;
        Some((piece, word))
    }

    /// Takes the lowest frames, as many as follow one another in a word of bits, and no more than asked for: the first, and how many.
    pub(super) fn run(&mut self, most: usize) -> Option<(usize, usize)> {
        let (piece, word) = self.lowest()?;
        let bits = &mut self.free[piece][word];
        let first = bits.trailing_zeros() as usize;
        let count = ((!(*bits >> first)).trailing_zeros() as usize).min(most);
        *bits &= !(u64::MAX >> (64 - count) << first);
        self.counts[piece] -= count as u16;
        self.total -= count;
        self.recency.give(count);
        Some((piece * PIECE + word * 64 + first, count))
    }

    /// Takes a batch: frames whose counts fill lines of the cache, if the lowest piece has such, so that no two processors write to the same lines. Else the lowest frames of a
    /// word of bits; how many.
    pub(super) fn some(&mut self, into: &mut [u32; BATCH]) -> usize {
        let Some((piece, word)) = self.lowest() else {
            return 0;
        };
        let words = &mut self.free[piece];
        let whole = words.iter().enumerate().find_map(|(word, &bits)| {
            let mut halves = [0, 32].into_iter();
            let shift = halves.find(|shift| (bits >> shift) as u32 == u32::MAX)?;
            Some((word, u64::from(u32::MAX) << shift))
        });
        let (word, within) = whole.unwrap_or((word, u64::MAX));
        let first = piece * PIECE + word * 64;
        let bits = &mut words[word];
        let mut count = 0;
        while *bits & within != 0 && count < BATCH {
            let bit = (*bits & within).trailing_zeros();
            into[count] = (first + bit as usize) as u32;
            *bits &= !(1 << bit);
            count += 1;
        }
        self.counts[piece] -= count as u16;
        self.total -= count;
        self.recency.give(count);
        count
    }

    pub(super) fn single(&mut self) -> Option<usize> {
        let (piece, word) = self.lowest()?;
        let bits = &mut self.free[piece][word];
        let bit = bits.trailing_zeros() as usize;
        *bits &= *bits - 1;
        self.counts[piece] -= 1;
        self.total -= 1;
        Some(piece * PIECE + word * 64 + bit)
    }

    pub(super) fn block(&mut self, order: u32) -> Option<usize> {
        let pieces = 1usize << order.checked_sub(9)?;
        // From the top, so that single frames and blocks do not get into each other's way.
        let groups = self.counts.len() / pieces;
        let whole = |group: &usize| {
            let from = group * pieces;
            self.counts[from..from + pieces]
                .iter()
                .all(|&count| count as usize == PIECE)
        };
        let from = (0..groups).rev().find(whole)? * pieces;
        for piece in from..from + pieces {
            self.free[piece] = [0; PIECE / 64];
            self.counts[piece] = 0;
        }
        self.total -= pieces * PIECE;
        Some(from * PIECE)
    }

    /// The first piece that has a frame, from the hint on, where there is none.
    #[cold]
    fn next_piece(&mut self) -> Option<usize> {
        let counts = &self.counts;
        let mut pieces = (self.hint..counts.len()).chain(0..self.hint);
        self.hint = pieces.find(|&piece| counts[piece] > 0)?;
        Some(self.hint)
    }

    /// A frame of the highest piece that has one, of the largest range if that has any: the words of its frames are found soonest. One table's neighbours are
    /// 32 frames away, so that the words of tables that are made one after the other, which are their locks, lie in different cache lines, of which processors fetch
    /// two at once.
    pub(super) fn table(&mut self) -> Option<usize> {
        const EACH: u64 = 0x0000_0001_0000_0001;
        let counts = &self.counts;
        let piece = (0..self.tables)
            .rev()
            .chain((self.main..counts.len()).rev())
            .find(|&piece| counts[piece] > 0)?;
        self.tables = (piece + 1).min(self.main);
        let bits = &mut self.free[piece];
        // Of each 32 frames, the one with this number: the lowest that is free in any of the words.
        let all = bits.iter().fold(0, |all, word| all | word);
        let lane = (all | all >> 32).trailing_zeros() % 32;
        let word = bits.iter().position(|word| word & EACH << lane != 0)?;
        let bit = (bits[word] & EACH << lane).trailing_zeros();
        bits[word] &= !(1 << bit);
        self.counts[piece] -= 1;
        self.total -= 1;
        Some(piece * PIECE + word * 64 + bit as usize)
    }

    /// Single frames, from the first to before the last.
    pub(super) fn free_run(&mut self, run: Range<usize>) {
        let mut at = run.start;
        while at < run.end {
            let word_end = ((at | 63) + 1).min(run.end);
            let piece = at / PIECE;
            let bits = u64::MAX >> (64 - (word_end - at)) << (at % 64);
            debug_assert!(self.free[piece][at % PIECE / 64] & bits == 0);
            self.free[piece][at % PIECE / 64] |= bits;
            self.counts[piece] += (word_end - at) as u16;
            at = word_end;
        }
        self.total += run.len();
        self.recency.free(run.clone());
        self.hint = self.hint.min(run.start / PIECE);
        self.has_frame_below(run.end.div_ceil(PIECE));
    }

    pub(super) fn free_block(&mut self, frame: usize, order: u32) {
        let piece = frame / PIECE;
        for piece in piece..piece + (1 << (order - 9)) {
            self.free[piece] = [u64::MAX; PIECE / 64];
            self.counts[piece] = PIECE as u16;
        }
        self.has_frame_below(piece + (1 << (order - 9)));
        self.total += 1 << order;
    }

    /// A piece below `end` has a frame now.
    fn has_frame_below(&mut self, end: usize) {
        self.tables = self.tables.max(end.min(self.main));
    }
}

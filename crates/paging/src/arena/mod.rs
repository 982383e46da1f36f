//! An allocator over one piece of memory: for tests, hosted programs and small kernels.

use alloc::alloc::{Layout, alloc_zeroed, dealloc};
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use core::ptr::NonNull;

use crate::atomic::{AtomicBool, Ordering};
use crate::entry::PAGE_SIZE;
use crate::error::Error;
use crate::lane::{self, Apart, LANES};
use crate::phys::{FrameAllocator, PhysMem, one_by_one};
use crate::spin::Spin;
use crate::stock::{BATCH, Stock};

/// Frames in a piece of 2 MiB.
const PIECE: usize = 512;

/// Bytes that an [`Arena`] gives out.
///
/// # Safety
///
/// `start` is valid for reads and writes of [`count`](Self::count) bytes for as long as the value lives, wherever it is moved, and aligned to 4 KiB.
pub unsafe trait Bytes: Send + Sync {
    /// The first byte.
    fn start(&self) -> NonNull<u8>;
    /// How many there are.
    fn count(&self) -> usize;

    /// Which processor this runs on, so that its frames are found in its own cache: any number. Each has frames set aside, up to sixteen of them; those
    /// that share a number, modulo 16, wait for one another, and no more is lost by a wrong one.
    ///
    /// Hosted programs number their threads; otherwise the place of the stack decides.
    #[inline]
    fn processor(&self) -> usize {
        lane::here()
    }
}

/// Memory of the global allocator.
#[derive(Debug)]
pub struct HeapBytes {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: memory of its own.
unsafe impl Send for HeapBytes {}
// SAFETY: this type itself never touches it.
unsafe impl Sync for HeapBytes {}

// SAFETY: allocated with this length and alignment, and freed only with the value.
unsafe impl Bytes for HeapBytes {
    fn start(&self) -> NonNull<u8> {
        self.start
    }

    fn count(&self) -> usize {
        self.layout.size()
    }
}

impl Drop for HeapBytes {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// Frames out of one piece of memory; physical addresses start at [`base`](Self::BASE).
///
/// Single frames come from the lowest piece of 2 MiB that has one, tables from the highest; blocks of 2 MiB and 1 GiB are put together again when all
/// of their frames have come back. A call looks at a few words, at worst at one for each 2 MiB.
///
/// Each [processor](Bytes::processor) sets up to 64 free frames aside, which it takes and gives back by 32. They count as free. Where others find nothing else,
/// they take them: an allocation fails only if no frame was set aside a moment before, either.
///
/// Locks: of what is set aside for a processor, of the rest; none is held while another is taken.
pub struct Arena<S> {
    bytes: S,
    /// Whether allocations are counted down: then nothing is set aside.
    counted: AtomicBool,
    state: Apart<Spin<State>>,
    stocks: Vec<Apart<Spin<Stock>>>,
}

struct State {
    free: Vec<[u64; PIECE / 64]>,
    counts: Vec<u16>,
    total: usize,
    /// No piece below has a frame.
    hint: usize,
    /// No piece from here on has a frame.
    tables: usize,
    refuse: Option<u64>,
}

impl Arena<HeapBytes> {
    /// So many frames of the global allocator's memory; Miri follows it byte by byte.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`].
    pub fn on_heap(frames: usize) -> Result<Self, Error> {
        let layout =
            Layout::from_size_align(frames.max(1) * PAGE_SIZE as usize, PAGE_SIZE as usize)
                .map_err(|_| Error::NoMemory)?;
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(Error::NoMemory)?;
        Self::over(HeapBytes { start, layout })
    }
}

impl<S: Bytes> Arena<S> {
    /// The physical address of the first frame: 1 GiB.
    pub const BASE: u64 = 1 << 30;

    /// An allocator over these bytes; what does not fill a frame at the end is not used.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`]; [`Error::TooMany`] for 2^32 frames.
    pub fn over(bytes: S) -> Result<Self, Error> {
        let frames = bytes.count() / PAGE_SIZE as usize;
        if u32::try_from(frames).is_err() {
            return Err(Error::TooMany);
        }
        let pieces = frames.div_ceil(PIECE);
        let mut free = Vec::new();
        let mut counts = Vec::new();
        free.try_reserve_exact(pieces)
            .map_err(|_| Error::NoMemory)?;
        counts
            .try_reserve_exact(pieces)
            .map_err(|_| Error::NoMemory)?;
        for piece in 0..pieces {
            let here = (frames - piece * PIECE).min(PIECE);
            let mut bits = [0; PIECE / 64];
            for i in 0..here {
                bits[i / 64] |= 1 << (i % 64);
            }
            free.push(bits);
            counts.push(here as u16);
        }
        let state = State {
            free,
            counts,
            total: frames,
            hint: 0,
            tables: pieces,
            refuse: None,
        };
        let mut stocks = Vec::new();
        stocks
            .try_reserve_exact(LANES)
            .map_err(|_| Error::NoMemory)?;
        stocks.resize_with(LANES, || Apart(Spin::new(Stock::new())));
        Ok(Self {
            bytes,
            counted: AtomicBool::new(false),
            state: Apart(Spin::new(state)),
            stocks,
        })
    }

    /// How many frames there are, free or not.
    pub fn frames(&self) -> u64 {
        (self.bytes.count() / PAGE_SIZE as usize) as u64
    }

    /// How many are free. Beside allocations and frees of other threads, up to 32 for each of them may be missed.
    pub fn free_frames(&self) -> u64 {
        let aside: usize = self.stocks.iter().map(|stock| stock.0.lock().len()).sum();
        (self.state.0.lock().total + aside) as u64
    }

    /// Takes back what is set aside for processors; how many frames that were. An allocation that would fail otherwise does so by itself.
    pub fn trim(&self) -> usize {
        let mut batch = [0; BATCH];
        let mut all = 0;
        for stock in &self.stocks {
            loop {
                let count = stock.0.lock().oldest(&mut batch);
                if count == 0 {
                    break;
                }
                self.take_back(&batch[..count]);
                all += count;
            }
        }
        all
    }

    /// Refuses every allocation after this many; `None`: none. For tests of what callers do then.
    pub fn refuse_after(&self, allocations: Option<u64>) {
        // Relaxed: calls beside this one may come before it, or after.
        self.counted.store(allocations.is_some(), Ordering::Relaxed);
        self.state.0.lock().refuse = allocations;
    }

    /// What is set aside for the processor that this runs on, unless allocations are counted.
    #[inline]
    fn stock(&self) -> Option<&Spin<Stock>> {
        if self.counted.load(Ordering::Relaxed) {
            return None;
        }
        let stock = self.stocks.get(self.bytes.processor() % LANES)?;
        Some(&stock.0)
    }

    /// A single frame, where none is set aside for this processor.
    #[cold]
    fn fill(&self) -> Option<usize> {
        let mut batch = [0; BATCH];
        let Some(stock) = self.stock() else {
            return self.last(State::single);
        };
        let count = self.state.0.lock().some(&mut batch);
        if count == 0 {
            return self.last(State::single);
        }
        // The lowest come out first. Others may have filled it meanwhile.
        let left = {
            let mut stock = stock.lock();
            let mut left = count;
            while left > 1 && stock.push(batch[left - 1]) {
                left -= 1;
            }
            left
        };
        if left > 1 {
            self.take_back(&batch[1..left]);
        }
        Some(batch[0] as usize)
    }

    /// A frame that `alloc` finds, at last among those that were set aside.
    #[cold]
    fn last(&self, alloc: impl Fn(&mut State) -> Option<usize>) -> Option<usize> {
        if self.state.0.lock().refuses() {
            return None;
        }
        loop {
            let found = alloc(&mut self.state.0.lock());
            // What others took meanwhile is not looked for any more when all of it has gone.
            if found.is_some() || self.trim() == 0 {
                return found;
            }
        }
    }

    /// A block, perhaps together with frames that were set aside.
    fn block(&self, order: u32) -> Option<usize> {
        if self.state.0.lock().refuses() {
            return None;
        }
        let alloc = || self.state.0.lock().block(order);
        // Once: others set frames aside all the time, also where no block is.
        alloc().or_else(|| (self.trim() > 0).then(alloc)?)
    }

    /// Single frames that are no longer set aside.
    #[cold]
    fn take_back(&self, frames: &[u32]) {
        let mut state = self.state.0.lock();
        for &frame in frames {
            state.free_run(frame as usize..frame as usize + 1);
        }
    }

    /// A single frame is free: sets it aside for the processor that gave it.
    #[inline]
    fn give(&self, frame: usize) {
        match self.stock() {
            Some(stock) if stock.lock().push(frame as u32) => {}
            Some(stock) => self.give_oldest(stock, frame),
            None => self.take_back(&[frame as u32]),
        }
    }

    /// The same where there is no room: those that were set aside longest go back.
    #[cold]
    fn give_oldest(&self, stock: &Spin<Stock>, frame: usize) {
        let mut batch = [0; BATCH];
        let (count, done) = {
            let mut stock = stock.lock();
            (stock.oldest(&mut batch), stock.push(frame as u32))
        };
        debug_assert!(done, "room was made");
        self.take_back(&batch[..count]);
    }
}

impl State {
    /// Whether an allocation is refused for no reason; it is counted.
    fn refuses(&mut self) -> bool {
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
    fn run(&mut self, most: usize) -> Option<(usize, usize)> {
        let (piece, word) = self.lowest()?;
        let bits = &mut self.free[piece][word];
        let first = bits.trailing_zeros() as usize;
        let count = ((!(*bits >> first)).trailing_zeros() as usize).min(most);
        *bits &= !(u64::MAX >> (64 - count) << first);
        self.counts[piece] -= count as u16;
        self.total -= count;
        Some((piece * PIECE + word * 64 + first, count))
    }

    /// Takes the lowest frames of a word of bits; how many.
    fn some(&mut self, into: &mut [u32; BATCH]) -> usize {
        let Some((piece, word)) = self.lowest() else {
            return 0;
        };
        let first = piece * PIECE + word * 64;
        let bits = &mut self.free[piece][word];
        let mut count = 0;
        while *bits != 0 && count < BATCH {
            into[count] = (first + bits.trailing_zeros() as usize) as u32;
            *bits &= *bits - 1;
            count += 1;
        }
        self.counts[piece] -= count as u16;
        self.total -= count;
        count
    }

    fn single(&mut self) -> Option<usize> {
        let (piece, word) = self.lowest()?;
        let bits = &mut self.free[piece][word];
        let bit = bits.trailing_zeros() as usize;
        *bits &= *bits - 1;
        self.counts[piece] -= 1;
        self.total -= 1;
        Some(piece * PIECE + word * 64 + bit)
    }

    fn block(&mut self, order: u32) -> Option<usize> {
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

    /// A frame of the highest piece that has one. One table's neighbours are sixteen frames away, so that the words of tables that are made one after
    /// the other, which are their locks, lie in different cache lines.
    fn table(&mut self) -> Option<usize> {
        const EACH: u64 = 0x0001_0001_0001_0001;
        let counts = &self.counts;
        let from = self.tables.min(counts.len());
        let piece = (0..from)
            .rev()
            .chain((from..counts.len()).rev())
            .find(|&piece| counts[piece] > 0)?;
        self.tables = piece + 1;
        let bits = &mut self.free[piece];
        // Of each sixteen frames, the one with this number: the lowest that is free in any of the words.
        let all = bits.iter().fold(0, |all, word| all | word);
        let folded = all | all >> 32;
        let lane = (folded | folded >> 16).trailing_zeros() % 16;
        let word = bits.iter().position(|word| word & EACH << lane != 0)?;
        let bit = (bits[word] & EACH << lane).trailing_zeros();
        bits[word] &= !(1 << bit);
        self.counts[piece] -= 1;
        self.total -= 1;
        Some(piece * PIECE + word * 64 + bit as usize)
    }

    /// Single frames, from the first to before the last.
    fn free_run(&mut self, run: Range<usize>) {
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
        self.hint = self.hint.min(run.start / PIECE);
        self.tables = self.tables.max(run.end.div_ceil(PIECE));
    }

    fn free_block(&mut self, frame: usize, order: u32) {
        let piece = frame / PIECE;
        for piece in piece..piece + (1 << (order - 9)) {
            self.free[piece] = [u64::MAX; PIECE / 64];
            self.counts[piece] = PIECE as u16;
        }
        self.tables = self.tables.max(piece + (1 << (order - 9)));
        self.total += 1 << order;
    }
}

impl<S: Bytes> Arena<S> {
    fn frame(phys: u64) -> usize {
        ((phys - Self::BASE) / PAGE_SIZE) as usize
    }

    fn phys(frame: usize) -> u64 {
        Self::BASE + frame as u64 * PAGE_SIZE
    }
}

/// So many frames that are freed together are set aside: more would drive out what is there.
const FEW: u64 = BATCH as u64 / 2 * PAGE_SIZE;

// SAFETY: a bit for each frame says whether it is free and not set aside, and is cleared when it is given out or set aside; what is set aside is popped when it
// is given out. Physical addresses count from 1 GiB, so that pieces and groups of pieces are aligned to their sizes.
unsafe impl<S: Bytes> FrameAllocator for Arena<S> {
    #[inline]
    fn alloc(&self, order: u32) -> Option<u64> {
        if order > 0 {
            return self.block(order).map(Self::phys);
        }
        let aside = self.stock().and_then(|stock| stock.lock().pop());
        let frame = match aside {
            Some(frame) => frame as usize,
            None => self.fill()?,
        };
        Some(Self::phys(frame))
    }

    #[inline]
    unsafe fn free(&self, phys: u64, order: u32) {
        let frame = Self::frame(phys);
        match order {
            0 => self.give(frame),
            _ => self.state.0.lock().free_block(frame, order),
        }
    }

    fn alloc_some(&self, frames: &mut [u64]) -> usize {
        let Some(stock) = self.stock() else {
            return one_by_one(self, frames);
        };
        let mut left = frames.iter_mut();
        if left.len() >= BATCH {
            // So many are neither set aside first nor taken one by one from what is.
            let mut state = self.state.0.lock();
            while left.len() >= BATCH
                && let Some((first, count)) = state.run(left.len())
            {
                let run = Self::phys(first)..;
                let places = left.by_ref().take(count);
                (places.zip(run.step_by(PAGE_SIZE as usize))).for_each(|(to, phys)| *to = phys);
            }
        }
        loop {
            {
                let mut stock = stock.lock();
                while left.len() > 0
                    && let Some(frame) = stock.pop()
                    && let Some(place) = left.next()
                {
                    *place = Self::phys(frame as usize);
                }
            }
            if left.len() == 0 {
                break;
            }
            // One, and a batch that is set aside for the next round.
            let Some(frame) = self.fill() else {
                break;
            };
            if let Some(place) = left.next() {
                *place = Self::phys(frame);
            }
        }
        let left = left.len();
        frames.len() - left
    }

    fn alloc_table(&self) -> Option<u64> {
        self.last(State::table).map(Self::phys)
    }

    unsafe fn free_table(&self, phys: u64) {
        let frame = Self::frame(phys);
        self.state.0.lock().free_run(frame..frame + 1);
    }

    unsafe fn free_runs(&self, runs: &[Range<u64>]) {
        let all: u64 = runs.iter().map(|run| run.end - run.start).sum();
        if all <= FEW {
            // The lowest come out first.
            let mut highest_first = runs
                .iter()
                .rev()
                .flat_map(|run| (Self::frame(run.start)..Self::frame(run.end)).rev());
            // One lock for those for which there is room.
            if let Some(stock) = self.stock() {
                let mut stock = stock.lock();
                while !stock.is_full()
                    && let Some(frame) = highest_first.next()
                {
                    stock.push(frame as u32);
                }
            }
            highest_first.for_each(|frame| self.give(frame));
            return;
        }
        let mut state = self.state.0.lock();
        for run in runs {
            state.free_run(Self::frame(run.start)..Self::frame(run.end));
        }
    }
}

// SAFETY: frames that were given out lie within the bytes.
unsafe impl<S: Bytes> PhysMem for Arena<S> {
    #[inline]
    fn to_virt(&self, phys: u64) -> NonNull<u8> {
        let offset = phys.wrapping_sub(Self::BASE) as usize;
        assert!(offset < self.bytes.count(), "a frame outside of the arena");
        // SAFETY: within the bytes, as was just seen.
        unsafe { self.bytes.start().add(offset) }
    }

    fn to_virt_run(&self, phys: u64, frames: usize) -> Option<NonNull<u8>> {
        let offset = phys.checked_sub(Self::BASE)? as usize;
        let len = frames.checked_mul(PAGE_SIZE as usize)?;
        let inside = offset.checked_add(len)? <= self.bytes.count();
        // SAFETY: within the bytes, which are one piece of memory.
        inside.then(|| unsafe { self.bytes.start().add(offset) })
    }
}

impl<S> fmt::Debug for Arena<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena")
            .field("free", &self.state.0.lock().total)
            .finish_non_exhaustive()
    }
}

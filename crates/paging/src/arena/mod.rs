//! An allocator of frames: over one piece of memory, for tests and hosted programs, or over ranges of physical memory, for kernels.

mod aside;
mod bits;
mod bytes;
mod place;
mod ranges;
mod recency;
mod room;

use core::fmt;
use core::ops::Range;
use core::ptr::NonNull;

use crate::atomic::{AtomicBool, Ordering};
use crate::entry::PAGE_SIZE;
use crate::error::Error;
use crate::lane::{Apart, LANES};
use crate::phys::{FrameAllocator, PhysMem, one_by_one};
use crate::spin::Spin;
use crate::stock::{BATCH, Stock};

use bits::State;
pub use bytes::{Bytes, HeapBytes};
pub use place::Place;
pub use ranges::{DirectMap, Ranges};
use room::Room;

/// Frames out of one piece of memory, where physical addresses start at [`base`](Self::BASE), or out of [ranges](Self::over_ranges) of physical memory.
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
    stocks: Room<Apart<Spin<Stock>>>,
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
        let state = State::new(frames)?;
        let stocks = Room::on_heap(LANES, |_| Apart(Spin::new(Stock::new())))?;
        Ok(Self {
            bytes,
            counted: AtomicBool::new(false),
            state: Apart(Spin::new(state)),
            stocks,
        })
    }
}

impl<S: Place> Arena<S> {
    /// How many frames there are, free or not.
    pub fn frames(&self) -> u64 {
        self.bytes.frames()
    }

    /// How many are free. Beside allocations and frees of other threads, up to 32 for each of them may be missed.
    pub fn free_frames(&self) -> u64 {
        let aside: usize = self.stocks.iter().map(|stock| stock.0.lock().len()).sum();
        (self.state.0.lock().total + aside) as u64
    }

    /// Refuses every allocation after this many; `None`: none. For tests of what callers do then.
    pub fn refuse_after(&self, allocations: Option<u64>) {
        // Relaxed: calls beside this one may come before it, or after.
        self.counted.store(allocations.is_some(), Ordering::Relaxed);
        self.state.0.lock().refuse = allocations;
    }

    #[inline(always)]
    fn frame(&self, phys: u64) -> usize {
        self.bytes.frame(phys)
    }

    #[inline(always)]
    fn phys(&self, frame: usize) -> u64 {
        self.bytes.phys(frame)
    }

    /// The numbers of frames that follow one another.
    fn numbers(&self, run: &Range<u64>) -> Range<usize> {
        let first = self.frame(run.start);
        first..first + ((run.end - run.start) / PAGE_SIZE) as usize
    }
}

/// So many frames that are freed together are set aside: more would drive out what is there.
const FEW: u64 = BATCH as u64 / 2 * PAGE_SIZE;

// SAFETY: a bit for each frame says whether it is free and not set aside, and is cleared when it is given out or set aside; what is set aside is popped when it
// is given out. Numbers of frames are those of physical memory modulo 1 GiB, so that pieces and groups of pieces are aligned to their sizes.
unsafe impl<S: Place> FrameAllocator for Arena<S> {
    #[inline]
    fn alloc(&self, order: u32) -> Option<u64> {
        if order > 0 {
            return self.block(order).map(|frame| self.phys(frame));
        }
        let aside = self.stock().and_then(|stock| stock.lock().pop());
        let frame = match aside {
            Some(frame) => frame as usize,
            None => self.fill()?,
        };
        Some(self.phys(frame))
    }

    #[inline]
    unsafe fn free(&self, phys: u64, order: u32) {
        let frame = self.frame(phys);
        match order {
            0 => self.give(frame),
            _ => self.state.0.lock().free_block(frame, order),
        }
    }

    fn alloc_bulk(&self, frames: &mut [u64]) -> usize {
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
                let run = self.phys(first)..;
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
                    *place = self.phys(frame as usize);
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
                *place = self.phys(frame);
            }
        }
        let left = left.len();
        frames.len() - left
    }

    fn alloc_table(&self) -> Option<u64> {
        self.last(State::table).map(|frame| self.phys(frame))
    }

    unsafe fn free_table(&self, phys: u64) {
        let frame = self.frame(phys);
        self.state.0.lock().free_run(frame..frame + 1);
    }

    unsafe fn free_runs(&self, runs: &[Range<u64>]) {
        let all: u64 = runs.iter().map(|run| run.end - run.start).sum();
        if all <= FEW {
            // The lowest come out first.
            let mut highest_first = runs.iter().rev().flat_map(|run| self.numbers(run).rev());
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
            state.free_run(self.numbers(run));
        }
    }
}

// SAFETY: the promise of `Place`.
unsafe impl<S: Place> PhysMem for Arena<S> {
    #[inline]
    fn to_virt(&self, phys: u64) -> NonNull<u8> {
        self.bytes.to_virt(phys)
    }

    fn to_virt_run(&self, phys: u64, frames: usize) -> Option<NonNull<u8>> {
        self.bytes.to_virt_run(phys, frames)
    }

    fn is_cached(&self, phys: u64) -> bool {
        self.state.0.lock().recency.is_recent(self.frame(phys))
    }
}

impl<S> fmt::Debug for Arena<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena")
            .field("free", &self.state.0.lock().total)
            .finish_non_exhaustive()
    }
}

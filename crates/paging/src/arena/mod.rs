//! An allocator of frames: over one piece of memory, for tests and hosted programs, or over ranges of physical memory, for kernels.

mod bytes;
mod fixed_array;
mod free_bitmap;
mod memory;
mod per_cpu;
mod ranges;
mod recency;

use core::fmt;
use core::ops::Range;
use core::ptr::NonNull;

use crate::atomic::{AtomicBool, Ordering};
use crate::entry::PAGE_SIZE;
use crate::error::Error;
use crate::frame_cache::{BATCH, FrameCache};
use crate::phys::{FrameAllocator, PhysMem, alloc_one_by_one};
use crate::shard::{CachePadded, SHARDS};
use crate::spin::Spin;

pub use bytes::{Bytes, HeapBytes};
use fixed_array::FixedArray;
use free_bitmap::FreeBitmap;
pub use memory::ArenaMemory;
pub use ranges::{DirectMap, Ranges};

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
    state: CachePadded<Spin<FreeBitmap>>,
    caches: FixedArray<CachePadded<Spin<FrameCache>>>,
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
        let state = FreeBitmap::new(frames)?;
        let caches = FixedArray::on_heap(SHARDS, |_| CachePadded(Spin::new(FrameCache::new())))?;
        Ok(Self {
            bytes,
            counted: AtomicBool::new(false),
            state: CachePadded(Spin::new(state)),
            caches,
        })
    }
}

impl<S: ArenaMemory> Arena<S> {
    /// How many frames there are, free or not.
    pub fn frames(&self) -> u64 {
        self.bytes.frames()
    }

    /// How many are free. Beside allocations and frees of other threads, up to 32 for each of them may be missed.
    pub fn free_frames(&self) -> u64 {
        let aside: usize = self.caches.iter().map(|cache| cache.0.lock().len()).sum();
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
unsafe impl<S: ArenaMemory> FrameAllocator for Arena<S> {
    #[inline]
    fn alloc(&self, order: u32) -> Option<u64> {
        if order > 0 {
            return self.alloc_block(order).map(|frame| self.phys(frame));
        }
        let aside = self.cache().and_then(|cache| cache.lock().pop());
        let frame = match aside {
            Some(frame) => frame as usize,
            None => self.alloc_refilling()?,
        };
        Some(self.phys(frame))
    }

    #[inline]
    unsafe fn free(&self, phys: u64, order: u32) {
        let frame = self.frame(phys);
        match order {
            0 => self.free_page(frame),
            _ => self.state.0.lock().free_block(frame, order),
        }
    }

    fn alloc_bulk(&self, frames: &mut [u64]) -> usize {
        let Some(cache) = self.cache() else {
            return alloc_one_by_one(self, frames);
        };
        let mut left = frames.iter_mut();
        if left.len() >= BATCH {
            // So many are neither set aside first nor taken one by one from what is.
            let mut state = self.state.0.lock();
            while left.len() >= BATCH
                && let Some((first, count)) = state.take_run(left.len())
            {
                let run = self.phys(first)..;
                let places = left.by_ref().take(count);
                (places.zip(run.step_by(PAGE_SIZE as usize))).for_each(|(to, phys)| *to = phys);
            }
        }
        loop {
            {
                let mut cache = cache.lock();
                while left.len() > 0
                    && let Some(frame) = cache.pop()
                    && let Some(place) = left.next()
                {
                    *place = self.phys(frame as usize);
                }
            }
            if left.len() == 0 {
                break;
            }
            // One, and a batch that is set aside for the next round.
            let Some(frame) = self.alloc_refilling() else {
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
        self.alloc_draining(FreeBitmap::take_table)
            .map(|frame| self.phys(frame))
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
            if let Some(cache) = self.cache() {
                let mut cache = cache.lock();
                while !cache.is_full()
                    && let Some(frame) = highest_first.next()
                {
                    cache.push(frame as u32);
                }
            }
            highest_first.for_each(|frame| self.free_page(frame));
            return;
        }
        let mut state = self.state.0.lock();
        for run in runs {
            state.free_run(self.numbers(run));
        }
    }
}

// SAFETY: the promise of `ArenaMemory`.
unsafe impl<S: ArenaMemory> PhysMem for Arena<S> {
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

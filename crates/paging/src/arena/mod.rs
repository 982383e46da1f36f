//! A frame allocator: over contiguous memory for tests and hosted programs, or over ranges of
//! physical memory for kernels.

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

/// A frame allocator over contiguous memory, with physical addresses from [`BASE`](Self::BASE) on,
/// or over [ranges](Self::over_ranges) of physical memory.
///
/// Single frames come from the lowest pageblock of 2 MiB that has one, and tables from the highest.
/// Blocks of 2 MiB and 1 GiB are whole again when all of their frames have been freed. A call reads
/// a few words, in the worst case one for each 2 MiB.
///
/// Each [processor](Bytes::processor) has a cache of up to 64 free frames, which it refills and
/// drains by 32. Cached frames count as free. A thread that finds no other frame takes them from
/// the caches of all processors. An allocation therefore fails only if no frame was cached a moment
/// before either.
///
/// Locks: one for each cache, and one for the bitmap of free frames. No thread holds two of them.
pub struct Arena<S> {
    bytes: S,
    /// Set while a test counts allocations. Nothing is cached then.
    counted: AtomicBool,
    state: CachePadded<Spin<FreeBitmap>>,
    caches: FixedArray<CachePadded<Spin<FrameCache>>>,
}

impl<S: Bytes> Arena<S> {
    /// The physical address of the first frame: 1 GiB.
    pub const BASE: u64 = 1 << 30;

    /// Creates an allocator over these bytes. A partial frame at the end is not used.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`]; [`Error::TooMany`] for 2^32 frames or more.
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
    /// Returns the number of frames, free or not.
    pub fn frames(&self) -> u64 {
        self.bytes.frames()
    }

    /// Returns the number of free frames. It may miss up to 32 frames for each concurrent thread
    /// that allocates or frees.
    pub fn free_frames(&self) -> u64 {
        let aside: usize = self.caches.iter().map(|cache| cache.0.lock().len()).sum();
        (self.state.0.lock().total + aside) as u64
    }

    /// Refuses every allocation after this many; `None` refuses none. Tests use it to check how
    /// callers handle failure.
    pub fn refuse_after(&self, allocations: Option<u64>) {
        // Relaxed: a concurrent call may come before or after this one.
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

    /// Returns the frame numbers of adjacent frames.
    fn numbers(&self, run: &Range<u64>) -> Range<usize> {
        let first = self.frame(run.start);
        first..first + ((run.end - run.start) / PAGE_SIZE) as usize
    }
}

/// The most bytes of frames freed together that go to the cache. More would evict the frames there.
const FEW: u64 = BATCH as u64 / 2 * PAGE_SIZE;

// SAFETY: a bit for each frame says whether it is free and not cached. It is cleared when the frame
// is given out or cached, and a cached frame is popped when it is given out. Frame numbers agree
// with physical frame numbers modulo 1 GiB, so that pageblocks and groups of them are aligned to
// their sizes.
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
            // Large requests bypass the cache.
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
            // Takes one frame, and refills the cache for the next round.
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
            // Pushed in descending order, so that the lowest frame is reused first.
            let mut highest_first = runs.iter().rev().flat_map(|run| self.numbers(run).rev());
            // One lock operation for all frames that fit.
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

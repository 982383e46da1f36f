//! An arena over physical memory itself: several ranges, reached through a direct map. The arena's
//! own data lies in given memory.

use core::mem::MaybeUninit;
use core::ops::Range;
use core::ptr::NonNull;

use super::fixed_array::FixedArray;
use super::free_bitmap::{FreeBitmap, PAGEBLOCK};
use super::recency::Recency;
use super::{Arena, ArenaMemory};
use crate::atomic::AtomicBool;
use crate::entry::PAGE_SIZE;
use crate::error::Error;
use crate::frame_cache::FrameCache;
use crate::frames::numbering::{self, FrameRange, Numbering};
use crate::shard::{CachePadded, SHARDS};
use crate::spin::Spin;

/// Frames of the largest block.
const GROUP: u64 = 1 << 18;

/// The kernel's direct map of physical memory, and the number of the current processor.
///
/// # Safety
///
/// For every frame [added](Arena::add) to the arena, the pointer to its first byte is valid for
/// reads and writes of the frame, aligned to 4 KiB, and always the same. Adjacent frames of one
/// range are adjacent in the direct map.
pub unsafe trait DirectMap: Send + Sync {
    /// Returns the byte at this physical address.
    fn to_virt(&self, phys: u64) -> NonNull<u8>;

    /// Returns the number of the current processor, as
    /// [`Bytes::processor`](crate::Bytes::processor) does. A kernel reads it from a register, for
    /// example.
    fn processor(&self) -> usize;
}

/// Ranges of physical memory: see [`Arena::over_ranges`].
#[derive(Debug)]
pub struct Ranges<D> {
    map: D,
    /// The first byte of the largest range, the number of its first frame, and its number of
    /// frames.
    start: u64,
    first: u64,
    main: u64,
    others: &'static [FrameRange],
    frames: u64,
}

impl<D> Ranges<D> {
    #[cold]
    fn elsewhere(&self, phys: u64) -> Option<u64> {
        let mut found = self.others.iter().filter_map(|range| range.index(phys));
        found.next().map(|index| self.first + u64::from(index))
    }

    #[cold]
    fn phys_slow(&self, index: u64) -> Option<u64> {
        let index = u32::try_from(index).ok()?;
        let mut found = self.others.iter().filter_map(|range| range.phys(index));
        found.next()
    }
}

// SAFETY: each frame of the ranges has one number, which maps back to it. The numbers of a range
// are adjacent and agree with the frames modulo the largest block, by the numbering and `first`.
// The pointers are the promise of `DirectMap`.
unsafe impl<D: DirectMap> ArenaMemory for Ranges<D> {
    #[inline]
    fn frame(&self, phys: u64) -> usize {
        let frame = phys.wrapping_sub(self.start) / PAGE_SIZE;
        if frame < self.main {
            return (self.first + frame) as usize;
        }
        self.elsewhere(phys)
            .map_or(usize::MAX, |frame| frame as usize)
    }

    #[inline]
    fn phys(&self, frame: usize) -> u64 {
        let index = (frame as u64).wrapping_sub(self.first);
        if index < self.main {
            return self.start + index * PAGE_SIZE;
        }
        self.phys_slow(index).unwrap_or(u64::MAX)
    }

    fn frames(&self) -> u64 {
        self.frames
    }

    #[inline]
    fn processor(&self) -> usize {
        self.map.processor()
    }

    #[inline]
    fn to_virt(&self, phys: u64) -> NonNull<u8> {
        self.map.to_virt(phys)
    }

    fn to_virt_run(&self, phys: u64, _frames: usize) -> Option<NonNull<u8>> {
        Some(self.map.to_virt(phys))
    }
}

/// Returns the number of pageblocks that the frame numbers lie in, and the number of the largest
/// range's first frame.
fn numbered(plan: &Numbering) -> (usize, u64) {
    let first = plan.main.start / PAGE_SIZE % GROUP;
    ((first as usize + plan.numbers).div_ceil(PAGEBLOCK), first)
}

impl<D: DirectMap> Arena<Ranges<D>> {
    /// Returns the number of bytes that an arena over these ranges of physical memory needs for its
    /// own data: about 70 for each 2 MiB, at most 36 KiB more for each range, and 8 KiB. Holes take
    /// none.
    ///
    /// # Errors
    ///
    /// As for [`over_ranges`](Self::over_ranges).
    pub fn size_for(ranges: &[Range<u64>]) -> Result<usize, Error> {
        let plan = Numbering::new(ranges, GROUP, |_| {})?;
        let (pageblocks, _) = numbered(&plan);
        Ok(FreeBitmap::size_of(pageblocks)
            + FixedArray::<CachePadded<Spin<FrameCache>>>::size_of(SHARDS)
            + numbering::size_of(plan.others))
    }

    /// Creates an arena over ranges of physical memory (each start inclusive, each end exclusive,
    /// ascending). No frame is free until it is [added](Self::add). `memory` must have at least
    /// [`size_for`](Self::size_for) bytes for the same ranges.
    ///
    /// A kernel starts in this way. It takes this memory and that of the
    /// [counts](crate::Physical::with_counts) from its boot allocator, and then adds the memory
    /// that is left.
    ///
    /// # Errors
    ///
    /// As for [`Physical::with_counts`](crate::Physical::with_counts).
    ///
    /// ```
    /// use samara_paging::{Arena, DirectMap, Error, FrameAllocator, Ranges};
    /// use std::ptr::NonNull;
    ///
    /// /// Physical memory as it is in a kernel, but for where it comes from.
    /// struct Mapped(Box<[Page]>);
    /// #[repr(align(4096))]
    /// struct Page([u8; 4096]);
    ///
    /// // SAFETY: the frames from 1 MiB on are those pages.
    /// unsafe impl DirectMap for Mapped {
    ///     fn to_virt(&self, phys: u64) -> NonNull<u8> {
    ///         NonNull::from(&self.0[(phys as usize - (1 << 20)) / 4096]).cast()
    ///     }
    ///     fn processor(&self) -> usize {
    ///         0 // A kernel reads it from where it keeps what each processor has.
    ///     }
    /// }
    ///
    /// // What memblock knows as memory, and of it what it has free when it hands it over.
    /// let memory = [0..0xa_0000, 1 << 20..2 << 20];
    /// let free = [(1 << 20) + 0x4000..2 << 20];
    ///
    /// let size = Arena::<Ranges<Mapped>>::size_for(&memory)?;
    /// let room = Box::leak(Box::new_uninit_slice(size));
    /// let mapped = Mapped((0..256).map(|_| Page([0; 4096])).collect());
    /// let arena = Arena::over_ranges(mapped, &memory, room)?;
    /// // SAFETY: nothing else uses these frames.
    /// assert_eq!(unsafe { arena.add(free) }, 252);
    /// assert_eq!(arena.free_frames(), 252);
    /// assert!(arena.alloc(0).is_some_and(|phys| phys >= (1 << 20) + 0x4000));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn over_ranges(
        map: D,
        ranges: &[Range<u64>],
        mut memory: &'static mut [MaybeUninit<u8>],
    ) -> Result<Self, Error> {
        let plan = Numbering::new(ranges, GROUP, |_| {})?;
        let (pageblocks, first) = numbered(&plan);
        let main = (plan.main.end - plan.main.start) / PAGE_SIZE;
        let main_pageblocks = ((first + main) as usize).div_ceil(PAGEBLOCK);
        let state = FreeBitmap::within(pageblocks, main_pageblocks, &mut memory)?;
        let caches = FixedArray::within(&mut memory, SHARDS, |_| {
            CachePadded(Spin::new(FrameCache::new()))
        })?;
        let others = numbering::place(ranges, GROUP, plan.others, memory)?;
        let ranges = Ranges {
            map,
            start: plan.main.start,
            first,
            main,
            others,
            frames: plan.frames,
        };
        Ok(Self {
            bytes: ranges,
            counted: AtomicBool::new(false),
            state: CachePadded(Spin::new(state)),
            caches,
        })
    }

    /// Adds the free frames that lie wholly in these ranges of physical addresses (each start
    /// inclusive, each end exclusive), and returns their number. A kernel adds all free memory when
    /// its boot allocator hands over, and later whatever that allocator frees. Parts outside the
    /// arena's ranges are ignored.
    ///
    /// # Safety
    ///
    /// Nothing uses these frames, and they are not already free in this arena.
    pub unsafe fn add(&self, free: impl IntoIterator<Item = Range<u64>>) -> u64 {
        let mut added = 0;
        for range in free {
            let start = range
                .start
                .checked_next_multiple_of(PAGE_SIZE)
                .unwrap_or(range.end);
            let end = range.end & !(PAGE_SIZE - 1);
            let main = self.bytes.start..self.bytes.start + self.bytes.main * PAGE_SIZE;
            let others = self.bytes.others.iter().map(FrameRange::range);
            for range in others.chain([main]) {
                let part = range.start.max(start)..range.end.min(end);
                if !part.is_empty() {
                    let count = (part.end - part.start) / PAGE_SIZE;
                    let first = self.bytes.frame(part.start);
                    // In parts, so that the lock is not held for long.
                    for at in (first..first + count as usize).step_by(PAGEBLOCK) {
                        let next = (at + PAGEBLOCK).min(first + count as usize);
                        self.state.0.lock().free_run(at..next);
                    }
                    added += count;
                }
            }
        }
        added
    }
}

impl FreeBitmap {
    fn size_of(pageblocks: usize) -> usize {
        FixedArray::<[u64; PAGEBLOCK / 64]>::size_of(pageblocks)
            + FixedArray::<u16>::size_of(pageblocks)
            + Recency::size_of(pageblocks)
    }
}

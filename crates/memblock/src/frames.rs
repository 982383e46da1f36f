//! Page frames: those entirely in memory, those entirely free, and those that a call would free.
//!
//! Frames are counted by number: frame `n` is the bytes from `n * PAGE_SIZE` up to
//! `(n + 1) * PAGE_SIZE`. A frame is *free* if it lies entirely in one range of free memory that
//! may be mapped and that no driver manages. After the release, exactly the free frames belong to
//! the page allocator.

use core::iter::FusedIterator;
use core::ops::Range;

use crate::array::RegionType;
use crate::cursor::{Filter, Span};
use crate::iter::Spans;
use crate::map::PhysMap;
use crate::memblock::Memblock;
use crate::pfn::{PAGE_SIZE, contained_frames, touching_frames};
use crate::region::{Flags, NodeId, Region, capped_end};

/// Converts a range of frames to a span, or returns `None` if it is empty.
fn frames(range: Range<u64>, nid: NodeId) -> Option<Span> {
    (range.start < range.end).then_some(Span {
        start: range.start,
        end: range.end,
        nid,
    })
}

/// An iterator over memory in whole page frames, from either end: see [`Memblock::pfn_ranges`].
#[derive(Clone, Debug)]
pub struct PfnRanges<'a> {
    regions: core::slice::Iter<'a, Region>,
    nid: NodeId,
}

/// Returns the frames of a region if it belongs to the node, or if the node is none.
fn of_node(r: &Region, nid: NodeId) -> Option<Span> {
    let wanted = !nid.is_valid() || nid == r.nid;
    frames(r.memory_frames(), r.nid).filter(|_| wanted)
}

impl Iterator for PfnRanges<'_> {
    type Item = Span;

    fn next(&mut self) -> Option<Span> {
        let nid = self.nid;
        self.regions.find_map(|r| of_node(r, nid))
    }
}

impl DoubleEndedIterator for PfnRanges<'_> {
    fn next_back(&mut self) -> Option<Span> {
        let nid = self.nid;
        self.regions.by_ref().rev().find_map(|r| of_node(r, nid))
    }
}

impl FusedIterator for PfnRanges<'_> {}

/// An iterator over free page frames, from either end: see [`Memblock::free_frames`].
#[derive(Clone, Debug)]
pub struct FreeFrames<'a> {
    spans: Spans<'a>,
}

impl FreeFrames<'_> {
    /// Limits the iterator to frames within `range`, such as a zone. O(log n).
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add(0x80_0000, 0x100_0000)?;
    /// let dma = boot.free_frames(NodeId::NONE).within(0..0x1000);
    /// assert!(dma.map(|f| f.start..f.end).eq([0x800..0x1000]));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn within(self, range: Range<u64>) -> Self {
        let bytes = range.start.saturating_mul(PAGE_SIZE)..range.end.saturating_mul(PAGE_SIZE);
        FreeFrames {
            spans: self.spans.within(bytes),
        }
    }
}

impl Iterator for FreeFrames<'_> {
    type Item = Span;

    fn next(&mut self) -> Option<Span> {
        self.spans.find_map(|s| frames(s.frames(), s.nid))
    }
}

impl DoubleEndedIterator for FreeFrames<'_> {
    fn next_back(&mut self) -> Option<Span> {
        self.spans
            .by_ref()
            .rev()
            .find_map(|s| frames(s.frames(), s.nid))
    }
}

impl FusedIterator for FreeFrames<'_> {}

/// An iterator over the frames that a call would free: see [`Memblock::frames_freed_by`].
#[derive(Clone, Debug)]
pub struct FreedFrames<'a> {
    memory: &'a RegionType,
    reserved: &'a RegionType,
    filter: Filter,
    /// The range that the call would free, in bytes.
    range: Range<u64>,
    /// The frames that it can free and that have not been visited.
    left: Range<u64>,
}

impl<'a> FreedFrames<'a> {
    fn new<M: PhysMap>(memblock: &'a Memblock<'_, M>, range: Range<u64>) -> Self {
        let reserved = memblock.reserved();
        let mut left = if range.is_empty() {
            0..0
        } else {
            touching_frames(range.start, range.end)
        };
        // The frames at the ends stay in use if a byte of them outside of the range is reserved.
        let below = left.start * PAGE_SIZE;
        if below < range.start && reserved.overlaps(below, range.start - below) {
            left.start += 1;
        }
        let above = (left.end.saturating_mul(PAGE_SIZE)).saturating_sub(range.end);
        if above > 0 && left.start < left.end && reserved.overlaps(range.end, above) {
            left.end -= 1;
        }
        FreedFrames {
            memory: memblock.memory(),
            reserved,
            filter: memblock.filter(NodeId::NONE, Flags::NONE),
            range,
            left,
        }
    }

    /// Returns the frames that share a byte with the next run of reserved regions, without those
    /// before `left`.
    fn next_run(&self) -> Option<Range<u64>> {
        let from = (self.left.start * PAGE_SIZE).max(self.range.start);
        let mut regions = self.reserved[self.reserved.first_ending_after(from)..]
            .iter()
            .take_while(|r| r.base < self.range.end)
            .map(|r| touching_frames(r.base.max(from), r.end().min(self.range.end)));
        let mut run = regions.next()?;
        for next in regions {
            if next.start > run.end {
                break;
            }
            run.end = next.end;
        }
        let run = run.start.max(self.left.start)..run.end.min(self.left.end);
        (run.start < run.end).then_some(run)
    }
}

impl Iterator for FreedFrames<'_> {
    type Item = Span;

    fn next(&mut self) -> Option<Span> {
        while self.left.start < self.left.end {
            let Some(run) = self.next_run() else {
                self.left.start = self.left.end;
                break;
            };
            // The first memory that contains a frame of the run or after it.
            let at = self
                .memory
                .first_ending_after(run.start.saturating_mul(PAGE_SIZE));
            let memory = self.memory[at..]
                .iter()
                .filter(|r| !self.filter.skips(r))
                .find_map(|r| {
                    let all = r.memory_frames();
                    frames(all.start.max(run.start)..all.end, r.nid)
                });
            let Some(memory) = memory else {
                self.left.start = self.left.end;
                break;
            };
            let end = memory.end.min(run.end);
            self.left.start = memory.start.max(end);
            if memory.start < end {
                return Some(Span { end, ..memory });
            }
        }
        None
    }
}

impl FusedIterator for FreedFrames<'_> {}

impl Region {
    /// Returns the page frames that lie entirely in the region, which is what counts for memory.
    /// The range may be empty or reversed. Linux's `memblock_region_memory_base_pfn` and
    /// `memblock_region_memory_end_pfn`.
    ///
    /// ```
    /// use samara_memblock::Region;
    /// let r = Region { base: 0x1800, size: 0x3000, ..Region::EMPTY };
    /// assert_eq!(r.memory_frames(), 2..4);
    /// assert_eq!(r.reserved_frames(), 1..5);
    /// ```
    #[must_use]
    pub fn memory_frames(&self) -> Range<u64> {
        contained_frames(self.base, self.end())
    }

    /// Returns the page frames that share a byte with the region, which is what counts for reserved
    /// regions. Linux's `memblock_region_reserved_base_pfn` and `memblock_region_reserved_end_pfn`.
    #[must_use]
    pub fn reserved_frames(&self) -> Range<u64> {
        touching_frames(self.base, self.end())
    }
}

impl<M: PhysMap> Memblock<'_, M> {
    /// Iterates over the memory of a node (of all, for [`NodeId::NONE`]) in whole page frames.
    /// Spans are frame numbers, not addresses. Regions without a whole frame are skipped. Linux's
    /// `for_each_mem_pfn_range`.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add(0x800, 0x4000)?;
    /// boot.add(0x8400, 0x800)?;
    /// assert!(boot.pfn_ranges(NodeId::NONE).map(|f| f.start..f.end).eq([1..4]));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn pfn_ranges(&self, nid: NodeId) -> PfnRanges<'_> {
        PfnRanges {
            regions: self.memory().iter(),
            nid: nid.canonical(),
        }
    }

    /// Iterates over the free page frames of a node (of all, for [`NodeId::NONE`]), as frame
    /// numbers. These are what [`release`](Self::release) hands out.
    ///
    /// Memory that must not be mapped or that a driver manages is skipped. Together with
    /// [`FreeFrames::within`], this is Linux's `for_each_free_mem_pfn_range_in_zone`.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add(0x1000, 0x8000)?;
    /// boot.reserve(0x3f00, 0x200)?;
    /// let free = boot.free_frames(NodeId::NONE);
    /// assert!(free.map(|f| f.start..f.end).eq([1..3, 5..9]));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn free_frames(&self, nid: NodeId) -> FreeFrames<'_> {
        FreeFrames {
            spans: self.free_ranges(nid, Flags::NONE),
        }
    }

    /// Iterates over the page frames that become free when `base .. base + size` is freed: those of
    /// which no other part is reserved. They come lowest first. No span crosses the end of a region
    /// of memory. O(log n) each.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add(0, 0x10_000)?;
    /// boot.reserve(0x2800, 0x3000)?;
    /// // Frame 2 becomes free, since all of its reserved part is freed. Frame 4 stays in use.
    /// let freed = boot.frames_freed_by(0x2800, 0x2000);
    /// assert!(freed.map(|f| f.start..f.end).eq([2..4]));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn frames_freed_by(&self, base: u64, size: u64) -> FreedFrames<'_> {
        FreedFrames::new(self, base..capped_end(base, size))
    }

    /// Iterates over the page frames that are no longer free once `base .. base + size` is
    /// reserved.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add(0, 0x10_000)?;
    /// assert!(boot.frames_taken_by(0x2800, 0x1000).map(|f| f.start..f.end).eq([2..4]));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn frames_taken_by(&self, base: u64, size: u64) -> FreeFrames<'_> {
        let end = capped_end(base, size);
        let frames = if base < end {
            touching_frames(base, end)
        } else {
            0..0
        };
        self.free_frames(NodeId::NONE).within(frames)
    }
}

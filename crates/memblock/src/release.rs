//! The end of memblock's time: handing what is free to a page allocator.

use core::iter::FusedIterator;
use core::ops::{Deref, Range};

use crate::array::RegionType;
use crate::cursor::Span;
use crate::isolate::Splits;
use crate::map::PhysMap;
use crate::memblock::{Kind, Memblock, PAGE_SIZE};
use crate::region::{Flags, NodeId, capped_end};
use crate::{Error, Region};

/// What takes over from memblock: an allocator of page frames.
///
/// With the feature `buddy_system_allocator` that crate's `FrameAllocator` is one.
pub trait PageAllocator {
    /// Takes in frames, given as numbers. They were never given before, or were claimed since.
    fn free_pages(&mut self, frames: Range<u64>);

    /// Gives back certain frames if all of them are free, and says whether it did. An allocator that cannot do so refuses.
    fn claim_pages(&mut self, frames: Range<u64>) -> bool {
        let _ = frames;
        false
    }
}

/// Splits a range of frames into blocks of 2^order frames, each at a multiple of its size, as buddy allocators want them.
///
/// ```
/// use samara_memblock::PageBlocks;
/// assert!(PageBlocks::new(3..9, 10).eq([(3, 0), (4, 2), (8, 0)]));
/// ```
#[derive(Clone, Debug)]
pub struct PageBlocks {
    frames: Range<u64>,
    max_order: u32,
}

impl PageBlocks {
    /// Blocks of at most 2^`max_order` frames.
    #[must_use]
    pub const fn new(frames: Range<u64>, max_order: u32) -> Self {
        PageBlocks { frames, max_order }
    }
}

impl Iterator for PageBlocks {
    /// First frame and order.
    type Item = (u64, u32);

    fn next(&mut self) -> Option<(u64, u32)> {
        let first = self.frames.start;
        let left = self.frames.end.checked_sub(first).filter(|&n| n > 0)?;
        let order = first.trailing_zeros().min(left.ilog2()).min(self.max_order);
        self.frames.start += 1 << order;
        Some((first, order))
    }
}

impl FusedIterator for PageBlocks {}

/// A memblock that has handed out what was free. It still answers questions, and reserved memory can be given after the rest.
pub struct Released<'s, M: PhysMap> {
    memblock: Memblock<'s, M>,
}

impl<'s, M: PhysMap> Deref for Released<'s, M> {
    type Target = Memblock<'s, M>;

    fn deref(&self) -> &Memblock<'s, M> {
        &self.memblock
    }
}

impl<'s, M: PhysMap> Memblock<'s, M> {
    /// Hands every whole free frame to a page allocator, lowest first, and returns how many there were.
    ///
    /// Memory that must not be mapped or that a driver manages is left out; hot-pluggable memory is not, and is no longer
    /// marked as such afterwards. A frame of which any part is reserved stays. Nothing can be allocated here from now on, so
    /// that no frame has two owners.
    ///
    /// ```
    /// use samara_memblock::{Memblock, PageAllocator, Storage};
    ///
    /// #[derive(Default)]
    /// struct Frames(Vec<core::ops::Range<u64>>);
    /// impl PageAllocator for Frames {
    ///     fn free_pages(&mut self, frames: core::ops::Range<u64>) {
    ///         self.0.push(frames);
    ///     }
    /// }
    ///
    /// let mut storage: Storage = Storage::new();
    /// let mut boot = Memblock::new(&mut storage);
    /// boot.add(0, 0x10_000)?;
    /// boot.reserve(0x3800, 0x1000)?;
    /// let mut frames = Frames::default();
    /// let (_, count) = boot.release(&mut frames);
    /// assert_eq!(frames.0, [0..3, 5..16]);
    /// assert_eq!(count, 14);
    /// # Ok::<(), samara_memblock::Error>(())
    /// ```
    pub fn release(mut self, pages: &mut impl PageAllocator) -> (Released<'s, M>, u64) {
        self.can_resize = false;
        // The whole array, so that no region is split and no room needed.
        self.array(Kind::Memory)
            .set(0, u64::MAX, |r| r.flags.remove(Flags::HOTPLUG));
        let mut count = 0;
        for span in self.free_ranges(NodeId::NONE, Flags::NONE) {
            let frames = whole_frames(span.start, span.end);
            if !frames.is_empty() {
                count += frames.end - frames.start;
                pages.free_pages(frames);
            }
        }
        (Released { memblock: self }, count)
    }
}

impl<M: PhysMap> Released<'_, M> {
    /// Frees `base .. base + size` late: whole frames that were reserved memory go to the page allocator. Linux's
    /// `memblock_free_late`. Returns how many frames there were.
    ///
    /// # Errors
    /// [`Error::ArrayFull`] when a reserved region has to be split and there is no room; nothing has changed then.
    pub fn free_late(
        &mut self,
        base: u64,
        size: u64,
        pages: &mut impl PageAllocator,
    ) -> Result<u64, Error> {
        let end = capped_end(base, size);
        let reserved = self.memblock.reserved();
        if reserved.splits(base, end) == Splits::OneInTwo && !reserved.has_room(1) {
            return Err(Error::ArrayFull);
        }
        let mut count = 0;
        for r in touching(reserved, base, end) {
            for span in self.memblock.mem_ranges(NodeId::NONE, Flags::NONE) {
                let frames = whole_frames(
                    span.start.max(r.base).max(base),
                    span.end.min(r.end()).min(end),
                );
                if !frames.is_empty() {
                    count += frames.end - frames.start;
                    pages.free_pages(frames);
                }
            }
        }
        self.memblock.array(Kind::Reserved).cut(base, end);
        Ok(count)
    }

    /// Reserves `base .. base + size` late: the frames of it that were handed out are claimed back, all or none.
    ///
    /// # Errors
    /// [`Error::NoMemory`] when some frame is in use; [`Error::ArrayFull`] when there is no room for another region. Nothing has
    /// changed then.
    pub fn reserve_late(
        &mut self,
        base: u64,
        size: u64,
        pages: &mut impl PageAllocator,
    ) -> Result<(), Error> {
        let end = capped_end(base, size);
        let mut claimed = 0;
        let mut result = Ok(());
        for span in self.memblock.free_ranges(NodeId::NONE, Flags::NONE) {
            if let Some(frames) = handed_out(span, base, end) {
                if !pages.claim_pages(frames) {
                    result = Err(Error::NoMemory);
                    break;
                }
                claimed += 1;
            }
        }
        if result.is_ok() {
            result = self.memblock.reserve(base, size);
        }
        if result.is_err() {
            let spans = self.memblock.free_ranges(NodeId::NONE, Flags::NONE);
            for frames in spans
                .filter_map(|span| handed_out(span, base, end))
                .take(claimed)
            {
                pages.free_pages(frames);
            }
        }
        result
    }

    /// Gives up memblock: what its arrays occupied goes to the page allocator too. Returns how many frames that is.
    pub fn discard(self, pages: &mut impl PageAllocator) -> u64 {
        let mut count = 0;
        for kind in Kind::ALL {
            let grown = self.memblock.grown[kind as usize];
            if grown.size > 0 && grown.regions == self.memblock.regions(kind).as_ptr() {
                let frames = whole_frames(grown.base, grown.base + grown.size);
                count += frames.end - frames.start;
                pages.free_pages(frames);
            }
        }
        count
    }
}

fn whole_frames(start: u64, end: u64) -> Range<u64> {
    start.div_ceil(PAGE_SIZE)..end / PAGE_SIZE
}

fn touching(regions: &RegionType, base: u64, end: u64) -> impl Iterator<Item = &Region> {
    regions[regions.first_ending_after(base)..]
        .iter()
        .take_while(move |r| r.base < end)
}

/// The frames of a free piece that were handed out and share a byte with `base..end`.
fn handed_out(span: Span, base: u64, end: u64) -> Option<Range<u64>> {
    if base == end {
        return None;
    }
    let whole = whole_frames(span.start, span.end);
    let frames = whole.start.max(base / PAGE_SIZE)..whole.end.min(end.div_ceil(PAGE_SIZE));
    (!frames.is_empty()).then_some(frames)
}

#[cfg(feature = "buddy_system_allocator")]
impl<const ORDER: usize> PageAllocator for buddy_system_allocator::FrameAllocator<ORDER> {
    fn free_pages(&mut self, frames: Range<u64>) {
        // A machine whose frame numbers exceed its words has no use for those frames.
        let (Ok(start), Ok(end)) = (usize::try_from(frames.start), usize::try_from(frames.end))
        else {
            return;
        };
        self.add_frame(start, end);
    }

    fn claim_pages(&mut self, frames: Range<u64>) -> bool {
        let (Ok(start), Ok(end)) = (usize::try_from(frames.start), usize::try_from(frames.end))
        else {
            return false;
        };
        // One by one: a larger block is only found if it has been merged, which added frames are not.
        for frame in start..end {
            if self.alloc_at(frame, 1).is_none() {
                (start..frame).for_each(|claimed| self.dealloc(claimed, 1));
                return false;
            }
        }
        true
    }
}

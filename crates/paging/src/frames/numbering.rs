//! Frame indices: ranges of physical memory are numbered without the holes between them.
//!
//! The largest range has the indices from 0 on, so that nearly all look-ups take one subtraction
//! and one comparison, as if it were the only range. The others follow. A frame has the same
//! position in its group by index and by physical address, after one constant skew. A group is 2
//! MiB or 1 GiB. The indices of two ranges are never adjacent, so that no run of indices crosses a
//! hole.

use core::mem::MaybeUninit;
use core::ops::Range;
use core::ptr::NonNull;
use core::slice;

use crate::entry::PAGE_SIZE;
use crate::error::Error;
use crate::frames::NO_FRAME;

/// Frames in a pageblock of 2 MiB.
pub(crate) const PAGEBLOCK: u64 = 512;

/// A range of frames other than the largest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameRange {
    start: u64,
    count: u32,
    /// The index of its first frame.
    first: u32,
}

impl FrameRange {
    pub(crate) fn range(&self) -> Range<u64> {
        self.start..self.start + u64::from(self.count) * PAGE_SIZE
    }

    pub(crate) fn index(&self, phys: u64) -> Option<u32> {
        let frame = phys.wrapping_sub(self.start) / PAGE_SIZE;
        (frame < u64::from(self.count)).then(|| self.first + frame as u32)
    }

    pub(crate) fn phys(&self, index: u32) -> Option<u64> {
        let frame = index.checked_sub(self.first)?;
        (frame < self.count).then(|| self.start + u64::from(frame) * PAGE_SIZE)
    }

    /// Returns the physical addresses of the frames of this range that have these indices.
    pub(crate) fn within(&self, numbers: &Range<u32>) -> Range<u64> {
        let end = self.first + self.count;
        let first = numbers.start.clamp(self.first, end) - self.first;
        let last = numbers.end.clamp(self.first, end) - self.first;
        let phys = |frame: u32| self.start + u64::from(frame) * PAGE_SIZE;
        phys(first)..phys(last)
    }
}

/// Returns the number of bytes that `count` ranges take in given memory, at any alignment.
pub(crate) const fn size_of(count: usize) -> usize {
    (count + 1) * core::mem::size_of::<FrameRange>()
}

/// Writes the ranges other than the largest into static memory.
pub(crate) fn place(
    ranges: &[Range<u64>],
    group: u64,
    count: usize,
    memory: &'static mut [MaybeUninit<u8>],
) -> Result<&'static [FrameRange], Error> {
    // SAFETY: `MaybeUninit` accepts bytes of any content.
    let (_, places, _) = unsafe { memory.align_to_mut::<MaybeUninit<FrameRange>>() };
    let places = places.get_mut(..count).ok_or(Error::NoMemory)?;
    let mut left = places.iter_mut();
    Numbering::new(ranges, group, |piece| {
        if let Some(place) = left.next() {
            place.write(piece);
        }
    })?;
    let first = NonNull::from(places).cast::<FrameRange>();
    // SAFETY: the ranges were counted from the same input, and all of them have been written.
    Ok(unsafe { slice::from_raw_parts(first.as_ptr(), count) })
}

/// The numbering of frames.
#[derive(Clone, Debug)]
pub(crate) struct Numbering {
    /// The largest range.
    pub(crate) main: Range<u64>,
    /// The number of other ranges.
    pub(crate) others: usize,
    /// The number of indices, including those between ranges.
    pub(crate) numbers: usize,
    pub(crate) frames: u64,
}

impl Numbering {
    /// Numbers the frames of ascending ranges of physical addresses, so that positions agree modulo
    /// `group`. Calls `each` for the ranges other than the largest.
    ///
    /// # Errors
    ///
    /// [`Error::Misaligned`] if a range does not consist of pages, or begins before the previous
    /// one ends. [`Error::TooMany`] if there is no frame, or if there are too many.
    pub(crate) fn new(
        ranges: &[Range<u64>],
        group: u64,
        mut each: impl FnMut(FrameRange),
    ) -> Result<Self, Error> {
        let mut before = 0;
        for range in ranges.iter().filter(|range| !range.is_empty()) {
            let aligned = (range.start | range.end).is_multiple_of(PAGE_SIZE);
            if !aligned || range.start < before {
                return Err(Error::Misaligned);
            }
            before = range.end;
        }
        let frames_of = |range: &Range<u64>| (range.end - range.start) / PAGE_SIZE;
        // The lowest of several largest ranges.
        let main = Joined(ranges).reduce(|largest, range| {
            if frames_of(&range) > frames_of(&largest) {
                range
            } else {
                largest
            }
        });
        let main = main.ok_or(Error::TooMany)?;
        let skew = main.start / PAGE_SIZE % group;
        let (mut next, mut frames, mut others) = (frames_of(&main), frames_of(&main), 0);
        for range in Joined(ranges).filter(|range| *range != main) {
            let place = range.start / PAGE_SIZE % group;
            let first = next + 1;
            let first = first + (place + group - (first + skew) % group) % group;
            let count = frames_of(&range);
            next = first + count;
            if next >= u64::from(NO_FRAME) {
                return Err(Error::TooMany);
            }
            each(FrameRange {
                start: range.start,
                count: count as u32,
                first: first as u32,
            });
            others += 1;
            frames += count;
        }
        if next >= u64::from(NO_FRAME) {
            return Err(Error::TooMany);
        }
        Ok(Self {
            main,
            others,
            numbers: next as usize,
            frames,
        })
    }

    /// Returns the number of pageblocks that the indices lie in.
    pub(crate) fn pageblocks(&self) -> usize {
        let skew = (self.main.start / PAGE_SIZE % PAGEBLOCK) as usize;
        (skew + self.numbers).div_ceil(PAGEBLOCK as usize)
    }
}

/// The ascending ranges, with adjacent ones merged.
struct Joined<'a>(&'a [Range<u64>]);

impl Iterator for Joined<'_> {
    type Item = Range<u64>;

    fn next(&mut self) -> Option<Range<u64>> {
        let mut joined = 0..0;
        while let Some((range, rest)) = self.0.split_first() {
            if !range.is_empty() {
                if joined.is_empty() {
                    joined = range.clone();
                } else if range.start == joined.end {
                    joined.end = range.end;
                } else {
                    break;
                }
            }
            self.0 = rest;
        }
        (!joined.is_empty()).then_some(joined)
    }
}

//! Where frames are: ranges of physical memory, numbered without the holes between them.
//!
//! The largest range has the numbers from 0 on, so that nearly all look-ups take one subtraction and one comparison, as if there were no other. The others follow. A
//! frame's number and its place in physical memory are the same within a group, of 2 MiB or 1 GiB (after a skew that is one for all), and numbers of two ranges never
//! follow each other: no run of numbers crosses a hole.

use core::mem::MaybeUninit;
use core::ops::Range;
use core::ptr::NonNull;
use core::slice;

use crate::entry::PAGE_SIZE;
use crate::error::Error;
use crate::frames::NO_FRAME;

/// Frames of a piece of 2 MiB.
pub(crate) const PAGEBLOCK: u64 = 512;

/// A range of frames other than the largest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameRange {
    start: u64,
    count: u32,
    /// The number of its first frame.
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

    /// The physical addresses of those frames that have these numbers.
    pub(crate) fn within(&self, numbers: &Range<u32>) -> Range<u64> {
        let end = self.first + self.count;
        let first = numbers.start.clamp(self.first, end) - self.first;
        let last = numbers.end.clamp(self.first, end) - self.first;
        let phys = |frame: u32| self.start + u64::from(frame) * PAGE_SIZE;
        phys(first)..phys(last)
    }
}

/// Bytes that so many take of memory that is given, wherever it begins.
pub(crate) const fn size_of(count: usize) -> usize {
    (count + 1) * core::mem::size_of::<FrameRange>()
}

/// Writes down the ranges other than the largest in memory that stays.
pub(crate) fn place(
    ranges: &[Range<u64>],
    group: u64,
    count: usize,
    memory: &'static mut [MaybeUninit<u8>],
) -> Result<&'static [FrameRange], Error> {
    // SAFETY: bytes that may have any content are as good as places for pieces of which nothing is known.
    let (_, places, _) = unsafe { memory.align_to_mut::<MaybeUninit<FrameRange>>() };
    let places = places.get_mut(..count).ok_or(Error::NoMemory)?;
    let mut left = places.iter_mut();
    Numbering::new(ranges, group, |piece| {
        if let Some(place) = left.next() {
            place.write(piece);
        }
    })?;
    let first = NonNull::from(places).cast::<FrameRange>();
    // SAFETY: there are as many pieces as were counted from the same ranges, and all have been written.
    Ok(unsafe { slice::from_raw_parts(first.as_ptr(), count) })
}

/// How frames are numbered.
#[derive(Clone, Debug)]
pub(crate) struct Numbering {
    /// The largest range.
    pub(crate) main: Range<u64>,
    /// How many other ranges there are.
    pub(crate) others: usize,
    /// How many numbers, those that are no frame's included.
    pub(crate) numbers: usize,
    pub(crate) frames: u64,
}

impl Numbering {
    /// Numbers the frames of ranges of physical addresses, which ascend, so that places are the same modulo `group`; `each` is given those other than the largest.
    ///
    /// # Errors
    /// [`Error::Misaligned`]: a range does not consist of pages, or begins before the one before ends. [`Error::TooMany`]: no frame, or too many.
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
        // Of those that are as large, the lowest.
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

    /// How many pieces of 2 MiB, counted from physical address 0, the numbers lie in.
    pub(crate) fn pageblocks(&self) -> usize {
        let skew = (self.main.start / PAGE_SIZE % PAGEBLOCK) as usize;
        (skew + self.numbers).div_ceil(PAGEBLOCK as usize)
    }
}

/// Ranges that ascend, those that touch joined.
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

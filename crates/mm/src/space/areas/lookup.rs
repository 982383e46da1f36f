//! What lies in a range and directly beside it, found in one walk, with the place in the tree from which a change goes on.

use crate::flags::VmFlags;
use crate::space::areas::{Areas, Seat, area};
use crate::space::counts::{Class, Tally};
use crate::space::vma::Area;
use crate::space::vma_box::VmaBox;

/// A range that may be changed, as a look at these areas, and no others, has found it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    /// First address.
    pub(crate) start: u64,
    /// First address beyond.
    pub(crate) end: u64,
    /// All areas in it.
    pub(crate) over: Overlap,
    /// Where it begins in the tree,
    seat: Option<Seat>,
    /// after how many changes.
    changes: u64,
}

impl Span {
    /// A range at which nobody has looked.
    #[inline(always)]
    pub(crate) fn new(start: u64, end: u64) -> Self {
        Span {
            start,
            end,
            over: Overlap::default(),
            seat: None,
            changes: 0,
        }
    }
}

/// The areas in a range and beside it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Neighbours<'a> {
    /// The area that begins below the range and ends where it begins, or in it, or above it.
    pub(crate) lower: Option<Area<'a>>,
    /// The first area in the range.
    pub(crate) first: Option<Area<'a>>,
    /// The area that ends above the range and begins in it, or where it ends; after [`Areas::neighbours_and_above`] it may also begin above.
    pub(crate) upper: Option<Area<'a>>,
}

/// What a change of a range replaces.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Overlap {
    /// The pages in the range.
    pub(crate) pages: Tally,
    /// Areas that intersect it.
    pub(crate) areas: u32,
    /// Pieces of them that lie outside of it: of one area around both ends, two.
    pub(crate) kept: u32,
    /// How many areas come before the first one that is sealed.
    pub(crate) sealed: Option<u32>,
    /// Of the pieces outside, those of areas that may not be cut there: below the range, and above it.
    pub(crate) unsplittable: (bool, bool),
}

impl Overlap {
    #[inline(always)]
    fn add(&mut self, area: &Area<'_>, start: u64, end: u64) {
        let (low, high) = (area.start.max(start), area.end.min(end));
        let flags = area.vma.flags;
        self.pages.add(Class::of(flags), (high - low) >> 12);
        // What may not be cut is never without the second.
        if flags.intersects(VmFlags::SEALED | VmFlags::DONTEXPAND) {
            self.before_change(area, start, end);
        }
        self.areas += 1;
        self.kept += u32::from(area.start < start) + u32::from(area.end > end);
    }

    #[cold]
    fn before_change(&mut self, area: &Area<'_>, start: u64, end: u64) {
        if area.vma.flags.contains(VmFlags::SEALED) {
            self.sealed = self.sealed.or(Some(self.areas));
        }
        let split_alignment = area.vma.split_alignment();
        let may_be_cut = |address: u64| {
            split_alignment.is_some_and(|split_alignment| address.is_multiple_of(split_alignment))
        };
        self.unsplittable.0 |= area.start < start && !may_be_cut(start);
        self.unsplittable.1 |= area.end > end && !may_be_cut(end);
    }

    /// Whether what is to be cut at an end of the range may not be.
    pub(crate) fn splits_unsplittable(&self) -> bool {
        self.unsplittable.0 || self.unsplittable.1
    }

    /// How many areas lie within the range.
    pub(crate) fn covered(&self) -> usize {
        self.areas.saturating_sub(self.kept) as usize
    }

    /// One area reaches out on both sides: it becomes two.
    pub(crate) fn is_divided(&self) -> bool {
        self.areas == 1 && self.kept == 2
    }
}

impl Areas {
    /// What lies in a range and directly beside it, in one walk. O(log n) and the areas in it.
    #[inline]
    pub(crate) fn neighbours(&self, span: &mut Span) -> Neighbours<'_> {
        self.scan::<false, false>(span)
    }

    /// As [`neighbours`](Self::neighbours), and further up if nothing lies in the range.
    #[inline]
    pub(crate) fn neighbours_and_above(&self, span: &mut Span) -> Neighbours<'_> {
        self.scan::<false, true>(span)
    }

    /// As [`neighbours`](Self::neighbours), at the part of the range that lies in the first area there, to which it is cut down.
    #[inline]
    pub(crate) fn neighbours_of_part(&self, span: &mut Span) -> Neighbours<'_> {
        self.scan::<true, false>(span)
    }

    /// All that is found is written to where it stays at once: there is more of it than registers.
    #[inline(always)]
    fn scan<const PART: bool, const AHEAD: bool>(&self, span: &mut Span) -> Neighbours<'_> {
        let mut neighbours = Neighbours::default();
        let (start, mut end) = (span.start, span.end);
        let Some(look) = self.scan_from(start) else {
            return neighbours;
        };
        span.seat = Some(look.seat());
        span.changes = self.changes;
        if *look.here().0.start() == start
            && let Some((range, Some(vma))) = look.before()
        {
            neighbours.lower = Some(area((range, vma)));
        }
        for (range, vma) in look {
            let Some(vma) = vma else {
                if *range.end() >= end && !AHEAD {
                    break;
                }
                continue;
            };
            let area = area((range, vma));
            if area.start < end {
                if neighbours.first.is_none() {
                    neighbours.first = Some(area);
                    if PART {
                        if start < area.start {
                            span.start = area.start;
                            // It was looked at where there is nothing.
                            span.seat = None;
                            neighbours.lower = None;
                        }
                        end = end.min(area.end);
                        span.end = end;
                    }
                    if area.start < start {
                        neighbours.lower = Some(area);
                    }
                }
                let start = if PART { span.start } else { start };
                span.over.add(&area, start, end);
            }
            if area.end > end {
                neighbours.upper = Some(area);
                break;
            }
        }
        neighbours
    }

    /// What a removal of a range concerns, in one walk. O(log n) and the areas in it.
    #[inline]
    pub(crate) fn overlap(&self, span: &mut Span) {
        let (start, end) = (span.start, span.end);
        let Some(look) = self.scan_from(start) else {
            return;
        };
        span.seat = Some(look.seat());
        span.changes = self.changes;
        for (range, vma) in look {
            if *range.start() >= end {
                break;
            }
            let last = *range.end();
            if let Some(vma) = vma {
                span.over.add(&area((range, vma)), start, end);
            }
            if last >= end - 1 {
                break;
            }
        }
    }

    /// Areas and holes from `address` on. `None` in an empty tree.
    #[inline(always)]
    fn scan_from(&self, address: u64) -> Option<maple_tree::Look<'_, u64, VmaBox>> {
        // SAFETY: `near` is forgotten by all changes but those that went on from it.
        unsafe { self.writer().look(self.last_seat.as_ref(), address) }
    }

    /// The seat of a span, if the tree has not been changed since.
    #[inline(always)]
    pub(super) fn valid_seat<'s>(&self, span: &'s Span) -> Option<&'s Seat> {
        span.seat.as_ref().filter(|_| span.changes == self.changes)
    }
}

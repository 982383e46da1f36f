//! Look-up of the VMAs in a range and next to it, in one walk. The position in the tree is kept for
//! the change that follows.

use crate::flags::VmFlags;
use crate::space::areas::{Areas, Hint, area};
use crate::space::counts::{Class, Tally};
use crate::vma::Area;
use crate::vma::vma_box::VmaBox;

/// A range that may be changed, with what a look-up has found in it. It is valid only for the
/// [`Areas`] that it comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    /// First address.
    pub(crate) start: u64,
    /// First address beyond.
    pub(crate) end: u64,
    /// The VMAs in it.
    pub(crate) over: Overlap,
    /// Its position in the tree,
    hint: Option<Hint>,
    /// and the number of changes of the tree at the look-up.
    changes: u64,
}

impl Span {
    /// Returns a range that has not been looked up.
    #[inline(always)]
    pub(crate) fn new(start: u64, end: u64) -> Self {
        Span {
            start,
            end,
            over: Overlap::default(),
            hint: None,
            changes: 0,
        }
    }
}

/// The VMAs in a range and next to it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Neighbours<'a> {
    /// The VMA that begins below the range and ends where the range begins, or later.
    pub(crate) lower: Option<Area<'a>>,
    /// The first VMA in the range.
    pub(crate) first: Option<Area<'a>>,
    /// The VMA that ends above the range and begins in it or where it ends. After
    /// [`Areas::neighbours_and_above`] it may begin further up.
    pub(crate) upper: Option<Area<'a>>,
}

/// The VMAs that a change of a range replaces.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Overlap {
    /// The pages in the range.
    pub(crate) pages: Tally,
    /// The number of VMAs that intersect it.
    pub(crate) areas: u32,
    /// The number of their pieces outside the range. A VMA around the range has two.
    pub(crate) kept: u32,
    /// The number of VMAs before the first one that is sealed.
    pub(crate) sealed: Option<u32>,
    /// A split at the start of the range, and one at its end, that the VMA there does not allow.
    pub(crate) unsplittable: (bool, bool),
}

impl Overlap {
    #[inline(always)]
    fn add(&mut self, area: &Area<'_>, start: u64, end: u64) {
        let (low, high) = (area.start.max(start), area.end.min(end));
        let flags = area.vma.flags;
        self.pages.add(Class::of(flags), (high - low) >> 12);
        // VMAs that must not be split always have the second flag.
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

    /// Returns `true` if a VMA would be split at an end of the range that does not allow it.
    pub(crate) fn splits_unsplittable(&self) -> bool {
        self.unsplittable.0 || self.unsplittable.1
    }

    /// Returns the number of VMAs that lie within the range.
    pub(crate) fn covered(&self) -> usize {
        self.areas.saturating_sub(self.kept) as usize
    }

    /// Returns `true` if one VMA reaches beyond both ends: the change divides it into two.
    pub(crate) fn is_divided(&self) -> bool {
        self.areas == 1 && self.kept == 2
    }
}

impl Areas {
    /// Returns the VMAs in a range and next to it, in one walk. O(log n + VMAs in the range).
    #[inline]
    pub(crate) fn neighbours(&self, span: &mut Span) -> Neighbours<'_> {
        self.scan::<false, false>(span)
    }

    /// As [`neighbours`](Self::neighbours), but looks further up if nothing lies in the range.
    #[inline]
    pub(crate) fn neighbours_and_above(&self, span: &mut Span) -> Neighbours<'_> {
        self.scan::<false, true>(span)
    }

    /// As [`neighbours`](Self::neighbours), for the part of the range in its first VMA. Trims the
    /// range to that part.
    #[inline]
    pub(crate) fn neighbours_of_part(&self, span: &mut Span) -> Neighbours<'_> {
        self.scan::<true, false>(span)
    }

    /// Walks the VMAs of the range. Always inlined, so that results go to their final place: there
    /// are more of them than registers.
    #[inline(always)]
    fn scan<const PART: bool, const AHEAD: bool>(&self, span: &mut Span) -> Neighbours<'_> {
        let mut neighbours = Neighbours::default();
        let (start, mut end) = (span.start, span.end);
        let Some(look) = self.scan_from(start) else {
            return neighbours;
        };
        span.hint = Some(look.hint());
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
                            // The position is in the hole below.
                            span.hint = None;
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

    /// Looks up what a removal of a range concerns, in one walk. O(log n + VMAs in the range).
    #[inline]
    pub(crate) fn overlap(&self, span: &mut Span) {
        let (start, end) = (span.start, span.end);
        let Some(look) = self.scan_from(start) else {
            return;
        };
        span.hint = Some(look.hint());
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

    /// Returns VMAs and holes from `address`, and `None` in an empty tree.
    #[inline(always)]
    fn scan_from(&self, address: u64) -> Option<maple_tree::Look<'_, u64, VmaBox>> {
        // SAFETY: every change forgets `last_hint`, except one that started from it and keeps it
        // valid.
        unsafe { self.writer().look(self.last_hint.as_ref(), address) }
    }

    /// Returns the position of a span if the tree has not changed since.
    #[inline(always)]
    pub(super) fn valid_hint<'s>(&self, span: &'s Span) -> Option<&'s Hint> {
        span.hint.as_ref().filter(|_| span.changes == self.changes)
    }
}

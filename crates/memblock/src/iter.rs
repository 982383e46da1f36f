//! Iterators over ranges of memory, in bytes: over one array, or over the parts of it that another
//! array does not cover.

use core::iter::FusedIterator;
use core::ops::Range;

use crate::cursor::{Cursor, Filter, Span};
use crate::map::PhysMap;
use crate::memblock::{Kind, Memblock};
use crate::region::{Flags, NodeId, Region};

/// An iterator over ranges in bytes, lowest first, or highest first with [`rev`](Iterator::rev).
///
/// [`Memblock::mem_ranges`], [`Memblock::free_ranges`] and [`Memblock::ranges`] return it. Ranges
/// are half-open, not empty, sorted, and do not overlap. Iterating over all of them takes O(regions
/// of both arrays).
#[derive(Clone, Debug)]
pub struct Spans<'a> {
    a: &'a [Region],
    b: Option<&'a [Region]>,
    filter: Filter,
    /// The position of each end, once it has moved. An end that is not used is not searched for.
    front: Option<Cursor>,
    back: Option<Cursor>,
    /// The range that neither end has passed yet.
    left: Range<u64>,
}

impl<'a> Spans<'a> {
    /// Iterates over the parts of the regions `a` that pass the filter and that no region of `b`
    /// covers. Without `b`, over each such region of `a`.
    ///
    /// Both must be sorted and without overlaps, as the arrays of a [`Memblock`] are. Otherwise the
    /// ranges are meaningless, but safe.
    ///
    /// ```
    /// use samara_memblock::{Filter, Region, Spans};
    ///
    /// let region = |base, size| Region { base, size, ..Region::EMPTY };
    /// let flash = [region(0x1000, 0x8000)];
    /// let worn = [region(0x2000, 0x100), region(0x4000, 0x5000)];
    /// let good = Spans::new(&flash, Some(&worn), Filter::ALL);
    /// assert!(good.map(|s| s.start..s.end).eq([0x1000..0x2000, 0x2100..0x4000]));
    /// ```
    #[must_use]
    pub const fn new(a: &'a [Region], b: Option<&'a [Region]>, filter: Filter) -> Self {
        Spans {
            a,
            b,
            filter,
            front: None,
            back: None,
            left: 0..u64::MAX,
        }
    }

    /// Limits the iterator to `range`. Ranges that cross its ends are trimmed. The first step from
    /// either end takes O(log n).
    ///
    /// An empty or reversed range leaves nothing. What the iterator has passed already does not
    /// come back.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add(0x1000, 0x4000)?;
    /// boot.add(0x8000, 0x4000)?;
    /// let low = boot.mem_ranges(NodeId::NONE, Flags::NONE).within(0x3000..0x9000);
    /// assert!(low.map(|s| s.start..s.end).eq([0x3000..0x5000, 0x8000..0x9000]));
    /// # Ok::<(), Error>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn within(mut self, range: Range<u64>) -> Self {
        self.left = range.start.max(self.left.start)..range.end.min(self.left.end);
        (self.front, self.back) = (None, None);
        self
    }
}

impl Iterator for Spans<'_> {
    type Item = Span;

    #[inline]
    fn next(&mut self) -> Option<Span> {
        let (a, b) = (self.a, self.b);
        let from = || Cursor::upwards_from(a, b.unwrap_or(&[]), self.left.start);
        let span = self
            .front
            .get_or_insert_with(from)
            .next(a, b, &self.filter)?;
        let (start, end) = (span.start.max(self.left.start), span.end.min(self.left.end));
        if start >= end {
            self.a = &[];
            return None;
        }
        self.left.start = end;
        Some(Span { start, end, ..span })
    }
}

impl DoubleEndedIterator for Spans<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Span> {
        let (a, b) = (self.a, self.b);
        let from = || Cursor::downwards_from(a, b.unwrap_or(&[]), self.left.end);
        let span = self
            .back
            .get_or_insert_with(from)
            .next_back(a, b, &self.filter)?;
        let (start, end) = (span.start.max(self.left.start), span.end.min(self.left.end));
        if start >= end {
            self.a = &[];
            return None;
        }
        self.left.end = start;
        Some(Span { start, end, ..span })
    }
}

impl FusedIterator for Spans<'_> {}

impl<M: PhysMap> Memblock<'_, M> {
    /// Returns the filter for walks over memory: of a node (any, for [`NodeId::NONE`]) and with
    /// `flags` as in [`Filter::flags`].
    #[must_use]
    pub fn filter(&self, nid: NodeId, flags: Flags) -> Filter {
        Filter {
            nid: nid.canonical(),
            flags,
            movable_node: self.movable_node,
        }
    }

    /// Iterates over the memory of a node (of all, for [`NodeId::NONE`]), region by region. Linux's
    /// `for_each_mem_range`.
    ///
    /// `flags` has the meaning of [`Filter::flags`]: memory that must not be mapped or that a
    /// driver manages is skipped unless they include it.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add_node(0x1000, 0x1000, NodeId(0), Flags::NONE)?;
    /// boot.add_node(0x2000, 0x1000, NodeId(1), Flags::NONE)?;
    /// boot.add_node(0x3000, 0x1000, NodeId(1), Flags::NOMAP)?;
    /// let starts = |nid, flags| boot.mem_ranges(nid, flags).map(|s| s.start);
    /// assert!(starts(NodeId::NONE, Flags::NONE).eq([0x1000, 0x2000]));
    /// assert!(starts(NodeId(1), Flags::NOMAP).eq([0x2000, 0x3000]));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn mem_ranges(&self, nid: NodeId, flags: Flags) -> Spans<'_> {
        Spans::new(self.memory(), None, self.filter(nid, flags))
    }

    /// Iterates over memory that is not reserved: of a node (of all, for [`NodeId::NONE`]), with
    /// `flags` as in [`Filter::flags`]. Linux's `for_each_free_mem_range`.
    ///
    /// Reserved regions divide a region of memory into several ranges.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add(0x1000, 0x4000)?;
    /// boot.reserve(0x2000, 0x1000)?;
    /// let free = boot.free_ranges(NodeId::NONE, Flags::NONE);
    /// assert!(free.rev().map(|s| s.start..s.end).eq([0x3000..0x5000, 0x1000..0x2000]));
    /// # Ok::<(), Error>(())
    /// ```
    #[inline]
    pub fn free_ranges(&self, nid: NodeId, flags: Flags) -> Spans<'_> {
        Spans::new(
            self.memory(),
            Some(self.reserved()),
            self.filter(nid, flags),
        )
    }

    /// Iterates over the regions of one kind, or over the parts of them that the regions of another
    /// kind do not cover, with any flags and nodes.
    ///
    /// `ranges(Kind::Reserved, None)` is Linux's `for_each_reserved_mem_range`.
    /// `ranges(Kind::Physmem, Some(Kind::Reserved))` is its `for_each_physmem_range` over memory
    /// that is not reserved.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add(0x1000, 0x4000)?;
    /// boot.reserve(0x2000, 0x1000)?;
    /// boot.reserve(0x8000, 0x1000)?;
    /// // Reserved, but no memory: a device, perhaps.
    /// let odd = boot.ranges(Kind::Reserved, Some(Kind::Memory));
    /// assert!(odd.map(|s| s.start..s.end).eq([0x8000..0x9000]));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn ranges(&self, kind: Kind, without: Option<Kind>) -> Spans<'_> {
        let b = without.map(|kind| self.regions(kind).as_slice());
        Spans::new(self.regions(kind), b, Filter::ALL)
    }
}

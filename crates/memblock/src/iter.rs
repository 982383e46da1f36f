//! Iterators over memory, over what is free of it, and over page frames.

use core::iter::FusedIterator;

use crate::cursor::{Cursor, Filter, Span};
use crate::map::PhysMap;
use crate::memblock::{Memblock, PAGE_SIZE};
use crate::region::{Flags, NodeId, Region};

/// Pieces of memory, from either end: see [`Memblock::mem_ranges`] and [`Memblock::free_ranges`].
#[derive(Clone, Debug)]
pub struct Spans<'a> {
    a: &'a [Region],
    b: Option<&'a [Region]>,
    filter: Filter,
    front: Cursor,
    back: Cursor,
    /// What has been given from the front ends here, what has been given from the back begins there.
    low: u64,
    high: Option<u64>,
}

impl<'a> Spans<'a> {
    fn new(a: &'a [Region], b: Option<&'a [Region]>, filter: Filter) -> Self {
        Spans {
            a,
            b,
            filter,
            front: Cursor::bottom(),
            back: Cursor::top(a, b),
            low: 0,
            high: None,
        }
    }
}

impl Iterator for Spans<'_> {
    type Item = Span;

    fn next(&mut self) -> Option<Span> {
        let span = self.front.next(self.a, self.b, &self.filter)?;
        if self.high.is_some_and(|high| span.start >= high) {
            self.a = &[];
            return None;
        }
        self.low = span.end;
        Some(span)
    }
}

impl DoubleEndedIterator for Spans<'_> {
    fn next_back(&mut self) -> Option<Span> {
        let span = self.back.next_back(self.a, self.b, &self.filter)?;
        if span.end <= self.low {
            self.a = &[];
            return None;
        }
        self.high = Some(span.start);
        Some(span)
    }
}

impl FusedIterator for Spans<'_> {}

/// Ranges of whole page frames: see [`Memblock::pfn_ranges`].
#[derive(Clone, Debug)]
pub struct PfnRanges<'a> {
    regions: core::slice::Iter<'a, Region>,
    nid: NodeId,
}

impl PfnRanges<'_> {
    fn whole(&self, r: &Region) -> Option<Span> {
        let span = Span {
            start: r.base.div_ceil(PAGE_SIZE),
            end: r.end() / PAGE_SIZE,
            nid: r.nid,
        };
        (span.start < span.end && (!self.nid.is_valid() || self.nid == r.nid)).then_some(span)
    }
}

impl Iterator for PfnRanges<'_> {
    type Item = Span;

    fn next(&mut self) -> Option<Span> {
        loop {
            let r = self.regions.next()?;
            if let Some(span) = self.whole(r) {
                return Some(span);
            }
        }
    }
}

impl DoubleEndedIterator for PfnRanges<'_> {
    fn next_back(&mut self) -> Option<Span> {
        loop {
            let r = self.regions.next_back()?;
            if let Some(span) = self.whole(r) {
                return Some(span);
            }
        }
    }
}

impl FusedIterator for PfnRanges<'_> {}

impl<M: PhysMap> Memblock<'_, M> {
    /// The filter for walks over memory: of a node (any, for [`NodeId::NONE`]) and with `flags` as in [`Filter::flags`].
    #[must_use]
    pub fn filter(&self, nid: NodeId, flags: Flags) -> Filter {
        Filter {
            nid: nid.canonical(),
            flags,
            movable_node: self.movable_node,
        }
    }

    /// The memory of a node (of all, for [`NodeId::NONE`]), region by region. `flags` as in [`Filter::flags`].
    pub fn mem_ranges(&self, nid: NodeId, flags: Flags) -> Spans<'_> {
        Spans::new(self.memory(), None, self.filter(nid, flags))
    }

    /// The memory that is not reserved. A region of memory comes in as many pieces as reserved regions leave of it.
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
    pub fn free_ranges(&self, nid: NodeId, flags: Flags) -> Spans<'_> {
        Spans::new(
            self.memory(),
            Some(self.reserved()),
            self.filter(nid, flags),
        )
    }

    /// The physical memory that is not reserved.
    pub fn free_physmem_ranges(&self) -> Spans<'_> {
        Spans::new(self.physmem(), Some(self.reserved()), Filter::ALL)
    }

    /// The memory of a node (of all, for [`NodeId::NONE`]) in whole page frames: numbers, not addresses. Regions that hold no
    /// whole frame are left out.
    pub fn pfn_ranges(&self, nid: NodeId) -> PfnRanges<'_> {
        PfnRanges {
            regions: self.memory().iter(),
            nid: nid.canonical(),
        }
    }
}

//! The page walk: VMAs, holes, pages and guards, in ascending order. All observers of pages use it.

use core::fmt;
use core::ops::{ControlFlow, Range};

use samara_paging::{Entry, PAGE_SIZE, PageInfo};

use crate::process::{Platform, Process, Swapped};
use crate::space::AddressSpace;
use crate::vma::Area;

/// An item of a [walk](Process::walk).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Seen<'a> {
    /// Addresses without a mapping.
    Hole(Range<u64>),
    /// A VMA as a whole, also if it reaches beyond the walked range.
    /// [`MapsLine::of`](crate::MapsLine::of) makes its line. Its pages follow.
    Area(Area<'a>),
    /// A page of 4 KiB, by its first address. A huge page comes part by part.
    Page(u64, PageInfo),
    /// A page in swap.
    Swapped(u64, Swapped),
    /// A page that faults whatever its VMA permits (`MADV_GUARD_INSTALL`).
    Guard(u64),
}

impl<P: Platform> Process<P> {
    /// Calls `visit` with the items in a range of addresses, in ascending order, until it breaks.
    ///
    /// Calls wait until it returns, and `visit` must not make one. Faults do not wait, and pages that they
    /// map or replace are visited or not. Absent pages are skipped. O(VMAs and present pages).
    ///
    /// ```
    /// # use core::ops::ControlFlow;
    /// # use samara_mm::process::{Machine, Platform, Process};
    /// # use samara_mm::{Config, Errno, Layout, Limits, MmapOptions, Prot, abi::MapFlags};
    /// use samara_mm::observe::Seen;
    ///
    /// # fn pages<P: Platform>(machine: &Machine<P>) -> Result<(), Errno> {
    /// let process = Process::new(machine, Config::default(), Limits::default(), Layout::default())?;
    /// let memory = MmapOptions::anonymous(0x4000).prot(Prot::READ | Prot::WRITE);
    /// let start = process.mmap(&memory.flags(MapFlags::POPULATE))?;
    /// let (mut holes, mut pages) = (0, 0);
    /// let _ = process.walk(start - 0x1000..start + 0x4000, |seen| {
    ///     match seen {
    ///         Seen::Hole(range) => holes += range.end - range.start,
    ///         Seen::Page(..) => pages += 1,
    ///         _ => {}
    ///     }
    ///     ControlFlow::Continue(())
    /// });
    /// assert_eq!((holes, pages), (0x1000, 4));
    /// # Ok(())
    /// # }
    /// ```
    pub fn walk(
        &self,
        range: Range<u64>,
        visit: impl FnMut(Seen<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let space = self.mm.space.read();
        self.walk_in(&space, range, visit)
    }

    /// Does the same with the map locked.
    ///
    /// Preconditions: the caller holds the lock of the address space.
    pub(crate) fn walk_in<'s>(
        &self,
        space: &'s AddressSpace,
        range: Range<u64>,
        mut visit: impl FnMut(Seen<'s>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if range.is_empty() {
            return ControlFlow::Continue(());
        }
        let tables = &self.mm.tables;
        let mut areas = space.areas.in_range(range.clone());
        // Everything below was visited, except the pages of the VMA that ends here.
        let mut at = range.start;
        let mut pass = |to: u64, visit: &mut dyn FnMut(Seen<'s>) -> ControlFlow<()>| {
            while at <= to
                && let Some(area) = areas.next()
            {
                if area.start > at {
                    visit(Seen::Hole(at..area.start))?;
                }
                visit(Seen::Area(area))?;
                at = area.end;
            }
            ControlFlow::Continue(at)
        };
        tables.walk_until(range.clone(), |addr, entry| match entry {
            Entry::Page { size, .. } => {
                let end = range.end.min(addr + size.bytes());
                let mut page = range.start.max(addr);
                while page < end {
                    pass(page, &mut visit)?;
                    if let Some(info) = tables.page(page) {
                        visit(Seen::Page(page, info))?;
                    }
                    page += PAGE_SIZE;
                }
                ControlFlow::Continue(())
            }
            Entry::Marker(marker) => {
                pass(addr, &mut visit)?;
                visit(Swapped::of(marker).map_or(Seen::Guard(addr), |out| Seen::Swapped(addr, out)))
            }
            Entry::Empty => ControlFlow::Continue(()),
        })?;
        let ControlFlow::Continue(at) = pass(range.end, &mut visit) else {
            return ControlFlow::Break(());
        };
        if at < range.end {
            visit(Seen::Hole(at..range.end))?;
        }
        ControlFlow::Continue(())
    }

    /// Writes a text for each VMA, in ascending order, with `end` after each. `begin` creates it,
    /// and `add` adds each item of the VMA.
    pub(crate) fn write_areas<'s, T: fmt::Display>(
        &self,
        space: &'s AddressSpace,
        out: &mut dyn fmt::Write,
        end: &str,
        mut begin: impl FnMut(Area<'s>) -> T,
        mut add: impl FnMut(&mut T, Seen<'s>),
    ) -> fmt::Result {
        let mut current: Option<T> = None;
        let mut result = Ok(());
        let _ = self.walk_in(space, 0..space.config.task_size, |seen| {
            match (seen, &mut current) {
                (Seen::Area(area), _) => {
                    if let Some(done) = current.replace(begin(area)) {
                        result = write!(out, "{done}{end}");
                    }
                }
                (seen, Some(current)) => add(current, seen),
                _ => {}
            }
            match result {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        });
        result?;
        match current {
            Some(last) => write!(out, "{last}{end}"),
            None => Ok(()),
        }
    }
}

//! Areas, holes, pages and guards, in the order of their addresses: one walk for all that look at pages.

use core::fmt;
use core::ops::{ControlFlow, Range};

use samara_paging::{Entry, PAGE_SIZE, PageInfo};

use crate::process::{Platform, Process, Swapped};
use crate::space::AddressSpace;
use crate::space::vma::Area;

/// What a [walk](Process::walk) meets.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Seen<'a> {
    /// Addresses where nothing is mapped.
    Hole(Range<u64>),
    /// An area, all of it, also where it reaches beyond what is walked; [`MapsLine::of`](crate::MapsLine::of) makes its line. Its pages follow.
    Area(Area<'a>),
    /// A page of 4 KiB at its first address; of a huge page, one part after the other.
    Page(u64, PageInfo),
    /// A page that is in swap.
    Swapped(u64, Swapped),
    /// A page that faults whatever its area allows (`MADV_GUARD_INSTALL`).
    Guard(u64),
}

impl<P: Platform> Process<P> {
    /// Calls `visit` for what is in a range of addresses, upwards, until it breaks. Calls wait meanwhile, and `visit` must not make one; faults do not
    /// wait, and what comes or goes by them is seen or not. Pages that are not in memory are passed over. O(areas and pages in memory).
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

    /// The same with the map locked.
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
        // What is before it has been visited, but for pages of the area that it is the end of.
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

    /// Writes a text of each area, upwards, `end` after each: `begin` makes it, and `add` adds what is seen in the area.
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

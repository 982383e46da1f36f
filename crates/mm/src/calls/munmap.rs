//! `munmap(2)`.

use crate::errno::Errno;
use crate::flags::{PAGE_SIZE, page_align};
use crate::pages::{MappedRanges, Pages, PrepareOp};
use crate::space::AddressSpace;
use crate::space::areas::{Overlap, Span};

impl AddressSpace {
    // In line where calls are dispatched: the two have one frame.
    #[inline(always)]
    pub(crate) fn do_munmap<P: Pages + ?Sized>(
        &mut self,
        addr: u64,
        len: u64,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        self.munmap_with::<P, false>(addr, len, pages)
    }

    /// As a call of `munmap`, where the owner of the pages has been told that it is coming.
    pub(crate) fn munmap_prepared<P: Pages + ?Sized>(
        &mut self,
        addr: u64,
        len: u64,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        self.munmap_with::<P, true>(addr, len, pages)
    }

    #[inline(always)]
    fn munmap_with<P: Pages + ?Sized, const PREPARED: bool>(
        &mut self,
        addr: u64,
        len: u64,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        let task_size = self.config.task_size;
        if !addr.is_multiple_of(PAGE_SIZE) || addr > task_size || len > task_size - addr {
            return Err(Errno::EINVAL);
        }
        let len = page_align(len);
        if len == 0 {
            return Err(Errno::EINVAL);
        }
        let mut span = Span::new(addr, addr + len);
        self.areas.overlap(&mut span);
        self.remove_range::<P, PREPARED>(&span, pages)?;
        Ok(0)
    }

    /// Removes whatever is in `[start, end)`.
    ///
    /// # Errors
    /// As [`check_unmap`](Self::check_unmap), and `ENOMEM` when an allocation fails; the map is then unchanged.
    pub(crate) fn unmap<P: Pages + ?Sized>(
        &mut self,
        start: u64,
        end: u64,
        pages: &mut P,
    ) -> Result<(), Errno> {
        let mut span = Span::new(start, end);
        self.areas.overlap(&mut span);
        self.unmap_span(&span, pages)
    }

    /// As [`unmap`](Self::unmap), of what was found there.
    pub(crate) fn unmap_span<P: Pages + ?Sized>(
        &mut self,
        span: &Span,
        pages: &mut P,
    ) -> Result<(), Errno> {
        self.remove_range::<P, false>(span, pages)
    }

    #[inline(always)]
    fn remove_range<P: Pages + ?Sized, const PREPARED: bool>(
        &mut self,
        span: &Span,
        pages: &mut P,
    ) -> Result<(), Errno> {
        let (start, end, over) = (span.start, span.end, &span.over);
        self.check_unmap(start, over, pages)?;
        let gone = MappedRanges::of(pages, &self.areas, (start, end), over)?;
        if over.areas > 0 && !PREPARED {
            // The owner is told of no address below the base of a confined range.
            let start = start.max(self.config.task_base);
            self.prepare(pages, PrepareOp::Unmap { start, end })?;
        }
        self.counters.splits += u64::from(over.is_divided());
        if self.guards.is_empty() {
            self.areas.clear(span)?;
        } else {
            self.clear_marked(span)?;
        }
        self.notify_unmap(pages, (start, end), &gone)
    }

    /// Removes the areas of a range, and what is marked in it.
    #[cold]
    #[inline(never)]
    fn clear_marked(&mut self, span: &Span) -> Result<(), Errno> {
        let guarded = self.prepare_unguard(span.start, span.end)?;
        self.areas.clear(span)?;
        if guarded {
            self.unguard(span.start, span.end);
        }
        Ok(())
    }

    /// Whether what is in a range from `start` on may be removed: nothing in it is sealed, and one more area is allowed if a hole
    /// appears in the middle of one.
    ///
    /// # Errors
    /// `ENOMEM` at the limit on the number of areas, `EPERM` if an area is sealed, `EINVAL` if one would be cut that may not be. If that is
    /// not the first one, the first has already been cut at `start` and stays so, as in Linux.
    #[inline(always)]
    pub(crate) fn check_unmap<P: Pages + ?Sized>(
        &mut self,
        start: u64,
        over: &Overlap,
        pages: &mut P,
    ) -> Result<(), Errno> {
        if over.is_divided() && self.at_map_limit() {
            return Err(self.keep_effects(Errno::ENOMEM));
        }
        match over.sealed.is_some() || over.splits_unsplittable() {
            true => self.check_kept(start, over, pages),
            false => Ok(()),
        }
    }

    /// As [`check_unmap`](Self::check_unmap), where something is sealed, or cut that may not be.
    #[cold]
    fn check_kept<P: Pages + ?Sized>(
        &mut self,
        start: u64,
        over: &Overlap,
        pages: &mut P,
    ) -> Result<(), Errno> {
        match over.sealed {
            Some(0) => return Err(Errno::EPERM),
            _ if over.unsplittable.0 => return Err(Errno::EINVAL),
            _ => self.split_and_keep(&[start], pages)?,
        }
        Err(match over.sealed {
            Some(_) => Errno::EPERM,
            None => Errno::EINVAL,
        })
    }

    /// Cuts at the ends of a range that was to be removed, and is not: as [`split_for_unmap`](Self::split_for_unmap), and the owner of the pages cuts what it has there.
    ///
    /// # Errors
    /// `ENOMEM`.
    #[cold]
    pub(crate) fn split_and_keep<P: Pages + ?Sized>(
        &mut self,
        ends: &[u64],
        pages: &mut P,
    ) -> Result<(), Errno> {
        for &at in ends {
            if self.areas.at(at).is_some_and(|area| area.start < at) {
                self.prepare(pages, PrepareOp::Split { at })?;
            }
        }
        for &at in ends {
            self.split_for_unmap(at)?;
        }
        Ok(())
    }

    /// Cuts at the end of a range to be removed, which is not subject to the limit.
    pub(crate) fn split_for_unmap(&mut self, address: u64) -> Result<(), Errno> {
        self.counters.splits += u64::from(self.areas.split(address)?);
        Ok(())
    }
}

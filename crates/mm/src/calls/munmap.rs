//! `munmap(2)`, from the call to the tree, and the removal of a range that other calls share.
//!
//! 1. [`munmap_with`](AddressSpace::munmap_with) checks the arguments and finds the VMAs.
//! 2. [`check_unmap`](AddressSpace::check_unmap): what is there may be removed.
//! 3. [`remove_range`](AddressSpace::remove_range): the owner of the pages prepares, the tree changes in one step, the owner is notified.
//!
//! Refused calls may leave a VMA split at the start of the range, as in Linux.

use crate::errno::Errno;
use crate::flags::{PAGE_SIZE, page_align};
use crate::pages::{Pages, PrepareOp};
use crate::space::AddressSpace;
use crate::space::areas::{Overlap, Span};
use crate::space::notify::MappedRanges;

impl AddressSpace {
    /// Performs `munmap`.
    ///
    /// # Errors
    /// `EINVAL` for the range, and as [`unmap`](Self::unmap).
    // Inlined into the dispatcher, so that the two share a stack frame.
    #[inline(always)]
    pub(crate) fn do_munmap<P: Pages + ?Sized>(
        &mut self,
        addr: u64,
        len: u64,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        self.munmap_with::<P, false>(addr, len, pages)
    }

    /// Performs `munmap` after the owner of the pages has prepared it.
    ///
    /// # Errors
    /// As [`do_munmap`](Self::do_munmap).
    pub(crate) fn munmap_prepared<P: Pages + ?Sized>(
        &mut self,
        addr: u64,
        len: u64,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        self.munmap_with::<P, true>(addr, len, pages)
    }

    /// Checks the arguments of `munmap`, and removes the range.
    ///
    /// # Errors
    /// As [`do_munmap`](Self::do_munmap).
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

    /// Unmaps whatever is in `[start, end)`.
    ///
    /// # Errors
    /// As [`check_unmap`](Self::check_unmap), those of the owner of the pages, and `ENOMEM` when an allocation fails; the map is unchanged in this last case.
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

    /// Unmaps what a look-up has found in a range.
    ///
    /// # Errors
    /// As [`unmap`](Self::unmap).
    pub(crate) fn unmap_span<P: Pages + ?Sized>(
        &mut self,
        span: &Span,
        pages: &mut P,
    ) -> Result<(), Errno> {
        self.remove_range::<P, false>(span, pages)
    }

    /// Removes what a look-up has found in a range. `PREPARED` says that the owner of the pages has prepared it.
    ///
    /// # Errors
    /// As [`unmap`](Self::unmap).
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
            // The owner sees no address below the base of a confined range.
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

    /// Removes the VMAs of a range, and its markers.
    ///
    /// # Errors
    /// `ENOMEM` when an allocation fails, and nothing has changed.
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

    /// Checks that what a look-up has found in a range from `start` may be removed.
    ///
    /// # Errors
    /// `ENOMEM` if the range lies within one VMA and the limit on their number allows no other. `EPERM` if a VMA is sealed, `EINVAL` if one would
    /// be split that must not be. If that is not the first VMA, the first has been split at `start` and stays so, as in Linux.
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

    /// Fails as [`check_unmap`](Self::check_unmap) does for a VMA that is sealed or must not be split.
    ///
    /// # Errors
    /// Always: `EPERM`, `EINVAL`, or those of the owner of the pages.
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

    /// Splits the VMAs at `ends`, those of a range that is not removed after all. The owner of the pages prepares that: none of its pages may reach across.
    ///
    /// # Errors
    /// `ENOMEM`, and those of the owner.
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

    /// Splits the VMA at the end of a range that is removed. The limit on the number of VMAs does not apply.
    ///
    /// # Errors
    /// `ENOMEM` when an allocation fails, and nothing has changed.
    pub(crate) fn split_for_unmap(&mut self, address: u64) -> Result<(), Errno> {
        self.counters.splits += u64::from(self.areas.split(address)?);
        Ok(())
    }
}

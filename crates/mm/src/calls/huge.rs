//! Mappings of the pool of huge pages: the parts of `mmap` and `mremap` that are specific to them.

use crate::abi;
use crate::calls::file_flags::file_flags;
use crate::calls::mmap::MmapRequest;
use crate::errno::Errno;
use crate::file::{File, FileKind};
use crate::flags::VmFlags;
use crate::heap::Counted;
use crate::huge_pool::Size;
use crate::kernel::Rule;
use crate::pages::Pages;
use crate::space::AddressSpace;
use crate::space::areas::Span;
use crate::space::huge::size_of;
use crate::vma::vma_box::VmaBox;
use crate::vma::{Area, Backing, Vma};

impl AddressSpace {
    /// Performs an `mmap` of a file of hugetlbfs, or of a new one without a name.
    ///
    /// # Errors
    /// Linux's. With an owner of the pages that is notified, `ENOMEM` if there is no pool, and `ENOSYS` otherwise: no owner has pages of the pool.
    #[cold]
    #[inline(never)]
    pub(crate) fn mmap_huge<P: Pages + ?Sized>(
        &mut self,
        request: &MmapRequest<'_>,
        file: Option<&Counted<File>>,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        let flags = request.flags;
        let size = match file.map(|file| file.kind) {
            Some(FileKind::HugeTlb(bytes)) => Size::of(bytes),
            _ => Size::named(flags >> abi::MAP_HUGE_SHIFT & abi::MAP_HUGE_MASK),
        };
        let size = size.ok_or(Errno::EINVAL)?;
        let len = match request.len.checked_next_multiple_of(size.bytes()) {
            Some(len) if len > 0 => len,
            _ => return Err(Errno::EINVAL),
        };
        let request = &MmapRequest { len, ..*request };
        if pages.listens() {
            let none = self.config.huge_pool.is_none() && !request.has(abi::MAP_NORESERVE);
            return Err(if none { Errno::ENOMEM } else { Errno::ENOSYS });
        }
        if self.over_map_limit() {
            return Err(Errno::ENOMEM);
        }
        let noexec = file.is_some_and(|file| file.noexec);
        let protection = self.implied_protection(request.protection, noexec);
        if self.config.kernel.has(Rule::KeyBeforePlace) {
            self.key_for_new(protection);
        }
        let address = self.hugetlb_address(request.addr, len, flags, request.is_fixed(), size)?;
        let start = self.mmap_start(request, address)?;
        let area_flags = self.new_flags(request, protection)?;
        let file = match file {
            Some(file) => file.clone(),
            None => self.anonymous_huge_file(size, len)?,
        };
        let kernel = self.config.kernel;
        let area_flags = file_flags(&file, kernel, flags, area_flags, len, request.offset)?;
        let shift = (request.offset >> 12).wrapping_sub(start >> 12);
        let vma = Vma::new(huge_flags(area_flags), shift, Backing::File(file));
        let filled = area_flags.contains(VmFlags::LOCKED) || request.populates();
        self.map_and_fill(start, start + len, vma, filled, pages)?;
        Ok(start)
    }

    /// Maps a VMA as [`map_region`](Self::map_region) does, and faults its pages in if `filled`.
    ///
    /// # Errors
    /// As [`map_region`](Self::map_region).
    pub(crate) fn map_and_fill<P: Pages + ?Sized>(
        &mut self,
        start: u64,
        end: u64,
        vma: Vma,
        filled: bool,
        pages: &mut P,
    ) -> Result<(), Errno> {
        let pool = self.config.huge_pool.clone();
        // An object whose last mapping goes now releases its pages at the end of the call, too late
        // for this mapping.
        if let Some(pool) = &pool {
            pool.hold();
        }
        let mapped = self.map_region(start, end, vma, true, pages);
        if mapped.is_ok() && filled {
            // A page that cannot be faulted in is no error of mmap.
            let _ = self.populate(start, end, pages);
        }
        if let Some(pool) = &pool {
            pool.let_go();
        }
        mapped
    }

    /// Returns the address of a mapping, a multiple of the page size.
    ///
    /// # Errors
    /// Linux's.
    pub(crate) fn hugetlb_address(
        &self,
        addr: u64,
        len: u64,
        flags: u64,
        fixed: bool,
        size: Size,
    ) -> Result<u64, Errno> {
        let task_size = self.config.task_size;
        if len > task_size {
            return Err(Errno::ENOMEM);
        }
        let address = if !fixed {
            self.unmapped_hugetlb_area(self.round_hint(addr), len, flags, size.bytes())?
        } else if addr.is_multiple_of(size.bytes()) {
            addr
        } else {
            return Err(Errno::EINVAL);
        };
        if address > task_size - len {
            return Err(Errno::ENOMEM);
        }
        if !self.is_above_minimum(address) {
            return Err(Errno::EPERM);
        }
        Ok(address)
    }

    /// Inserts a VMA of huge pages over a range. What is there is unmapped even if this fails,
    /// because pages are reserved only afterwards.
    ///
    /// # Errors
    /// `EINVAL` for an offset within a huge page, `ENOMEM` without pages to reserve or when an
    /// allocation fails, and those of the owner of the pages.
    #[cold]
    #[inline(never)]
    pub(crate) fn map_huge<P: Pages + ?Sized>(
        &mut self,
        span: &Span,
        vma: Vma,
        owner: &mut P,
    ) -> Result<(), Errno> {
        let (start, end) = (span.start, span.end);
        self.unmap_span(span, owner)?;
        let pages = size_of(&vma).map_or(1, |size| size.bytes() >> 12);
        if !vma.page_offset(start).is_multiple_of(pages) {
            return Err(Errno::EINVAL);
        }
        self.reserve_huge(start, end, &vma)?;
        let mut span = Span::new(start, end);
        self.areas.neighbours(&mut span);
        let laid = VmaBox::try_new(vma).and_then(|vma| self.areas.insert(&span, vma));
        if laid.is_err() {
            self.guards.clear_huge(start, end);
        }
        laid?;
        self.notify_map(owner, start, end)
    }

    /// Returns the old and the new length for `mremap` of a VMA of huge pages, in whole pages.
    ///
    /// # Errors
    /// `EPERM` if the VMA is sealed. `EINVAL` for anything but moving and shrinking, or if an
    /// address is no multiple of the page size.
    #[cold]
    pub(crate) fn huge_lengths(
        &self,
        area: &Area<'_>,
        (old, old_len): (u64, u64),
        (new, new_len): (u64, u64),
        copies: bool,
    ) -> Result<(u64, u64), Errno> {
        if area.vma.flags.contains(VmFlags::SEALED) {
            return Err(Errno::EPERM);
        }
        let size = size_of(area.vma).ok_or(Errno::EINVAL)?.bytes();
        let whole = |len: u64| len.checked_next_multiple_of(size).ok_or(Errno::EINVAL);
        let (old_len, new_len) = (whole(old_len)?, whole(new_len)?);
        let begins = old.is_multiple_of(size) && new.is_multiple_of(size);
        if !begins || copies || old_len == 0 || old_len < new_len {
            return Err(Errno::EINVAL);
        }
        Ok((old_len, new_len))
    }
}

/// Returns the flags of a VMA of huge pages: it is never locked, and cannot grow.
pub(super) fn huge_flags(flags: VmFlags) -> VmFlags {
    (flags - VmFlags::LOCKED_MASK) | VmFlags::HUGETLB | VmFlags::DONTEXPAND
}

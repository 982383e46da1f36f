//! Mappings of the pool of huge pages: what is peculiar to them in `mmap` and `mremap`.

use crate::abi;
use crate::calls::mmap::{MARKS, file_flags};
use crate::errno::Errno;
use crate::file::{File, FileKind};
use crate::flags::VmFlags;
use crate::heap::Counted;
use crate::kernel::Rule;
use crate::pages::Pages;
use crate::space::AddressSpace;
use crate::space::areas::Span;
use crate::space::huge::pool::Size;
use crate::space::huge::size_of;
use crate::space::vma::{Area, Backing, Vma};
use crate::space::vma_box::VmaBox;

impl AddressSpace {
    /// `mmap` of a file of hugetlbfs, or of a new one without a name.
    ///
    /// # Errors
    /// Linux's. For an owner of the pages, `ENOSYS` unless nothing can be had: none has huge ones of such a pool.
    #[cold]
    #[inline(never)]
    #[allow(clippy::too_many_arguments, reason = "the system call has six")]
    pub(crate) fn mmap_huge<P: Pages + ?Sized>(
        &mut self,
        addr: u64,
        len: u64,
        protection: u64,
        flags: u64,
        file: Option<&Counted<File>>,
        offset: u64,
        forced: Option<u64>,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        let size = match file.map(|file| file.kind) {
            Some(FileKind::HugeTlb(bytes)) => Size::of(bytes),
            _ => Size::named(flags >> abi::MAP_HUGE_SHIFT & abi::MAP_HUGE_MASK),
        };
        let size = size.ok_or(Errno::EINVAL)?;
        let len = match len.checked_next_multiple_of(size.bytes()) {
            Some(len) if len > 0 => len,
            _ => return Err(Errno::EINVAL),
        };
        if pages.listens() {
            let none = self.config.huge_pool.is_none() && flags & abi::MAP_NORESERVE == 0;
            return Err(if none { Errno::ENOMEM } else { Errno::ENOSYS });
        }
        if self.over_map_limit() {
            return Err(Errno::ENOMEM);
        }
        let protection = if self.config.read_implies_exec
            && protection & abi::PROT_READ != 0
            && !file.is_some_and(|file| file.noexec)
        {
            protection | abi::PROT_EXEC
        } else {
            protection
        };
        if self.config.kernel.has(Rule::KeyBeforePlace) {
            self.key_for_new(protection);
        }
        let fixed = flags & (abi::MAP_FIXED | abi::MAP_FIXED_NOREPLACE) != 0;
        let place = self.hugetlb_address(addr, len, flags, fixed, size)?;
        let start = match forced {
            Some(forced) if !fixed => forced,
            _ => place,
        };
        let end = start + len;
        if flags & abi::MAP_FIXED_NOREPLACE != 0 && self.areas.find_in(start, end).is_some() {
            return Err(Errno::EEXIST);
        }
        let key = self.key_for_new(protection);
        let mut area_flags =
            VmFlags::from_prot(protection).with_pkey(key) | VmFlags::MAY_ALL | self.future_locked;
        if flags & MARKS != 0 {
            area_flags |= self.marks(flags)?;
        }
        if !self.may_lock_new(area_flags, len) {
            return Err(Errno::EAGAIN);
        }
        let file = match file {
            Some(file) => file.clone(),
            None => self.anonymous_huge_file(size, len)?,
        };
        let area_flags = file_flags(&file, self.config.kernel, flags, area_flags, len, offset)?;
        let locked = area_flags.contains(VmFlags::LOCKED);
        let shift = (offset >> 12).wrapping_sub(start >> 12);
        let vma = Vma::new(huge_flags(area_flags), shift, Backing::File(file));
        let filled = locked || flags & (abi::MAP_POPULATE | abi::MAP_NONBLOCK) == abi::MAP_POPULATE;
        self.map_and_fill(start, end, vma, filled, pages)?;
        Ok(start)
    }

    /// Maps, and has pages there if they are to be `filled` in.
    ///
    /// # Errors
    /// As of [`map_region`](Self::map_region).
    pub(crate) fn map_and_fill<P: Pages + ?Sized>(
        &mut self,
        start: u64,
        end: u64,
        vma: Vma,
        filled: bool,
        pages: &mut P,
    ) -> Result<(), Errno> {
        let pool = self.config.huge_pool.clone();
        // An object whose last mapping goes now lets go of its pages at the end of the call, too late for this one.
        if let Some(pool) = &pool {
            pool.hold();
        }
        let mapped = self.map_region(start, end, vma, true, pages);
        if mapped.is_ok() && filled {
            // What cannot be faulted in is no error of mmap.
            let _ = self.populate(start, end, pages);
        }
        if let Some(pool) = &pool {
            pool.let_go();
        }
        mapped
    }

    /// Where it goes: where a huge page may begin.
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

    /// Lays an area of huge pages over whatever is there, which goes even if this fails: only then the pages are promised.
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

    /// Lengths for `mremap` of an area of huge pages, in whole ones. The first is that of the old range.
    ///
    /// # Errors
    /// `EINVAL` for all but moving and shrinking, or if a huge page cannot begin where it should.
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

/// The properties of an area of huge pages: it is never locked, and cannot grow.
pub(super) fn huge_flags(flags: VmFlags) -> VmFlags {
    (flags - VmFlags::LOCKED_MASK) | VmFlags::HUGETLB | VmFlags::DONTEXPAND
}

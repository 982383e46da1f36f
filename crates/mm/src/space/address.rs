//! Where a mapping goes.
//!
//! Top-down placement takes the highest gap that fits below `mmap_base`, and falls back to bottom-up when there
//! is none. The guard gap below an area that grows downwards counts as occupied. Mappings that huge pages may back are aligned when a
//! gap with room to spare exists.

use crate::abi;
use crate::config::Calls;
use crate::errno::Errno;
use crate::flags::{PAGE_SIZE, PMD_SIZE, VmFlags};
use crate::kernel::Rule;
use crate::space::AddressSpace;
use crate::space::vma::Area;

/// First and last-exclusive address for `MAP_32BIT`.
const LOW_32BIT: (u64, u64) = (0x4000_0000, 0x8000_0000);

/// What the object says about the alignment of its mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HugeAlignment {
    /// Any page will do.
    No,
    /// Private anonymous memory: aligned if the length is a whole number of huge pages.
    Anonymous,
    /// A file at this byte offset: aligned to match if a whole huge page of it is mapped.
    File(u64),
}

impl AddressSpace {
    /// The address for a mapping of `len` bytes (a page multiple, not 0), or the error that Linux gives.
    #[inline(always)]
    pub(crate) fn choose_address(
        &self,
        addr: u64,
        len: u64,
        flags: u64,
        huge: HugeAlignment,
    ) -> Result<u64, Errno> {
        let task_size = self.config.task_size;
        if len > task_size {
            return Err(Errno::ENOMEM);
        }
        let address = if flags & abi::MAP_FIXED != 0 {
            // An address that looks like an error number is taken for one.
            if let Some(errno) = Some(addr.wrapping_neg()).filter(|n| (1..4096).contains(n)) {
                return Err(Errno(errno as i32));
            }
            addr
        } else {
            self.unmapped_area(addr, len, flags, huge)?
        };
        if address > task_size - len {
            return Err(Errno::ENOMEM);
        }
        if !address.is_multiple_of(PAGE_SIZE) {
            return Err(Errno::EINVAL);
        }
        if !self.is_above_minimum(address) {
            return Err(Errno::EPERM);
        }
        Ok(address)
    }

    /// Returns `true` if the caller may map something as low as `address`.
    #[inline(always)]
    pub(crate) fn is_above_minimum(&self, address: u64) -> bool {
        // The minimum is not below the base: most calls compare once.
        address >= self.config.fixed_min_addr
            || self.config.capabilities.sys_rawio && address >= self.config.task_base
    }

    #[inline(always)]
    fn unmapped_area(
        &self,
        hint: u64,
        len: u64,
        flags: u64,
        huge: HugeAlignment,
    ) -> Result<u64, Errno> {
        // The length first: it settles most calls.
        let aligned = match huge {
            HugeAlignment::No => false,
            HugeAlignment::Anonymous => {
                len.is_multiple_of(PMD_SIZE)
                    && hint == 0
                    && self.config.kernel.has(Rule::AnonymousIsAligned)
            }
            HugeAlignment::File(offset) => covers_huge_page(offset, len),
        } && self.config.transparent_huge_pages
            // In 32 bits there is no room for it.
            && self.config.calls_are_wide();
        if aligned {
            let offset = match huge {
                HugeAlignment::File(offset) => offset,
                _ => 0,
            };
            if let Some(address) = self.unmapped_aligned_area(hint, len, flags, offset) {
                return Ok(address);
            }
        }
        self.unmapped_plain_area(hint, len, flags)
    }

    /// Looks for room for the mapping and a huge page more, and takes the place in it that lines up.
    #[inline(never)]
    fn unmapped_aligned_area(&self, hint: u64, len: u64, flags: u64, offset: u64) -> Option<u64> {
        let padded = len.checked_add(PMD_SIZE)?;
        let found = self.unmapped_plain_area(hint, padded, flags).ok()?;
        if hint != 0 && found == hint {
            return Some(found);
        }
        let off = offset.wrapping_sub(found) & (PMD_SIZE - 1);
        if off == 0 && !self.layout.bottom_up {
            return Some(found + PMD_SIZE);
        }
        Some(found + off)
    }

    /// For the table that a call comes from: where placement begins downwards; where it begins upwards, and ends.
    #[inline(always)]
    fn window(&self, low_32: bool) -> Result<(u64, u64, u64), Errno> {
        match self.config.calls {
            Calls::Own => Ok((
                self.layout.mmap_base,
                self.layout.legacy_base,
                self.config.task_size.min(self.config.window),
            )),
            Calls::Other {
                mmap_base,
                legacy_base,
                end,
            } if self.config.is_wide() => Ok((mmap_base, legacy_base, end)),
            Calls::Other { .. } if low_32 => Ok((LOW_32BIT.1, LOW_32BIT.0, LOW_32BIT.1)),
            // Room is found beyond what the program may have.
            Calls::Other { .. } => Err(Errno::ENOMEM),
        }
    }

    /// Upwards, calls of i386 take no hint beyond their window, though a program with 64-bit addresses may have what is there.
    #[inline(always)]
    fn hint_is_in_window(&self, hint: u64, len: u64) -> bool {
        match self.config.calls {
            Calls::Other { end: window, .. } if self.layout.bottom_up && self.config.is_wide() => {
                hint.checked_add(len).is_some_and(|end| end <= window)
            }
            _ => true,
        }
    }

    #[inline(always)]
    fn unmapped_plain_area(&self, hint: u64, len: u64, flags: u64) -> Result<u64, Errno> {
        if len > self.config.task_size {
            return Err(Errno::ENOMEM);
        }
        self.unmapped_area_at_multiple(hint, len, flags, PAGE_SIZE)
    }

    /// As [`unmapped_plain_area`](Self::unmapped_plain_area), at a multiple of `align`: with room to spare for that.
    #[cold]
    pub(crate) fn unmapped_hugetlb_area(
        &self,
        hint: u64,
        len: u64,
        flags: u64,
        align: u64,
    ) -> Result<u64, Errno> {
        if self.config.kernel.has(Rule::HugeIsPlacedAsAny) {
            let hint = hint.checked_next_multiple_of(align).unwrap_or(0);
            return self.unmapped_area_at_multiple(hint, len, flags, align);
        }
        let below = hint & !(align - 1);
        // Address 0 is taken, too.
        if hint != 0 && self.hint_is_in_window(below, len) && self.hint_is_free(below, len) {
            return Ok(below);
        }
        self.unmapped_area_at_multiple(below, len, flags & !abi::MAP_32BIT, align)
    }

    #[inline(always)]
    fn unmapped_area_at_multiple(
        &self,
        hint: u64,
        len: u64,
        flags: u64,
        align: u64,
    ) -> Result<u64, Errno> {
        // Calls of i386 have 32 bits in any case.
        let low_32 = flags & abi::MAP_32BIT != 0 && self.config.calls_are_wide();
        if hint != 0 && !low_32 && self.hint_is_in_window(hint, len) && self.hint_is_free(hint, len)
        {
            return Ok(hint);
        }
        let (base, mut low, mut high) = self.window(low_32)?;
        let padded = len.checked_add(align - PAGE_SIZE).ok_or(Errno::ENOMEM)?;
        let (task_size, window) = (self.config.task_size, self.config.window);
        if !(self.layout.bottom_up || low_32) {
            let top = if hint > window {
                let extra = task_size.saturating_sub(window);
                base.saturating_add(extra).min(task_size)
            } else {
                base
            };
            let bottom = PAGE_SIZE.max(self.config.mmap_min_addr);
            if let Some(found) = self.gap_down(bottom, top, padded) {
                let highest = found + (padded - len);
                return Ok(highest & !(align - 1));
            }
        }
        if hint > window {
            high = task_size;
        }
        if low_32 {
            (low, high) = LOW_32BIT;
            if hint != 0
                && hint.checked_add(len).is_some_and(|end| end <= high)
                && self.hint_is_free(hint, len)
            {
                return Ok(hint);
            }
        }
        let low = low.max(self.config.task_base);
        let found = self.gap_up(low, high, padded).ok_or(Errno::ENOMEM)?;
        Ok(found.next_multiple_of(align))
    }

    /// A hint is taken when nothing is in the way, the guard gap of an area above included; that of
    /// the 47-bit border it may not cross.
    fn hint_is_free(&self, hint: u64, len: u64) -> bool {
        let Some(end) = hint.checked_add(len) else {
            return false;
        };
        if end > self.config.task_size || (hint > self.config.window) != (end > self.config.window)
        {
            return false;
        }
        self.areas
            .find(hint)
            .is_none_or(|area| end <= self.guarded_start(&area))
    }

    /// Start of the area, guard gap included.
    pub(crate) fn guarded_start(&self, area: &Area<'_>) -> u64 {
        if area.vma.flags.contains(VmFlags::GROWSDOWN) {
            area.start.saturating_sub(self.config.stack_guard_gap)
        } else if area.vma.flags.contains(VmFlags::SHADOW_STACK) {
            area.start.saturating_sub(PAGE_SIZE)
        } else {
            area.start
        }
    }

    /// Whether no guard gap of an area above can reach below `end`. Not always seen.
    fn is_below_guards(&self, end: u64) -> bool {
        let gap = self.config.stack_guard_gap.max(PAGE_SIZE);
        self.areas.guarded_from().saturating_sub(gap) >= end
    }

    #[inline(always)]
    fn gap_down(&self, low: u64, mut high: u64, len: u64) -> Option<u64> {
        loop {
            let address = self.areas.gap_down(low, high, len)?;
            if self.is_below_guards(address + len) {
                return Some(address);
            }
            match self.areas.find(address + len) {
                Some(above) if self.guarded_start(&above) < address + len => {
                    high = self.guarded_start(&above);
                }
                _ => return Some(address),
            }
        }
    }

    fn gap_up(&self, mut low: u64, high: u64, len: u64) -> Option<u64> {
        loop {
            let address = self.areas.gap_up(low, high, len)?;
            if self.is_below_guards(address + len) {
                return Some(address);
            }
            match self.areas.find(address + len) {
                Some(above) if self.guarded_start(&above) < address + len => low = above.end,
                _ => return Some(address),
            }
        }
    }
}

/// Whether `[offset, offset + len)` of a file holds a whole huge page. File offsets are signed numbers, of which Linux does not notice that they overflow: those of
/// `/dev/zero` may be any.
fn covers_huge_page(offset: u64, len: u64) -> bool {
    let first = offset.wrapping_add(PMD_SIZE - 1) & !(PMD_SIZE - 1);
    let end = offset.wrapping_add(len);
    let padded = len
        .checked_add(PMD_SIZE)
        .and_then(|padded| offset.checked_add(padded));
    padded.is_some()
        && end.cast_signed() > first.cast_signed()
        && end.wrapping_sub(first) >= PMD_SIZE
}

//! The choice of the address of a mapping.
//!
//! Top-down placement takes the highest gap that fits below `mmap_base`, and falls back to
//! bottom-up if there is none. The guard gap below a VMA that grows downwards counts as occupied.
//! Mappings that huge pages may back are aligned if a gap is large enough for that.

use crate::abi;
use crate::config::Calls;
use crate::errno::Errno;
use crate::flags::{PAGE_SIZE, PMD_SIZE, VmFlags};
use crate::kernel::Rule;
use crate::space::AddressSpace;
use crate::vma::Area;

/// The first address for `MAP_32BIT`, and the first one beyond.
const LOW_32BIT: (u64, u64) = (0x4000_0000, 0x8000_0000);

/// The alignment that the object of a mapping asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HugeAlignment {
    /// Small pages.
    No,
    /// Private anonymous memory: aligned if the length is a whole number of huge pages.
    Anonymous,
    /// A file from this byte offset: aligned to match if the mapping holds a whole huge page of it.
    File(u64),
}

impl AddressSpace {
    /// Returns the address for a mapping of `len` bytes, a non-zero multiple of the page size.
    ///
    /// # Errors
    /// Linux's: `ENOMEM` if there is no room, `EINVAL` for an unaligned fixed address, `EPERM`
    /// below the minimum address.
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
            // An address that looks like an error number is returned as that error.
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

    /// Returns `true` if the caller may map something at `address`, as far as the minimum address
    /// is concerned.
    #[inline(always)]
    pub(crate) fn is_above_minimum(&self, address: u64) -> bool {
        // The minimum is not below the base: most calls need one comparison.
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
        // The length first: it decides for most calls.
        let aligned = match huge {
            HugeAlignment::No => false,
            HugeAlignment::Anonymous => {
                len.is_multiple_of(PMD_SIZE)
                    && hint == 0
                    && self.config.kernel.has(Rule::AnonymousIsAligned)
            }
            HugeAlignment::File(offset) => covers_huge_page(offset, len),
        } && self.config.transparent_huge_pages
            // Calls with 32-bit addresses are not aligned.
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

    /// Searches a gap for the mapping and one more huge page, and returns the aligned address in
    /// it.
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

    /// Returns, for the system call table that a call comes from, where top-down placement begins,
    /// where bottom-up placement begins, and where that ends.
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
            // The gap that Linux finds lies beyond the program's addresses.
            Calls::Other { .. } => Err(Errno::ENOMEM),
        }
    }

    /// Returns `true` if calls may use the hint: in bottom-up placement, calls of i386 take no hint
    /// beyond their window, even if the program has 64-bit addresses.
    #[inline(always)]
    fn hint_is_in_window(&self, hint: u64, len: u64) -> bool {
        match self.config.calls {
            Calls::Other { end: window, .. } if self.layout.bottom_up && self.config.is_wide() => {
                hint.checked_add(len).is_some_and(|end| end <= window)
            }
            Calls::Own | Calls::Other { .. } => true,
        }
    }

    #[inline(always)]
    fn unmapped_plain_area(&self, hint: u64, len: u64, flags: u64) -> Result<u64, Errno> {
        if len > self.config.task_size {
            return Err(Errno::ENOMEM);
        }
        self.unmapped_area_at_multiple(hint, len, flags, PAGE_SIZE)
    }

    /// Returns a free range for `len` bytes at a multiple of `align`, for a mapping of the pool of
    /// huge pages.
    ///
    /// # Errors
    /// `ENOMEM` if there is none.
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
        // Address 0 is a hint, too, after rounding down.
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
        // Calls of i386 have 32-bit addresses in any case.
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

    /// Returns `true` if nothing occupies the hinted range, including the guard gap of the VMA
    /// above. The range must not cross the 47-bit border.
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

    /// Returns the start of the VMA, or of the guard gap below it.
    pub(crate) fn guarded_start(&self, area: &Area<'_>) -> u64 {
        if area.vma.flags.contains(VmFlags::GROWSDOWN) {
            area.start.saturating_sub(self.config.stack_guard_gap)
        } else if area.vma.flags.contains(VmFlags::SHADOW_STACK) {
            area.start.saturating_sub(PAGE_SIZE)
        } else {
            area.start
        }
    }

    /// Returns `true` if no guard gap of a VMA above reaches below `end`. May return `false`
    /// without need.
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

/// Returns `true` if `[offset, offset + len)` of a file holds a whole huge page. File offsets are
/// signed, and Linux does not notice when they overflow: those of `/dev/zero` may be any.
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

//! Swap-out of private anonymous pages.

use samara_paging::{Attrs, Change, Entry, Kind, PageSize, WritePolicy};

use super::Swapped;
use super::area::SwapArea;
use super::markers::{BATCH, continue_batch};
use crate::flags::{PAGE_SIZE, VmFlags};
use crate::process::fault::vma_attrs;
use crate::process::handle::Process;
use crate::process::mm::Mm;
use crate::process::platform::Platform;
use crate::vma::Vma;

impl<P: Platform> Process<P> {
    /// Swaps private pages of `[start, end)` out, and returns their number.
    ///
    /// Pages that other processes share, pinned pages, and locked VMAs are left out. It stops when
    /// swap is full or the device fails. Calls and faults of the process wait until it returns. O(VMAs and
    /// pages).
    pub fn swap_out(&self, start: u64, end: u64) -> u64 {
        let mut space = self.mm.space.write();
        if start >= end {
            return 0;
        }
        space.areas.close_locks(start, end);
        let mut done = 0;
        let mut next = start;
        while let Some(area) = space.areas.find_in(next, end) {
            next = area.end;
            let kept = VmFlags::LOCKED | VmFlags::SPECIAL;
            if !area.vma.flags.intersects(kept) {
                let (start, end) = (area.start.max(start), area.end.min(end));
                done += self.mm.swap_out(start, end, area.vma);
            }
        }
        space.end_call();
        done
    }
}

impl<P: Platform> Mm<P> {
    /// Swaps pages of a part of a VMA out, and returns their number.
    ///
    /// Preconditions: the caller holds the address space's lock for writing, and the VMA is closed
    /// to faults.
    pub(in crate::process) fn swap_out(&self, start: u64, end: u64, vma: &Vma) -> u64 {
        let Some(swap) = self.machine.swap() else {
            return 0;
        };
        let droppable = vma.flags.contains(VmFlags::DROPPABLE);
        if !vma.is_private() || !vma.is_anonymous() || droppable {
            return 0;
        }
        let mut done = 0;
        let mut at = start;
        while at < end {
            let mut found = [0; BATCH];
            let mut count = 0;
            let _ = self.tables.walk_until(at..end, |addr, entry| {
                if let Entry::Page { attrs, size, .. } = entry
                    && !attrs.contains(Attrs::SPECIAL)
                {
                    // A huge page ends the walk: swapping out its first page splits it, and
                    // the next walk finds its other pages.
                    found[count] = addr.max(at);
                    count += if size == PageSize::Small { 1 } else { BATCH };
                }
                continue_batch(count)
            });
            let whole = count < BATCH;
            for &page in &found[..count.min(BATCH)] {
                if page == 0 {
                    break;
                }
                at = page + PAGE_SIZE;
                if page >= end {
                    break;
                }
                match self.swap_out_page(page, vma, &swap) {
                    Some(true) => done += 1,
                    Some(false) => {}
                    None => return done,
                }
            }
            if whole {
                break;
            }
        }
        done
    }

    /// Swaps one page out. Returns `None` if there is no slot, or the device fails.
    fn swap_out_page(&self, page: u64, vma: &Vma, swap: &SwapArea) -> Option<bool> {
        let (tables, tlb) = (&self.tables, self.machine.tlb());
        let physical = self.machine.physical();
        let Some(mut info) = tables.page(page) else {
            return Some(false);
        };
        let alone = |frame: samara_paging::FrameInfo| {
            frame.kind == Kind::Anon && frame.mappings == 1 && frame.references == 0
        };
        if !info.frame.is_some_and(alone) || info.users > 1 {
            return Some(false);
        }
        if info.size != PageSize::Small {
            if tables.split(page, PageSize::Small, tlb).is_err() {
                return Some(false);
            }
            info = tables.page(page)?;
        }
        let place = swap.alloc()?;
        self.set_swapped();
        // From here on no thread stores to the page or gets a reference to it.
        let range = page..page + PAGE_SIZE;
        let hidden = tables.protect(range.clone(), Change::without(Attrs::ACCESS), tlb);
        let still = hidden.is_ok() && physical.frames().info(info.phys).is_some_and(alone);
        let swapped = Swapped {
            place,
            soft_dirty: info.attrs.contains(Attrs::SOFT_DIRTY),
        };
        let mut failed = false;
        if still {
            // SAFETY: a whole frame, which stays in its entry while the VMA is closed and the
            // address space locked. The entry permits no access, and there is no other entry or
            // reference, nor can one come.
            let bytes = unsafe { physical.to_virt(info.phys).cast().as_ref() };
            failed = swap.device.write(place, bytes).is_err();
            if !failed
                && tables
                    .swap_out(page, info.phys, swapped.marker(), tlb)
                    .is_ok()
            {
                return Some(true);
            }
        }
        swap.put(place);
        // Restores the permissions. If that fails, a fault restores them.
        let access = Change::access(vma_attrs(vma.flags), WritePolicy::Exclusive);
        let _ = tables.protect(range, access, tlb);
        if failed { None } else { Some(false) }
    }
}

//! `MADV_DONTNEED` without the lock of the address space. Allocators call it all the time, from all
//! threads.
//!
//! The call changes no VMA, only page tables. So it holds the lock of its one VMA, as a fault does.
//! Calls that change the VMA wait for it. If such a call is running, it takes the usual path. A
//! fault on one of its pages comes before or after it, by the lock of the page's table. That is
//! also so on the usual path, which excludes no fault.
//!
//! A thread that holds the address space's lock and needs pages to stay has closed the VMA, since
//! faults replace pages, too.

use samara_paging::UnmapFilter;

use crate::abi::MADV_DONTNEED;
use crate::call::Call;
use crate::errno::Errno;
use crate::flags::{PAGE_SIZE, PMD_SIZE, VmFlags, page_align};
use crate::process::mm::Mm;
use crate::process::platform::Platform;
use crate::process::retained_tables::Discarded;

/// The longest range in bytes. Calls that change the VMA spin until it ends, so longer ranges use the
/// lock that sleeps.
const LONGEST: u64 = PMD_SIZE;

impl<P: Platform> Mm<P> {
    /// Performs the call if it needs no lock of the address space. Returns `None` otherwise.
    #[inline]
    pub(super) fn perform_lockless(&self, call: &Call) -> Option<Result<u64, Errno>> {
        match *call {
            Call::Madvise { addr, len, advice } if advice == MADV_DONTNEED => {
                self.discard_lockless(addr, len)
            }
            _ => None,
        }
    }

    fn discard_lockless(&self, addr: u64, len: u64) -> Option<Result<u64, Errno>> {
        let map = self.lockless.map()?;
        let aligned = addr.is_multiple_of(PAGE_SIZE) && 0 < len && len <= LONGEST;
        // Huge pages, shared tables and swap need more than the lock of one table.
        if !aligned || self.may_need_split() || self.swapped() {
            return None;
        }
        let end = addr.checked_add(page_align(len))?;
        let held = map.hold(addr)?;
        let area = held.area();
        let vma = area.vma;
        let kept = VmFlags::LOCKED | VmFlags::SPECIAL | VmFlags::HUGETLB | VmFlags::SEALED;
        if end > area.end || !vma.is_private() || !vma.is_anonymous() || vma.flags.intersects(kept)
        {
            return None;
        }
        let tlb = self.machine.tlb();
        let (range, mut discarded) = (addr..end, Discarded::new());
        let done =
            (self.tables).unmap_with(range.clone(), UnmapFilter::Pages, tlb, |page, entry| {
                discarded.add(page, entry)
            });
        self.note_discarded(&range, discarded, true);
        drop(held);
        // A page that went to swap before this call looked at it is a marker now, which the usual
        // path frees. The marker was written after `swapped` was set, under its table's lock. This
        // call took that lock, so it sees the flag.
        if self.swapped() {
            return None;
        }
        Some(done.map(|()| 0).map_err(|_| Errno::ENOMEM))
    }
}

//! `prctl(2)` for a whole address space: `PR_SET_MDWE`, `PR_SET_MEMORY_MERGE` and `PR_SET_MM`.

use alloc::vec::Vec;

use crate::config::{Layout, Mdwe};
use crate::errno::Errno;
use crate::flags::VmFlags;
use crate::kernel::Rule;
use crate::pages::{PageAdvice, Pages};
use crate::space::AddressSpace;
use crate::vma::vma_box::VmaBox;
use crate::vma::{Area, Vma};

/// `PR_MDWE_REFUSE_EXEC_GAIN`.
const REFUSE_EXEC_GAIN: u64 = 1;
/// `PR_MDWE_NO_INHERIT`.
const NO_INHERIT: u64 = 2;

impl AddressSpace {
    pub(crate) fn set_mdwe(&mut self, bits: u64) -> Result<u64, Errno> {
        let kernel = self.config.kernel;
        let wanted = match bits {
            _ if !kernel.has(Rule::Mdwe) => return Err(Errno::EINVAL),
            0 => Mdwe::Off,
            REFUSE_EXEC_GAIN => Mdwe::On,
            _ if bits == REFUSE_EXEC_GAIN | NO_INHERIT && kernel.has(Rule::MdweIsKept) => {
                Mdwe::NotInherited
            }
            _ => return Err(Errno::EINVAL),
        };
        if self.config.mdwe != Mdwe::Off && self.config.mdwe != wanted {
            return Err(Errno::EPERM);
        }
        self.config.mdwe = wanted;
        Ok(0)
    }

    /// Performs `PR_SET_MM`. Linux refuses addresses outside user space, a break below the start of
    /// the heap, and more heap and data than `RLIMIT_DATA` allows. Start and end of the data are
    /// not given, only their size.
    // Never inlined: the stack frame of all calls would be larger.
    #[cold]
    #[inline(never)]
    pub(crate) fn set_mm(&mut self, layout: Layout) -> Result<u64, Errno> {
        let user = self.config.mmap_min_addr..self.config.task_size;
        let addresses = [layout.start_brk, layout.brk, layout.stack_top];
        let heap = layout.brk.checked_sub(layout.start_brk);
        let heap = heap.filter(|_| addresses.iter().all(|address| user.contains(address)));
        let data = layout.data_size;
        match heap {
            Some(heap) if data < user.end && heap.saturating_add(data) <= self.limits.data => {
                self.layout = layout;
                Ok(0)
            }
            _ => Err(Errno::EINVAL),
        }
    }

    /// Returns `true` if `PR_SET_MDWE` allows a VMA with flags `old`, if there was one, to get the
    /// flags `new`.
    pub(crate) fn may_execute(&self, old: Option<VmFlags>, new: VmFlags) -> bool {
        let gains = |old: VmFlags| !old.contains(VmFlags::EXEC) && new.contains(VmFlags::EXEC);
        self.config.mdwe == Mdwe::Off
            || !new.contains(VmFlags::WRITE | VmFlags::EXEC) && !old.is_some_and(gains)
    }

    /// Performs `PR_SET_MEMORY_MERGE`: marks all VMAs that can be merged by content, or removes the
    /// marks. No VMAs merge for that.
    #[inline(never)]
    pub(crate) fn set_memory_merge<P: Pages + ?Sized>(
        &mut self,
        on: bool,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        if !self.config.ksm || !self.config.kernel.has(Rule::MemoryMerge) {
            return Err(Errno::EINVAL);
        }
        if on == self.config.merge_any {
            return Ok(0);
        }
        // Allocations come first.
        let other = |area: &Area<'_>| {
            may_be_merged_by_content(area.vma) && area.vma.flags.contains(VmFlags::MERGEABLE) != on
        };
        let mut changed = Vec::new();
        changed
            .try_reserve_exact(self.areas.iter().filter(other).count())
            .map_err(|_| Errno::ENOMEM)?;
        for area in self.areas.iter().filter(other) {
            let mut vma = VmaBox::try_copy(area.vma)?;
            vma.flags.set(VmFlags::MERGEABLE, on);
            changed.push((area.start, vma));
        }
        if !on && pages.listens() {
            for (start, vma) in &changed {
                if vma.anon().is_some() {
                    let end = self.areas.at(*start).map_or(*start, |area| area.end);
                    self.notify_advice(pages, *start, end, PageAdvice::Unmerge)?;
                }
            }
        }
        for (start, vma) in changed {
            self.areas.replace(start, vma)?;
        }
        self.config.merge_any = on;
        Ok(0)
    }
}

/// Returns `true` if pages of the VMA may be merged with equal ones.
pub(crate) fn may_be_merged_by_content(vma: &Vma) -> bool {
    !vma.flags.intersects(
        VmFlags::SHARED
            | VmFlags::MAYSHARE
            | VmFlags::SPECIAL
            | VmFlags::HUGETLB
            | VmFlags::DROPPABLE,
    )
}

//! Clears accessed and soft-dirty bits, as a write to `/proc/PID/clear_refs`
//! (Documentation/admin-guide/mm/soft-dirty.rst).

use samara_paging::{Attrs, Change};

use crate::errno::Errno;
use crate::process::{Platform, Process};

/// The bits to clear. The numbers are those that programs write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClearRefs {
    /// 1: the accessed bits.
    All,
    /// 2: the accessed bits in VMAs that map no file.
    Anonymous,
    /// 3: the accessed bits in VMAs that map a file.
    Mapped,
    /// 4: the soft-dirty bits.
    SoftDirty,
    /// 5: the peak of resident memory. It is not kept here, so nothing happens.
    PeakRss,
}

impl ClearRefs {
    /// Returns the value with this number.
    ///
    /// ```
    /// use samara_mm::observe::ClearRefs;
    /// assert_eq!(ClearRefs::of(4), Some(ClearRefs::SoftDirty));
    /// assert_eq!(ClearRefs::of(6), None);
    /// ```
    pub const fn of(number: u64) -> Option<Self> {
        Some(match number {
            1 => Self::All,
            2 => Self::Anonymous,
            3 => Self::Mapped,
            4 => Self::SoftDirty,
            5 => Self::PeakRss,
            _ => return None,
        })
    }
}

impl<P: Platform> Process<P> {
    /// Clears the bits. A soft-dirty bit is set again by a fault at the next write, so calls and
    /// faults wait while these are cleared. For the others, only calls wait. O(VMAs and pages).
    ///
    /// # Errors
    /// `ENOMEM`: tables that are shared after a fork could not be split. Some bits are cleared.
    ///
    /// ```
    /// # use samara_mm::process::{Machine, PageStatus, Platform, Process};
    /// # use samara_mm::{Config, Errno, Layout, Limits, MmapOptions, Prot};
    /// use samara_mm::observe::ClearRefs;
    ///
    /// # fn track<P: Platform>(machine: &Machine<P>) -> Result<(), Errno> {
    /// let process = Process::new(machine, Config::default(), Limits::default(), Layout::default())?;
    /// let start = process.mmap(&MmapOptions::anonymous(0x2000).prot(Prot::READ | Prot::WRITE))?;
    /// process.copy_in(start, &[1; 0x2000]);
    /// process.clear_refs(ClearRefs::SoftDirty)?;
    /// process.copy_in(start + 0x1000, b"again");
    /// let written = |page| process.page(page).contains(PageStatus::SOFT_DIRTY);
    /// assert!(!written(start) && written(start + 0x1000));
    /// # Ok(())
    /// # }
    /// ```
    pub fn clear_refs(&self, what: ClearRefs) -> Result<(), Errno> {
        let mm = &*self.mm;
        mm.atomic_ops.check()?;
        let tlb = mm.machine.tlb();
        match what {
            ClearRefs::PeakRss => return Ok(()),
            ClearRefs::SoftDirty => {
                let mut space = mm.space.write();
                space.areas.close_locks(0, u64::MAX);
                let mut result = Ok(());
                let change = Change::without(Attrs::SOFT_DIRTY | Attrs::WRITE);
                for area in space.areas.iter() {
                    let range = area.start..area.end;
                    let done = mm.tables.protect(range.clone(), change, tlb);
                    result = result.and(done.map_err(|_| Errno::ENOMEM));
                    result = result.and(mm.clean_swapped(range));
                }
                space.end_call();
                return result;
            }
            ClearRefs::All | ClearRefs::Anonymous | ClearRefs::Mapped => {}
        }
        let space = mm.space.read();
        for area in space.areas.iter() {
            let chosen = match what {
                ClearRefs::Anonymous => area.vma.is_anonymous(),
                ClearRefs::Mapped => !area.vma.is_anonymous(),
                ClearRefs::All | ClearRefs::SoftDirty | ClearRefs::PeakRss => true,
            };
            if chosen {
                let change = Change::without(Attrs::ACCESSED);
                let done = mm.tables.protect(area.start..area.end, change, tlb);
                done.map_err(|_| Errno::ENOMEM)?;
            }
        }
        Ok(())
    }
}

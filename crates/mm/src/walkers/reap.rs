//! Early release of a killed process's memory, before its threads come to their ends.

use samara_paging::UnmapFilter;

use crate::flags::VmFlags;
use crate::process::{Platform, Process};

impl<P: Platform> Process<P> {
    /// Frees the pages of private VMAs that are not locked, concurrently with faults and copies of
    /// the process. Returns `false`, without effect, while a call is running, since that may take
    /// long. The caller may try again. Calls wait until it returns. O(VMAs and pages).
    ///
    /// From now on an access to an absent page raises `SIGBUS` instead of finding zeroes. (A
    /// running fault may still map one page.) Pinned frames stay with the pins.
    ///
    /// ```
    /// # use samara_mm::process::{Access, Fault, Machine, Platform, Process};
    /// # use samara_mm::{Config, Errno, Layout, Limits, MmapOptions, Prot};
    /// # fn reap<P: Platform>(machine: &Machine<P>) -> Result<(), Errno> {
    /// let process = Process::new(machine, Config::default(), Limits::default(), Layout::default())?;
    /// let start = process.mmap(&MmapOptions::anonymous(0x1000).prot(Prot::READ | Prot::WRITE))?;
    /// process.copy_in(start, b"bytes");
    /// assert!(process.reap());
    /// assert_eq!(machine.stats().anon, 0);
    /// assert_eq!(process.fault(start, Access::READ), Err(Fault::ADRERR));
    /// # Ok(())
    /// # }
    /// ```
    pub fn reap(&self) -> bool {
        let Some(space) = self.mm.space.try_read() else {
            return false;
        };
        // Before the first page goes: a fault that finds the page gone sees this.
        self.mm.set_reaped();
        let kept = VmFlags::LOCKED | VmFlags::PFNMAP | VmFlags::HUGETLB | VmFlags::SHARED;
        for area in space.areas.iter() {
            if !area.vma.flags.intersects(kept) {
                // A shared table that cannot be split for lack of memory stays until the process
                // ends.
                let _ = self.mm.tables.unmap_with(
                    area.start..area.end,
                    UnmapFilter::Pages,
                    self.mm.machine.tlb(),
                    |_, _| {},
                );
            }
        }
        true
    }
}

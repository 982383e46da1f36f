//! A process that is ended where memory runs out loses its memory at once, and not when its threads come to their ends.

use samara_paging::UnmapFilter;

use crate::flags::VmFlags;
use crate::process::{Platform, Process};

impl<P: Platform> Process<P> {
    /// Gives up the pages of private areas that are not locked, beside faults and copies of the process, and before it ends. Calls wait meanwhile, and it
    /// does nothing while one is under way, since that one may take long: false, and it can be tried again. O(areas and pages).
    ///
    /// From now on what is missing raises `SIGBUS` instead of coming back as zeroes. (A fault that is under way may still map one page.) What has been
    /// pinned stays with who has pinned it.
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
        // Before the first page goes: who finds it gone finds this.
        self.mm.set_reaped();
        let kept = VmFlags::LOCKED | VmFlags::PFNMAP | VmFlags::HUGETLB | VmFlags::SHARED;
        for area in space.areas.iter() {
            if !area.vma.flags.intersects(kept) {
                // A table that several share and that cannot be divided, for want of memory, goes with the process.
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

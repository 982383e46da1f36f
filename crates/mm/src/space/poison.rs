//! Reports of what a userfaultfd has done to pages: poisoned them (`UFFDIO_POISON`) or filled them
//! (`UFFDIO_COPY`).
//!
//! Whether such a call succeeds depends on which pages are present, which the engine does not know.
//! So it is told what has been done, and does not decide what the call returns.

use crate::errno::Errno;
use crate::kernel::Rule;
use crate::space::AddressSpace;

impl AddressSpace {
    /// Reports that a userfaultfd has poisoned the pages of `[start, end)` (`UFFDIO_POISON`,
    /// `ioctl_userfaultfd(2)`). From now on each access fails as in failed memory, with `SIGBUS`;
    /// locking ends there with `ENOMEM`, and populating with `EHWPOISON`. Both addresses are
    /// multiples of the page size.
    ///
    /// Poison moves with `mremap` and goes with the mapping. `MADV_DONTNEED`, `MADV_FREE` and
    /// [filling a page](Self::note_brought) remove it, and a guard replaces it. A child has the
    /// poison of private VMAs. Private VMAs have an anon_vma from now on. Holes are skipped.
    ///
    /// # Errors
    /// `EINVAL` if the imitated kernel has no such call. `ENOMEM` when an allocation fails: then
    /// some of the pages may be poisoned.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Call, Config, Errno, FileArg, Layout, Limits};
    ///
    /// let mut space = AddressSpace::new(Config::default(), Limits::default(), Layout::default())?;
    /// let (prot, flags) = (3, 0x22); // PROT_READ | PROT_WRITE; MAP_PRIVATE | MAP_ANONYMOUS
    /// let start = space.perform(&Call::Mmap { addr: 0, len: 0x4000, prot, flags, file: FileArg::None, offset: 0 })?;
    /// space.poison(start + 0x1000, start + 0x2000)?;
    /// assert_eq!(space.fault(start + 0x1000, false), Err(Errno::EHWPOISON));
    /// let populate = Call::Madvise { addr: start, len: 0x4000, advice: 22 };
    /// assert_eq!(space.perform(&populate), Err(Errno::EHWPOISON));
    /// space.perform(&Call::Madvise { addr: start, len: 0x4000, advice: 4 })?;
    /// assert_eq!(space.perform(&populate), Ok(0));
    /// # Ok::<(), Errno>(())
    /// ```
    pub fn poison(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        if !self.config.kernel.has(Rule::Poison) {
            return Err(Errno::EINVAL);
        }
        let mut next = start;
        while let Some(area) = self.areas.find_in(next, end) {
            let (from, to) = (area.start.max(start), area.end.min(end));
            next = area.end;
            self.guards_mut()?.poison(from, to)?;
            self.areas.before_change(from, from + 1)?;
            self.touch(from);
        }
        Ok(())
    }

    /// Reports that a userfaultfd has filled the pages of `[start, end)` (`UFFDIO_COPY`, and in
    /// shared VMAs `UFFDIO_ZEROPAGE` and `UFFDIO_CONTINUE`): poison and guards there are gone. Both
    /// addresses are multiples of the page size. O(log n) if there was no marker.
    ///
    /// # Errors
    /// `ENOMEM` when an allocation fails.
    pub fn note_brought(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        if self.guards.first_in(start, end).is_none() {
            return Ok(());
        }
        self.guards_mut()?.remove(start, end)
    }

    /// Returns `true` if there is a guard or poison in `[start, end)`. O(log n).
    pub fn has_markers(&self, start: u64, end: u64) -> bool {
        self.guards.first_in(start, end).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Call;
    use crate::config::{Config, Layout, Limits};
    use crate::file::FileArg;
    use crate::kernel::KernelVersion;

    const PAGE: u64 = 0x1000;
    const PRIVATE: u64 = 0x22;
    const SHARED: u64 = 0x21;
    const GUARD_INSTALL: i32 = 102;
    const GUARD_REMOVE: i32 = 103;

    fn space(config: Config) -> AddressSpace {
        AddressSpace::new(config, Limits::default(), Layout::default()).unwrap()
    }

    fn map(space: &mut AddressSpace, flags: u64) -> u64 {
        let call = Call::Mmap {
            addr: 0,
            len: 8 * PAGE,
            prot: 3,
            flags,
            file: FileArg::None,
            offset: 0,
        };
        space.perform(&call).unwrap()
    }

    fn advise(space: &mut AddressSpace, addr: u64, pages: u64, advice: i32) -> Result<u64, Errno> {
        let len = pages * PAGE;
        space.perform(&Call::Madvise { addr, len, advice })
    }

    /// Returns the error of populating a page.
    fn filling(space: &mut AddressSpace, addr: u64) -> Option<Errno> {
        advise(space, addr, 1, 22).err()
    }

    /// Returns an address space with a VMA whose second and third page are poisoned, and the start
    /// of the VMA.
    fn poisoned(flags: u64) -> (AddressSpace, u64) {
        let mut space = space(Config::default());
        let start = map(&mut space, flags);
        space.poison(start + PAGE, start + 3 * PAGE).unwrap();
        (space, start)
    }

    #[test]
    fn locking_and_populating_fail_at_poison() {
        for flags in [PRIVATE, SHARED] {
            let (mut space, start) = poisoned(flags);
            for advice in [22, 23] {
                assert_eq!(advise(&mut space, start, 8, advice), Err(Errno::EHWPOISON));
            }
            let mlock = |len, flags| Call::Mlock {
                addr: start,
                len,
                flags,
            };
            assert_eq!(space.perform(&mlock(8 * PAGE, 0)), Err(Errno::ENOMEM));
            assert_eq!(space.perform(&mlock(8 * PAGE, 1)), Ok(0));
            assert_eq!(space.perform(&mlock(PAGE, 0)), Ok(0));
            assert_eq!(space.fault(start + 2 * PAGE, true), Err(Errno::EHWPOISON));
            assert_eq!(space.fault(start + 3 * PAGE, true), Ok(()));
        }
    }

    #[test]
    fn advice_takes_it_away_or_leaves_it() {
        let left = Some(Errno::EHWPOISON);
        for (advice, then) in [
            (4, None),
            (8, None),
            (24, None),
            (3, left),
            (20, left),
            (21, left),
            (GUARD_REMOVE, left),
            (GUARD_INSTALL, Some(Errno::EFAULT)),
        ] {
            let (mut space, start) = poisoned(PRIVATE);
            assert_eq!(advise(&mut space, start, 2, advice), Ok(0));
            assert_eq!(filling(&mut space, start + PAGE), then, "{advice}");
            assert_eq!(filling(&mut space, start + 2 * PAGE), left, "{advice}");
            // Nothing comes back from below a guard.
            if advice == GUARD_INSTALL {
                advise(&mut space, start, 2, GUARD_REMOVE).unwrap();
                assert_eq!(filling(&mut space, start + PAGE), None);
            }
        }
    }

    #[test]
    fn collapsing_shared_memory_takes_it_from_whole_huge_pages() {
        const HUGE: u64 = 2 << 20;
        for (flags, then) in [(SHARED, None), (PRIVATE, Some(Errno::EHWPOISON))] {
            let mut space = space(Config::default());
            let start = 0x1000_0000_0000;
            let call = Call::Mmap {
                addr: start,
                len: 3 * HUGE,
                prot: 3,
                flags: flags | 0x10,
                file: FileArg::None,
                offset: 0,
            };
            space.perform(&call).unwrap();
            for page in [start, start + HUGE, start + 2 * HUGE] {
                space.poison(page, page + PAGE).unwrap();
            }
            advise(&mut space, start + PAGE, (3 * HUGE - 2 * PAGE) / PAGE, 25).unwrap();
            assert_eq!(filling(&mut space, start), Some(Errno::EHWPOISON));
            assert_eq!(filling(&mut space, start + HUGE), then);
            let last = start + 2 * HUGE;
            assert_eq!(filling(&mut space, last), Some(Errno::EHWPOISON));
        }
    }

    #[test]
    fn the_nearer_of_guard_and_poison_decides() {
        let (mut space, start) = poisoned(PRIVATE);
        advise(&mut space, start + 3 * PAGE, 1, GUARD_INSTALL).unwrap();
        assert_eq!(filling(&mut space, start + 3 * PAGE), Some(Errno::EFAULT));
        assert_eq!(advise(&mut space, start, 8, 22), Err(Errno::EHWPOISON));
        advise(&mut space, start, 8, 4).unwrap();
        assert_eq!(advise(&mut space, start, 8, 22), Err(Errno::EFAULT));
        space
            .note_brought(start + 3 * PAGE, start + 4 * PAGE)
            .unwrap();
        assert_eq!(advise(&mut space, start, 8, 22), Ok(0));
    }

    #[test]
    fn it_moves_with_its_area_and_goes_with_it() {
        let (mut space, start) = poisoned(SHARED);
        let to = start - 0x100_0000;
        let call = Call::Mremap {
            old_addr: start,
            old_len: 8 * PAGE,
            new_len: 8 * PAGE,
            flags: 3,
            new_addr: to,
        };
        assert_eq!(space.perform(&call), Ok(to));
        assert_eq!(filling(&mut space, to), None);
        assert_eq!(filling(&mut space, to + PAGE), Some(Errno::EHWPOISON));
        let addr = to + PAGE;
        space.perform(&Call::Munmap { addr, len: PAGE }).unwrap();
        assert!(!space.has_markers(to, to + 2 * PAGE));
        assert!(space.has_markers(to, to + 3 * PAGE));
    }

    #[test]
    fn a_child_has_that_of_page_tables_that_are_copied() {
        let left = Some(Errno::EHWPOISON);
        let (mut space, start) = poisoned(PRIVATE);
        assert_eq!(filling(&mut space.fork().unwrap(), start + PAGE), left);
        advise(&mut space, start, 8, 18).unwrap();
        assert_eq!(filling(&mut space.fork().unwrap(), start + PAGE), None);
        let (mut space, start) = poisoned(SHARED);
        assert_eq!(filling(&mut space.fork().unwrap(), start + PAGE), None);
        advise(&mut space, start + 5 * PAGE, 1, GUARD_INSTALL).unwrap();
        assert_eq!(filling(&mut space.fork().unwrap(), start + PAGE), left);
        assert_eq!(filling(&mut space.try_clone().unwrap(), start + PAGE), left);
    }

    #[test]
    fn older_kernels_know_of_none() {
        let config = Config {
            kernel: KernelVersion::new(6, 1),
            ..Config::default()
        };
        let mut space = space(config);
        let start = map(&mut space, PRIVATE);
        assert_eq!(space.poison(start, start + PAGE), Err(Errno::EINVAL));
        assert_eq!(filling(&mut space, start), None);
    }
}

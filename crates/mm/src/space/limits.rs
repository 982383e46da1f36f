//! Checks of limits on mapped, locked and committed memory, without side effects.

use crate::config::Overcommit;
use crate::errno::Errno;
use crate::flags::VmFlags;
use crate::space::AddressSpace;

impl AddressSpace {
    /// Returns `true` if no VMA may be split any more (`vm.max_map_count` reached).
    pub(crate) fn at_map_limit(&self) -> bool {
        self.areas.count() >= self.config.max_map_count as usize
    }

    /// Returns `true` if no new mapping may be made. Linux allows one more VMA than splits may
    /// make.
    pub(crate) fn over_map_limit(&self) -> bool {
        self.areas.count() > self.config.max_map_count as usize
    }

    /// Returns `true` if `RLIMIT_AS` and `RLIMIT_DATA` allow `pages` more pages with these flags.
    pub(crate) fn may_expand(&self, flags: VmFlags, pages: u64) -> bool {
        let counts = self.areas.pages();
        if counts.total().saturating_add(pages) > self.limits.address_space >> 12 {
            return false;
        }
        // A soft limit of 0 stands for the hard limit, which is taken to be none.
        matches!(self.limits.data, 0 | u64::MAX)
            || !flags.is_data()
            || counts.kinds().data.saturating_add(pages) <= self.limits.data >> 12
    }

    /// Returns `true` if the commit limit allows `pages` more pages.
    pub(crate) fn may_commit(&self, pages: u64) -> bool {
        match self.config.overcommit {
            Overcommit::Always => true,
            Overcommit::Heuristic => pages <= self.config.total_pages,
            Overcommit::Never { limit_pages } => {
                self.areas.pages().kinds().accounted.saturating_add(pages) <= limit_pages
            }
        }
    }

    /// Returns `true` if the VMAs of a child may be charged. Linux checks each by itself, as if
    /// there were no others.
    pub(crate) fn may_commit_copies(&self) -> bool {
        if !matches!(self.config.overcommit, Overcommit::Heuristic) {
            return true;
        }
        // The usual case: even all of them together fit.
        self.may_commit(self.areas.pages().total())
            || self.areas.iter().all(|area| {
                !area.vma.flags.contains(VmFlags::ACCOUNT)
                    || area.vma.flags.contains(VmFlags::DONTCOPY)
                    || self.may_commit((area.end - area.start) >> 12)
            })
    }

    /// Checks that the caller may lock memory at all.
    pub(crate) fn may_lock(&self) -> Result<(), Errno> {
        if self.limits.memlock != 0 || self.config.capabilities.ipc_lock {
            Ok(())
        } else {
            Err(Errno::EPERM)
        }
    }

    /// Returns `true` if a new mapping of `bytes` with these flags keeps within `RLIMIT_MEMLOCK`.
    #[inline(always)]
    pub(crate) fn may_lock_new(&self, flags: VmFlags, bytes: u64) -> bool {
        !flags.contains(VmFlags::LOCKED) || self.may_lock_more(bytes)
    }

    /// Returns `true` if `bytes` more may be locked.
    fn may_lock_more(&self, bytes: u64) -> bool {
        self.config.capabilities.ipc_lock
            || self.locked_pages().saturating_add(bytes >> 12) <= self.limits.memlock >> 12
    }

    /// Returns the number of pages that count as locked.
    pub(crate) fn locked_pages(&self) -> u64 {
        self.areas.pages().kinds().locked + self.locked_leak
    }
}

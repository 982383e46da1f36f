//! Areas that could not grow: an access below leaves them where they are, but with an owner of private pages, if it was a limit that kept them there.
//!
//! A thread is notified by `SIGSEGV`. An access by the kernel for a program (`read(2)`) fails, and
//! nothing else reports it.

use samara_mm::{Area, VmFlags};

use super::Checker;
use crate::orderings::Range;
use crate::replica::Replica;

impl Replica {
    /// This after an access to `address`, where nothing is mapped, for which the area above could not grow: a limit keeps it from that, but it has an owner
    /// from then on. `None` if that is impossible, or of no importance.
    pub(super) fn grown_in_vain(&self, address: u64) -> Option<Self> {
        let above = self.engine.find_intersection(address, u64::MAX)?;
        if above.start <= address || !may_grow_in_vain(&above) {
            return None;
        }
        let start = above.start;
        let mut other = self.try_clone().ok()?;
        other.engine.grow_stack(address).err()?;
        let above = other.engine.lookup(start)?;
        above.vma.anon().is_some().then_some(other)
    }
}

impl Checker {
    /// Returns areas that may have an owner because the kernel could not grow them, or because a
    /// userfaultfd failed to fill them in. No file of the kernel shows either.
    pub fn owned_in_vain(&self) -> Vec<Range> {
        let watched = |area: &Area<'_>| {
            let flags = area.vma.flags & (VmFlags::UFFD | VmFlags::SHARED);
            area.vma.anon().is_none() && !flags.is_empty() && !flags.contains(VmFlags::SHARED)
        };
        let owned = |area: &Area<'_>| may_grow_in_vain(area) || watched(area);
        let growing = self.engine().areas().filter(owned);
        growing.map(|area| (area.start, area.end)).collect()
    }
}

/// Returns `true` if the area grows down, and nothing is known of its pages.
fn may_grow_in_vain(area: &Area<'_>) -> bool {
    area.vma.flags.contains(VmFlags::GROWSDOWN) && area.vma.anon().is_none()
}

//! The walk over the VMAs of a range that madvise, mlock, mseal and others share.

use crate::errno::Errno;
use crate::space::AddressSpace;
use crate::space::areas::Span;
use crate::space::merge::Merge;
use crate::vma::Vma;
use crate::vma::vma_box::VmaBox;

impl AddressSpace {
    /// Calls `visit(self, from, to)` for the part of each VMA within `[start, end)`, upwards.
    /// `visit` may change the VMA. Skips holes, and returns `true` if there was none.
    ///
    /// # Errors
    /// The first one of `visit`.
    pub(crate) fn for_parts(
        &mut self,
        start: u64,
        end: u64,
        mut visit: impl FnMut(&mut Self, u64, u64) -> Result<(), Errno>,
    ) -> Result<bool, Errno> {
        let mut next = start;
        let mut whole = true;
        while next < end {
            let Some(area) = self.areas.find_in(next, end) else {
                return Ok(false);
            };
            whole &= area.start <= next;
            let (from, to) = (area.start.max(next), area.end.min(end));
            visit(self, from, to)?;
            next = to;
        }
        Ok(whole)
    }

    /// Returns `true` if all of `[start, end)` is mapped.
    pub(crate) fn is_mapped(&self, start: u64, end: u64) -> bool {
        let mut next = start;
        while next < end {
            match self.areas.at(next) {
                Some(area) => next = area.end,
                None => return false,
            }
        }
        true
    }

    /// Changes the attributes of `[start, end)`, which lies in one VMA, and merges. Does nothing if
    /// `alter` changes nothing.
    ///
    /// # Errors
    /// As [`split_out`](Self::split_out).
    pub(crate) fn alter(
        &mut self,
        start: u64,
        end: u64,
        alter: impl FnOnce(&mut Vma),
    ) -> Result<(), Errno> {
        let mut span = Span::new(start, end);
        let neighbours = self.areas.neighbours_of_part(&mut span);
        let Some(area) = neighbours.first else {
            return Ok(());
        };
        let mut vma = area.vma.try_clone()?;
        alter(&mut vma);
        if vma == *area.vma {
            return Ok(());
        }
        match Merge::altering(&span, &neighbours, &vma, vma.flags, self.config.kernel) {
            Some(merge) => self.merge_into(&span, &merge, vma.flags),
            None => self.split_out(&span, VmaBox::try_new(vma)?),
        }
    }
}

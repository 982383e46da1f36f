//! Checks of every invariant of the map, for tests and debugging.

use core::fmt;

use crate::flags::PAGE_SIZE;
use crate::space::AddressSpace;
use crate::space::merge::{anon_vmas_agree, continues};

/// An invariant that does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken {
    /// The address where it does not hold.
    pub address: u64,
    /// The invariant.
    pub what: &'static str,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {:#x}: {}", self.address, self.what)
    }
}

impl core::error::Error for Broken {}

impl AddressSpace {
    /// Checks every invariant. O(n).
    ///
    /// # Errors
    /// The first one that does not hold.
    pub fn check(&self) -> Result<(), Broken> {
        let broken = |address, what| Err(Broken { address, what });
        let mut end = 0;
        for area in self.areas.iter() {
            if area.start < end {
                return broken(area.start, "areas overlap");
            }
            if area.start >= area.end
                || !area.start.is_multiple_of(PAGE_SIZE)
                || !area.end.is_multiple_of(PAGE_SIZE)
            {
                return broken(area.start, "the range is empty or not aligned");
            }
            if area.end > self.config.task_size {
                return broken(area.start, "the range reaches beyond user space");
            }
            end = area.end;
        }
        self.areas
            .check()
            .map_err(|what| Broken { address: 0, what })
    }

    /// Returns the number of pairs of adjacent VMAs that could be one. Linux has such pairs too,
    /// where the condition arose without a call on them.
    pub fn unmerged_pairs(&self) -> usize {
        let lower = self.areas.iter();
        let upper = self.areas.iter().skip(1);
        lower
            .zip(upper)
            .filter(|(a, b)| {
                a.end == b.start
                    && continues(a.vma, b.vma)
                    && anon_vmas_agree(a.vma.anon(), b.vma.anon())
            })
            .count()
    }
}

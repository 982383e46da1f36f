//! Iteration over VMAs that does not hold the map between steps, as a BPF program iterates over a
//! task's (`bpf_iter_task_vma`).

use crate::space::AddressSpace;
use crate::vma::Area;

/// The position of an iteration over VMAs: an address, so that the map may change between two
/// steps. A VMA that exists all the time above the position is not left out. A VMA that has grown
/// upwards since it was returned, or has merged with one above, is returned once more, as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskVmas {
    next: u64,
}

impl TaskVmas {
    /// Creates an iteration from this address on.
    pub const fn from(addr: u64) -> Self {
        TaskVmas { next: addr }
    }

    /// Returns the next VMA, in the current map. O(log n).
    ///
    /// ```
    /// use samara_mm::observe::TaskVmas;
    /// # use samara_mm::{AddressSpace, Config, Layout, Limits, MmapOptions};
    /// let mut space = AddressSpace::new(Config::default(), Limits::default(), Layout::default())?;
    /// for start in [0x10000, 0x20000, 0x30000] {
    ///     space.mmap(&MmapOptions::anonymous(0x1000).fixed(start))?;
    /// }
    /// let mut areas = TaskVmas::default();
    /// assert_eq!(areas.next(&space).unwrap().start, 0x10000);
    /// space.munmap(0x10000, 0x11000)?; // both this one and the next
    /// assert_eq!(areas.next(&space).unwrap().start, 0x30000);
    /// assert!(areas.next(&space).is_none());
    /// # Ok::<(), samara_mm::Errno>(())
    /// ```
    pub fn next<'a>(&mut self, space: &'a AddressSpace) -> Option<Area<'a>> {
        let area = space.find(self.next)?;
        self.next = area.end;
        Some(area)
    }
}

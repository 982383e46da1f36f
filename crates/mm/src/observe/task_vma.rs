//! Areas one after the other, with the map let go in between: what a program of BPF sees of a task (`bpf_iter_task_vma`).

use crate::space::AddressSpace;
use crate::space::vma::Area;

/// Where an iteration over areas goes on: by address, so that the map may change between two steps. No area is left out that is there all the
/// time above what was shown. One that has grown upwards since it was shown, or was joined with one above, is shown once more, whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskVmas {
    next: u64,
}

impl TaskVmas {
    /// From this address on.
    pub const fn from(addr: u64) -> Self {
        TaskVmas { next: addr }
    }

    /// The next area, in the map as it is now. O(log n).
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

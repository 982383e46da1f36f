//! The three regions that DAMON first monitors (Documentation/mm/damon/design.rst): the range
//! between the lowest and the highest address, without the two largest gaps. These are usually the
//! gaps below the mappings and below the stack.

use core::ops::Range;

use crate::space::AddressSpace;

impl AddressSpace {
    /// Returns the range of all VMAs without its two largest gaps. Of equal gaps, the lower ones
    /// count as larger. `None` with fewer than two gaps. O(n).
    ///
    /// ```
    /// # use samara_mm::{AddressSpace, Config, Layout, Limits, MmapOptions};
    /// let mut space = AddressSpace::new(Config::default(), Limits::default(), Layout::default())?;
    /// for start in [0x10000, 0x20000, 0x22000, 0x90000] {
    ///     space.mmap(&MmapOptions::anonymous(0x1000).fixed(start))?;
    /// }
    /// let regions = space.three_regions().unwrap();
    /// assert_eq!(regions, [0x10000..0x11000, 0x20000..0x23000, 0x90000..0x91000]);
    /// # Ok::<(), samara_mm::Errno>(())
    /// ```
    pub fn three_regions(&self) -> Option<[Range<u64>; 3]> {
        let mut areas = self.areas.iter();
        let first = areas.next()?;
        let (start, mut end) = (first.start, first.end);
        // The larger one, and the other.
        let (mut one, mut two) = (0..0, 0..0);
        let size = |gap: &Range<u64>| gap.end - gap.start;
        for area in areas {
            let gap = end..area.start;
            end = area.end;
            if size(&gap) > size(&one) {
                two = one;
                one = gap;
            } else if size(&gap) > size(&two) {
                two = gap;
            }
        }
        if size(&two) == 0 {
            return None;
        }
        if one.start > two.start {
            (one, two) = (two, one);
        }
        Some([start..one.start, one.end..two.start, two.end..end])
    }
}

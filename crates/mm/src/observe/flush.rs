//! The parts of an address space to flush, for processors whose caches or translations go by VMA.

use core::ops::Range;

use crate::flags::VmFlags;
use crate::space::AddressSpace;
use crate::vma::Area;

impl AddressSpace {
    /// Returns the mapped parts of `[start, end)`, ascending, with `true` if instructions are
    /// fetched there. Equal neighbouring parts are joined. O(log n) and the VMAs in it.
    ///
    /// ```
    /// # use samara_mm::{AddressSpace, Config, Layout, Limits, MmapOptions, Prot};
    /// let mut space = AddressSpace::new(Config::default(), Limits::default(), Layout::default())?;
    /// for (start, prot) in [(0x10000, Prot::READ), (0x11000, Prot::READ | Prot::WRITE), (0x20000, Prot::EXEC)] {
    ///     space.mmap(&MmapOptions::anonymous(0x1000).prot(prot).fixed(start))?;
    /// }
    /// let parts: Vec<_> = space.flush_ranges(0, u64::MAX).collect();
    /// assert_eq!(parts, [(0x10000..0x12000, false), (0x20000..0x21000, true)]);
    /// # Ok::<(), samara_mm::Errno>(())
    /// ```
    pub fn flush_ranges(&self, start: u64, end: u64) -> impl Iterator<Item = (Range<u64>, bool)> {
        let code = |area: &Area<'_>| area.vma.flags.contains(VmFlags::EXEC);
        // An empty range of the tree would be out of order.
        let range = start..end.max(start.saturating_add(1));
        let mut areas = self.areas.in_range(range).peekable();
        core::iter::from_fn(move || {
            let first = areas.next().filter(|first| first.start < end)?;
            let mut part = first.start.max(start)..first.end.min(end);
            while let Some(next) =
                areas.next_if(|next| next.start == part.end && code(next) == code(&first))
            {
                part.end = next.end.min(end);
            }
            Some((part, code(&first)))
        })
    }
}

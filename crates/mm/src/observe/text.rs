//! The whole map as `/proc/PID/maps` prints it.

use core::fmt;

use crate::space::AddressSpace;

impl AddressSpace {
    /// Writes what `/proc/PID/maps` prints, without `[vsyscall]`, which is in no address space.
    /// O(n), and no allocation.
    ///
    /// # Errors
    /// Those of `out`.
    ///
    /// ```
    /// # use samara_mm::{AddressSpace, Config, Layout, Limits, MmapOptions};
    /// let mut space = AddressSpace::new(Config::default(), Limits::default(), Layout::default())?;
    /// space.mmap(&MmapOptions::anonymous(0x1000))?;
    /// let mut text = String::new();
    /// space.write_maps(&mut text).unwrap();
    /// assert_eq!(text, "7ffff7ffe000-7ffff7fff000 ---p 00000000 00:00 0 \n");
    /// # Ok::<(), samara_mm::Errno>(())
    /// ```
    pub fn write_maps(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.maps().try_for_each(|line| writeln!(out, "{line}"))
    }
}

//! Reasons why two neighbours do not merge, by the rule in `merge.rs`.

use bitflags::bitflags;

use crate::space::merge;
use crate::vma::Area;

bitflags! {
    /// Reasons why two VMAs are not one ([`Area::obstacles`]).
    ///
    /// Two VMAs without an obstacle may still be separate: Linux merges them when a call inserts or
    /// changes one of them, not when they become equal.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Obstacles: u32 {
        /// There is a hole between them.
        const APART = 1;
        /// Their flags differ in more than `SOFTDIRTY`: permissions, locks, advice.
        const FLAGS = 1 << 1;
        /// One is managed by a driver or must not grow. Such VMAs never merge.
        const SPECIAL = 1 << 2;
        /// The page offset of the upper one does not continue that of the lower one.
        const OFFSET = 1 << 3;
        /// They map different objects, or one object through two open file descriptions. Objects
        /// that the kernel installs at exec never agree.
        const OBJECT = 1 << 4;
        /// Their memory policies differ.
        const POLICY = 1 << 5;
        /// They are registered with different userfaultfds, or only one of them is registered.
        const UFFD = 1 << 6;
        /// Their names differ (`PR_SET_VMA_ANON_NAME`).
        const NAME = 1 << 7;
        /// Both have an anon_vma, but not the same one; or one has pages that it may share with a
        /// parent.
        const OWNER = 1 << 8;
    }
}

impl Area<'_> {
    /// Returns the reasons why this VMA and `upper` do not merge, by the rule that calls use. O(1).
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, Layout, Limits, MmapOptions, Obstacles, Prot};
    ///
    /// let mut space = AddressSpace::new(Config::default(), Limits::default(), Layout::default())?;
    /// let start = space.mmap(&MmapOptions::anonymous(0x2000).prot(Prot::READ))?;
    /// space.mprotect(start, 0x1000, Prot::empty())?;
    /// let areas: Vec<_> = space.areas().collect();
    /// assert_eq!(areas[0].obstacles(&areas[1]), Obstacles::FLAGS);
    /// # Ok::<(), samara_mm::Errno>(())
    /// ```
    pub fn obstacles(&self, upper: &Area<'_>) -> Obstacles {
        let mut found = merge::obstacles(self.vma, upper.vma);
        found.set(Obstacles::APART, self.end != upper.start);
        found
    }
}

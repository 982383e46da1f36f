//! Why two neighbours are two: the merge rule, asked for what in it does not hold.

use bitflags::bitflags;

use crate::space::merge;
use crate::space::vma::Area;

bitflags! {
    /// What keeps two areas from being one ([`Area::obstacles`]).
    ///
    /// Areas without any obstacle may still be two: Linux joins them when a call lays down or changes one of them, not when they become alike.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Obstacles: u32 {
        /// There is a hole between them.
        const APART = 1;
        /// Their flags differ in more than `SOFTDIRTY`: permissions, locks, advice.
        const FLAGS = 1 << 1;
        /// One is a driver's, or may not grow: such areas never join others.
        const SPECIAL = 1 << 2;
        /// The upper one does not go on in the object where the lower one ends.
        const OFFSET = 1 << 3;
        /// They map different objects, or one by two open files; what the kernel installs at exec is never the same.
        const OBJECT = 1 << 4;
        /// Their memory policies differ.
        const POLICY = 1 << 5;
        /// They are watched by different userfaultfds, or only one of them is.
        const UFFD = 1 << 6;
        /// Their names differ (`PR_SET_VMA_ANON_NAME`).
        const NAME = 1 << 7;
        /// Both have private pages, with different owners; or one has pages that it may share with a parent.
        const OWNER = 1 << 8;
    }
}

impl Area<'_> {
    /// What keeps this area from being one with `upper`, by the rule that calls merge by. O(1).
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

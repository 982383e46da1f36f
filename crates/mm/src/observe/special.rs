//! The kernel's own VMAs, `[vdso]` and similar: found by name, and tracked while a program moves
//! them.

use core::ops::Range;

use crate::pages::Watch;
use crate::space::AddressSpace;
use crate::vma::{Area, Backing, SpecialObject, Vma};

/// The address of a VMA that the kernel has installed, kept up to date as architectures do for each
/// process. It takes part in each call as the owner of the pages, and answers without a search. A
/// program can move such a VMA (`mremap`) or unmap it, but cannot split it.
///
/// ```
/// # use samara_mm::{AddressSpace, Call, Config, Layout, Limits, SeedVma, VmFlags};
/// use samara_mm::observe::Special;
/// # let mut space = AddressSpace::new(Config::default(), Limits::default(), Layout::default())?;
/// # space.seed(SeedVma {
/// #     start: 0x7000_0000,
/// #     end: 0x7000_2000,
/// #     prot: 5,
/// #     shared: false,
/// #     offset: 0,
/// #     file: None,
/// #     flags: Some(VmFlags::from_smaps("rd ex mr mw me de")),
/// #     name: Some("[vdso]".into()),
/// #     touched: false,
/// # })?;
/// let mut vdso = Special::find(&space, "[vdso]").unwrap();
/// assert_eq!(vdso.place(), Some(0x7000_0000..0x7000_2000));
/// let call = Call::Mremap { old_addr: 0x7000_0000, old_len: 0x2000, new_len: 0x2000, flags: 3, new_addr: 0x1_0000_0000 };
/// space.perform_with(&call, &mut vdso)?;
/// assert_eq!(vdso.place(), Some(0x1_0000_0000..0x1_0000_2000));
/// space.perform_with(&Call::Munmap { addr: 0x1_0000_0000, len: 0x2000 }, &mut vdso)?;
/// assert_eq!(vdso.place(), None);
/// # Ok::<(), samara_mm::Errno>(())
/// ```
#[derive(Clone, Debug)]
pub struct Special {
    object: SpecialObject,
    place: Option<Range<u64>>,
}

impl Special {
    /// Finds the lowest VMA of this name. O(n).
    pub fn find(space: &AddressSpace, name: &str) -> Option<Self> {
        let area = space.special(name)?;
        let Backing::Special(object) = &area.vma.backing else {
            return None;
        };
        Some(Special {
            object: object.clone(),
            place: Some(area.start..area.end),
        })
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.object.name()
    }

    /// Returns the range; `None` if the program has unmapped it.
    pub fn place(&self) -> Option<Range<u64>> {
        self.place.clone()
    }
}

impl Watch for Special {
    /// An undone call maps it again.
    fn map(&mut self, start: u64, end: u64, vma: &Vma) {
        if matches!(&vma.backing, Backing::Special(object) if *object == self.object) {
            self.place = Some(start..end);
        }
    }

    fn unmap(&mut self, start: u64, end: u64) {
        let gone = |place: &Range<u64>| (start..end).contains(&place.start);
        self.place = self.place.take().filter(|place| !gone(place));
    }

    fn relocate(&mut self, from: u64, to: u64, len: u64) {
        if let Some(place) = &mut self.place
            && let Some(offset) = place.start.checked_sub(from)
            && offset < len
        {
            let size = place.end - place.start;
            *place = to + offset..to + offset + size;
        }
    }
}

impl AddressSpace {
    /// Returns the VMAs that the kernel has installed and that are not the program's own memory,
    /// ascending: `[vvar]`, `[vdso]` and similar, wherever a program has moved them. O(n).
    pub fn specials(&self) -> impl DoubleEndedIterator<Item = Area<'_>> {
        let is = |area: &Area<'_>| matches!(area.vma.backing, Backing::Special(_));
        self.areas.iter().filter(is)
    }

    /// Returns the lowest of them with this name. O(n).
    ///
    /// ```
    /// # use samara_mm::{AddressSpace, Config, Layout, Limits};
    /// let space = AddressSpace::new(Config::default(), Limits::default(), Layout::default())?;
    /// assert!(space.special("[vdso]").is_none()); // no program was started here
    /// # Ok::<(), samara_mm::Errno>(())
    /// ```
    pub fn special(&self, name: &str) -> Option<Area<'_>> {
        let named = |area: &Area<'_>| matches!(&area.vma.backing, Backing::Special(own) if own.name() == name);
        self.specials().find(named)
    }
}

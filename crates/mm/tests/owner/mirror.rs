//! An owner that mirrors pages: a flat array to which everything told is applied, and which at the end of each call must agree
//! with the areas.

use std::collections::BTreeMap;

use samara_mm::{
    AddressSpace, Area, Backing, Errno, Object, PageAdvice, Pages, PrepareOp, SyncFlags, VmFlags,
    Vma,
};

const PAGE: u64 = 4096;

/// The error of a refusal, with which no call fails otherwise.
pub(crate) const REFUSED: Errno = Errno(4095);

/// The known facts of a page: the permitted accesses, and its number in its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Page {
    access: VmFlags,
    origin: Option<(u64, u64)>,
}

impl Page {
    fn of(vma: &Vma, address: u64) -> Self {
        // Anonymous memory is numbered anew when it moves untouched.
        let object = match &vma.backing {
            Backing::File(_) if vma.is_anonymous() => None,
            Backing::File(file) => {
                Some(file.id.inode << 8 | file.description.map_or(0, |number| number.get()))
            }
            Backing::SharedAnonymous(object) => Some(object.id() << 8 | 0xfe),
            Backing::Shm { attachment, .. } => Some(attachment << 8 | 0xff),
            Backing::Anonymous | Backing::Special(_) => None,
        };
        Page {
            access: access(vma),
            origin: object.map(|object| (object, vma.page_offset(address))),
        }
    }
}

fn access(vma: &Vma) -> VmFlags {
    vma.flags & (VmFlags::READ | VmFlags::WRITE | VmFlags::EXEC | VmFlags::PKEY)
}

/// The pages, by number.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mirror {
    pub(crate) pages: BTreeMap<u64, Page>,
    /// The number of notifications and preparations that could be refused.
    pub(crate) told: u32,
    /// Refuses the one with this number.
    pub(crate) refuse: Option<u32>,
    /// Has said that it may.
    pub(crate) refuses: bool,
    /// Is called when it refuses, and when undoing comes to it.
    pub(crate) starve: Option<fn(bool)>,
    pub(crate) undone: u32,
    pub(crate) populated: u32,
    pub(crate) synced: u32,
    pub(crate) objects: u32,
}

fn each(start: u64, end: u64) -> impl Iterator<Item = u64> {
    assert!(start < end && start.is_multiple_of(PAGE) && end.is_multiple_of(PAGE));
    (start..end).step_by(4096)
}

impl Mirror {
    /// Makes the mirror of the areas.
    pub(crate) fn of(space: &AddressSpace) -> Self {
        let mut mirror = Mirror::default();
        for area in space.areas() {
            mirror.put(area.start, area.end, area.vma);
        }
        mirror
    }

    fn put(&mut self, start: u64, end: u64, vma: &Vma) {
        for address in each(start, end) {
            let before = self.pages.insert(address, Page::of(vma, address));
            assert_eq!(before, None, "{address:x} is mapped already");
        }
    }

    /// The first difference from the areas.
    pub(crate) fn differs(&self, space: &AddressSpace) -> Option<String> {
        let mut pages = self.pages.iter();
        let of_areas = space.areas().flat_map(|area| {
            each(area.start, area.end).map(move |address| (address, Page::of(area.vma, address)))
        });
        for (address, page) in of_areas {
            let told = pages.next();
            if told != Some((&address, &page)) {
                return Some(format!(
                    "the areas have {address:x} {page:?}, the mirror {told:x?}"
                ));
            }
        }
        pages
            .next()
            .map(|more| format!("the mirror has {more:x?} beyond"))
    }

    fn answer(&mut self) -> Result<(), Errno> {
        self.told += 1;
        if self.refuse != Some(self.told - 1) {
            return Ok(());
        }
        if let Some(starve) = self.starve {
            starve(true);
        }
        Err(REFUSED)
    }

    /// The range lies in one area, and this is that area.
    fn is_part(&self, start: u64, end: u64, vma: &Vma) {
        for address in each(start, end) {
            let page = self.pages.get(&address);
            assert_eq!(page, Some(&Page::of(vma, address)), "at {address:x}");
        }
    }
}

impl Pages for Mirror {
    fn refuses(&self) -> bool {
        self.refuses
    }

    fn prepare(&mut self, op: PrepareOp) -> Result<(), Errno> {
        match op {
            PrepareOp::Map { start, end } | PrepareOp::Unmap { start, end } => {
                assert!(start < end);
            }
            PrepareOp::Protect { start, end } => {
                assert!(each(start, end).all(|address| self.pages.contains_key(&address)));
            }
            PrepareOp::Move { from, to, len } => {
                assert!(each(from, from + len).all(|address| self.pages.contains_key(&address)));
                assert!(to >= from + len || from >= to + len);
            }
            _ => {}
        }
        self.answer()
    }

    fn map(&mut self, start: u64, end: u64, vma: &Vma) -> Result<(), Errno> {
        self.answer()?;
        self.put(start, end, vma);
        Ok(())
    }

    fn unmap(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        self.answer()?;
        for address in each(start, end) {
            let before = self.pages.remove(&address);
            assert!(before.is_some(), "{address:x} is not mapped");
        }
        Ok(())
    }

    fn protect(&mut self, start: u64, end: u64, vma: &Vma) -> Result<(), Errno> {
        self.answer()?;
        for address in each(start, end) {
            let page = self.pages.get_mut(&address).expect("mapped");
            page.access = access(vma);
            assert_eq!(*page, Page::of(vma, address), "at {address:x}");
        }
        Ok(())
    }

    fn relocate(&mut self, from: u64, to: u64, len: u64) -> Result<(), Errno> {
        self.answer()?;
        for address in each(from, from + len) {
            let page = self.pages.remove(&address).expect("mapped");
            let before = self.pages.insert(address - from + to, page);
            assert_eq!(before, None);
        }
        Ok(())
    }

    fn advise(&mut self, start: u64, end: u64, vma: &Vma, _: PageAdvice) -> Result<(), Errno> {
        self.answer()?;
        self.is_part(start, end, vma);
        Ok(())
    }

    fn populate(
        &mut self,
        start: u64,
        end: u64,
        area: &Area<'_>,
        write: bool,
    ) -> Result<(), Errno> {
        let vma = area.vma;
        assert!(area.start <= start && end <= area.end);
        self.is_part(start, end, vma);
        let needed = if write {
            VmFlags::WRITE
        } else {
            VmFlags::READ | VmFlags::WRITE | VmFlags::EXEC
        };
        assert!(vma.flags.intersects(needed));
        assert!(!write || vma.flags.contains(VmFlags::SHARED) || vma.anon().is_some());
        self.populated += 1;
        Ok(())
    }

    fn sync(&mut self, start: u64, end: u64, vma: &Vma, _: SyncFlags) -> Result<(), Errno> {
        self.is_part(start, end, vma);
        self.synced += 1;
        Ok(())
    }

    fn object(&mut self, pages: u64) -> Result<Object, Errno> {
        self.objects += 1;
        Object::try_new(pages)
    }

    fn undoing(&mut self) {
        if let Some(starve) = self.starve {
            starve(false);
        }
        self.undone += 1;
        self.refuse = None;
    }
}

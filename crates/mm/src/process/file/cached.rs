//! The index of cached pages, by page number.

use alloc::boxed::Box;

use maple_tree::MapleTree;
use samara_paging::{FrameAllocator, PhysMem, Physical, Reclaim};

use crate::flags::PAGE_SIZE;
use crate::heap::boxed::try_box;
use crate::process::bytes;
use crate::process::file::source::PAGE_BYTES;
use crate::process::machine::Machine;
use crate::process::platform::Platform;
use crate::process::signal::Fault;

/// The frames of cached pages, with a dirty bit each. A page of a file is dirty if it was written
/// since the last write-back. A page of shared memory is dirty if it was ever written. A page also
/// counts as written while an entry of any table permits writes.
///
/// The tree holds groups of pages: a fault looks up [`GROUP`] neighbours at once, and a tree of
/// single pages would be one level deeper.
pub(crate) struct CachedPages {
    /// The groups, by page number divided by [`GROUP`].
    groups: MapleTree<u64, Box<Group>>,
    /// The number of removals.
    cuts: u64,
}

/// Neighbouring pages.
struct Group([Cached; GROUP as usize]);

/// The number of pages that a read fault maps.
const GROUP: u64 = 16;

/// The frame number of a page times 4, and flags. 0 if the page is not cached.
#[derive(Clone, Copy, PartialEq)]
struct Cached(u64);

const DIRTY: u64 = 1;
const HERE: u64 = 2;

impl Cached {
    const NONE: Self = Cached(0);

    fn new(phys: u64, dirty: bool) -> Self {
        Cached(phys >> 12 << 2 | HERE | if dirty { DIRTY } else { 0 })
    }

    fn frame(self) -> Option<u64> {
        (self.0 & HERE != 0).then_some(self.0 >> 2 << 12)
    }

    fn is_dirty(self) -> bool {
        self.0 & DIRTY != 0
    }
}

impl Group {
    fn at(&self, page: u64) -> Cached {
        self.0[(page % GROUP) as usize]
    }

    fn at_mut(&mut self, page: u64) -> &mut Cached {
        &mut self.0[(page % GROUP) as usize]
    }
}

impl CachedPages {
    pub(super) const fn new() -> Self {
        CachedPages {
            groups: MapleTree::new(),
            cuts: 0,
        }
    }

    /// Returns the number of removals. While it is the same, no page was removed.
    pub(crate) fn cuts(&self) -> u64 {
        self.cuts
    }

    fn at(&self, page: u64) -> Cached {
        self.groups
            .get(page / GROUP)
            .map_or(Cached::NONE, |group| group.at(page))
    }

    fn at_mut(&mut self, page: u64) -> Option<&mut Cached> {
        let group = self.groups.get_mut(page / GROUP)?;
        Some(group.at_mut(page))
    }

    /// Returns the frame of a cached page.
    pub(crate) fn get(&self, page: u64) -> Option<u64> {
        self.at(page).frame()
    }

    /// Returns a function that looks up frames as [`get`](Self::get) does, faster for ascending
    /// pages.
    pub(crate) fn in_order(&self) -> impl FnMut(u64) -> Option<u64> {
        let mut last: Option<(u64, Option<&Group>)> = None;
        move |page| {
            let number = page / GROUP;
            let group = match last {
                Some((found, group)) if found == number => group,
                _ => self.groups.get(number),
            };
            last = Some((number, group));
            group?.at(page).frame()
        }
    }

    /// Returns the frame of a cached page. With `to_write` the page becomes dirty.
    pub(super) fn find(&mut self, page: u64, to_write: bool) -> Option<u64> {
        if !to_write {
            return self.get(page);
        }
        let cached = self.at_mut(page)?;
        let phys = cached.frame()?;
        cached.0 |= DIRTY;
        Some(phys)
    }

    /// Marks the page dirty, because a program may write to it.
    pub(crate) fn set_dirty(&mut self, page: u64) {
        let _ = self.find(page, true);
    }

    /// Returns `true` if the page is cached and dirty.
    pub(crate) fn is_dirty(&self, page: u64) -> bool {
        self.at(page).is_dirty()
    }

    /// Inserts a page.
    ///
    /// # Errors
    /// [`Fault::NoMemory`].
    pub(super) fn put(&mut self, page: u64, phys: u64, dirty: bool) -> Result<(), Fault> {
        if let Some(cached) = self.at_mut(page) {
            *cached = Cached::new(phys, dirty);
            return Ok(());
        }
        let mut group =
            try_box(Group([Cached::NONE; GROUP as usize])).map_err(|_| Fault::NoMemory)?;
        *group.at_mut(page) = Cached::new(phys, dirty);
        let number = page / GROUP;
        self.groups
            .store_range(number..=number, group)
            .map_err(|_| Fault::NoMemory)
    }

    /// Removes the pages in `first .. end`, and passes each frame to `give`.
    pub(super) fn cut(&mut self, first: u64, end: u64, mut give: impl FnMut(u64)) {
        self.cuts += 1;
        if first >= end {
            return;
        }
        for (number, group) in self.groups.range_mut(first / GROUP..=(end - 1) / GROUP) {
            let lowest = number.start() * GROUP;
            for (page, cached) in (lowest..).zip(&mut group.0) {
                if (first..end).contains(&page)
                    && let Some(phys) = core::mem::replace(cached, Cached::NONE).frame()
                {
                    give(phys);
                }
            }
        }
        // Without memory, empty groups stay until the file is released.
        let whole = first.div_ceil(GROUP)..end / GROUP;
        if whole.start < whole.end {
            let _ = self.groups.erase_range(whole);
        }
    }

    /// Zeroes the bytes beyond the end in the last page of a file with `end` bytes, if it is
    /// cached.
    pub(super) fn clear_tail<B, R>(&self, physical: &Physical<B, R>, end: u64)
    where
        B: FrameAllocator + PhysMem,
        R: Reclaim,
    {
        let from = (end % PAGE_SIZE) as usize;
        let Some(phys) = self.get(end / PAGE_SIZE).filter(|_| from > 0) else {
            return;
        };
        let at = physical.to_virt(phys);
        let zeroes = [0; 64];
        for start in (from..PAGE_BYTES).step_by(zeroes.len()) {
            let len = zeroes.len().min(PAGE_BYTES - start);
            // SAFETY: within the frame, on which these pages have a reference.
            unsafe { bytes::store(at.add(start), &zeroes[..len]) };
        }
    }

    /// Removes a clean page without mappings: its bytes can be read again, or are zero.
    pub(crate) fn drop_clean<P: Platform>(&mut self, machine: &Machine<P>, page: u64) {
        let physical = machine.physical();
        let Some(phys) = self.get(page).filter(|_| !self.is_dirty(page)) else {
            return;
        };
        // No thread maps it while these pages are locked, and a reference comes from a mapping.
        let info = physical.frames().info(phys);
        if info.is_some_and(|info| info.mappings == 0 && info.references == 1) {
            // A thread that is reading the page now may have begun before the page was written.
            self.cut(page, page + 1, |phys| physical.put(phys));
        }
    }

    /// Marks the first dirty page in a range clean. Returns its number and its frame.
    pub(super) fn take_dirty(&mut self, first: u64, end: u64) -> Option<(u64, u64)> {
        if first >= end {
            return None;
        }
        for (number, group) in self.groups.range_mut(first / GROUP..=(end - 1) / GROUP) {
            let lowest = number.start() * GROUP;
            for (page, cached) in (lowest..).zip(&mut group.0) {
                if (first..end).contains(&page) && cached.is_dirty() {
                    cached.0 &= !DIRTY;
                    return cached.frame().map(|phys| (page, phys));
                }
            }
        }
        None
    }

    /// Removes all pages, and passes each frame to `give`.
    pub(super) fn clear(&mut self, mut give: impl FnMut(u64)) {
        for (_, group) in self.groups.iter() {
            group
                .0
                .iter()
                .filter_map(|cached| cached.frame())
                .for_each(&mut give);
        }
        self.groups.clear();
    }
}

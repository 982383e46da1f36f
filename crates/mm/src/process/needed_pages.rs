//! Clean private pages that must not be dropped.
//!
//! `MADV_FREE` makes the entries of pages clean, and marks the pages themselves as not needed.
//! Linux keeps this mark with the page, not with an entry. It does not set it if any process has
//! locked the page at that moment (`madvise(2)`, `mlock(2)`), for example a relative by fork. Such
//! a page is clean in the process that freed it. But it does not count as `LazyFree:` and is not
//! dropped when memory is short, until the next `MADV_FREE`.
//!
//! These pages are few, so their frames are kept in a set. A freed frame stays in the set. That
//! does no harm: its next page is dirty until `MADV_FREE` decides again.

use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};

use samara_paging::{Attrs, Entry, Kind, PageSize};

use crate::flags::{PAGE_SIZE, VmFlags};
use crate::process::address_set::AddressSet;
use crate::process::machine::Machine;
use crate::process::mm::Mm;
use crate::process::platform::Platform;

/// The frames of a machine with needed clean pages.
pub(super) struct NeededPages<P: Platform> {
    /// `true` if a process has ever locked memory.
    has_locked: AtomicBool,
    marked: AddressSet<P>,
}

impl<P: Platform> NeededPages<P> {
    pub(super) fn new() -> Self {
        NeededPages {
            has_locked: AtomicBool::new(false),
            marked: AddressSet::new(),
        }
    }

    /// Notes that a process is about to lock memory.
    #[cold]
    pub(super) fn set_has_locked(&self) {
        // Relaxed: a thread that frees a page which was locked before has since waited for the lock
        // of an address space, or of the page's table.
        self.has_locked.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn has_locked(&self) -> bool {
        self.has_locked.load(Ordering::Relaxed)
    }

    /// Adds or removes a frame. Without memory the set stays unchanged, which affects only reports
    /// and reclaim.
    fn set(&self, frame: u64, needed: bool) {
        let range = frame..frame + PAGE_SIZE;
        if needed {
            self.marked.set(range);
        } else {
            self.marked.clear(range);
        }
    }

    /// Returns `true` if a clean page on this frame is needed. O(log n), and O(1) while the set has
    /// always been empty.
    pub(super) fn has(&self, frame: u64) -> bool {
        self.marked.has(frame)
    }
}

/// A lazily freed page that other processes map, too.
struct SharedPage {
    /// The page's number, the same in all relatives by fork.
    offset: u64,
    frame: u64,
    locked: bool,
}

impl<P: Platform> Mm<P> {
    /// Notes which pages of a range that `MADV_FREE` freed are needed, because another process has
    /// locked them. O(pages, and locked VMAs of other processes).
    ///
    /// Preconditions: the caller holds no lock of an address space.
    pub(super) fn note_lazily_freed(&self, range: Range<u64>) {
        let needed_pages = self.machine.needed_pages();
        let mut shared = self.shared_pages(range);
        if shared.is_empty() {
            return;
        }
        shared.sort_unstable_by_key(|page| page.offset);
        let other = |mm: &Mm<P>| mm.has_locked() && mm.asid() != self.asid();
        self.machine
            .each_process_that(other, |mm| mm.mark_locked(&mut shared));
        for page in &shared {
            needed_pages.set(page.frame, page.locked);
        }
    }

    /// Returns the private pages of a range that other processes map, too. All others leave the
    /// set.
    fn shared_pages(&self, range: Range<u64>) -> Vec<SharedPage> {
        let mut shared = Vec::new();
        let space = self.space.read();
        let mut next = range.start;
        while let Some(area) = space.areas.find_in(next, range.end) {
            next = area.end;
            let part = area.start.max(range.start)..area.end.min(range.end);
            self.tables.walk(part, |addr, entry| {
                let Entry::Page { phys, attrs, size } = entry else {
                    return;
                };
                if size != PageSize::Small || attrs.contains(Attrs::SPECIAL) {
                    return;
                }
                let page = self.tables.page(addr);
                let Some(page) = page.filter(|page| page.frame.is_some_and(is_private)) else {
                    return;
                };
                if page.exclusive() {
                    self.machine.needed_pages().set(phys, false);
                } else if shared.try_reserve(1).is_ok() {
                    shared.push(SharedPage {
                        offset: area.vma.page_offset(addr),
                        frame: phys,
                        locked: false,
                    });
                }
            });
        }
        shared
    }

    /// Marks those of the pages, sorted by number, that lie in locked VMAs of this process.
    fn mark_locked(&self, shared: &mut [SharedPage]) {
        let space = self.space.read();
        let all = 0..space.config.task_size;
        for area in space.areas.in_range(all) {
            let flags = area.vma.flags;
            if !flags.contains(VmFlags::LOCKED) || area.vma.anon().is_none() {
                continue;
            }
            let first = area.vma.page_offset(area.start);
            let from = shared.partition_point(|page| page.offset < first);
            for page in shared.iter_mut().skip(from) {
                let addr = (page.offset - first)
                    .checked_mul(PAGE_SIZE)
                    .and_then(|bytes| area.start.checked_add(bytes));
                let Some(addr) = addr.filter(|&addr| addr < area.end) else {
                    break;
                };
                let found = self.tables.page(addr).is_some_and(|found| {
                    found.phys + (addr & (found.size.bytes() - 1)) == page.frame
                        && found.frame.is_some_and(is_private)
                });
                page.locked |= found;
            }
        }
    }

    /// Calls `each` for the parts of a range without needed clean pages.
    pub(super) fn droppable_parts(&self, range: Range<u64>, mut each: impl FnMut(Range<u64>)) {
        if !self.machine.needed_pages().marked.any() {
            return each(range);
        }
        let mut from = range.start;
        self.tables.walk(range.clone(), |addr, entry| {
            if let Entry::Page { phys, .. } = entry
                && self.machine.needed_pages().has(phys)
            {
                if from < addr {
                    each(from..addr);
                }
                from = addr + PAGE_SIZE;
            }
        });
        if from < range.end {
            each(from..range.end);
        }
    }
}

fn is_private(frame: samara_paging::FrameInfo) -> bool {
    frame.kind == Kind::Anon
}

impl<P: Platform> Machine<P> {
    /// Returns `true` if a clean private page on this frame is needed.
    pub(crate) fn is_needed(&self, frame: u64) -> bool {
        self.needed_pages().has(frame)
    }
}

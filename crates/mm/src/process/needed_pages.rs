//! Private pages that are clean and yet not to be dropped.
//!
//! `MADV_FREE` makes the entries of pages clean, and marks the pages themselves as not needed: that mark Linux keeps with the page, not with an entry, and not with a
//! page that somebody has locked at that moment (`madvise(2)`, `mlock(2)`). A relative that is left of a fork may have locked it. Such a page is clean where it
//! was given up, but not counted as `LazyFree:`, nor dropped when memory is short, until `MADV_FREE` comes again.
//!
//! They are few, and so they are kept here, by their frames. A frame that is given back stays marked. That does no harm: what is there next is dirty, until
//! `MADV_FREE` decides anew.

use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};

use samara_paging::{Attrs, Entry, Kind, PageSize};

use crate::flags::{PAGE_SIZE, VmFlags};
use crate::process::address_set::AddressSet;
use crate::process::machine::Machine;
use crate::process::mm::Mm;
use crate::process::platform::Platform;

/// The marked frames of a machine.
pub(super) struct NeededPages<P: Platform> {
    /// Whether a process has ever locked memory.
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

    /// A process is about to lock memory.
    #[cold]
    pub(super) fn set_has_locked(&self) {
        // Relaxed: who gives up a page that was locked before has waited for the lock of an address space, or of the page's table, since.
        self.has_locked.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn has_locked(&self) -> bool {
        self.has_locked.load(Ordering::Relaxed)
    }

    /// Marks a frame, or takes its mark away. For want of memory it may stay as it is, which shows in what is told and dropped.
    fn set(&self, frame: u64, needed: bool) {
        let range = frame..frame + PAGE_SIZE;
        if needed {
            self.marked.set(range);
        } else {
            self.marked.clear(range);
        }
    }

    /// Whether a clean page on this frame is needed. O(log n), and O(1) as long as there has been none.
    pub(super) fn has(&self, frame: u64) -> bool {
        self.marked.has(frame)
    }
}

/// A page that was given up and that others map, too.
struct SharedPage {
    /// Its number, which is the same with all that a fork has left.
    offset: u64,
    frame: u64,
    locked: bool,
}

impl<P: Platform> Mm<P> {
    /// Pages of a range were given up by `MADV_FREE`: notes which of them are not to be dropped, since somebody else has locked them. No address space is
    /// locked. O(pages, and locked areas of others).
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

    /// The private pages of a range that others map, too. Those that nobody else maps lose their marks.
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

    /// Which of these pages, upwards by number, lie in locked areas here.
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

    /// The parts of a range without pages that are clean and yet needed.
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
    /// Whether a clean private page on this frame is needed all the same.
    pub(crate) fn is_needed(&self, frame: u64) -> bool {
        self.needed_pages().has(frame)
    }
}

//! What is mapped where: without any lock.

use core::ops::Range;
use core::sync::atomic::Ordering;

use crate::cursor::{Cursor, Stop};
use crate::entry::{Attrs, Entry, PAGE_SIZE, PageSize, index, next, span};
use crate::format::Format;
use crate::frames::{FrameInfo, Kind};
use crate::phys::Memory;
use crate::reclaim::Reclaim;
use crate::space::PageTables;

/// What is known of a page, as `/proc/PID/pagemap` tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageInfo {
    /// The first byte of the entry's page in physical memory.
    pub phys: u64,
    /// What it allows.
    pub attrs: Attrs,
    /// How much the entry maps.
    pub size: PageSize,
    /// Its frame's counts; `None` for pages that are not counted.
    pub frame: Option<FrameInfo>,
    /// How many address spaces use the table that the entry is in.
    pub users: u32,
    /// Whether this is [the zero page](crate::Physical::zero_page).
    pub zero: bool,
}

impl PageInfo {
    /// Whether one entry of one address space maps the page. Linux says so of counted pages only.
    pub fn exclusive(&self) -> bool {
        self.users == 1 && self.frame.is_some_and(|frame| frame.mappings == 1)
    }

    /// Whether the page is a file's, or shared memory.
    pub fn file(&self) -> bool {
        self.frame.is_some_and(|frame| frame.kind == Kind::File)
    }
}

impl<F: Format, M: Memory> PageTables<F, M> {
    /// What is at an address: lock-free, at most one entry read at each level.
    pub fn entry(&self, addr: u64) -> Entry {
        if !F::canonical(addr) {
            return Entry::Empty;
        }
        self.look(addr).0
    }

    /// Where the processor would find the byte at an address, and what would succeed there without a fault; `None` for pages without access, too.
    ///
    /// Lock-free. What is found may be gone when this returns: who uses it holds something that keeps the page, or a
    /// [section](crate::Reclaim::Section) does not suffice for that.
    pub fn translate(&self, addr: u64) -> Option<(u64, Attrs)> {
        match self.entry(addr) {
            Entry::Page { phys, attrs, size } if attrs.intersects(Attrs::ACCESS) => {
                Some((phys + (addr & (size.bytes() - 1)), attrs))
            }
            _ => None,
        }
    }

    /// What is known of the page at an address, as `/proc/PID/pagemap` tells it: lock-free, each count as it is at some moment of the call.
    ///
    /// ```
    /// # use samara_paging::{Arena, Attrs, Exclusive, Kind, PageSize, PageTables, Physical, Source, format::X86_64};
    /// # // SAFETY: one thread uses the tables.
    /// # let memory = Physical::new(Arena::on_heap(64)?, unsafe { Exclusive::new() }, 1 << 30, 64)?;
    /// let space = PageTables::<X86_64, _>::new(&memory, 1)?;
    /// let zero = Source::Special(memory.zero_page());
    /// space.map(0x1000, PageSize::Small, zero, Attrs::READ | Attrs::USER, &())?;
    /// let cached = memory.alloc_page(Kind::File)?; // a page cache's reference
    /// space.map(0x2000, PageSize::Small, Source::Counted(cached), Attrs::READ | Attrs::USER, &())?;
    ///
    /// let (zero, file) = (space.page(0x1000).unwrap(), space.page(0x2000).unwrap());
    /// assert!(zero.zero && !zero.file() && !zero.exclusive());
    /// assert!(!file.zero && file.file() && file.exclusive());
    /// assert_eq!(space.page(0x3000), None);
    /// # Ok::<(), samara_paging::Error>(())
    /// ```
    pub fn page(&self, addr: u64) -> Option<PageInfo> {
        if !F::canonical(addr) {
            return None;
        }
        let (Entry::Page { phys, attrs, size }, users) = self.look(addr) else {
            return None;
        };
        let own = phys + (addr & (size.bytes() - 1) & !(PAGE_SIZE - 1));
        let frame = if attrs.contains(Attrs::SPECIAL) {
            None
        } else {
            self.physical().frames().info(own)
        };
        Some(PageInfo {
            phys,
            attrs,
            size,
            frame,
            users,
            zero: own == self.physical().zero_page(),
        })
    }

    /// Calls `seen` for each page and marker of a range (in bytes, the end exclusive), in ascending order, with the first address of its entry, which for a huge page may lie
    /// before the range. Lock-free: what comes or goes meanwhile is seen or not.
    pub fn walk(&self, range: Range<u64>, mut seen: impl FnMut(u64, Entry)) {
        if Self::pages(&range).is_err() {
            return;
        }
        let mut cursor = self.cursor(range.start);
        let mut at = range.start;
        'tables: while at < range.end {
            let before = self.detached.load(Ordering::SeqCst);
            match cursor.descend_anew(at, 0) {
                Ok(table) => {
                    let end = range.end.min(next(at, 1));
                    let guarded = cursor.guarded();
                    while at < end {
                        let raw = table.read(index(at, 0));
                        if self.detached.load(Ordering::SeqCst) != before {
                            continue 'tables;
                        }
                        if raw != 0 {
                            seen_entry::<F>(at, raw, 0, guarded, &mut seen);
                        }
                        at += PAGE_SIZE;
                    }
                }
                Err(Stop { level, raw }) => {
                    if self.detached.load(Ordering::SeqCst) != before {
                        continue;
                    }
                    if raw != 0 {
                        seen_entry::<F>(at & !(span(level) - 1), raw, level, false, &mut seen);
                    }
                    at = next(at, level);
                }
            }
        }
    }
}

#[inline]
fn seen_entry<F: Format>(
    addr: u64,
    raw: u64,
    level: usize,
    guarded: bool,
    seen: &mut impl FnMut(u64, Entry),
) {
    match F::decode(raw, level) {
        // The first entry of a table that has just left the tree.
        Entry::Empty => {}
        entry => seen(addr, behind(entry, guarded)),
    }
}

/// An entry as the processor sees it, behind an entry above that may forbid stores.
fn behind(mut entry: Entry, guarded: bool) -> Entry {
    if let Entry::Page { attrs, .. } = &mut entry
        && guarded
    {
        attrs.remove(Attrs::WRITE);
    }
    entry
}

impl<F: Format, M: Memory> Cursor<'_, F, M> {
    /// Whether the entry above the last-level table just found forbids stores.
    fn guarded(&self) -> bool {
        F::GUARDS_TABLES && F::is_shared(self.above(0))
    }
}

impl<F: Format, M: Memory> PageTables<F, M> {
    /// What is at an address, and how many address spaces use the table that it is in. No cursor: there is no second page to hand the way on to.
    #[inline]
    fn look(&self, addr: u64) -> (Entry, u32) {
        let memory = self.physical();
        let _section = memory.grace().enter(addr);
        loop {
            let before = self.detached.load(Ordering::SeqCst);
            let mut table = memory.table(self.root);
            let mut level = Self::TOP;
            let mut guarded = false;
            let raw = loop {
                let raw = table.read(index(addr, level));
                if level == 0 || !F::is_table(raw) {
                    break raw;
                }
                guarded = level == 1 && F::GUARDS_TABLES && F::is_shared(raw);
                level -= 1;
                table = memory.table(F::phys(raw));
            };
            let users = if level == 0 { table.users() } else { 1 };
            if self.detached.load(Ordering::SeqCst) == before {
                return (behind(F::decode(raw, level), guarded), users);
            }
        }
    }
}

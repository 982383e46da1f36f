//! What is mapped where: without any lock.

use core::fmt;
use core::ops::{ControlFlow, Range};

use crate::cursor::{Cursor, Stop};
use crate::entry::{Attrs, Entry, PAGE_SIZE, PageSize, index, next, span};
use crate::format::Format;
use crate::frames::{FrameInfo, Kind};
use crate::phys::Memory;
use crate::reclaim::Reclaim;
use crate::space::PageTables;
use crate::table::Table;

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
        self.view(addr).entry(addr)
    }

    /// Where the processor would find the byte at an address, and what would succeed there without a fault; `None` for pages without access, too.
    ///
    /// Lock-free. What is found may be gone when this returns: who uses it holds something that keeps the page, or a
    /// [section](crate::Reclaim::Section) does not suffice for that.
    pub fn translate(&self, addr: u64) -> Option<(u64, Attrs)> {
        self.view(addr).translate(addr)
    }

    /// For look-ups one after the other, in one [section](crate::Reclaim::Section): with [`Grace`](crate::Grace), entering and leaving one costs
    /// more than the look-up. `near` is one of the addresses.
    ///
    /// Each look-up finds what is there at that moment. The last-level table that was found last is remembered, so that a look-up near the one before reads
    /// one entry. While the view lives, tables that others take out of the tree are not freed.
    ///
    /// ```
    /// # use samara_paging::{Arena, Attrs, Grace, Kind, PageSize, PageTables, Physical, Source, format::X86_64};
    /// # let memory = Physical::new(Arena::on_heap(64)?, Grace::new(), 1 << 30, 64)?;
    /// let space = PageTables::<X86_64, _>::new(&memory, 1)?;
    /// let zero = Source::Special(memory.zero_page());
    /// space.map(0x1000, PageSize::Small, zero, Attrs::READ | Attrs::USER, &())?;
    ///
    /// let mut view = space.view(0);
    /// let present = (0..16).filter(|page| view.translate(page << 12).is_some());
    /// assert_eq!(present.collect::<Vec<_>>(), [1]);
    /// # Ok::<(), samara_paging::Error>(())
    /// ```
    #[inline]
    pub fn view(&self, near: u64) -> View<'_, F, M> {
        View {
            space: self,
            last: None,
            generation: 0,
            _section: self.physical().grace().enter(near),
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
        if !self.covers(addr) {
            return None;
        }
        let (Entry::Page { phys, attrs, size }, users) = self.view(addr).entry_and_users(addr)
        else {
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

    /// Whether nothing at all is where a page of this size would be around an address: no page, no marker, and no table that once held such. Lock-free, at
    /// most one entry read at each level.
    ///
    /// ```
    /// # use samara_paging::{Arena, Attrs, Grace, PageSize, PageTables, Physical, Source, format::X86_64};
    /// # let memory = Physical::new(Arena::on_heap(64)?, Grace::new(), 1 << 30, 64)?;
    /// let space = PageTables::<X86_64, _>::new(&memory, 1)?;
    /// let zero = Source::Special(memory.zero_page());
    /// space.map(0x1000, PageSize::Small, zero, Attrs::READ | Attrs::USER, &())?;
    ///
    /// assert!(space.is_vacant(0x2000, PageSize::Small));
    /// assert!(!space.is_vacant(0x2000, PageSize::Large)); // 0x1000 lies in the same 2 MiB
    /// assert!(space.is_vacant(0x20_0000, PageSize::Large));
    /// # Ok::<(), samara_paging::Error>(())
    /// ```
    pub fn is_vacant(&self, addr: u64, size: PageSize) -> bool {
        let found = self.view(addr).descend(addr);
        found.raw == 0 && found.level >= size.level()
    }

    /// Calls `seen` for each page and marker of a range (in bytes, the end exclusive), in ascending order, with the first address of its entry, which for
    /// a huge page may lie before the range. Lock-free: what comes or goes meanwhile is seen or not.
    pub fn walk(&self, range: Range<u64>, mut seen: impl FnMut(u64, Entry)) {
        let _ = self.walk_until(range, |addr, entry| {
            seen(addr, entry);
            ControlFlow::<()>::Continue(())
        });
    }

    /// The same until `seen` breaks, which is then returned.
    pub fn walk_until<B>(
        &self,
        range: Range<u64>,
        mut seen: impl FnMut(u64, Entry) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        if self.check_readable(&range).is_err() {
            return ControlFlow::Continue(());
        }
        let mut cursor = self.cursor(range.start);
        let mut at = range.start;
        'tables: while at < range.end {
            let before = self.generation();
            match cursor.descend_from_root(at, 0) {
                Ok(table) => {
                    let end = range.end.min(next(at, 1));
                    let guarded = cursor.guarded();
                    while at < end {
                        let raw = table.read(index(at, 0));
                        if self.generation() != before {
                            continue 'tables;
                        }
                        if raw != 0 {
                            seen_entry::<F, B>(at, raw, 0, guarded, &mut seen)?;
                        }
                        at += PAGE_SIZE;
                    }
                }
                Err(Stop { level, raw }) => {
                    if self.generation() != before {
                        continue;
                    }
                    if raw != 0 {
                        let start = at & !(span(level) - 1);
                        seen_entry::<F, B>(start, raw, level, false, &mut seen)?;
                    }
                    at = next(at, level);
                }
            }
        }
        ControlFlow::Continue(())
    }
}

#[inline]
fn seen_entry<F: Format, B>(
    addr: u64,
    raw: u64,
    level: usize,
    guarded: bool,
    seen: &mut impl FnMut(u64, Entry) -> ControlFlow<B>,
) -> ControlFlow<B> {
    match F::decode(raw, level) {
        // The first entry of a table that has just left the tree.
        Entry::Empty => ControlFlow::Continue(()),
        entry => seen(addr, mask_write(entry, guarded)),
    }
}

/// An entry as the processor sees it, behind an entry above that may forbid stores.
#[inline]
pub(crate) fn mask_write(mut entry: Entry, guarded: bool) -> Entry {
    if let Entry::Page { attrs, .. } = &mut entry
        && guarded
    {
        attrs.remove(Attrs::WRITE);
    }
    entry
}

impl<F: Format, M: Memory> Cursor<'_, F, M> {
    /// Whether the entry above the last-level table just found forbids stores.
    #[inline]
    pub(crate) fn guarded(&self) -> bool {
        F::TABLES_FORBID_WRITES && F::is_shared(self.parent_entry(0))
    }
}

/// Look-ups, one after the other, in one section: see [`PageTables::view`].
#[must_use]
pub struct View<'a, F: Format, M: Memory> {
    space: &'a PageTables<F, M>,
    /// The last-level table that was found last, as it was found when the address space had this `generation`.
    last: Option<Last<'a>>,
    generation: usize,
    _section: <M::Reclaim as Reclaim>::Section<'a>,
}

#[derive(Clone, Copy)]
struct Last<'a> {
    /// Its addresses, without the bits that are the same in all of them.
    stretch: u64,
    table: Table<'a>,
    guarded: bool,
}

/// Where the way down ended.
struct Found {
    raw: u64,
    level: usize,
    /// Whether the entry above forbids stores.
    guarded: bool,
}

impl<F: Format, M: Memory> View<'_, F, M> {
    /// As [`PageTables::entry`].
    #[inline]
    pub fn entry(&mut self, addr: u64) -> Entry {
        let found = self.find(addr);
        mask_write(F::decode(found.raw, found.level), found.guarded)
    }

    /// As [`PageTables::translate`].
    #[inline]
    pub fn translate(&mut self, addr: u64) -> Option<(u64, Attrs)> {
        match self.entry(addr) {
            Entry::Page { phys, attrs, size } if attrs.intersects(Attrs::ACCESS) => {
                Some((phys + (addr & (size.bytes() - 1)), attrs))
            }
            _ => None,
        }
    }

    #[inline]
    fn find(&mut self, addr: u64) -> Found {
        let space = self.space;
        if let Some(last) = self.last
            && last.stretch == addr >> TABLE_SHIFT
            && space.generation() == self.generation
        {
            let raw = last.table.read(index(addr, 0));
            if space.generation() == self.generation {
                return Found {
                    raw,
                    level: 0,
                    guarded: last.guarded,
                };
            }
        }
        self.descend(addr)
    }

    /// From the root; without a cursor, whose way is kept for changes, too.
    #[inline(never)]
    fn descend(&mut self, addr: u64) -> Found {
        let memory = self.space.physical();
        self.last = None;
        if !self.space.covers(addr) {
            return Found {
                raw: 0,
                level: 0,
                guarded: false,
            };
        }
        loop {
            self.generation = self.space.generation();
            let mut table = self.space.root;
            let mut level = PageTables::<F, M>::TOP;
            let mut guarded = false;
            let raw = loop {
                let raw = memory.read(table, index(addr, level));
                if level == 0 || !F::is_table(raw) {
                    break raw;
                }
                guarded = level == 1 && F::TABLES_FORBID_WRITES && F::is_shared(raw);
                level -= 1;
                table = F::phys(raw);
            };
            if self.space.generation() != self.generation {
                continue;
            }
            if level == 0 {
                self.last = Some(Last {
                    stretch: addr >> TABLE_SHIFT,
                    table: memory.table(table),
                    guarded,
                });
            }
            return Found {
                raw,
                level,
                guarded,
            };
        }
    }

    /// What is at an address, and how many address spaces use the table that it is in.
    fn entry_and_users(&mut self, addr: u64) -> (Entry, u32) {
        loop {
            let entry = self.entry(addr);
            let users = self.last.map_or(1, |last| last.table.users());
            if self.space.generation() == self.generation {
                return (entry, users);
            }
        }
    }
}

/// Of the addresses that one last-level table stands for, all bits from here on are the same.
const TABLE_SHIFT: u32 = span(1).trailing_zeros();

impl<F: Format, M: Memory> fmt::Debug for View<'_, F, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").finish_non_exhaustive()
    }
}

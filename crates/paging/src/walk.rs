//! Lock-free look-ups and walks.

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

/// The state of a page, as `/proc/PID/pagemap` reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageInfo {
    /// The physical address of the first byte of the entry's page.
    pub phys: u64,
    /// The attributes of the entry.
    pub attrs: Attrs,
    /// The size that the entry maps.
    pub size: PageSize,
    /// The counts of its frame; `None` for pages that are not counted.
    pub frame: Option<FrameInfo>,
    /// The number of address spaces that use the table with the entry.
    pub users: u32,
    /// `true` for [the zero page](crate::Physical::zero_page).
    pub zero: bool,
}

impl PageInfo {
    /// Returns `true` if one entry of one address space maps the page. As in Linux, only counted
    /// pages are exclusive.
    pub fn exclusive(&self) -> bool {
        self.users == 1 && self.frame.is_some_and(|frame| frame.mappings == 1)
    }

    /// Returns `true` if the page is a file's, or shared memory.
    pub fn file(&self) -> bool {
        self.frame.is_some_and(|frame| frame.kind == Kind::File)
    }
}

impl<F: Format, M: Memory> PageTables<F, M> {
    /// Returns the entry at an address. Lock-free; reads at most one entry at each level.
    pub fn entry(&self, addr: u64) -> Entry {
        self.view(addr).entry(addr)
    }

    /// Returns the physical address to which the processor would translate an address, and the
    /// accesses that succeed there without a fault. Returns `None` also for pages without access.
    ///
    /// Lock-free. The page may be gone when this returns: a caller that uses it must hold something
    /// that keeps the page. A [section](crate::Reclaim::Section) is not enough.
    pub fn translate(&self, addr: u64) -> Option<(u64, Attrs)> {
        self.view(addr).translate(addr)
    }

    /// Returns a view for several look-ups in one [section](crate::Reclaim::Section). With
    /// [`Grace`](crate::Grace), entering and leaving a section costs more than a look-up. `near` is
    /// one of the addresses.
    ///
    /// Each look-up finds the entry of that moment. The last-level table found last is kept, so
    /// that a look-up near the previous one reads one entry. While the view lives, tables that
    /// other threads remove from the tree are not freed.
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

    /// Returns the state of the page at an address, as `/proc/PID/pagemap` reports it. Lock-free;
    /// each count is its value at some moment of the call.
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

    /// Returns `true` if the place of a page of this size around an address is empty: no page, no
    /// marker, and no table, not even an empty one. Lock-free; reads at most one entry at each
    /// level.
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

    /// Calls `seen` for each page and marker of a range (in bytes, the end exclusive), in ascending
    /// order, with the first address of its entry. For a huge page that address may lie before the
    /// range. Lock-free: concurrent changes may be seen or not.
    pub fn walk(&self, range: Range<u64>, mut seen: impl FnMut(u64, Entry)) {
        let _ = self.walk_until(range, |addr, entry| {
            seen(addr, entry);
            ControlFlow::<()>::Continue(())
        });
    }

    /// Does the same until `seen` breaks, and returns its break value.
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
        // The list link in the first entry of a table that has just left the tree.
        Entry::Empty => ControlFlow::Continue(()),
        entry => seen(addr, mask_write(entry, guarded)),
    }
}

/// Returns an entry as the processor sees it below an upper entry that may forbid stores.
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
    /// Returns `true` if the entry above the last-level table just found forbids stores.
    #[inline]
    pub(crate) fn guarded(&self) -> bool {
        F::TABLES_FORBID_WRITES && F::is_shared(self.parent_entry(0))
    }
}

/// Several look-ups in one section: see [`PageTables::view`].
#[must_use]
pub struct View<'a, F: Format, M: Memory> {
    space: &'a PageTables<F, M>,
    /// The last-level table found last, when the address space had this `generation`.
    last: Option<Last<'a>>,
    generation: usize,
    _section: <M::Reclaim as Reclaim>::Section<'a>,
}

#[derive(Clone, Copy)]
struct Last<'a> {
    /// Its addresses without the bits below the table's 2 MiB.
    stretch: u64,
    table: Table<'a>,
    guarded: bool,
}

/// The entry at which a descent ended.
struct Found {
    raw: u64,
    level: usize,
    /// `true` if the entry above forbids stores.
    guarded: bool,
}

impl<F: Format, M: Memory> View<'_, F, M> {
    /// Returns the entry, as [`PageTables::entry`] does.
    #[inline]
    pub fn entry(&mut self, addr: u64) -> Entry {
        let found = self.find(addr);
        mask_write(F::decode(found.raw, found.level), found.guarded)
    }

    /// Translates an address, as [`PageTables::translate`] does.
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

    /// Descends from the root, without a cursor, which would also keep the path for changes.
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

    /// Returns the entry at an address, and the number of address spaces that use its table.
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

/// The lowest address bit that is the same for all addresses of one last-level table.
const TABLE_SHIFT: u32 = span(1).trailing_zeros();

impl<F: Format, M: Memory> fmt::Debug for View<'_, F, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").finish_non_exhaustive()
    }
}

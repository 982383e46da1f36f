//! The entries of a software TLB.

use alloc::vec::Vec;
use core::ops::Range;
use core::ptr::NonNull;

use samara_paging::Attrs;

use crate::errno::Errno;
use crate::flags::PAGE_SIZE;
use crate::process::signal::Access;

/// The number of entries. Each serves the pages with the same number modulo this, so 4 MiB in a row
/// fit.
pub(super) const ENTRIES: usize = 1024;

/// Not a page: the lower bits of a compared address are never all set.
const NONE: u64 = u64::MAX;

/// The bits of an address within its page.
const IN_PAGE: u64 = PAGE_SIZE - 1;

/// A page. For each kind of access it has the page's address, or [`NONE`] if such an access misses.
#[derive(Clone)]
struct Entry {
    load: u64,
    store: u64,
    fetch: u64,
    /// The first byte of the page in the host. Dangling if all accesses miss.
    page: NonNull<u8>,
}

impl Entry {
    const EMPTY: Entry = Entry {
        load: NONE,
        store: NONE,
        fetch: NONE,
        page: NonNull::dangling(),
    };

    fn forget(&mut self, range: &Range<u64>) {
        for place in [&mut self.load, &mut self.store, &mut self.fetch] {
            if range.contains(place) {
                *place = NONE;
            }
        }
    }
}

/// A kind of access, each with a word in the entry.
pub(super) trait Kind {
    const ACCESS: Access;
    fn place(entries: &Entries, at: usize) -> u64;
}

pub(super) enum Load {}
pub(super) enum Store {}
pub(super) enum Fetch {}

impl Kind for Load {
    const ACCESS: Access = Access::READ;
    #[inline(always)]
    fn place(entries: &Entries, at: usize) -> u64 {
        entries.0[at % ENTRIES].load
    }
}

impl Kind for Store {
    const ACCESS: Access = Access::WRITE;
    #[inline(always)]
    fn place(entries: &Entries, at: usize) -> u64 {
        entries.0[at % ENTRIES].store
    }
}

impl Kind for Fetch {
    const ACCESS: Access = Access::EXEC;
    #[inline(always)]
    fn place(entries: &Entries, at: usize) -> u64 {
        entries.0[at % ENTRIES].fetch
    }
}

/// The entries of one virtual processor, indexed by page number modulo [`ENTRIES`].
#[repr(transparent)]
pub(super) struct Entries([Entry; ENTRIES]);

impl Entries {
    /// Allocates empty entries.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(super) fn allocate() -> Result<EntryTable, Errno> {
        let mut table = Vec::new();
        table
            .try_reserve_exact(ENTRIES)
            .map_err(|_| Errno::ENOMEM)?;
        table.resize(ENTRIES, Entry::EMPTY);
        Ok(EntryTable(table))
    }

    /// Returns the address of the byte at `addr` in the host, if the access hits and is aligned to
    /// `align`, a power of two of at most a page.
    #[inline(always)]
    pub(super) fn find<K: Kind>(&self, addr: u64, align: u64) -> Option<NonNull<u8>> {
        let at = (addr / PAGE_SIZE) as usize;
        // The bits below the alignment are compared, too. A misaligned address has such bits, and
        // no page does.
        if K::place(self, at) != addr & !(IN_PAGE & !(align - 1)) {
            return None;
        }
        let page = self.0[at % ENTRIES].page;
        // SAFETY: within the page.
        Some(unsafe { page.add((addr & IN_PAGE) as usize) })
    }

    /// Enters a page and its permissions.
    pub(super) fn put(&mut self, addr: u64, page: NonNull<u8>, attrs: Attrs) {
        let start = addr & !IN_PAGE;
        let place = |succeeds| if succeeds { start } else { NONE };
        self.0[(addr / PAGE_SIZE) as usize % ENTRIES] = Entry {
            load: place(attrs.contains(Attrs::READ)),
            // A store to a clean page must first set its dirty bit.
            store: place(attrs.contains(Attrs::WRITE | Attrs::DIRTY)),
            fetch: place(attrs.contains(Attrs::EXEC)),
            page,
        };
    }

    /// Removes the pages of a range. An end of [`u64::MAX`] means the end of all addresses. Linear
    /// in the pages, or in the entries if there are fewer.
    pub(super) fn forget(&mut self, range: &Range<u64>) {
        let first = range.start / PAGE_SIZE;
        let pages = (range.end.saturating_sub(1) / PAGE_SIZE).saturating_sub(first);
        if pages >= ENTRIES as u64 {
            self.0.iter_mut().for_each(|entry| entry.forget(range));
            return;
        }
        let whole = first * PAGE_SIZE..range.end;
        for page in first..=first + pages {
            self.0[page as usize % ENTRIES].forget(&whole);
        }
    }

    pub(super) fn forget_all(&mut self) {
        self.0.fill(Entry::EMPTY);
    }
}

/// The entries on the heap.
pub(super) struct EntryTable(Vec<Entry>);

impl EntryTable {
    /// Returns the entries.
    #[inline]
    pub(super) fn entries(&mut self) -> &mut Entries {
        let entries: *mut Entry = self.0.as_mut_ptr();
        // SAFETY: `Entries::allocate` made this many, and the transparent type is an array of them.
        unsafe { &mut *entries.cast::<Entries>() }
    }
}

// SAFETY: the owner of the entries uses what they point to, under the rules of `Running`, from any
// thread.
unsafe impl Send for EntryTable {}

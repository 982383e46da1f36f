//! What a virtual processor remembers of pages.

use alloc::vec::Vec;
use core::ops::Range;
use core::ptr::NonNull;

use samara_paging::Attrs;

use crate::errno::Errno;
use crate::flags::PAGE_SIZE;
use crate::process::signal::Access;

/// Entries of a TLB, each for the pages whose numbers are the same modulo this: 4 MiB in a row.
pub(super) const ENTRIES: usize = 1024;

/// No page: the lower bits of what is compared with it are never all set.
const NONE: u64 = u64::MAX;

/// Bits of an address within its page.
const IN_PAGE: u64 = PAGE_SIZE - 1;

/// A page, and for each kind of access its address, or [`NONE`] if that is a miss.
#[derive(Clone)]
struct Entry {
    load: u64,
    store: u64,
    fetch: u64,
    /// The first byte, where the host has it. Dangling if all accesses are misses.
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

/// Kinds of accesses, each with a word of the entry.
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

/// The entries of one virtual processor, each at the number of its page modulo [`ENTRIES`].
#[repr(transparent)]
pub(super) struct Entries([Entry; ENTRIES]);

impl Entries {
    /// Returns room for entries, all of them empty.
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

    /// Returns where the byte at `addr` is, if the access is known to succeed there and is aligned to `align`, a power of two of at most a page.
    #[inline(always)]
    pub(super) fn find<K: Kind>(&self, addr: u64, align: u64) -> Option<NonNull<u8>> {
        let at = (addr / PAGE_SIZE) as usize;
        // The bits below the alignment are compared, too: an address that is not aligned has them, and no page does.
        if K::place(self, at) != addr & !(IN_PAGE & !(align - 1)) {
            return None;
        }
        let page = self.0[at % ENTRIES].page;
        // SAFETY: within the page.
        Some(unsafe { page.add((addr & IN_PAGE) as usize) })
    }

    /// Remembers a page and what succeeds there.
    pub(super) fn put(&mut self, addr: u64, page: NonNull<u8>, attrs: Attrs) {
        let start = addr & !IN_PAGE;
        let place = |succeeds| if succeeds { start } else { NONE };
        self.0[(addr / PAGE_SIZE) as usize % ENTRIES] = Entry {
            load: place(attrs.contains(Attrs::READ)),
            // A store to a page that is not dirty has to be noted first.
            store: place(attrs.contains(Attrs::WRITE | Attrs::DIRTY)),
            fetch: place(attrs.contains(Attrs::EXEC)),
            page,
        };
    }

    /// Forgets the pages of a range, whose end may be [`u64::MAX`] for the end of all addresses. Linear in the pages, or in the entries if these are fewer.
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

/// Where entries are on the heap.
pub(super) struct EntryTable(Vec<Entry>);

impl EntryTable {
    /// Returns the entries.
    #[inline]
    pub(super) fn entries(&mut self) -> &mut Entries {
        let entries: *mut Entry = self.0.as_mut_ptr();
        // SAFETY: `Entries::allocate` has made this many, whose array the transparent type is.
        unsafe { &mut *entries.cast::<Entries>() }
    }
}

// SAFETY: what entries point to is used by whoever has them, under the rules of `Running`; no thread is special.
unsafe impl Send for EntryTable {}

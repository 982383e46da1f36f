//! The huge pages of one address space, and, for private mappings, their reservations.

use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::errno::Errno;
use crate::heap::Counted;
use crate::huge_pool::file::HugeFile;
use crate::huge_pool::{HugePool, Size};

/// A page that private mappings share after a fork until one of them writes.
pub(super) struct Page {
    pool: HugePool,
    size: Size,
    /// The number of mappings.
    maps: AtomicUsize,
    /// It was reserved for one of them.
    owned: bool,
    /// The mapping that it was reserved for has released it: the reservation returns with the page.
    promised: AtomicBool,
    /// The number of times that one of them has taken it from the others, or [`GONE`].
    taken: AtomicUsize,
}

/// The page is gone from all address spaces.
const GONE: usize = usize::MAX;

impl Page {
    /// Removes the page from all address spaces, because its part of the file is removed. It is
    /// reserved again if it was before and `returns`.
    pub(super) fn tear(&self, returns: bool) {
        // Relaxed: as below.
        if self.taken.swap(GONE, Ordering::Relaxed) == GONE {
            return;
        }
        if self.owned && returns {
            self.promised.store(true, Ordering::Relaxed);
        }
        if self.maps.swap(0, Ordering::Relaxed) > 0 {
            let promised = self.promised.load(Ordering::Relaxed);
            self.pool.give(self.size, promised);
        }
    }
}

/// One mapping of a page, and how often the page had been taken when it was mapped.
struct Mapped {
    page: Counted<Page>,
    taken: usize,
}

impl Mapped {
    fn try_new(pool: &HugePool, size: Size, owned: bool) -> Result<Self, Errno> {
        let page = Counted::try_new(Page {
            pool: pool.clone(),
            size,
            maps: AtomicUsize::new(1),
            owned,
            promised: AtomicBool::new(false),
            taken: AtomicUsize::new(0),
        })?;
        Ok(Mapped { page, taken: 0 })
    }

    // Relaxed, here and below: no other memory is published with the numbers. Address spaces that
    // share a page coordinate through their own locks.
    fn again(&self) -> Self {
        if !self.is_lost() {
            self.page.maps.fetch_add(1, Ordering::Relaxed);
        }
        let page = self.page.clone();
        Mapped {
            page,
            taken: self.taken,
        }
    }

    /// Returns `true` if another address space has taken the page, or it is gone from all.
    fn is_lost(&self) -> bool {
        self.page.taken.load(Ordering::Relaxed) != self.taken
    }

    /// Returns `true` if the page is gone from all, and its reservation has returned.
    fn is_returned(&self) -> bool {
        self.page.taken.load(Ordering::Relaxed) == GONE
            && self.page.promised.load(Ordering::Relaxed)
    }

    fn is_shared(&self) -> bool {
        self.page.maps.load(Ordering::Relaxed) > 1
    }

    /// Takes the page from all others.
    fn take(&mut self) {
        self.taken += 1;
        self.page.taken.store(self.taken, Ordering::Relaxed);
        self.page.maps.store(1, Ordering::Relaxed);
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        if !self.is_lost() && self.page.maps.fetch_sub(1, Ordering::Relaxed) == 1 {
            let page = &self.page;
            let promised = page.promised.load(Ordering::Relaxed);
            page.pool.give(page.size, promised);
        }
    }
}

/// The reservation of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Promise {
    /// Nothing.
    None,
    /// It is not used yet.
    Unused,
    /// The page was taken.
    Used,
}

struct Slot {
    address: u64,
    size: Size,
    promise: Promise,
    page: Option<Mapped>,
}

impl Slot {
    /// Forgets a page that another address space has taken.
    fn settle(&mut self) {
        let Some(page) = self.page.take_if(|page| page.is_lost()) else {
            return;
        };
        if page.is_returned() && self.promise == Promise::Used {
            self.promise = Promise::Unused;
        }
    }
}

/// A page of a file that is mapped at an address, by its identity.
#[derive(Clone, Copy)]
struct Seen {
    address: u64,
    which: u64,
}

/// The slots of an address space, by address.
pub(crate) struct Slots {
    pool: HugePool,
    slots: Vec<Slot>,
    /// Pages of files, by address. Some may be gone from their files since.
    seen: Vec<Seen>,
    /// A copy of other slots: the reservations are not its own.
    copy: bool,
}

impl Slots {
    pub(crate) fn new(pool: HugePool) -> Self {
        let slots = Vec::new();
        Slots {
            pool,
            slots,
            seen: Vec::new(),
            copy: false,
        }
    }

    fn seen_in(&self, range: &Range<u64>) -> Range<usize> {
        let first = self.seen.partition_point(|s| s.address < range.start);
        let end = self.seen.partition_point(|s| s.address < range.end);
        first..end
    }

    /// Records that a page of a file is mapped at an address.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn see(&mut self, address: u64, which: u64) -> Result<(), Errno> {
        let seen = Seen { address, which };
        match self.seen.binary_search_by_key(&address, |s| s.address) {
            Ok(index) => {
                if let Some(old) = self.seen.get_mut(index) {
                    *old = seen;
                }
            }
            Err(index) => {
                self.seen.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
                self.seen.insert(index, seen);
            }
        }
        Ok(())
    }

    /// Returns the identity of the page of a file that was mapped at an address.
    pub(crate) fn seen(&self, address: u64) -> Option<u64> {
        let found = self.seen.binary_search_by_key(&address, |s| s.address);
        Some(self.seen.get(found.ok()?)?.which)
    }

    fn range(&self, range: &Range<u64>) -> Range<usize> {
        let first = self.slots.partition_point(|s| s.address < range.start);
        let end = self.slots.partition_point(|s| s.address < range.end);
        first..end
    }

    fn of(&self, range: &Range<u64>) -> &[Slot] {
        self.slots.get(self.range(range)).unwrap_or_default()
    }

    /// Reserves all pages of a range in which there are no slots.
    ///
    /// # Errors
    /// `ENOMEM`, and nothing has changed.
    pub(crate) fn reserve(&mut self, size: Size, range: &Range<u64>) -> Result<(), Errno> {
        let count = (range.end - range.start) / size.bytes();
        self.pool.reserve(size, count)?;
        let room = usize::try_from(count).map_err(|_| Errno::ENOMEM);
        let room = room.and_then(|room| {
            let grown = self.slots.try_reserve(room);
            grown.map_err(|_| Errno::ENOMEM)
        });
        if room.is_err() {
            self.pool.unreserve(size, count);
            return room;
        }
        let at = self.range(range).start;
        let fresh = (0..count).map(|number| Slot {
            address: range.start + number * size.bytes(),
            size,
            promise: Promise::Unused,
            page: None,
        });
        self.slots.splice(at..at, fresh);
        Ok(())
    }

    /// Returns `true` if the page at an address is mapped.
    pub(crate) fn has(&self, address: u64) -> bool {
        let found = self.slots.binary_search_by_key(&address, |s| s.address);
        let slot = found.ok().and_then(|index| self.slots.get(index));
        slot.and_then(|slot| slot.page.as_ref())
            .is_some_and(|page| !page.is_lost())
    }

    /// Faults in the page at an address. To `write`, it becomes this address space's own. It
    /// replaces the page `number` of `file`.
    ///
    /// # Errors
    /// `EFAULT` if none is available.
    pub(crate) fn fault(
        &mut self,
        size: Size,
        address: u64,
        write: bool,
        (file, number): (Option<&HugeFile>, u64),
    ) -> Result<(), Errno> {
        let index = match self.slots.binary_search_by_key(&address, |s| s.address) {
            Ok(index) => index,
            Err(index) => {
                self.slots.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
                let fresh = Slot {
                    address,
                    size,
                    promise: Promise::None,
                    page: None,
                };
                self.slots.insert(index, fresh);
                index
            }
        };
        let pool = &self.pool;
        let Some(slot) = self.slots.get_mut(index) else {
            return Err(Errno::EFAULT);
        };
        slot.settle();
        if let Some(page) = &mut slot.page {
            if !write || !page.is_shared() {
                return Ok(());
            }
            if pool.take(size, false).is_err() {
                if slot.promise == Promise::None {
                    return Err(Errno::EFAULT);
                }
                page.take();
                return Ok(());
            }
        } else {
            let promised = slot.promise == Promise::Unused;
            pool.take(size, promised).map_err(|_| Errno::EFAULT)?;
            if promised {
                slot.promise = Promise::Used;
            }
        }
        let owned = slot.promise != Promise::None;
        let made = Mapped::try_new(pool, size, owned);
        let page = made.inspect_err(|_| pool.give(size, false))?;
        if let Some(file) = file {
            file.stands_for(number, &page.page)?;
        }
        slot.page = Some(page);
        let seen = self.seen_in(&(address..address + 1));
        self.seen.drain(seen);
        Ok(())
    }

    /// Discards the pages of a range. Their reservations return.
    pub(crate) fn discard(&mut self, range: &Range<u64>) {
        let seen = self.seen_in(range);
        self.seen.drain(seen);
        // Read once: the pages of one call are returned together, after the fate of the
        // reservations is settled.
        let surplus = self.pool.surplus();
        let indices = self.range(range);
        for slot in self.slots.get_mut(indices).unwrap_or_default() {
            slot.settle();
            let Some(page) = slot.page.take() else {
                continue;
            };
            // A surplus page is freed instead.
            let returns = slot.promise == Promise::Used && !self.copy;
            if returns && !slot.size.of_each(&surplus) {
                slot.promise = Promise::Unused;
                page.page.promised.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Removes the pages and the reservations of a range.
    pub(crate) fn clear(&mut self, range: &Range<u64>) {
        self.discard(range);
        let indices = self.range(range);
        for slot in self.slots.drain(indices) {
            if slot.promise == Promise::Unused && !self.copy {
                self.pool.unreserve(slot.size, 1);
            }
        }
    }

    /// Moves the slots of a range to another without slots. Reservations of the rest of `area`, of
    /// which the range is a part, are lost, as in Linux.
    pub(crate) fn shift(&mut self, range: &Range<u64>, area: &Range<u64>, to: u64) {
        for rest in [area.start..range.start, range.end..area.end] {
            let indices = self.range(&rest);
            for slot in self.slots.get_mut(indices).unwrap_or_default() {
                slot.promise = Promise::None;
            }
        }
        let indices = self.range(range);
        for slot in self.slots.get_mut(indices).unwrap_or_default() {
            slot.address = slot.address - range.start + to;
        }
        self.slots.sort_unstable_by_key(|slot| slot.address);
        let indices = self.seen_in(range);
        for seen in self.seen.get_mut(indices).unwrap_or_default() {
            seen.address = seen.address - range.start + to;
        }
        self.seen.sort_unstable_by_key(|seen| seen.address);
    }

    /// Returns a copy, for undoing a call or for a second model of the same process.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn try_clone(&self) -> Result<Self, Errno> {
        let mut copy = self.child(|_| true, |_| true)?;
        copy.copy = true;
        for (new, old) in copy.slots.iter_mut().zip(&self.slots) {
            new.promise = old.promise;
        }
        Ok(copy)
    }

    /// Returns the slots of a child of a fork: those of addresses that `inherits` accepts, with
    /// their pages until either writes, and without reservations. Pages of files only at addresses
    /// that `maps` accepts.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn child(
        &self,
        mut inherits: impl FnMut(u64) -> bool,
        mut maps: impl FnMut(u64) -> bool,
    ) -> Result<Self, Errno> {
        let mut slots = Vec::new();
        let room = slots.try_reserve_exact(self.slots.len());
        room.map_err(|_| Errno::ENOMEM)?;
        let inherited = self.slots.iter().filter(|slot| inherits(slot.address));
        slots.extend(inherited.map(|slot| Slot {
            page: slot.page.as_ref().map(|page| page.again()),
            promise: Promise::None,
            ..*slot
        }));
        let mut seen = Vec::new();
        let room = seen.try_reserve_exact(self.seen.len());
        room.map_err(|_| Errno::ENOMEM)?;
        seen.extend(self.seen.iter().filter(|seen| maps(seen.address)));
        Ok(Slots {
            pool: self.pool.clone(),
            slots,
            seen,
            copy: false,
        })
    }

    /// Restores a copy that was made before a call.
    pub(crate) fn roll_back(&mut self, mut before: Slots) {
        for size in self.slots.iter().chain(&before.slots).map(|s| s.size) {
            let by = before.unused(size) - self.unused(size);
            if by != 0 {
                self.pool.correct(size, by);
                break;
            }
        }
        self.copy = true;
        before.copy = false;
        *self = before;
    }

    fn unused(&self, size: Size) -> i64 {
        let unused = |slot: &&Slot| slot.size == size && slot.promise == Promise::Unused;
        self.slots.iter().filter(unused).count() as i64
    }

    /// Returns `true` if there is none in a range.
    pub(crate) fn is_empty_in(&self, range: &Range<u64>) -> bool {
        self.of(range).is_empty() && self.seen_in(range).is_empty()
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        self.clear(&(0..u64::MAX));
    }
}

impl core::fmt::Debug for Slots {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let shown = |slot: &Slot| (slot.address, slot.promise, slot.page.is_some());
        f.debug_list()
            .entries(self.slots.iter().map(shown))
            .finish()
    }
}

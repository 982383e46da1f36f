//! A table: 512 entries, which processors read too, and one word in the count array that holds its
//! lock, its number of users and its number of used entries.

use crate::atomic::{AtomicU32, AtomicU64, Ordering};
use core::ops::Range;
use core::ptr::NonNull;

use crate::entry::{ENTRIES, tag};
use crate::format::Format;
use crate::spin::relax;

/// Used entries, 0 to 512.
const USED: u32 = (1 << 10) - 1;
pub(crate) const USERS_SHIFT: u32 = 10;
const ONE_USER: u32 = 1 << USERS_SHIFT;
const USERS: u32 = ((1 << 19) - 1) << USERS_SHIFT;
const LOCK: u32 = 1 << 29;

/// A table that may be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table<'a> {
    entries: NonNull<AtomicU64>,
    word: &'a AtomicU32,
    pub(crate) phys: u64,
}

/// Entries of a cache line.
const LINE: usize = 8;
/// A table with fewer used entries is scanned by cache lines.
pub(crate) const SPARSE: u32 = ENTRIES as u32 / 4;

impl<'a> Table<'a> {
    /// # Safety
    ///
    /// `entries` is valid for 512 words for as long as this value is used. All accesses to them,
    /// except those of processors' page walks, are atomic.
    pub(crate) unsafe fn new(entries: NonNull<AtomicU64>, word: &'a AtomicU32, phys: u64) -> Self {
        Self {
            entries,
            word,
            phys,
        }
    }

    #[inline]
    pub(crate) fn slot(&self, index: usize) -> &'a AtomicU64 {
        debug_assert!(index < ENTRIES);
        // SAFETY: within the 512 valid words, because the index is masked.
        unsafe { self.entries.add(index & (ENTRIES - 1)).as_ref() }
    }

    /// Returns adjacent entries.
    #[inline]
    pub(crate) fn entries(&self, part: Range<usize>) -> &'a [AtomicU64] {
        // SAFETY: 512 valid words, which are accessed atomically only.
        let all: &[AtomicU64; ENTRIES] = unsafe { self.entries.cast().as_ref() };
        &all[part]
    }

    /// Reads an entry as a walk does. Sequentially consistent: a read within a section must not be
    /// older than an unlink before the section's epoch began. See [`Grace`](crate::Grace).
    #[inline]
    pub(crate) fn read(&self, index: usize) -> u64 {
        self.slot(index).load(Ordering::SeqCst)
    }

    /// Reads an entry as the holder of the lock does.
    #[inline]
    pub(crate) fn load(&self, index: usize) -> u64 {
        self.slot(index).load(Ordering::Relaxed)
    }

    /// Waits for the table's lock. Upper tables are locked before lower ones. Of two tables on one
    /// level, the one at the lower physical address is locked first.
    #[inline]
    pub(crate) fn lock(&self) -> LockedTable<'a> {
        let mut rounds = 0;
        loop {
            let word = self.word.fetch_or(LOCK, Ordering::Acquire);
            if word & LOCK == 0 {
                return LockedTable { table: *self, word };
            }
            while self.word.load(Ordering::Relaxed) & LOCK != 0 {
                relax(&mut rounds);
            }
        }
    }

    /// Returns `true` if a walk finds nothing in these entries.
    pub(crate) fn is_empty(&self, part: Range<usize>) -> bool {
        let found = |slot: &AtomicU64| slot.load(Ordering::SeqCst) != 0;
        !self.entries(part).iter().any(found)
    }

    /// Returns `true` if these entries of one cache line are empty.
    #[inline(always)]
    fn is_empty_line(&self, line: Range<usize>) -> bool {
        let line = self.entries(line);
        let all = match <&[AtomicU64; LINE]>::try_from(line) {
            // The compiler unrolls a loop of constant length.
            Ok(line) => (0..LINE).fold(0, |all, i| all | line[i].load(Ordering::Relaxed)),
            Err(_) => line
                .iter()
                .fold(0, |all, slot| all | slot.load(Ordering::Relaxed)),
        };
        all == 0
    }

    /// Returns the first entry of a part whose cache line is not empty, or the end of the part.
    #[inline]
    pub(crate) fn skip_empty_lines(&self, part: Range<usize>) -> usize {
        let mut at = part.start;
        while at < part.end {
            let end = (at / LINE * LINE + LINE).min(part.end);
            if !self.is_empty_line(at..end) {
                return at;
            }
            at = end;
        }
        at
    }

    /// Calls `seen` for each used entry of a part, as the holder of the lock reads it. Fast for
    /// parts that are mostly empty.
    #[inline(always)]
    pub(crate) fn for_each_used(&self, part: Range<usize>, mut seen: impl FnMut(usize, u64)) {
        let mut at = part.start;
        while at < part.end {
            let end = (at / LINE * LINE + LINE).min(part.end);
            if !self.is_empty_line(at..end) {
                (at..end)
                    .map(|index| (index, self.load(index)))
                    .filter(|&(_, raw)| raw != 0)
                    .for_each(|(index, raw)| seen(index, raw));
            }
            at = end;
        }
    }

    /// Returns the number of upper entries that point to the table. Exact only under the lock.
    pub(crate) fn users(&self) -> u32 {
        (self.word.load(Ordering::Relaxed) & USERS) >> USERS_SHIFT
    }

    /// Returns `true` if the table has used entries. Exact only under the lock.
    #[inline]
    pub(crate) fn seems_used(&self) -> bool {
        self.word.load(Ordering::Relaxed) & USED != 0
    }

    /// Returns the next table of a list of tables that are in no tree (0: none).
    pub(crate) fn link(&self) -> u64 {
        self.load(0) & !0xfff & !tag::LINK
    }

    pub(crate) fn set_link(&self, next: u64) {
        // A walk may still read this word: the entry is invalid.
        self.slot(0).store(tag::LINK | next, Ordering::Relaxed);
    }
}

/// A table whose lock is held.
#[derive(Debug)]
pub(crate) struct LockedTable<'a> {
    pub(crate) table: Table<'a>,
    /// The table's word without the lock bit, written back at the release.
    word: u32,
}

impl LockedTable<'_> {
    #[inline]
    pub(crate) fn used(&self) -> u32 {
        self.word & USED
    }

    #[inline]
    pub(crate) fn add_used(&mut self, more: u32) {
        self.word += more;
    }

    #[inline]
    pub(crate) fn sub_used(&mut self, less: u32) {
        debug_assert!(self.used() >= less);
        self.word -= less;
    }

    pub(crate) fn users(&self) -> u32 {
        (self.word & USERS) >> USERS_SHIFT
    }

    /// Adds a user. Returns `false` at the limit.
    pub(crate) fn add_user(&mut self) -> bool {
        let room = self.word & USERS != USERS;
        if room {
            self.word += ONE_USER;
        }
        room
    }

    pub(crate) fn sub_user(&mut self) {
        debug_assert!(self.users() > 0);
        self.word -= ONE_USER;
    }

    #[inline]
    pub(crate) fn load(&self, index: usize) -> u64 {
        self.table.load(index)
    }

    /// Replaces an entry that the processor does not write to: an invalid one, one that points to a
    /// table, or a [stable](Format::is_hw_stable) leaf.
    ///
    /// Release: a thread that sees the entry also sees the contents it points to.
    /// [`unlink`](Self::unlink) is sequentially consistent, for removing an entry that points to a
    /// table.
    #[inline]
    pub(crate) fn store(&self, index: usize, raw: u64) {
        self.table.slot(index).store(raw, Ordering::Release);
    }

    pub(crate) fn unlink(&self, index: usize, raw: u64) {
        self.table.slot(index).store(raw, Ordering::SeqCst);
    }

    /// Replaces a leaf that was read as `old` by `new` of it. Returns its last value, with the
    /// accessed and dirty bits that the processor set since.
    #[inline]
    pub(crate) fn update<F: Format>(
        &self,
        index: usize,
        old: u64,
        mut new: impl FnMut(u64) -> u64,
    ) -> u64 {
        if F::is_hw_stable(old) {
            // Processors change only the accessed and dirty bits, and only set them. Both are set
            // already where they can be.
            self.store(index, new(old));
            return old;
        }
        let slot = self.table.slot(index);
        let mut now = old;
        loop {
            match slot.compare_exchange_weak(now, new(now), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return now,
                Err(seen) => now = seen,
            }
        }
    }
}

impl Drop for LockedTable<'_> {
    #[inline]
    fn drop(&mut self) {
        // A plain store suffices, because other threads only set the lock bit, which was set. A
        // `fetch_or` before this store found the lock taken, and its thread keeps waiting. A
        // `fetch_or` after it finds the lock free and these counts.
        // (The model checker does not know that nothing can come between a `fetch_or` and the store
        // that it read. It gets a swap instead.)
        #[cfg(samara_loom)]
        self.table.word.swap(self.word, Ordering::Release);
        #[cfg(not(samara_loom))]
        self.table.word.store(self.word, Ordering::Release);
    }
}

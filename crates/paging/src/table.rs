//! A table: 512 words that processors read too, and one more in the array of frames that is its lock and counts what it holds.

use crate::atomic::{AtomicU32, AtomicU64, Ordering};
use core::ops::Range;
use core::ptr::NonNull;

use crate::entry::{ENTRIES, tag};
use crate::format::Format;
use crate::spin::relax;

/// Entries in use, 0 to 512.
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

/// Entries of a line of the cache.
const LINE: usize = 8;
/// A table with fewer entries in use is looked through by lines.
pub(crate) const SPARSE: u32 = ENTRIES as u32 / 4;

impl<'a> Table<'a> {
    /// # Safety
    ///
    /// `entries` is valid for 512 words for as long as this is used, which nobody accesses but by atomic instructions (and processors).
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
        // SAFETY: within the 512 words (the index is masked), which are valid.
        unsafe { self.entries.add(index & (ENTRIES - 1)).as_ref() }
    }

    /// Neighbouring entries.
    #[inline]
    pub(crate) fn entries(&self, part: Range<usize>) -> &'a [AtomicU64] {
        // SAFETY: 512 words, which are valid, and of atomic use alone.
        let all: &[AtomicU64; ENTRIES] = unsafe { self.entries.cast().as_ref() };
        &all[part]
    }

    /// An entry as a walk reads it. Sequentially consistent, since what a walk reads after it has entered its section must not be older than
    /// what was unlinked before the section's epoch began: see [`Grace`](crate::Grace).
    #[inline]
    pub(crate) fn read(&self, index: usize) -> u64 {
        self.slot(index).load(Ordering::SeqCst)
    }

    /// An entry as the holder of the lock reads it.
    #[inline]
    pub(crate) fn load(&self, index: usize) -> u64 {
        self.slot(index).load(Ordering::Relaxed)
    }

    /// Waits for the table's lock. Tables above are locked before those below, and of two on a level the one at the lower physical address.
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

    /// Returns `true` if nothing is in entries of one line of the cache.
    #[inline(always)]
    fn is_empty_line(&self, line: Range<usize>) -> bool {
        let line = self.entries(line);
        let all = match <&[AtomicU64; LINE]>::try_from(line) {
            // The compiler unrolls a loop whose length it knows.
            Ok(line) => (0..LINE).fold(0, |all, i| all | line[i].load(Ordering::Relaxed)),
            Err(_) => line
                .iter()
                .fold(0, |all, slot| all | slot.load(Ordering::Relaxed)),
        };
        all == 0
    }

    /// Returns the first entry of a part whose line of the cache is not empty, or the end.
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

    /// Calls `seen` for each entry of a part that is not empty, as the holder of the lock reads it. Quick where most are.
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

    /// How many upper entries point here: exact only under the lock.
    pub(crate) fn users(&self) -> u32 {
        (self.word.load(Ordering::Relaxed) & USERS) >> USERS_SHIFT
    }

    /// Whether it holds anything: exact only under the lock.
    #[inline]
    pub(crate) fn seems_used(&self) -> bool {
        self.word.load(Ordering::Relaxed) & USED != 0
    }

    /// Of a table that is in no tree: the next of its list (0: none).
    pub(crate) fn link(&self) -> u64 {
        self.load(0) & !0xfff & !tag::LINK
    }

    pub(crate) fn set_link(&self, next: u64) {
        // A walk may still read this: the entry is not valid.
        self.slot(0).store(tag::LINK | next, Ordering::Relaxed);
    }
}

/// A table whose lock is held.
#[derive(Debug)]
pub(crate) struct LockedTable<'a> {
    pub(crate) table: Table<'a>,
    /// The table's word without the lock, written back when it is released.
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

    /// One more user; refused at the limit.
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

    /// Replaces an entry that the processor does not write to: one that is not valid, points to a table, or is settled.
    ///
    /// Release: whoever sees the entry sees what it points to. Sequentially consistent where an entry that points to a table goes.
    #[inline]
    pub(crate) fn store(&self, index: usize, raw: u64) {
        self.table.slot(index).store(raw, Ordering::Release);
    }

    pub(crate) fn unlink(&self, index: usize, raw: u64) {
        self.table.slot(index).store(raw, Ordering::SeqCst);
    }

    /// Replaces a leaf that was read as `old` by what `new` makes of it; what it was in the end, with all that the processor noted meanwhile.
    #[inline]
    pub(crate) fn update<F: Format>(
        &self,
        index: usize,
        old: u64,
        mut new: impl FnMut(u64) -> u64,
    ) -> u64 {
        if F::is_hw_stable(old) {
            // Of the entry's bits, processors change only accessed and dirty, and only upwards. Both are as they will be.
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
        // A plain store suffices: others only set the lock's bit, which was set. If their `fetch_or` comes before this store, it found the lock
        // taken, and they go on waiting; if it comes after, it finds it free, and these counts.
        // (The model checker does not know that nothing comes between a `fetch_or` and what it has read. It gets an exchange.)
        #[cfg(samara_loom)]
        self.table.word.swap(self.word, Ordering::Release);
        #[cfg(not(samara_loom))]
        self.table.word.store(self.word, Ordering::Release);
    }
}

//! What is counted of each frame: one word of 32 bits, all in one dense array.
//!
//! ```text
//! anonymous, file:  kind (2 bits) | references (10) | mappings (20)   kind: 0 anonymous and pinned, 1 anonymous, 2 file, 3 table
//! table:            kind (2) | lock (1) | users (19) | entries in use (10)
//! ```
//!
//! *Mappings* are entries of tables that point to the frame; a huge page counts once for each of its frames, so that splitting it changes no
//! count. *References* are all others: a page cache, a copy under way. A frame with neither is dead: see [`Dead`].
//!
//! # One mapping and no reference
//!
//! Who holds the lock of a table with an entry that points to a frame, and finds the frame's word at one mapping and no reference, may change
//! the word by an ordinary store. Another mapping or reference comes only from one that there is already: from an entry, under its table's lock,
//! which is held here; or from a reference, and there is none. So a fork of private memory raises a million counts without one locked instruction.
//! All other changes are atomic additions.
//!
//! # Pinned
//!
//! A frame of private memory is *pinned* for a device by a reference that is taken while one entry maps the frame, under that entry's lock. Its other
//! mark is a kind of its own, so that no loop that knows the usual words takes it for a usual one. A pinned frame stays the address space's own: as
//! long as there is a reference it gets no second mapping (a fork copies its bytes), and a write to it needs no copy, whatever its references. When
//! the references are gone, the next mapping takes the mark away.

use crate::atomic::{AtomicU32, Ordering};
use alloc::alloc::{Layout, alloc_zeroed, dealloc};
use core::ops::Range;
use core::ptr::NonNull;

use crate::dead::Dead;
use crate::entry::PAGE_SIZE;
use crate::error::Error;
use crate::lane::Apart;

/// What a frame is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Private memory: copied at the first write after a fork.
    Anon,
    /// A file's page, or shared memory: seen by all who map it.
    File,
}

impl Kind {
    const fn bits(self) -> u32 {
        match self {
            Self::Anon => ANON,
            Self::File => FILE,
        }
    }
}

const MAPPINGS: u32 = (1 << 20) - 1;
const ONE_REFERENCE: u32 = 1 << 20;
const REFERENCES: u32 = ((1 << 10) - 1) << 20;
const COUNTS: u32 = MAPPINGS | REFERENCES;
const KIND: u32 = 3 << 30;
/// With a count; without, the frame is free.
const PINNED: u32 = 0;
const ANON: u32 = 1 << 30;
const FILE: u32 = 2 << 30;
const TABLE: u32 = 3 << 30;

/// The end of a list of dead frames.
pub(crate) const NO_FRAME: u32 = (1 << 30) - 1;

/// The counts of all frames.
#[derive(Debug)]
pub struct Frames {
    base: u64,
    count: u64,
    words: NonNull<AtomicU32>,
    /// For each 2 MiB, what was allocated as one block there: its order in the top two bits (0: single frames, 1: 2 MiB, 2: 1 GiB, 3: inside such
    /// a block) and how many of its frames are alive.
    blocks: NonNull<AtomicU32>,
    /// The lowest frame that was ever given out, and the one after the highest. They change, while all read what is above.
    edges: Apart<Edges>,
}

#[derive(Debug)]
struct Edges {
    lowest: AtomicU32,
    highest: AtomicU32,
}

// SAFETY: two arrays of atomics that this value owns.
unsafe impl Send for Frames {}
// SAFETY: they are changed by atomic instructions alone.
unsafe impl Sync for Frames {}

const BLOCK_SHIFT: u32 = 30;
const BLOCK_INSIDE: u32 = 3 << BLOCK_SHIFT;

/// What is known of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameInfo {
    /// What it is used for.
    pub kind: Kind,
    /// Entries of tables that point to it.
    pub mappings: u32,
    /// Other references.
    pub references: u32,
}

/// What dead frames were allocated as.
pub(crate) enum Buried {
    /// One by one.
    Singles,
    /// Parts of a block, others of which are alive.
    Part,
    /// A block, all of which is dead: its first byte and its order.
    Block(u64, u32),
}

/// How many frames are used for what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Private memory.
    pub anon: u64,
    /// Files and shared memory, the zero page among them.
    pub file: u64,
    /// Tables, also those that wait for walks.
    pub tables: u64,
}

impl Frames {
    pub(crate) fn new(base: u64, count: u64) -> Result<Self, Error> {
        if !base.is_multiple_of(PAGE_SIZE) {
            return Err(Error::Misaligned);
        }
        if count >= u64::from(NO_FRAME) || count == 0 {
            return Err(Error::TooMany);
        }
        let words = zeroed(count as usize)?;
        let blocks = match zeroed(Self::stretches(base, count)) {
            Ok(blocks) => blocks,
            Err(error) => {
                // SAFETY: allocated above, and nobody has it.
                unsafe { dealloc(words.as_ptr().cast(), layout(count as usize)) };
                return Err(error);
            }
        };
        Ok(Self {
            base,
            count,
            words,
            blocks,
            edges: Apart(Edges {
                lowest: AtomicU32::new(u32::MAX),
                highest: AtomicU32::new(0),
            }),
        })
    }

    /// Physical addresses among which lie all frames that were ever given out: what there is to look at where far more are counted than are used.
    pub fn used(&self) -> Range<u64> {
        // Relaxed: who must not miss a frame knows already that it was given out.
        let Edges { lowest, highest } = &self.edges.0;
        let highest = highest.load(Ordering::Relaxed);
        let lowest = lowest.load(Ordering::Relaxed).min(highest);
        self.phys(lowest)..self.phys(highest)
    }

    /// Frames are given out.
    #[inline]
    fn widen(&self, first: u32, count: u32) {
        let Edges { lowest, highest } = &self.edges.0;
        if first < lowest.load(Ordering::Relaxed) {
            lowest.fetch_min(first, Ordering::Relaxed);
        }
        if first + count > highest.load(Ordering::Relaxed) {
            highest.fetch_max(first + count, Ordering::Relaxed);
        }
    }

    /// How many pieces of 2 MiB, counted from physical address 0, the frames lie in.
    fn stretches(base: u64, count: u64) -> usize {
        (((base / PAGE_SIZE) % 512 + count).div_ceil(512)) as usize
    }

    /// How many frames are counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The first physical address.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Whether this is an address in one of the frames.
    pub fn contains(&self, phys: u64) -> bool {
        phys.wrapping_sub(self.base) / PAGE_SIZE < self.count
    }

    #[inline]
    fn index(&self, phys: u64) -> u32 {
        (phys.wrapping_sub(self.base) / PAGE_SIZE) as u32
    }

    pub(crate) fn phys(&self, index: u32) -> u64 {
        self.base + u64::from(index) * PAGE_SIZE
    }

    #[inline]
    fn words(&self) -> &[AtomicU32] {
        // SAFETY: the array has so many words.
        unsafe { core::slice::from_raw_parts(self.words.as_ptr(), self.count as usize) }
    }

    #[inline]
    pub(crate) fn at(&self, index: u32) -> &AtomicU32 {
        let word = self.words().get(index as usize);
        assert!(word.is_some(), "a frame outside of the counted memory");
        // SAFETY: as was just seen.
        unsafe { word.unwrap_unchecked() }
    }

    #[inline]
    fn word(&self, phys: u64) -> &AtomicU32 {
        self.at(self.index(phys))
    }

    fn block(&self, index: u32) -> &AtomicU32 {
        let stretch = (self.base / PAGE_SIZE % 512 + u64::from(index)) / 512;
        debug_assert!((stretch as usize) < Self::stretches(self.base, self.count));
        // SAFETY: `stretches` counts the pieces in which the frames lie, and callers have looked at the frame's own word.
        unsafe { self.blocks.add(stretch as usize).as_ref() }
    }

    /// What is known of a frame; `None` if it is free, holds a table, or is not counted.
    pub fn info(&self, phys: u64) -> Option<FrameInfo> {
        if !self.contains(phys) {
            return None;
        }
        let word = self.word(phys).load(Ordering::Acquire);
        let kind = match word & KIND {
            ANON => Kind::Anon,
            FILE => Kind::File,
            PINNED if word != 0 => Kind::Anon,
            _ => return None,
        };
        Some(FrameInfo {
            kind,
            mappings: word & MAPPINGS,
            references: (word & REFERENCES) / ONE_REFERENCE,
        })
    }

    /// How many frames are used for what, by looking at all that were ever [given out](Self::used): linear in memory, for statistics. Beside allocations
    /// and frees, each frame is counted as it is when it is looked at.
    ///
    /// ```
    /// # use samara_paging::{Arena, Exclusive, Kind, Physical};
    /// # // SAFETY: one thread uses the memory.
    /// # let memory = Physical::new(Arena::on_heap(64)?, unsafe { Exclusive::new() }, 1 << 30, 64)?;
    /// let before = memory.frames().census();
    /// memory.alloc_page(Kind::Anon)?;
    /// let census = memory.frames().census();
    /// assert_eq!((census.anon, census.file, census.tables), (1, before.file, 0));
    /// # Ok::<(), samara_paging::Error>(())
    /// ```
    pub fn census(&self) -> Census {
        let mut census = Census::default();
        let used = self.used();
        for index in self.index(used.start)..self.index(used.end) {
            let word = self.at(index).load(Ordering::Relaxed);
            match word & KIND {
                ANON => census.anon += 1,
                FILE => census.file += 1,
                TABLE => census.tables += 1,
                _ => census.anon += u64::from(word != 0),
            }
        }
        census
    }

    /// A frame from the allocator: one reference.
    #[inline]
    pub(crate) fn claim_page(&self, phys: u64, kind: Kind) {
        let index = self.index(phys);
        self.widen(index, 1);
        let word = kind.bits() | ONE_REFERENCE;
        self.at(index).store(word, Ordering::Relaxed);
    }

    /// Single frames from the allocator that follow one another: one reference each.
    pub(crate) fn claim_run(&self, first: u64, count: usize, kind: Kind) {
        let index = self.index(first);
        self.widen(index, count as u32);
        let word = kind.bits() | ONE_REFERENCE;
        let words = self.words().get(index as usize..index as usize + count);
        assert!(words.is_some(), "a frame outside of the counted memory");
        for place in words.unwrap_or(&[]) {
            place.store(word, Ordering::Relaxed);
        }
    }

    /// Frames from the allocator: one reference each.
    pub(crate) fn claim(&self, phys: u64, order: u32, kind: Kind) {
        let first = self.index(phys);
        self.widen(first, 1 << order);
        let word = kind.bits() | ONE_REFERENCE;
        for i in 0..1u32 << order {
            self.at(first + i).store(word, Ordering::Relaxed);
        }
        if order > 0 {
            for piece in (0..1u32 << order).step_by(512) {
                self.block(first + piece)
                    .store(BLOCK_INSIDE, Ordering::Relaxed);
            }
            let head = (order / 9) << BLOCK_SHIFT | 1 << order;
            self.block(first).store(head, Ordering::Release);
        }
    }

    pub(crate) fn get(&self, phys: u64) -> Result<(), Error> {
        let before = self.word(phys).fetch_add(ONE_REFERENCE, Ordering::Relaxed);
        if before & REFERENCES == REFERENCES {
            self.word(phys).fetch_sub(ONE_REFERENCE, Ordering::Relaxed);
            return Err(Error::TooMany);
        }
        Ok(())
    }

    /// A reference that makes the frame pinned. It is private memory, which one entry maps and nobody else has, or which is pinned already; the caller holds
    /// the lock of the entry's table.
    pub(crate) fn pin(&self, phys: u64) -> Result<(), Error> {
        self.get(phys)?;
        self.word(phys).fetch_and(!ANON, Ordering::Relaxed);
        Ok(())
    }

    /// A frame that was pinned and has no reference any more is as any other. The caller holds the lock of a table that maps it.
    pub(crate) fn unpin(&self, phys: u64) {
        let word = self.word(phys).load(Ordering::Acquire);
        if word & (KIND | REFERENCES) == PINNED && word & MAPPINGS != 0 {
            self.word(phys).fetch_or(ANON, Ordering::Relaxed);
        }
    }

    /// Whether there are references on pinned memory, of which a fork gives the child a copy.
    #[inline]
    pub(crate) fn is_pinned(&self, phys: u64) -> bool {
        let word = self.word(phys).load(Ordering::Acquire);
        word & KIND == PINNED && word & REFERENCES != 0
    }

    /// The same of any frame of a huge page.
    pub(crate) fn any_pinned(&self, phys: u64, order: u32) -> bool {
        (0..1u64 << order).any(|i| self.is_pinned(phys + i * PAGE_SIZE))
    }

    /// A reference less; the frame, if it is dead now.
    pub(crate) fn put(&self, phys: u64) -> Option<u32> {
        self.less(phys, ONE_REFERENCE)
    }

    /// One more mapping. The caller has a reference, or holds the lock of a table that maps the frame.
    ///
    /// The limit is checked before it is crossed by so many that all processors together cannot cross it at once.
    #[inline]
    pub(crate) fn map(&self, phys: u64) -> Result<(), Error> {
        let word = self.word(phys);
        let now = word.load(Ordering::Relaxed);
        if now & COUNTS == 1 {
            // One mapping, whose table's lock the caller holds, and no reference: see the head of this file. What was pinned is so no more.
            let mark = if now & KIND == PINNED { ANON } else { 0 };
            word.store((now + 1) | mark, Ordering::Relaxed);
            return Ok(());
        }
        let before = word.fetch_add(1, Ordering::Relaxed);
        if before & MAPPINGS >= MAPPINGS - (1 << 12) {
            word.fetch_sub(1, Ordering::Relaxed);
            return Err(Error::TooMany);
        }
        Ok(())
    }

    /// All words, for a loop that must not look for them anew each time.
    #[inline]
    pub(crate) fn counts(&self) -> Counts<'_> {
        Counts {
            words: self.words(),
            base: self.base,
        }
    }

    /// The caller's reference becomes a mapping.
    #[inline]
    pub(crate) fn map_owned(&self, phys: u64) -> Result<(), Error> {
        let word = self.word(phys);
        let now = word.load(Ordering::Relaxed);
        if now & COUNTS == ONE_REFERENCE {
            // The one reference is the caller's, and nothing maps it: nobody else can know of it.
            word.store(now - ONE_REFERENCE + 1, Ordering::Relaxed);
            return Ok(());
        }
        if now & MAPPINGS >= MAPPINGS - (1 << 12) {
            return Err(Error::TooMany);
        }
        word.fetch_sub(ONE_REFERENCE - 1, Ordering::Relaxed);
        Ok(())
    }

    /// Undoes [`map_owned`](Self::map_owned).
    pub(crate) fn unmap_owned(&self, phys: u64) {
        self.word(phys)
            .fetch_add(ONE_REFERENCE - 1, Ordering::Relaxed);
    }

    /// A mapping less; the frame, if it is dead now. The caller holds the lock of the table from which the entry has gone.
    #[inline]
    pub(crate) fn unmap(&self, phys: u64) -> Option<u32> {
        let index = self.index(phys);
        let word = self.at(index);
        if word.load(Ordering::Acquire) & COUNTS == 1 {
            return Some(index);
        }
        self.less(phys, 1)
    }

    #[inline]
    fn less(&self, phys: u64, count: u32) -> Option<u32> {
        let index = self.index(phys);
        // Release: what this user wrote to the frame comes before whatever the last one does with it. Acquire: so that the last one is after
        // all others.
        let before = self.at(index).fetch_sub(count, Ordering::AcqRel);
        debug_assert!(before & COUNTS >= count && before & KIND != TABLE);
        ((before - count) & COUNTS == 0).then_some(index)
    }

    /// Whether one entry maps the frame and nothing else refers to it, or the frame is pinned. The caller holds the lock of a table that maps it.
    #[inline]
    pub(crate) fn is_alone(&self, phys: u64) -> bool {
        let word = self.word(phys).load(Ordering::Acquire);
        word & COUNTS == 1 || word & (KIND | MAPPINGS) == PINNED | 1
    }

    /// Whether the frame is private memory and [alone](Self::is_alone). The caller holds the lock of a table that maps it.
    #[inline]
    pub(crate) fn is_own(&self, phys: u64) -> bool {
        let word = self.word(phys).load(Ordering::Acquire);
        word == ANON | 1 || word & (KIND | MAPPINGS) == PINNED | 1
    }

    /// Whether one entry maps the frame and nothing else refers to it. The caller holds the lock of a table that maps it.
    #[inline]
    pub(crate) fn is_single(&self, phys: u64) -> bool {
        self.word(phys).load(Ordering::Acquire) & COUNTS == 1
    }

    /// Whether the frame is private memory. Of a frame that is not counted, or free, it says nothing.
    pub fn is_private(&self, phys: u64) -> bool {
        self.contains(phys) && self.is_anon(phys)
    }

    /// Whether the frame is private memory.
    #[inline]
    pub(crate) fn is_anon(&self, phys: u64) -> bool {
        // Of kinds in use, pinned ones are the only others below.
        self.word(phys).load(Ordering::Relaxed) < FILE
    }

    /// Whether all frames of a huge page are alone, as [`is_alone`](Self::is_alone) says of one.
    pub(crate) fn all_alone(&self, phys: u64, order: u32) -> bool {
        (0..1u64 << order).all(|i| self.is_alone(phys + i * PAGE_SIZE))
    }

    /// Whether all frames of a huge page are single.
    pub(crate) fn all_single(&self, phys: u64, order: u32) -> bool {
        let first = self.index(phys);
        (0..1 << order).all(|i| self.at(first + i).load(Ordering::Acquire) & COUNTS == 1)
    }

    /// Whether one entry maps each frame of a page, and no other; whoever else refers to it.
    #[inline]
    pub(crate) fn all_mapped_once(&self, phys: u64, order: u32) -> bool {
        let first = self.index(phys);
        (0..1 << order).all(|i| self.at(first + i).load(Ordering::Acquire) & MAPPINGS == 1)
    }

    // ---- dead frames ----

    /// The mappings of a leaf have gone: notes which frames are dead now. The caller holds the lock of the leaf's table.
    #[inline]
    pub(crate) fn unmap_leaf(&self, phys: u64, order: u32, dead: &mut Dead) {
        if order > 0 && self.all_single(phys, order) {
            dead.push(self, self.index(phys), 1 << order);
            return;
        }
        for i in 0..1u64 << order {
            if let Some(index) = self.unmap(phys + i * PAGE_SIZE) {
                dead.push(self, index, 1);
            }
        }
    }

    /// One more mapping of each frame of a leaf, or of none.
    #[inline]
    pub(crate) fn map_leaf(&self, phys: u64, order: u32) -> Result<(), Error> {
        for i in 0..1u64 << order {
            if let Err(error) = self.map(phys + i * PAGE_SIZE) {
                for i in 0..i {
                    self.unmap_kept(phys + i * PAGE_SIZE);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Undoes [`map`](Self::map).
    pub(crate) fn unmap_kept(&self, phys: u64) {
        self.word(phys).fetch_sub(1, Ordering::AcqRel);
    }

    /// The end of the piece of 2 MiB that a frame is in.
    pub(crate) fn stretch_end(&self, index: u32) -> u32 {
        let skew = (self.base / PAGE_SIZE % 512) as u32;
        ((index + skew) | 511) + 1 - skew
    }

    /// Notes that frames, which lie in one piece of 2 MiB, are free; what is to be given back.
    pub(crate) fn bury(&self, run: Range<u32>) -> Buried {
        for word in &self.words()[run.start as usize..run.end as usize] {
            word.store(0, Ordering::Relaxed);
        }
        let mut word = self.block(run.start).load(Ordering::Acquire);
        if word == 0 {
            return Buried::Singles;
        }
        let start_of_block = |order: u32| {
            let pfn = self.base / PAGE_SIZE + u64::from(run.start);
            ((pfn & !((1 << order) - 1)) - self.base / PAGE_SIZE) as u32
        };
        let mut head = start_of_block(9);
        if word == BLOCK_INSIDE {
            head = start_of_block(18);
            word = self.block(head).load(Ordering::Acquire);
        }
        let order = (word >> BLOCK_SHIFT) * 9;
        let less = run.end - run.start;
        let before = self.block(head).fetch_sub(less, Ordering::AcqRel);
        if before & !(3 << BLOCK_SHIFT) != less {
            return Buried::Part;
        }
        for piece in (0..1u32 << order).step_by(512) {
            self.block(head + piece).store(0, Ordering::Relaxed);
        }
        Buried::Block(self.phys(head), order)
    }

    // ---- tables ----

    pub(crate) fn claim_table(&self, phys: u64) {
        self.widen(self.index(phys), 1);
        self.word(phys)
            .store(TABLE | 1 << crate::table::USERS_SHIFT, Ordering::Relaxed);
    }

    pub(crate) fn release_table(&self, phys: u64) {
        self.word(phys).store(0, Ordering::Relaxed);
    }

    pub(crate) fn table_word(&self, phys: u64) -> &AtomicU32 {
        self.word(phys)
    }

    /// Whether a frame holds a table.
    pub(crate) fn is_table(&self, phys: u64) -> bool {
        self.word(phys).load(Ordering::Relaxed) & KIND == TABLE
    }
}

/// The words of all frames, at hand in a loop.
#[derive(Clone, Copy)]
pub(crate) struct Counts<'a> {
    words: &'a [AtomicU32],
    base: u64,
}

impl<'a> Counts<'a> {
    /// The number of a frame, if it has this one mapping and no reference, so that it is dead with the mapping.
    #[inline(always)]
    pub(crate) fn last(&self, phys: u64) -> Option<u32> {
        let index = (phys.wrapping_sub(self.base) >> 12) as usize;
        // Acquire: what others wrote to the frame comes before what is done with it next.
        let word = self.words.get(index)?.load(Ordering::Acquire);
        (word & COUNTS == 1).then_some(index as u32)
    }

    /// The caller's reference, the only one on a frame that nothing maps, becomes a mapping. False: nothing was done.
    #[inline(always)]
    pub(crate) fn own(&self, phys: u64) -> bool {
        let index = (phys.wrapping_sub(self.base) >> 12) as usize;
        let Some(word) = self.words.get(index) else {
            return false;
        };
        let now = word.load(Ordering::Relaxed);
        let usual = now & COUNTS == ONE_REFERENCE;
        if usual {
            // As `Frames::map_owned`.
            word.store(now - ONE_REFERENCE + 1, Ordering::Relaxed);
        }
        usual
    }

    /// A second mapping of private memory that has one mapping, in a table whose lock the caller holds, and no reference. False: nothing was done.
    #[inline(always)]
    pub(crate) fn twice(&self, phys: u64) -> bool {
        let index = (phys.wrapping_sub(self.base) >> 12) as usize;
        let Some(word) = self.words.get(index) else {
            return false;
        };
        let usual = word.load(Ordering::Relaxed) == ANON | 1;
        if usual {
            // See the head of this file.
            word.store(ANON | 2, Ordering::Relaxed);
        }
        usual
    }

    /// The same of all of `N` frames, each behind the one before, or of none.
    #[inline(always)]
    pub(crate) fn twice_all<const N: usize>(&self, first: u64) -> bool {
        let index = (first.wrapping_sub(self.base) >> 12) as usize;
        let words = self.words.get(index..);
        let Some(words) = words.and_then(|words| words.first_chunk::<N>()) else {
            return false;
        };
        // Without a branch for each: nearly always they are all alike.
        let differ = |word: &AtomicU32| word.load(Ordering::Relaxed) ^ (ANON | 1);
        let usual = words.iter().fold(0, |all, word| all | differ(word)) == 0;
        if usual {
            // As above. What was found holds until here, since the lock does.
            for word in words {
                word.store(ANON | 2, Ordering::Relaxed);
            }
        }
        usual
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with these layouts.
        unsafe {
            dealloc(self.words.as_ptr().cast(), layout(self.count as usize));
            let blocks = Self::stretches(self.base, self.count);
            dealloc(self.blocks.as_ptr().cast(), layout(blocks));
        }
    }
}

/// Of an array of words. The counts were checked to be below 2^30.
fn layout(count: usize) -> Layout {
    const WORD: usize = size_of::<AtomicU32>();
    // SAFETY: the alignment is a power of two, and the size is below 2^32, which is no more than `isize::MAX` on machines with 64 bits; on
    // others `zeroed` refuses what is more.
    unsafe { Layout::from_size_align_unchecked(count * WORD, align_of::<AtomicU32>()) }
}

/// Zeroed by the allocator, which gets such pages from the system without touching them.
fn zeroed(count: usize) -> Result<NonNull<AtomicU32>, Error> {
    if count > isize::MAX as usize / 8 {
        return Err(Error::NoMemory);
    }
    // SAFETY: the layout is not empty, since there is at least one frame.
    let words = unsafe { alloc_zeroed(layout(count)) }.cast();
    let words = NonNull::<AtomicU32>::new(words).ok_or(Error::NoMemory)?;
    if cfg!(samara_loom) {
        for i in 0..count {
            // SAFETY: within the array. The checker's words are no bytes.
            unsafe { words.add(i).write(AtomicU32::new(0)) };
        }
    }
    Ok(words)
}

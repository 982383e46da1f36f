//! An allocator over one piece of memory: for tests, hosted programs and small kernels.

use alloc::alloc::{Layout, alloc_zeroed, dealloc};
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use core::ptr::NonNull;

use crate::entry::PAGE_SIZE;
use crate::error::Error;
use crate::phys::{FrameAllocator, PhysMem};
use crate::spin::Spin;

/// Frames in a piece of 2 MiB.
const PIECE: usize = 512;

/// Bytes that an [`Arena`] gives out.
///
/// # Safety
///
/// `start` is valid for reads and writes of [`count`](Self::count) bytes for as long as the value lives, wherever it is moved, and aligned to 4 KiB.
pub unsafe trait Bytes: Send + Sync {
    /// The first byte.
    fn start(&self) -> NonNull<u8>;
    /// How many there are.
    fn count(&self) -> usize;
}

/// Memory of the global allocator.
#[derive(Debug)]
pub struct HeapBytes {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: memory of its own.
unsafe impl Send for HeapBytes {}
// SAFETY: this type itself never touches it.
unsafe impl Sync for HeapBytes {}

// SAFETY: allocated with this length and alignment, and freed only with the value.
unsafe impl Bytes for HeapBytes {
    fn start(&self) -> NonNull<u8> {
        self.start
    }

    fn count(&self) -> usize {
        self.layout.size()
    }
}

impl Drop for HeapBytes {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// Frames out of one piece of memory; physical addresses start at [`base`](Self::BASE).
///
/// Single frames come from the lowest piece of 2 MiB that has one, tables from the highest; blocks of 2 MiB and 1 GiB are put together again when all of their frames
/// have come back. A call looks at a few words, at worst at one for each 2 MiB.
pub struct Arena<S> {
    bytes: S,
    state: Spin<State>,
}

struct State {
    free: Vec<[u64; PIECE / 64]>,
    counts: Vec<u16>,
    total: usize,
    /// No piece below has a frame.
    hint: usize,
    /// No piece from here on has a frame.
    tables: usize,
    refuse: Option<u64>,
}

impl Arena<HeapBytes> {
    /// So many frames of the global allocator's memory; Miri follows it byte by byte.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`].
    pub fn on_heap(frames: usize) -> Result<Self, Error> {
        let layout =
            Layout::from_size_align(frames.max(1) * PAGE_SIZE as usize, PAGE_SIZE as usize)
                .map_err(|_| Error::NoMemory)?;
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(Error::NoMemory)?;
        Self::over(HeapBytes { start, layout })
    }
}

impl<S: Bytes> Arena<S> {
    /// The physical address of the first frame: 1 GiB.
    pub const BASE: u64 = 1 << 30;

    /// An allocator over these bytes; what does not fill a frame at the end is not used.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`].
    pub fn over(bytes: S) -> Result<Self, Error> {
        let frames = bytes.count() / PAGE_SIZE as usize;
        let pieces = frames.div_ceil(PIECE);
        let mut free = Vec::new();
        let mut counts = Vec::new();
        free.try_reserve_exact(pieces)
            .map_err(|_| Error::NoMemory)?;
        counts
            .try_reserve_exact(pieces)
            .map_err(|_| Error::NoMemory)?;
        for piece in 0..pieces {
            let here = (frames - piece * PIECE).min(PIECE);
            let mut bits = [0; PIECE / 64];
            for i in 0..here {
                bits[i / 64] |= 1 << (i % 64);
            }
            free.push(bits);
            counts.push(here as u16);
        }
        let state = State {
            free,
            counts,
            total: frames,
            hint: 0,
            tables: pieces,
            refuse: None,
        };
        Ok(Self {
            bytes,
            state: Spin::new(state),
        })
    }

    /// How many frames there are, free or not.
    pub fn frames(&self) -> u64 {
        (self.bytes.count() / PAGE_SIZE as usize) as u64
    }

    /// How many are free.
    pub fn free_frames(&self) -> u64 {
        self.state.lock().total as u64
    }

    /// Refuses every allocation after this many; `None`: none. For tests of what callers do then.
    pub fn refuse_after(&self, allocations: Option<u64>) {
        self.state.lock().refuse = allocations;
    }
}

impl State {
    fn alloc(&mut self, order: u32) -> Option<usize> {
        if let Some(left) = &mut self.refuse {
            *left = left.checked_sub(1)?;
        }
        if order == 0 {
            let piece = match self.counts.get(self.hint) {
                Some(1..) => self.hint,
                _ => self.next_piece()?,
            };
            let bits = &mut self.free[piece];
            let word = bits.iter().position(|&word| word != 0)?;
            let bit = bits[word].trailing_zeros() as usize;
            bits[word] &= bits[word] - 1;
            self.counts[piece] -= 1;
            self.total -= 1;
            return Some(piece * PIECE + word * 64 + bit);
        }
        let pieces = 1usize << order.checked_sub(9)?;
        // From the top, so that single frames and blocks do not get into each other's way.
        let groups = self.counts.len() / pieces;
        let whole = |group: &usize| {
            let from = group * pieces;
            self.counts[from..from + pieces]
                .iter()
                .all(|&count| count as usize == PIECE)
        };
        let from = (0..groups).rev().find(whole)? * pieces;
        for piece in from..from + pieces {
            self.free[piece] = [0; PIECE / 64];
            self.counts[piece] = 0;
        }
        self.total -= pieces * PIECE;
        Some(from * PIECE)
    }

    /// The first piece that has a frame, from the hint on, where there is none.
    #[cold]
    fn next_piece(&mut self) -> Option<usize> {
        let counts = &self.counts;
        let mut pieces = (self.hint..counts.len()).chain(0..self.hint);
        self.hint = pieces.find(|&piece| counts[piece] > 0)?;
        Some(self.hint)
    }

    /// A frame of the highest piece that has one. One table's neighbours are sixteen frames away, so that the words of tables that are made one after
    /// the other, which are their locks, lie in different cache lines.
    fn alloc_table(&mut self) -> Option<usize> {
        const EACH: u64 = 0x0001_0001_0001_0001;
        if let Some(left) = &mut self.refuse {
            *left = left.checked_sub(1)?;
        }
        let counts = &self.counts;
        let from = self.tables.min(counts.len());
        let piece = (0..from)
            .rev()
            .chain((from..counts.len()).rev())
            .find(|&piece| counts[piece] > 0)?;
        self.tables = piece + 1;
        let bits = &mut self.free[piece];
        let (word, bit) = (0..16).find_map(|lane| {
            let found = |&word: &usize| bits[word] & EACH << lane != 0;
            let word = (0..bits.len()).find(found)?;
            Some((word, (bits[word] & EACH << lane).trailing_zeros()))
        })?;
        bits[word] &= !(1 << bit);
        self.counts[piece] -= 1;
        self.total -= 1;
        Some(piece * PIECE + word * 64 + bit as usize)
    }

    /// Single frames, from the first to before the last.
    fn free_run(&mut self, run: Range<usize>) {
        let mut at = run.start;
        while at < run.end {
            let word_end = ((at | 63) + 1).min(run.end);
            let piece = at / PIECE;
            let bits = u64::MAX >> (64 - (word_end - at)) << (at % 64);
            debug_assert!(self.free[piece][at % PIECE / 64] & bits == 0);
            self.free[piece][at % PIECE / 64] |= bits;
            self.counts[piece] += (word_end - at) as u16;
            at = word_end;
        }
        self.total += run.len();
        self.hint = self.hint.min(run.start / PIECE);
        self.tables = self.tables.max(run.end.div_ceil(PIECE));
    }

    fn free(&mut self, frame: usize, order: u32) {
        let piece = frame / PIECE;
        if order == 0 {
            self.free_run(frame..frame + 1);
            return;
        }
        for piece in piece..piece + (1 << (order - 9)) {
            self.free[piece] = [u64::MAX; PIECE / 64];
            self.counts[piece] = PIECE as u16;
        }
        self.tables = self.tables.max(piece + (1 << (order - 9)));
        self.total += 1 << order;
    }
}

// SAFETY: a bit for each frame says whether it is free, and is cleared when it is given out. Physical addresses count from 1 GiB, so that
// pieces and groups of pieces are aligned to their sizes.
unsafe impl<S: Bytes> FrameAllocator for Arena<S> {
    fn alloc(&self, order: u32) -> Option<u64> {
        let frame = self.state.lock().alloc(order)?;
        Some(Self::BASE + frame as u64 * PAGE_SIZE)
    }

    unsafe fn free(&self, phys: u64, order: u32) {
        let frame = (phys - Self::BASE) / PAGE_SIZE;
        self.state.lock().free(frame as usize, order);
    }

    fn alloc_table(&self) -> Option<u64> {
        let frame = self.state.lock().alloc_table()?;
        Some(Self::BASE + frame as u64 * PAGE_SIZE)
    }

    unsafe fn free_runs(&self, runs: &[Range<u64>]) {
        let mut state = self.state.lock();
        for run in runs {
            let frame = |phys: u64| ((phys - Self::BASE) / PAGE_SIZE) as usize;
            state.free_run(frame(run.start)..frame(run.end));
        }
    }
}

// SAFETY: frames that were given out lie within the bytes.
unsafe impl<S: Bytes> PhysMem for Arena<S> {
    #[inline]
    fn to_virt(&self, phys: u64) -> NonNull<u8> {
        let offset = phys.wrapping_sub(Self::BASE) as usize;
        assert!(offset < self.bytes.count(), "a frame outside of the arena");
        // SAFETY: within the bytes, as was just seen.
        unsafe { self.bytes.start().add(offset) }
    }
}

impl<S> fmt::Debug for Arena<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena")
            .field("free", &self.state.lock().total)
            .finish_non_exhaustive()
    }
}

//! Groups: the bitmaps of as many chunks as a word has bits. Groups form a list that only grows, at
//! its end.
//!
//! Two words of bits say which chunks of a group are worth a look:
//!
//! * `taken`: the chunk has memory, or a thread is about to map it. The thread that sets the bit
//!   maps the memory.
//! * `maybe_free`: the chunk may have free nodes. This is a hint. A thread that finds none clears
//!   the bit, then looks again. A thread that frees a node of a word that had no free one sets the bit if it is
//!   clear. All of these operations are sequentially consistent. If the freeing thread finds the
//!   bit set, and it is cleared afterwards, the node was there before the second look.

use core::ptr::{self, NonNull};

use super::chunk::{Chunk, Header, Taken, WORD};
use super::system;
use crate::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// The bitmaps of a group of chunks.
pub(super) struct Group {
    maybe_free: AtomicUsize,
    taken: AtomicUsize,
    next: AtomicPtr<Group>,
    chunks: [Chunk; WORD],
}

/// The size of the system's memory for a group.
const BYTES: usize = size_of::<Group>().next_power_of_two();

impl Group {
    const_unless_loom! {
        /// Creates a group whose chunks have no memory and that has no successor.
        pub(super) const fn new() -> Self {
            Self {
                maybe_free: AtomicUsize::new(0),
                taken: AtomicUsize::new(0),
                next: AtomicPtr::new(ptr::null_mut()),
                #[cfg(not(samara_loom))]
                chunks: [const { Chunk::new() }; WORD],
                #[cfg(samara_loom)]
                chunks: core::array::from_fn(|_| Chunk::new()),
            }
        }
    }

    /// Returns the next group.
    pub(super) fn next(&self) -> Option<&'static Self> {
        let next = self.next.load(Ordering::Acquire);
        // SAFETY: groups are never freed.
        NonNull::new(next).map(|next| unsafe { next.as_ref() })
    }

    /// Returns the next group, and creates it if there is none yet. Returns `None` if there is no
    /// memory.
    pub(super) fn next_or_new(&self) -> Option<&'static Self> {
        if let Some(next) = self.next() {
            return Some(next);
        }
        let new = system::map(BYTES)?.cast::<Self>();
        // SAFETY: the memory is new, aligned, and large enough.
        unsafe { new.write(Self::new()) };
        let linked = self.next.compare_exchange(
            ptr::null_mut(),
            new.as_ptr(),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if linked.is_err() {
            // Another thread was faster.
            //
            // SAFETY: no other thread has seen the new group.
            unsafe { system::unmap(new.cast(), BYTES) };
        }
        self.next()
    }

    pub(super) fn chunk(&self, number: usize) -> &Chunk {
        &self.chunks[number % WORD]
    }

    /// Iterates over the chunks that have memory.
    pub(super) fn chunks(&self) -> impl Iterator<Item = (usize, &Chunk)> {
        let taken = self.taken.load(Ordering::Acquire);
        let chunks = self.chunks.iter().enumerate();
        chunks.filter(move |(i, _)| taken & (1 << i) != 0)
    }

    /// Takes up to `most` nodes of a chunk, and returns the chunk with them. Returns `None` if
    /// there are none.
    pub(super) fn take(&self, most: usize, retry: bool) -> Option<(&Chunk, Taken)> {
        let mut some = self.maybe_free.load(Ordering::SeqCst);
        while some != 0 {
            let number = some.trailing_zeros() as usize;
            some &= some - 1;
            let chunk = self.chunk(number);
            if let Some(taken) = chunk.take(most, retry) {
                return Some((chunk, taken));
            }
            if !chunk.has_free() {
                self.maybe_free.fetch_and(!(1 << number), Ordering::SeqCst);
                if chunk.has_free() {
                    self.maybe_free.fetch_or(1 << number, Ordering::SeqCst);
                }
            }
        }
        None
    }

    /// Records that a chunk has free nodes.
    pub(super) fn mark_maybe_free(&self, number: usize) {
        let bit = 1 << number;
        if self.maybe_free.load(Ordering::SeqCst) & bit == 0 {
            self.maybe_free.fetch_or(bit, Ordering::SeqCst);
        }
    }

    /// Maps memory for one more chunk. Returns `Ok(true)` after success, `Ok(false)` if all chunks
    /// have memory, and an error if there is none.
    pub(super) fn map_memory(&'static self) -> Result<bool, ()> {
        loop {
            let taken = self.taken.load(Ordering::Relaxed);
            if taken == !0 {
                return Ok(false);
            }
            let number = taken.trailing_ones() as usize;
            if self.taken.fetch_or(1 << number, Ordering::Acquire) & (1 << number) != 0 {
                continue;
            }
            let header = Header {
                group: self,
                number,
            };
            if !self.chunk(number).map_memory(header) {
                self.taken.fetch_and(!(1 << number), Ordering::Release);
                return Err(());
            }
            self.mark_maybe_free(number);
            return Ok(true);
        }
    }

    /// Unmaps a chunk's memory if all of its nodes are free.
    pub(super) fn release(&self, number: usize) -> bool {
        let done = self.chunk(number).release();
        if done {
            self.taken.fetch_and(!(1 << number), Ordering::Release);
        }
        done
    }
}

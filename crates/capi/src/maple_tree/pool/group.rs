//! Groups: the notes of as many chunks as a word has bits. They form a list that only ever grows, at its end.
//!
//! Two words of bits say which chunks of a group are worth looking at:
//!
//! * `taken`: the chunk has memory, or somebody is about to get some for it. Who sets a bit provides for the chunk.
//! * `maybe_free`: the chunk may have free nodes. A hint: who finds none clears the bit, then looks again; who gives a node of an empty word
//!   back sets the bit if it is not set. All of it is sequentially consistent: if the giver finds the bit set, which is then cleared, the
//!   node was there before the second look.

use core::ptr::{self, NonNull};

use super::chunk::{Chunk, Header, Taken, WORD};
use super::system;
use crate::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// The notes of some chunks.
pub(super) struct Group {
    maybe_free: AtomicUsize,
    taken: AtomicUsize,
    next: AtomicPtr<Group>,
    chunks: [Chunk; WORD],
}

/// Bytes that the system is asked for, for a group.
const BYTES: usize = size_of::<Group>().next_power_of_two();

impl Group {
    const_unless_loom! {
        /// No chunk has memory, and no group follows.
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

    /// The group that follows.
    pub(super) fn next(&self) -> Option<&'static Self> {
        let next = self.next.load(Ordering::Acquire);
        // SAFETY: groups are never freed.
        NonNull::new(next).map(|next| unsafe { next.as_ref() })
    }

    /// The group that follows, which is made if there is none yet. `None` if there is no memory.
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
            // SAFETY: nobody else has seen it.
            unsafe { system::unmap(new.cast(), BYTES) };
        }
        self.next()
    }

    pub(super) fn chunk(&self, number: usize) -> &Chunk {
        &self.chunks[number % WORD]
    }

    /// The chunks that have memory.
    pub(super) fn chunks(&self) -> impl Iterator<Item = (usize, &Chunk)> {
        let taken = self.taken.load(Ordering::Acquire);
        let chunks = self.chunks.iter().enumerate();
        chunks.filter(move |(i, _)| taken & (1 << i) != 0)
    }

    /// Takes up to `most` nodes of a chunk, and tells which. `None` if there are none.
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

    /// Notes that a chunk has free nodes.
    pub(super) fn mark_maybe_free(&self, number: usize) {
        let bit = 1 << number;
        if self.maybe_free.load(Ordering::SeqCst) & bit == 0 {
            self.maybe_free.fetch_or(bit, Ordering::SeqCst);
        }
    }

    /// Gets memory for one more chunk: `Ok(true)`; `Ok(false)` if all have some. An error if there is none.
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

    /// Gives a chunk's memory back, if all of its nodes are free.
    pub(super) fn release(&self, number: usize) -> bool {
        let done = self.chunk(number).release();
        if done {
            self.taken.fetch_and(!(1 << number), Ordering::Release);
        }
        done
    }
}

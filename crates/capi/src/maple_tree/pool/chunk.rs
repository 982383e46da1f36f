//! Chunks: 64 KiB of memory, cut into nodes, and for each chunk a bitmap of its free nodes.
//!
//! The bitmap lies apart from the chunk. The thread that clears a bit owns the node. The thread
//! that sets it again has freed the node. Nothing else decides, and no thread waits for another. A
//! child of `fork` finds each bit set or clear, as it was.
//!
//! Bitmaps are never freed, so that threads may look at any of them at any time. The memory of a
//! chunk comes and goes. To free it, a thread takes *all* nodes of the chunk. After that no other
//! thread can have or get one.
//!
//! # Ordering
//!
//! * *A node passes from one thread to another.* Setting its bit releases what the first thread did
//!   with it, and clearing the bit acquires that. All changes of the bits are read-modify-writes,
//!   so that later ones do not hide earlier ones.
//! * *A chunk gets memory.* Address and header are written before the bits are set, which releases
//!   them. A thread that clears a bit sees both. They do not change while any thread has a node.
//! * *A chunk becomes entirely free.* Two threads may free its last two nodes at once, in different
//!   words. Both set their bits and then read all words, with sequentially consistent operations.
//!   The thread whose bit was set later sees all bits, so that at least one of them does.

use core::ptr::{self, NonNull};

use super::group::Group;
use super::system;
use crate::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// The size of a node in bytes, and its alignment.
pub(super) const NODE: usize = 256;
/// The number of nodes that share a word of the bitmap.
pub(super) const WORD: usize = usize::BITS as usize;
/// The number of words in a chunk's bitmap.
const WORDS: usize = if cfg!(samara_loom) { 2 } else { 256 / WORD };
/// The size of a chunk in bytes, and its alignment.
pub(super) const CHUNK: usize = WORDS * WORD * NODE;
/// The number of nodes of a chunk. The header takes the place of the first one.
pub(super) const NODES: usize = WORDS * WORD - 1;

/// The header at the beginning of a chunk, which identifies its bitmap.
#[derive(Clone, Copy)]
pub(super) struct Header {
    pub(super) group: &'static Group,
    pub(super) number: usize,
}

const _: () = assert!(size_of::<Header>() <= NODE);

/// Returns the value of a word while all of its nodes are free.
const fn all(word: usize) -> usize {
    if word == 0 { !1 } else { !0 }
}

/// The bitmap of a chunk.
#[repr(align(64))]
pub(super) struct Chunk {
    free: [AtomicUsize; WORDS],
    /// The address of the chunk. Valid while any thread has a node of it.
    base: AtomicPtr<u8>,
}

impl Chunk {
    const_unless_loom! {
        /// Creates the bitmap of a chunk without memory.
        pub(super) const fn new() -> Self {
            Self {
                #[cfg(not(samara_loom))]
                free: [const { AtomicUsize::new(0) }; WORDS],
                #[cfg(samara_loom)]
                free: core::array::from_fn(|_| AtomicUsize::new(0)),
                base: AtomicPtr::new(ptr::null_mut()),
            }
        }
    }

    /// Maps memory for the chunk, all of whose nodes are free then. Returns `false` if there is
    /// none. The chunk has no memory, and no other thread maps any for it.
    pub(super) fn map_memory(&self, header: Header) -> bool {
        let Some(base) = system::map(CHUNK) else {
            return false;
        };
        // SAFETY: the memory is new, aligned, and large enough.
        unsafe { base.cast::<Header>().write(header) };
        self.base.store(base.as_ptr(), Ordering::Relaxed);
        for (i, word) in self.free.iter().enumerate() {
            word.store(all(i), Ordering::Release);
        }
        true
    }

    /// Takes at least one and up to `most` nodes of one word. Returns `None` if there are none, or,
    /// unless `retry` is set, if another thread changes the word at the same time.
    #[inline]
    pub(super) fn take(&self, most: usize, retry: bool) -> Option<Taken> {
        for (i, word) in self.free.iter().enumerate() {
            let mut free = word.load(Ordering::Relaxed);
            while free != 0 {
                let bits = lowest(free, most);
                // Strong, since a failure must mean another thread.
                match word.compare_exchange(
                    free,
                    free & !bits,
                    Ordering::Acquire,
                    Ordering::Relaxed,
                ) {
                    Ok(_) => {
                        let base = self.base.load(Ordering::Relaxed);
                        return Some(Taken {
                            first: base.wrapping_add(i * WORD * NODE),
                            bits,
                        });
                    }
                    Err(_) if !retry => return None,
                    Err(now) => free = now,
                }
            }
        }
        None
    }

    /// Returns `true` if any node is free.
    pub(super) fn has_free(&self) -> bool {
        self.free
            .iter()
            .any(|word| word.load(Ordering::SeqCst) != 0)
    }

    /// Returns the number of free nodes.
    pub(super) fn count(&self) -> usize {
        let ones = |word: &AtomicUsize| word.load(Ordering::Relaxed).count_ones() as usize;
        self.free.iter().map(ones).sum()
    }

    /// Returns `true` if all nodes are free.
    pub(super) fn is_all_free(&self) -> bool {
        let mut words = self.free.iter().enumerate();
        words.all(|(i, word)| word.load(Ordering::SeqCst) == all(i))
    }

    /// Frees nodes of one word.
    ///
    /// # Safety
    ///
    /// They were taken from there, and nothing uses them any more.
    #[inline]
    pub(super) unsafe fn put(&self, word: usize, bits: usize) -> Put {
        let before = self.free[word % WORDS].fetch_or(bits, Ordering::SeqCst);
        debug_assert!(before & bits == 0, "a node was freed twice");
        Put {
            first: before == 0,
            last: before | bits == all(word % WORDS) && self.is_all_free(),
        }
    }

    /// Takes all nodes and unmaps the memory. Returns `false` if not all are free, or if the system
    /// refuses. After success the chunk has no memory.
    pub(super) fn release(&self) -> bool {
        let taken = (0..WORDS).take_while(|&i| {
            let done =
                self.free[i].compare_exchange(all(i), 0, Ordering::Acquire, Ordering::Relaxed);
            done.is_ok()
        });
        let taken = taken.count();
        if taken == WORDS
            && let Some(base) = NonNull::new(self.base.load(Ordering::Relaxed))
        {
            // SAFETY: this thread has taken all nodes, so that no other thread has one.
            if unsafe { system::unmap(base, CHUNK) } {
                return true;
            }
        }
        for i in 0..taken {
            self.free[i].fetch_or(all(i), Ordering::SeqCst);
        }
        false
    }

    /// Discards pages whose nodes are all free, and keep free. Returns the number of bytes
    /// discarded.
    pub(super) fn discard(&self, page: usize) -> usize {
        let nodes = page / NODE;
        if !(1..=WORD).contains(&nodes) {
            return 0;
        }
        let mut bytes = 0;
        for (i, word) in self.free.iter().enumerate() {
            for on_page in 0..WORD / nodes {
                let bits = (!0 >> (WORD - nodes)) << (on_page * nodes);
                let mut free = word.load(Ordering::Relaxed);
                while free & bits == bits {
                    match word.compare_exchange(
                        free,
                        free & !bits,
                        Ordering::Acquire,
                        Ordering::Relaxed,
                    ) {
                        Ok(_) => {
                            let at = i * WORD * NODE + on_page * page;
                            let base = self.base.load(Ordering::Relaxed).wrapping_add(at);
                            if let Some(base) = NonNull::new(base)
                                // SAFETY: this thread has taken all nodes on the page.
                                && unsafe { system::discard(base, page) }
                            {
                                bytes += page;
                            }
                            word.fetch_or(bits, Ordering::SeqCst);
                            break;
                        }
                        Err(now) => free = now,
                    }
                }
            }
        }
        bytes
    }
}

/// The effects of freeing nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Put {
    /// `true` if the word had no free node before.
    pub(super) first: bool,
    /// `true` if all nodes of the chunk are free now.
    pub(super) last: bool,
}

/// Returns the lowest bits of `free`, up to `most` of them.
#[inline(always)]
fn lowest(free: usize, most: usize) -> usize {
    if most == 1 {
        return free & free.wrapping_neg();
    }
    if most >= WORD {
        return free;
    }
    // Usually a run of that many bits, or one up to the highest bit.
    let run = ((1 << most) - 1) << free.trailing_zeros();
    if free & run == run {
        return run;
    }
    let mut rest = free;
    for _ in 0..most {
        rest &= rest.wrapping_sub(1);
    }
    free & !rest
}

/// Nodes of one word that a thread has taken: an iterator of runs.
pub(super) struct Taken {
    /// The address of the node of the lowest bit.
    first: *mut u8,
    bits: usize,
}

impl Taken {
    /// Returns the number of nodes.
    pub(super) fn len(&self) -> usize {
        self.bits.count_ones() as usize
    }
}

impl Iterator for Taken {
    type Item = (NonNull<u8>, usize);

    /// Returns contiguous nodes: the first one, and their number.
    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.bits == 0 {
            return None;
        }
        let at = self.bits.trailing_zeros();
        let run = (self.bits >> at).trailing_ones();
        self.bits &= !((!0 >> (usize::BITS - run)) << at);
        let node = NonNull::new(self.first.wrapping_add(at as usize * NODE))?;
        Some((node, run as usize))
    }
}

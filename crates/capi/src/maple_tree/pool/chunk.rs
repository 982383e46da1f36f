//! Chunks: 64 KiB of memory, cut into nodes, and for each chunk a note of which nodes are free.
//!
//! The note is a bit for each node, and lies apart from the chunk. Whoever clears a bit has the node; whoever sets it again has given the
//! node back. Nothing else decides, and no thread waits for another: a child of `fork` finds each bit as it was, set or not.
//!
//! Notes are never freed, so that threads may look at any note at any time. The memory comes and goes: to give it back, a
//! thread takes *all* nodes of the chunk, after which nobody can have or get one.
//!
//! # Ordering
//!
//! * *A node passes from one thread to another.* Setting its bit releases what the first did with it, clearing the bit acquires that. All
//!   changes of the bits are read-modify-writes, so that later ones do not hide earlier ones.
//! * *A chunk gets memory.* Address and header are written before the bits are set, which releases them; who clears a bit sees both. They
//!   stay as they are for as long as somebody has a node.
//! * *A chunk becomes wholly free.* Two threads may give its last two nodes back at once, in different words. Both set their bits, then look
//!   at all words, all of it sequentially consistent: the one whose bit was set later sees all bits, so that at least one of them does.

use core::ptr::{self, NonNull};

use super::group::Group;
use super::system;
use crate::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Bytes of a node, and what it is aligned to.
pub(super) const NODE: usize = 256;
/// Nodes that share a word of bits.
pub(super) const WORD: usize = usize::BITS as usize;
/// Words of bits of a chunk.
const WORDS: usize = if cfg!(samara_loom) { 2 } else { 256 / WORD };
/// Bytes of a chunk, and what it is aligned to.
pub(super) const CHUNK: usize = WORDS * WORD * NODE;
/// Nodes of a chunk: all but the first, in whose place the header is.
pub(super) const NODES: usize = WORDS * WORD - 1;

/// At the beginning of a chunk: where its note is.
#[derive(Clone, Copy)]
pub(super) struct Header {
    pub(super) group: &'static Group,
    pub(super) number: usize,
}

const _: () = assert!(size_of::<Header>() <= NODE);

/// The bits of a word while all of its nodes are free.
const fn all(word: usize) -> usize {
    if word == 0 { !1 } else { !0 }
}

/// The note of a chunk.
#[repr(align(64))]
pub(super) struct Chunk {
    free: [AtomicUsize; WORDS],
    /// The chunk, while somebody has a node of it.
    base: AtomicPtr<u8>,
}

impl Chunk {
    const_unless_loom! {
        /// The note of a chunk without memory.
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

    /// Gets memory for the chunk, all of whose nodes are free then; `false` if there is none. The chunk has none, and nobody else asks for it.
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

    /// Takes up to `most` nodes, at least one, of one word. `None` if there are none, or, unless it is `retry`, if another thread is at the same.
    #[inline]
    pub(super) fn take(&self, most: usize, retry: bool) -> Option<Taken> {
        for (i, word) in self.free.iter().enumerate() {
            let mut free = word.load(Ordering::Relaxed);
            while free != 0 {
                let bits = lowest(free, most);
                // Strong: a miss is another thread.
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

    /// Whether any node is free.
    pub(super) fn has_free(&self) -> bool {
        self.free
            .iter()
            .any(|word| word.load(Ordering::SeqCst) != 0)
    }

    /// How many nodes are free.
    pub(super) fn count(&self) -> usize {
        let ones = |word: &AtomicUsize| word.load(Ordering::Relaxed).count_ones() as usize;
        self.free.iter().map(ones).sum()
    }

    /// Whether all nodes are free.
    pub(super) fn is_all_free(&self) -> bool {
        let mut words = self.free.iter().enumerate();
        words.all(|(i, word)| word.load(Ordering::SeqCst) == all(i))
    }

    /// Gives nodes of one word back.
    ///
    /// # Safety
    ///
    /// They were taken from there, and nobody uses them any more.
    #[inline]
    pub(super) unsafe fn put(&self, word: usize, bits: usize) -> Put {
        let before = self.free[word % WORDS].fetch_or(bits, Ordering::SeqCst);
        debug_assert!(before & bits == 0, "a node was freed twice");
        Put {
            first: before == 0,
            last: before | bits == all(word % WORDS) && self.is_all_free(),
        }
    }

    /// Takes all nodes and gives the memory back; `false` if not all are free, or the system does not want it. After that the chunk has no memory.
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
            // SAFETY: all nodes are this thread's, so that nobody else has one.
            if unsafe { system::unmap(base, CHUNK) } {
                return true;
            }
        }
        for i in 0..taken {
            self.free[i].fetch_or(all(i), Ordering::SeqCst);
        }
        false
    }

    /// Gives pages back on which all nodes are free, which stay so; how many bytes that were.
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
                                // SAFETY: all nodes on the page are this thread's.
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

/// What giving nodes back has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Put {
    /// The word had no free node before.
    pub(super) first: bool,
    /// All nodes of the chunk are free.
    pub(super) last: bool,
}

/// The lowest bits of `free`, up to `most` of them.
#[inline(always)]
fn lowest(free: usize, most: usize) -> usize {
    if most == 1 {
        return free & free.wrapping_neg();
    }
    if most >= WORD {
        return free;
    }
    // A run, most of the time: of that many, or up to the highest bit.
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
    /// The node of the lowest bit.
    first: *mut u8,
    bits: usize,
}

impl Taken {
    /// How many nodes there are.
    pub(super) fn len(&self) -> usize {
        self.bits.count_ones() as usize
    }
}

impl Iterator for Taken {
    type Item = (NonNull<u8>, usize);

    /// Nodes that lie one behind the other: the first, and how many.
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

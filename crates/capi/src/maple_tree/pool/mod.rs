//! The memory of nodes in programs without hooks: a pool that all threads share.
//!
//! [Chunks](chunk) of 64 KiB come from the [system](system), their nodes are handed out by clearing bits of their notes, and
//! [groups](group) say which chunks are worth looking at. Many nodes are taken and given back at once, with one change of a word for up to 64.
//!
//! No thread ever waits for another, nor has anything that is to be given back when it ends: all that a thread
//! remembers is the chunk that it took a node of last ([`LAST_CHUNK`]). So a child of `fork` can use the pool whatever the other threads were doing,
//! and what they were taking is lost to it, as anything of theirs.
//!
//! # What is kept
//!
//! A chunk all of whose nodes are free goes back to the system, unless it is among the [`KEPT_CHUNKS`] that are kept, or a quarter of those in use.
//! To know how many there are takes a look at all notes. That is worth it after a part of the chunks has become free since the last look: whoever gives
//! back the last node of a chunk counts.

mod chunk;
mod group;
#[cfg_attr(any(not(unix), miri), path = "heap.rs")]
mod system;

use core::cell::Cell;
use core::iter;
use core::ptr::{self, NonNull};

use crate::atomic::{AtomicPtr, AtomicUsize, Ordering};
use chunk::{CHUNK, Chunk, Header, NODE, NODES, Taken, WORD};
use group::Group;

/// Chunks that are kept, even if none is in use: 4 MiB.
const KEPT_CHUNKS: usize = 64;
/// So many chunks that have become free, and …
const TRIM_MIN: usize = 16;
/// … one for so many that there are, are worth a look at all.
const TRIM_SHARE: usize = 8;

static FIRST: Group = Group::new();

/// Chunks that have become wholly free since the last look.
static BECAME_FREE: AtomicUsize = AtomicUsize::new(0);
/// The one that did last: a node that comes and goes, in an empty chunk, does not count.
static LAST_FREE: AtomicPtr<Chunk> = AtomicPtr::new(ptr::null_mut());
/// How many are worth a look.
static TRIM_THRESHOLD: AtomicUsize = AtomicUsize::new(TRIM_MIN + KEPT_CHUNKS / TRIM_SHARE);

std::thread_local! {
    /// The chunk of which this thread took nodes last. Nothing happens to it when the thread ends.
    static LAST_CHUNK: Cell<Option<&'static Chunk>> = const { Cell::new(None) };
}

fn groups() -> impl Iterator<Item = &'static Group> {
    iter::successors(Some(&FIRST), |group| group.next())
}

/// One node, or `None` if there is no memory.
#[inline]
pub(crate) fn take() -> Option<NonNull<u8>> {
    take_some(1)?.next().map(|(node, _)| node)
}

/// Takes `count` nodes and shows them: runs of nodes that lie one behind the other. `false` if there is no memory for
/// all; those shown are taken.
pub(crate) fn take_many(count: usize, show: &mut dyn FnMut(NonNull<u8>, usize)) -> bool {
    let mut left = count;
    while left > 0 {
        let Some(taken) = take_some(left) else {
            return false;
        };
        left -= taken.len();
        taken.for_each(|(node, run)| show(node, run));
    }
    true
}

/// Takes up to `most` nodes, at least one.
#[inline]
fn take_some(most: usize) -> Option<Taken> {
    let here = LAST_CHUNK.get();
    here.and_then(|chunk| chunk.take(most, false))
        .or_else(|| take_elsewhere(most))
}

#[cold]
#[inline(never)]
fn take_elsewhere(most: usize) -> Option<Taken> {
    loop {
        // Where there is nobody else, rather than in a chunk of one's own that is new.
        for retry in [false, true] {
            for group in groups() {
                if let Some((chunk, taken)) = group.take(most, retry) {
                    LAST_CHUNK.set(Some(chunk));
                    return Some(taken);
                }
            }
        }
        let mut group = &FIRST;
        while !group.map_memory().ok()? {
            group = group.next_or_new()?;
        }
    }
}

/// The note of the chunk that a node is in.
///
/// # Safety
///
/// The node was taken from here, and has not been given back.
#[inline(always)]
unsafe fn header(node: NonNull<u8>) -> Header {
    let base = node.as_ptr().map_addr(|addr| addr & !(CHUNK - 1));
    // SAFETY: a chunk with a node that is taken has memory, and a header at its beginning, which does not change.
    unsafe { base.cast::<Header>().read() }
}

/// Gives a node back.
///
/// # Safety
///
/// It was taken from here, and nobody uses it any more.
#[inline]
pub(crate) unsafe fn put(node: NonNull<u8>) {
    let mut put = PutMany::new();
    // SAFETY: the caller's promise.
    unsafe { put.add(node) };
}

/// Nodes that are given back together: those that follow each other and are of one word by one change. Dropping it gives back
/// what is left.
pub(crate) struct PutMany {
    /// A node of the word that `bits` is about.
    node: *mut u8,
    bits: usize,
}

impl PutMany {
    #[inline(always)]
    pub(crate) const fn new() -> Self {
        Self {
            node: ptr::null_mut(),
            bits: 0,
        }
    }

    /// Gives a node back, now or soon.
    ///
    /// # Safety
    ///
    /// It was taken from here, and nobody uses it any more.
    #[inline(always)]
    pub(crate) unsafe fn add(&mut self, node: NonNull<u8>) {
        let word = |addr: usize| addr / (NODE * WORD);
        if word(node.addr().get()) != word(self.node.addr()) {
            self.flush();
            self.node = node.as_ptr();
        }
        self.bits |= 1 << (node.addr().get() / NODE % WORD);
    }

    #[inline(never)]
    fn flush(&mut self) {
        let Some(node) = NonNull::new(self.node) else {
            return;
        };
        // SAFETY: all that were added were taken from here, and are given back only now.
        let Header { group, number } = unsafe { header(node) };
        let chunk = group.chunk(number);
        let word = node.addr().get() % CHUNK / (NODE * WORD);
        // SAFETY: as above, and nobody uses them.
        let put = unsafe { chunk.put(word, self.bits) };
        self.node = ptr::null_mut();
        self.bits = 0;
        if put.first {
            group.mark_maybe_free(number);
        }
        if put.last {
            became_free(chunk);
        }
    }
}

impl Drop for PutMany {
    #[inline(always)]
    fn drop(&mut self) {
        self.flush();
    }
}

/// Notes that all nodes of a chunk are free. Gives memory back now and then.
fn became_free(chunk: &'static Chunk) {
    let chunk = ptr::from_ref(chunk).cast_mut();
    if LAST_FREE.load(Ordering::Relaxed) == chunk {
        return;
    }
    LAST_FREE.store(chunk, Ordering::Relaxed);
    let count = BECAME_FREE.fetch_add(1, Ordering::Relaxed) + 1;
    if count >= TRIM_THRESHOLD.load(Ordering::Relaxed) {
        trim_excess();
    }
}

/// Gives back what is more than is kept.
#[cold]
#[inline(never)]
fn trim_excess() {
    BECAME_FREE.store(0, Ordering::Relaxed);
    let (mut all, mut free) = (0, 0);
    for (_, chunk) in groups().flat_map(Group::chunks) {
        all += 1;
        free += usize::from(chunk.is_all_free());
    }
    let released = release(KEPT_CHUNKS.max((all - free) / 4));
    TRIM_THRESHOLD.store(TRIM_MIN + (all - released) / TRIM_SHARE, Ordering::Relaxed);
}

/// Gives the chunks back that are wholly free, but for the first `kept`; how many that were.
fn release(kept: usize) -> usize {
    let (mut free, mut released) = (0, 0);
    for group in groups() {
        for (number, chunk) in group.chunks() {
            if chunk.is_all_free() {
                free += 1;
                released += usize::from(free > kept && group.release(number));
            }
        }
    }
    released
}

/// `struct maple_pool_stats`: the pool's memory, in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MaplePoolStats {
    /// What the system has given.
    pub mapped: usize,
    /// Nodes that are in use.
    pub used: usize,
    /// Nodes that are free, and kept.
    pub kept: usize,
}

/// `maple_pool_stats`: tells how much memory the pool has that programs without hooks use. While other threads use it
/// the numbers may belong to different moments.
///
/// # Safety
///
/// `stats` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn maple_pool_stats(stats: *mut MaplePoolStats) {
    let mut total = MaplePoolStats::default();
    for (_, chunk) in groups().flat_map(Group::chunks) {
        let free = chunk.count().min(NODES);
        total.mapped += CHUNK;
        total.kept += free * NODE;
        total.used += (NODES - free) * NODE;
    }
    // SAFETY: the caller's promise.
    unsafe { stats.write(total) };
}

/// `maple_trim`: gives the system back what the pool can do without: chunks that are wholly free, and of others the pages that are. How many bytes
/// that were. Other threads may use the pool meanwhile.
#[unsafe(no_mangle)]
pub extern "C" fn maple_trim() -> usize {
    let page = system::page();
    let released = release(0) * CHUNK;
    let chunks = groups().flat_map(Group::chunks);
    released + chunks.map(|(_, chunk)| chunk.discard(page)).sum::<usize>()
}

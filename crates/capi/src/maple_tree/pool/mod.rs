//! The memory of nodes in programs without hooks: a pool that all threads share.
//!
//! [Chunks](chunk) of 64 KiB come from the [system](system). Their nodes are allocated by clearing
//! bits of their bitmaps, and [groups](group) say which chunks are worth a look. Many nodes are
//! allocated and freed at once, with one change of a word for up to 64.
//!
//! No thread waits for another, and no thread has anything that must be freed when it ends. A
//! thread only remembers the chunk of its last allocation ([`LAST_CHUNK`]). So a child of `fork`
//! can use the pool whatever the other threads were doing. Nodes that they were allocating are lost
//! to the child, like all memory of theirs.
//!
//! # Free memory
//!
//! A free chunk goes back to the system, unless it is among the [`KEPT_CHUNKS`] that are kept, or
//! within a quarter of the number in use. To know how many chunks are free, all bitmaps must be
//! read. That pays after a share of the chunks has become free since the last time. The thread that
//! frees the last node of a chunk counts.

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

/// The number of free chunks that are kept even if none is in use: 4 MiB.
const KEPT_CHUNKS: usize = 64;
/// The number of chunks that must become free before a check of all, …
const TRIM_MIN: usize = 16;
/// … plus one for this many existing chunks.
const TRIM_SHARE: usize = 8;

static FIRST: Group = Group::new();

/// The number of chunks that have become free since the last check.
static BECAME_FREE: AtomicUsize = AtomicUsize::new(0);
/// The chunk that became free last. A node that is allocated and freed repeatedly in an empty chunk
/// does not count.
static LAST_FREE: AtomicPtr<Chunk> = AtomicPtr::new(ptr::null_mut());
/// The number of chunks that must become free before the next check.
static TRIM_THRESHOLD: AtomicUsize = AtomicUsize::new(TRIM_MIN + KEPT_CHUNKS / TRIM_SHARE);

std::thread_local! {
    /// The chunk from which this thread allocated last. It needs no cleanup when the thread ends.
    static LAST_CHUNK: Cell<Option<&'static Chunk>> = const { Cell::new(None) };
}

fn groups() -> impl Iterator<Item = &'static Group> {
    iter::successors(Some(&FIRST), |group| group.next())
}

/// Allocates a node, or returns `None` if there is no memory.
#[inline]
pub(crate) fn take() -> Option<NonNull<u8>> {
    take_some(1)?.next().map(|(node, _)| node)
}

/// Allocates `count` nodes and passes them to `show`, as runs of contiguous nodes. Returns `false`
/// if there is no memory for all. The nodes passed so far stay allocated.
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

/// Allocates at least one and up to `most` nodes.
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
        // Prefers a chunk that no other thread uses at the moment to a new chunk of its own.
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

/// Returns the header of the chunk that contains a node.
///
/// # Safety
///
/// The node was allocated here, and has not been freed.
#[inline(always)]
unsafe fn header(node: NonNull<u8>) -> Header {
    let base = node.as_ptr().map_addr(|addr| addr & !(CHUNK - 1));
    // SAFETY: a chunk with an allocated node has memory, and an unchanging header at its beginning.
    unsafe { base.cast::<Header>().read() }
}

/// Frees a node.
///
/// # Safety
///
/// It was allocated here, and nothing uses it any more.
#[inline]
pub(crate) unsafe fn put(node: NonNull<u8>) {
    let mut put = PutMany::new();
    // SAFETY: the caller's promise.
    unsafe { put.add(node) };
}

/// A batch of nodes that are freed together. Successive nodes of one word are freed by one change.
/// Dropping it frees what is left.
pub(crate) struct PutMany {
    /// A node of the word that `bits` refers to.
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

    /// Frees a node, now or soon.
    ///
    /// # Safety
    ///
    /// It was allocated here, and nothing uses it any more.
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
        // SAFETY: all added nodes were allocated here, and are freed only now.
        let Header { group, number } = unsafe { header(node) };
        let chunk = group.chunk(number);
        let word = node.addr().get() % CHUNK / (NODE * WORD);
        // SAFETY: as above, and nothing uses them.
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

/// Records that all nodes of a chunk are free. Occasionally returns memory to the system.
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

/// Returns free chunks beyond the kept ones to the system.
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

/// Unmaps the free chunks except for the first `kept`, and returns how many it unmapped.
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
    /// Memory from the system.
    pub mapped: usize,
    /// Nodes in use.
    pub used: usize,
    /// Free nodes.
    pub kept: usize,
}

/// `maple_pool_stats`: stores the sizes of the pool that programs without hooks use. While other
/// threads use the pool, the numbers may belong to different moments.
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

/// `maple_trim`: returns all possible memory to the system: free chunks, and the free pages of
/// other chunks. Returns the number of bytes. Other threads may use the pool concurrently.
#[unsafe(no_mangle)]
pub extern "C" fn maple_trim() -> usize {
    let page = system::page();
    let released = release(0) * CHUNK;
    let chunks = groups().flat_map(Group::chunks);
    released + chunks.map(|(_, chunk)| chunk.discard(page)).sum::<usize>()
}

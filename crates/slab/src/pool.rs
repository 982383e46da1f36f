//! [`Pool`]: a pool of nodes for one structure.
//!
//! Invariant: a pool's slabs are in `slabs`, or, after a split, in `common`, which all pools of the
//! split share and count. Never in both.

use core::alloc::Layout;
use core::mem;
use core::ptr::NonNull;
#[cfg(not(samara_loom))]
use core::sync::atomic::{AtomicUsize, Ordering};

#[cfg(samara_loom)]
use loom::sync::atomic::{AtomicUsize, Ordering};
use spin::{Mutex, MutexGuard};

use crate::slabs::Slabs;
use crate::{Fork, Global, NodeAlloc};

/// A pool of nodes of `SIZE` bytes for one structure, cut from slabs that grow with the number of
/// nodes.
///
/// The node that was freed last is allocated first. The pool returns its slabs to their source,
/// `A`, when all nodes are freed at once ([`deallocate_all`](NodeAlloc::deallocate_all)) or when it
/// is dropped, and not before. It does not drop values in nodes. Up to an eighth of the nodes in
/// slabs (or 15 nodes, and no more than 32 KiB) has never been used, so that a few nodes may take
/// three times their size. Runs are cut from nodes that were never used, unless enough nodes have
/// been freed. Requests with a layout other than [`BLOCK`](Pool::BLOCK) go to the source.
///
/// Threads may share a pool if they may share its source. But it allocates and frees under a lock,
/// for which an interrupt handler must not wait: see [`SharedPool`](crate::SharedPool). The pool
/// calls its source under that lock. The source must not use the pool.
///
/// A pool that was [split](NodeAlloc::split) shares its slabs with the other half. Either pool
/// allocates and frees nodes of both, under one lock. The last of them returns the slabs.
///
/// `SIZE` must be a multiple of two words; other sizes do not compile.
///
/// ```
/// use samara_slab::{Counted, Global, NodeAlloc, Pool};
///
/// let slabs = Counted::new(Global);
/// let pool: Pool<&Counted<Global>, 64> = Pool::new_in(&slabs);
/// let nodes = [(); 100].map(|()| pool.allocate(Pool::<Global, 64>::BLOCK));
/// assert!(nodes.iter().all(Option::is_some) && slabs.live() < 15);
/// drop(pool);
/// assert_eq!(slabs.live(), 0);
/// ```
pub struct Pool<A: NodeAlloc, const SIZE: usize> {
    /// The pool's own slabs, empty if it uses those in `common`. A structure with one writer never
    /// contends for the lock.
    slabs: Mutex<Slabs<SIZE>>,
    common: Option<NonNull<Common<SIZE>>>,
    source: A,
}

/// Slabs that several pools share after a split.
struct Common<const SIZE: usize> {
    pools: AtomicUsize,
    slabs: Mutex<Slabs<SIZE>>,
}

/// The most pools that share slabs. It is so far below the maximum of a word that concurrent
/// additions cannot overflow the counter.
const MAX_POOLS: usize = 1 << (usize::BITS - 1);

// SAFETY: shared slabs are behind a lock and counted by atomics. The last pool frees them by its
// source. That source is interchangeable with those of the other pools, on other threads too
// (promise of `split`).
unsafe impl<A: NodeAlloc + Send, const SIZE: usize> Send for Pool<A, SIZE> {}
// SAFETY: as above.
unsafe impl<A: NodeAlloc + Sync, const SIZE: usize> Sync for Pool<A, SIZE> {}

pool!(Pool, NodeAlloc, pool => pool.slabs().bytes());

impl<A: NodeAlloc, const SIZE: usize> Pool<A, SIZE> {
    /// Creates an empty pool of slabs from `source`. Allocates nothing.
    #[must_use]
    pub const fn new_in(source: A) -> Self {
        Self {
            slabs: Mutex::new(Slabs::new()),
            common: None,
            source,
        }
    }

    #[inline]
    fn common(&self) -> Option<&Common<SIZE>> {
        // SAFETY: it is freed with the last of its pools.
        self.common.map(|common| unsafe { common.as_ref() })
    }

    /// Locks the pool's slabs, or those that it shares with others.
    fn slabs(&self) -> MutexGuard<'_, Slabs<SIZE>> {
        match self.common() {
            None => self.slabs.lock(),
            Some(common) => common.slabs.lock(),
        }
    }

    /// Allocates from the shared slabs. Not inlined, so that pools with slabs of their own do not
    /// pay for it.
    #[cold]
    #[inline(never)]
    fn take_common(&self) -> Option<NonNull<u8>> {
        self.slabs().take(&self.source)
    }

    /// Frees a node to the shared slabs.
    ///
    /// # Safety
    ///
    /// As for [`deallocate`](NodeAlloc::deallocate).
    #[cold]
    #[inline(never)]
    unsafe fn put_common(&self, block: NonNull<u8>) {
        // SAFETY: the caller's promise.
        unsafe { self.slabs().put(block) }
    }

    /// Frees all slabs if no other pool shares them. Returns `true` if it did.
    ///
    /// # Safety
    ///
    /// As for [`deallocate_all`](NodeAlloc::deallocate_all).
    #[cold]
    #[inline(never)]
    unsafe fn free_common(&self) -> bool {
        let sole = self.is_sole_owner();
        if sole {
            // SAFETY: the caller's promise, and no other pool shares these slabs.
            unsafe { self.slabs().free_all(&self.source) };
        }
        sole
    }

    /// Returns `true` if no other pool shares the slabs. Only a split of this pool can change that. What other pools did with the slabs happens before this returns.
    fn is_sole_owner(&self) -> bool {
        self.common()
            .is_none_or(|common| common.pools.load(Ordering::Acquire) == 1)
    }

    /// Moves the shared slabs, which no other pool uses, into this pool, and frees the shared
    /// structure.
    fn unshare(&mut self) {
        if let Some(common) = self.common.take() {
            // SAFETY: no other pool refers to it, and this source, or an interchangeable one,
            // allocated it.
            unsafe {
                *self.slabs.get_mut() = common.read().slabs.into_inner();
                let layout = Layout::new::<Common<SIZE>>();
                self.source.deallocate(common.cast(), layout);
            }
        }
    }
}

// SAFETY:
// * Slabs cut each node out once. They reuse only nodes that were freed.
// * Slabs do not move with the pool.
// * Only freed nodes are written to.
unsafe impl<A: NodeAlloc, const SIZE: usize> NodeAlloc for Pool<A, SIZE> {
    #[inline]
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
        if layout != Self::BLOCK {
            return self.source.allocate(layout);
        }
        if self.common.is_some() {
            return self.take_common();
        }
        self.slabs.lock().take(&self.source)
    }

    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        if layout != Self::BLOCK {
            // SAFETY: the caller's promise; `allocate` got the block from the source.
            return unsafe { self.source.deallocate(block, layout) };
        }
        // SAFETY: the caller's promise.
        unsafe {
            if self.common.is_some() {
                return self.put_common(block);
            }
            self.slabs.lock().put(block);
        }
    }

    fn allocate_run(&self, layout: Layout, count: usize) -> Option<NonNull<u8>> {
        if layout != Self::BLOCK || count == 0 {
            return None;
        }
        self.slabs().take_run(count, &self.source)
    }

    #[inline]
    fn allocate_run_mut(&mut self, layout: Layout, count: usize) -> Option<NonNull<u8>> {
        if layout != Self::BLOCK || count == 0 {
            return None;
        }
        if self.common.is_some() {
            return self.allocate_run(layout, count);
        }
        self.slabs.get_mut().take_run(count, &self.source)
    }

    unsafe fn deallocate_all(&self) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            if self.common.is_some() {
                return self.free_common();
            }
            self.slabs.lock().free_all(&self.source);
        }
        true
    }

    fn split(&mut self) -> Option<Self> {
        let source = self.source.split()?;
        let common = match self.common {
            Some(common) => common,
            None => {
                let block = self.source.allocate(Layout::new::<Common<SIZE>>())?;
                let common = block.cast::<Common<SIZE>>();
                let slabs = mem::replace(self.slabs.get_mut(), Slabs::new());
                let (pools, slabs) = (AtomicUsize::new(1), Mutex::new(slabs));
                // SAFETY: the memory is fresh, large enough and aligned.
                unsafe { common.write(Common { pools, slabs }) };
                *self.common.insert(common)
            }
        };
        // SAFETY: this pool is one of those that count in it.
        let pools = unsafe { &(*common.as_ptr()).pools };
        if pools.fetch_add(1, Ordering::Relaxed) >= MAX_POOLS {
            // Memory does not hold this many pools: most of them were forgotten.
            pools.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let mut split = Self::new_in(source);
        split.common = Some(common);
        Some(split)
    }

    unsafe fn join(&mut self, other: &mut Self) -> bool {
        if self.common.is_some() && self.common == other.common {
            other.leave();
            return true;
        }
        let (sole, other_sole) = (self.is_sole_owner(), other.is_sole_owner());
        // SAFETY: the caller's promise. All memory of `other` came from its source, whose blocks
        // are freed to this pool's source from now on.
        if !(sole || other_sole) || !unsafe { self.source.join(&mut other.source) } {
            return false;
        }
        if other_sole {
            other.unshare();
        } else {
            // This pool leaves its own slabs to `other`, and takes part in those that `other`
            // shares.
            self.unshare();
            mem::swap(&mut self.common, &mut other.common);
            mem::swap(&mut self.slabs, &mut other.slabs);
        }
        let slabs = mem::replace(other.slabs.get_mut(), Slabs::new());
        self.slabs().absorb(slabs);
        true
    }
}

impl<A: NodeAlloc, const SIZE: usize> Pool<A, SIZE> {
    /// Leaves the shared slabs. They become this pool's own if it was the last of their pools.
    #[cold]
    #[inline(never)]
    fn unshare_if_last(&mut self) {
        self.common = self.leave();
        self.unshare();
    }

    /// Leaves the shared slabs. Returns them if this was the last of their pools.
    fn leave(&mut self) -> Option<NonNull<Common<SIZE>>> {
        let common = self.common.take()?;
        // SAFETY: this pool has counted in it until now.
        let pools = unsafe { &(*common.as_ptr()).pools };
        if pools.fetch_sub(1, Ordering::Release) != 1 {
            return None;
        }
        // Acquire: what the other pools did with the slabs comes before. A load and not a fence,
        // since ThreadSanitizer does not understand fences.
        //
        // SAFETY: no other pool refers to it any more, and it has not been freed.
        unsafe { common.as_ref() }.pools.load(Ordering::Acquire);
        Some(common)
    }
}

impl<A: NodeAlloc, const SIZE: usize> Drop for Pool<A, SIZE> {
    fn drop(&mut self) {
        if self.common.is_some() {
            self.unshare_if_last();
        }
        let slabs = self.slabs.get_mut();
        if slabs.has_slabs() {
            // SAFETY: nodes are memory only while the pool exists, so that none is in use.
            unsafe { slabs.free_all(&self.source) };
        }
    }
}

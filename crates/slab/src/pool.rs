//! A pool of nodes that belongs to one structure.

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

/// Nodes of `SIZE` bytes cut out of slabs, which grow with the number of nodes, for one structure.
///
/// A node that is given back is the next to be taken. Slabs are given back to their source, `A`, when all nodes are at once
/// ([`deallocate_all`](NodeAlloc::deallocate_all)) or the pool is dropped, and not before; what is in nodes is not dropped with them. Up to an eighth of the
/// nodes in slabs (or 15 nodes, and no more than 32 KiB) has not been used yet, so that a few nodes may take three times what they need.
/// Runs are cut from what was never used, unless enough nodes have been given back. A layout other than [`BLOCK`](Pool::BLOCK) is passed on to the source, and
/// is none of the pool's nodes.
///
/// Threads may share it, if they may share its source. It takes and gives back under a lock, though, which an interrupt handler must not wait for: see
/// [`SharedPool`](crate::SharedPool). The source is called under that lock, and must not use the pool.
///
/// A pool that was [split](NodeAlloc::split) has its slabs in common with the other one: either takes and gives back nodes of both, each waiting for the other
/// meanwhile, and the slabs are given back with the last of them.
///
/// `SIZE` is a multiple of two words; others do not compile.
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
    /// The lock is never contended by a structure of one writer, which has it exclusively. Nothing, if there are slabs in `common`.
    slabs: Mutex<Slabs<SIZE>>,
    common: Option<NonNull<Common<SIZE>>>,
    source: A,
}

/// Slabs that several pools have in common.
struct Common<const SIZE: usize> {
    pools: AtomicUsize,
    slabs: Mutex<Slabs<SIZE>>,
}

/// Far from what a word holds, so that no number of threads that count at the same time gets there.
const MAX_POOLS: usize = 1 << (usize::BITS - 1);

// SAFETY: what pools have in common is behind a lock, and counted by atomics; the last one frees it by its source, which is interchangeable with those of the
// others, on other threads, too (promise of `split`).
unsafe impl<A: NodeAlloc + Send, const SIZE: usize> Send for Pool<A, SIZE> {}
// SAFETY: as above.
unsafe impl<A: NodeAlloc + Sync, const SIZE: usize> Sync for Pool<A, SIZE> {}

pool!(Pool, NodeAlloc, pool => pool.slabs().bytes());

impl<A: NodeAlloc, const SIZE: usize> Pool<A, SIZE> {
    /// An empty pool of slabs from `source`. Allocates nothing.
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

    /// Its slabs, or those that it has in common with others.
    fn slabs(&self) -> MutexGuard<'_, Slabs<SIZE>> {
        match self.common() {
            None => self.slabs.lock(),
            Some(common) => common.slabs.lock(),
        }
    }

    /// Takes a node of those that it has in common with others. A call: it takes nothing from pools that have their own.
    #[cold]
    #[inline(never)]
    fn take_common(&self) -> Option<NonNull<u8>> {
        self.slabs().take(&self.source)
    }

    /// Gives one back.
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

    /// Frees all slabs, if no other pool has them. Tells whether that is so.
    ///
    /// # Safety
    ///
    /// As for [`deallocate_all`](NodeAlloc::deallocate_all).
    #[cold]
    #[inline(never)]
    unsafe fn free_common(&self) -> bool {
        let sole = self.is_sole_owner();
        if sole {
            // SAFETY: the caller's promise; no other pool has these slabs.
            unsafe { self.slabs().free_all(&self.source) };
        }
        sole
    }

    /// Returns `true` if no other pool shares the slabs. Only a split of this pool can change that. What other pools did with the slabs happens before this returns.
    fn is_sole_owner(&self) -> bool {
        self.common()
            .is_none_or(|common| common.pools.load(Ordering::Acquire) == 1)
    }

    /// Makes its slabs, which no other pool has, its own, and frees what it had in common with others.
    fn unshare(&mut self) {
        if let Some(common) = self.common.take() {
            // SAFETY: nobody else leads there, and it was allocated by this source, or by one that is interchangeable with it.
            unsafe {
                *self.slabs.get_mut() = common.read().slabs.into_inner();
                let layout = Layout::new::<Common<SIZE>>();
                self.source.deallocate(common.cast(), layout);
            }
        }
    }
}

// SAFETY:
// * Slabs cut each node out once, and hand out again only what was given back.
// * A slab is not moved with the pool.
// * Only nodes that were given back are written to.
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
            // SAFETY: the caller's promise; `allocate` got it there.
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
        // SAFETY: this pool is one of those that have it.
        let pools = unsafe { &(*common.as_ptr()).pools };
        if pools.fetch_add(1, Ordering::Relaxed) >= MAX_POOLS {
            // Most of them have been forgotten.
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
        // SAFETY: the caller's promise; what `other` has is memory of its source, whose blocks are given back to this one's from now on.
        if !(sole || other_sole) || !unsafe { self.source.join(&mut other.source) } {
            return false;
        }
        if other_sole {
            other.unshare();
        } else {
            // This one's become the others', and it is one of those that have them.
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
    /// Gives up what it has in common with others, which becomes its own if it was the last of them.
    #[cold]
    #[inline(never)]
    fn unshare_if_last(&mut self) {
        self.common = self.leave();
        self.unshare();
    }

    /// Gives up what it has in common with others. Gives it, if this was the last of them.
    fn leave(&mut self) -> Option<NonNull<Common<SIZE>>> {
        let common = self.common.take()?;
        // SAFETY: this pool is one of those that have it until now.
        let pools = unsafe { &(*common.as_ptr()).pools };
        if pools.fetch_sub(1, Ordering::Release) != 1 {
            return None;
        }
        // Acquire: what the others did with the slabs came before. A load rather than a fence, which thread sanitizers do not understand.
        // SAFETY: nobody else leads there any more, and it has not been freed.
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
            // SAFETY: nodes are memory until the pool is dropped, and no longer: nobody uses one any more.
            unsafe { slabs.free_all(&self.source) };
        }
    }
}

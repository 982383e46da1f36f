//! [`SharedPool`]: a pool whose nodes may be freed by other threads, without waiting.
//!
//! Invariant: `returned` is a list of nodes that any thread may push to. It is only ever emptied as
//! a whole, so that no node can reappear at its head while another thread is about to remove it.
//! There is no ABA problem.

use core::alloc::Layout;
use core::ptr::{self, NonNull};
#[cfg(not(samara_loom))]
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

#[cfg(samara_loom)]
use loom::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use spin::{Mutex, MutexGuard};

use crate::slabs::Slabs;
use crate::{Fork, Global, NodeAlloc};

/// A handle to a [`Pool`](crate::Pool) that threads share: any thread may allocate and free nodes
/// of `SIZE` bytes.
///
/// An empty pool is not allocated yet, so that it can be in a `static`. Therefore clones share one
/// pool only from the first allocation on. **Clones made earlier are separate pools**, between
/// which nodes must not pass. [`share`](Self::share) creates a handle to the same pool at any time.
/// Sharing by reference works, too.
///
/// The last handle returns the slabs to their source, `A`. Freeing a [`BLOCK`](Self::BLOCK) never
/// waits, so that a callback or an interrupt handler may do it. Allocation waits for other
/// allocations. Requests with other layouts go to the source, which is called under a lock and must
/// not use the pool.
///
/// ```
/// use samara_slab::{Global, NodeAlloc, SharedPool};
///
/// let pool = SharedPool::<Global, 64>::new();
/// let theirs = pool.share().expect("memory");
/// let node = pool.allocate(SharedPool::<Global, 64>::BLOCK).expect("memory");
/// // SAFETY: it came from the same pool.
/// unsafe { theirs.deallocate(node, SharedPool::<Global, 64>::BLOCK) };
/// ```
pub struct SharedPool<A: NodeAlloc + Clone, const SIZE: usize> {
    /// NULL before the first allocation.
    shared: AtomicPtr<Shared<SIZE>>,
    source: A,
}

/// The most handles that are counted. With more, the pool is never freed. It is so far from both
/// ends of a word that concurrent changes cannot reach them.
const MAX_HANDLES: usize = 1 << (usize::BITS - 1);
/// The value at which the counter stays once there were too many handles.
const SATURATED: usize = MAX_HANDLES | MAX_HANDLES >> 1;

struct Shared<const SIZE: usize> {
    handles: AtomicUsize,
    /// The freed nodes, linked through their first words.
    returned: AtomicPtr<u8>,
    slabs: Mutex<Slabs<SIZE>>,
}

impl<const SIZE: usize> Shared<SIZE> {
    /// Takes the whole list of freed nodes.
    ///
    /// The list is only ever emptied as a whole. So a node cannot come back to the list while
    /// another thread is about to take it off.
    fn take_returned(&self) -> *mut u8 {
        if self.returned.load(Ordering::Relaxed).is_null() {
            return ptr::null_mut();
        }
        // Pairs with the release in `push_returned`: what the freeing thread did with the node
        // comes before.
        self.returned.swap(ptr::null_mut(), Ordering::Acquire)
    }

    /// Locks the slabs and adds the freed nodes to them.
    fn with_returned(&self) -> MutexGuard<'_, Slabs<SIZE>> {
        let returned = self.take_returned();
        let mut slabs = self.slabs.lock();
        // SAFETY: they came from this pool (promise of `deallocate`), and `deallocate_all` is not
        // called concurrently (its promise).
        unsafe { slabs.put_list(returned) };
        slabs
    }

    /// Frees a node to the list.
    ///
    /// # Safety
    ///
    /// The node came from this pool, and nothing uses it any more.
    unsafe fn push_returned(&self, node: NonNull<u8>) {
        let mut head = self.returned.load(Ordering::Relaxed);
        loop {
            // SAFETY: the caller's promise.
            unsafe { node.cast::<*mut u8>().write(head) };
            match self.returned.compare_exchange_weak(
                head,
                node.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }
}

pool!(SharedPool, NodeAlloc + Clone, pool => pool.get().map_or(0, |shared| shared.slabs.lock().bytes()));

impl<A: NodeAlloc + Clone, const SIZE: usize> SharedPool<A, SIZE> {
    const_unless_loom! {
        /// Creates an empty pool of slabs from `source`. Allocates nothing.
        #[must_use]
        pub const fn new_in(source: A) -> Self {
            // Evaluated here, so that an invalid size does not compile.
            let _ = Self::BLOCK;
            Self { shared: AtomicPtr::new(ptr::null_mut()), source }
        }
    }

    /// Creates a handle to the same pool, even before the first allocation.
    ///
    /// Returns `None` if there is no memory for the shared state.
    #[must_use]
    pub fn share(&self) -> Option<Self> {
        self.shared()?;
        Some(self.clone())
    }

    #[inline]
    fn get(&self) -> Option<&Shared<SIZE>> {
        // SAFETY: it is freed with the last handle. Pairs with the release in `make`.
        NonNull::new(self.shared.load(Ordering::Acquire)).map(|s| unsafe { s.as_ref() })
    }

    #[cold]
    fn make(&self) -> Option<&Shared<SIZE>> {
        let layout = Layout::new::<Shared<SIZE>>();
        let block = self.source.allocate(layout)?.cast::<Shared<SIZE>>();
        // SAFETY: the memory is fresh, large enough and aligned.
        unsafe {
            block.write(Shared {
                handles: AtomicUsize::new(1),
                returned: AtomicPtr::new(ptr::null_mut()),
                slabs: Mutex::new(Slabs::new()),
            });
        }
        let made = self.shared.compare_exchange(
            ptr::null_mut(),
            block.as_ptr(),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if made.is_err() {
            // Another thread was faster.
            //
            // SAFETY: no other thread has seen the block.
            unsafe {
                ptr::drop_in_place(block.as_ptr());
                self.source.deallocate(block.cast(), layout);
            }
        }
        self.get()
    }

    fn shared(&self) -> Option<&Shared<SIZE>> {
        self.get().or_else(|| self.make())
    }
}

// SAFETY:
// * Slabs cut each node out once, under a lock. A node is reused only after it was freed.
// * Slabs do not move with a handle.
// * Only freed nodes are written to.
// * A clone made while a node is allocated is a handle to the same pool.
unsafe impl<A: NodeAlloc + Clone, const SIZE: usize> NodeAlloc for SharedPool<A, SIZE> {
    #[inline]
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
        // This comes first, for requests to the source too: from now on clones are interchangeable.
        let shared = self.shared()?;
        if layout != Self::BLOCK {
            return self.source.allocate(layout);
        }
        let mut slabs = shared.slabs.lock();
        if slabs.is_empty() {
            drop(slabs);
            slabs = shared.with_returned();
        }
        slabs.take(&self.source)
    }

    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        if layout != Self::BLOCK {
            // SAFETY: the caller's promise; `allocate` got the block from the source.
            return unsafe { self.source.deallocate(block, layout) };
        }
        debug_assert!(self.get().is_some(), "a node of another pool");
        if let Some(shared) = self.get() {
            // SAFETY: the caller's promise.
            unsafe { shared.push_returned(block) };
        }
    }

    fn allocate_run(&self, layout: Layout, count: usize) -> Option<NonNull<u8>> {
        if layout != Self::BLOCK || count == 0 {
            return None;
        }
        self.shared()?.with_returned().take_run(count, &self.source)
    }

    unsafe fn deallocate_all(&self) -> bool {
        let Some(shared) = self.get() else {
            return true;
        };
        // Pairs with the release of the handles that are gone: the nodes that they freed are in the
        // list or in the slabs.
        if shared.handles.load(Ordering::Acquire) != 1 {
            return false;
        }
        shared.take_returned();
        // SAFETY: the caller's promise.
        unsafe { shared.slabs.lock().free_all(&self.source) };
        true
    }

    fn split(&mut self) -> Option<Self> {
        self.share()
    }

    unsafe fn join(&mut self, other: &mut Self) -> bool {
        let theirs = other.shared.load(Ordering::Acquire);
        theirs.is_null() || theirs == self.shared.load(Ordering::Acquire)
    }
}

impl<A: NodeAlloc + Clone, const SIZE: usize> Clone for SharedPool<A, SIZE> {
    fn clone(&self) -> Self {
        // Copies the pointer itself, not one derived from a reference, since the last handle frees
        // through it.
        let shared = self.shared.load(Ordering::Acquire);
        if let Some(shared) = NonNull::new(shared) {
            // SAFETY: this handle keeps it alive.
            let shared = unsafe { shared.as_ref() };
            if shared.handles.fetch_add(1, Ordering::Relaxed) >= MAX_HANDLES {
                shared.handles.store(SATURATED, Ordering::Relaxed);
            }
        }
        Self {
            shared: AtomicPtr::new(shared),
            source: self.source.clone(),
        }
    }
}

impl<A: NodeAlloc + Clone, const SIZE: usize> Drop for SharedPool<A, SIZE> {
    fn drop(&mut self) {
        let Some(shared) = NonNull::new(self.shared.load(Ordering::Relaxed)) else {
            return;
        };
        // SAFETY: this handle keeps it alive.
        let handles = unsafe { &(*shared.as_ptr()).handles };
        let before = handles.fetch_sub(1, Ordering::Release);
        if before >= MAX_HANDLES {
            handles.store(SATURATED, Ordering::Relaxed);
        }
        if before != 1 {
            return;
        }
        // Acquire: pairs with the release of the other handles, so that what they did with the pool
        // and its nodes comes before. A fence would do as well, but ThreadSanitizer does not
        // understand fences.
        //
        // SAFETY: as above; the memory is freed only below.
        unsafe { shared.as_ref() }.handles.load(Ordering::Acquire);
        // SAFETY: this was the last handle. Nodes are memory only until then, so that none is in
        // use.
        unsafe {
            (*shared.as_ptr()).slabs.get_mut().free_all(&self.source);
            ptr::drop_in_place(shared.as_ptr());
            self.source
                .deallocate(shared.cast(), Layout::new::<Shared<SIZE>>());
        }
    }
}

#[cfg(all(test, not(samara_loom)))]
mod tests {
    use super::*;

    /// A pool with too many handles is never freed: neither when one of them is dropped, nor when
    /// all that can be counted are.
    #[test]
    fn too_many_handles_are_never_the_last() {
        let pool = SharedPool::<Global, 64>::new();
        let first = pool.share();
        let handles = |count| {
            let shared = pool.get().map(|shared| &shared.handles);
            shared.map_or(0, |handles| handles.swap(count, Ordering::Relaxed))
        };
        handles(MAX_HANDLES - 1);
        let others = [pool.clone(), pool.clone()];
        assert_eq!(handles(SATURATED), SATURATED);
        drop(others);
        assert_eq!(handles(SATURATED), SATURATED);
        // The pool that was kept on purpose is freed, so that leak checkers stay silent.
        handles(2);
        drop(first);
        assert_eq!(handles(1), 1);
    }
}

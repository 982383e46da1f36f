//! Nodes between two lives: replaced, but readers may still be in them; and after that, free for the next write.
//!
//! A writer of a map takes a node for each copy of a leaf, and leaves one behind. Both happen
//! without the allocator, and without a grace period for each. Replaced nodes are collected. When a
//! *batch* is full, it waits for the readers of that moment, and when these have left, its nodes
//! are the ones that the next writes take. So a node costs no access to memory that other threads
//! write, and the node that was used last is used next.
//!
//! ```text
//!   replaced → young → (the batch is full: a grace period begins) → waiting → (it is over) → free → taken
//! ```
//!
//! What comes out of limbo while there is some left of the batch before takes its place; that is given back to the allocator. So
//! there are never more than about three batches in here, unless a reader stays.

use core::marker::PhantomData;
use core::mem::take;
use core::ptr::NonNull;

use samara_rcu::Reclaim;

use crate::alloc::dead::DeadNodes;
use crate::alloc::{AllocError, NodeAlloc, Reserve, TakeNodes};
use crate::api::SyncAlloc;
use crate::base::{Key, Shape};

/// The number of nodes that a map of one level collects. Each two levels more collect eight times
/// as many, up to [`Reclaim::BATCH`]: a small part of a large map.
const BATCH_OF_A_LEAF: usize = 8;

/// Nodes that have been replaced, and nodes that are free again. Dropping it leaks.
pub(super) struct Limbo<K, S> {
    young: DeadNodes,
    /// The number of nodes at which the next grace period begins.
    limit: usize,
    waiting: DeadNodes,
    /// The grace period that `waiting` waits for.
    period: u64,
    free: DeadNodes,
    marker: PhantomData<fn() -> (K, S)>,
}

impl<K: Key, S: Shape> Limbo<K, S> {
    pub(super) const fn new() -> Self {
        Self {
            young: DeadNodes::new(),
            limit: 1,
            waiting: DeadNodes::new(),
            period: 0,
            free: DeadNodes::new(),
            marker: PhantomData,
        }
    }

    /// Adds a node that has been replaced.
    ///
    /// # Safety
    ///
    /// `block` is that of a dead node, which nothing but this will free.
    #[inline]
    pub(super) unsafe fn push(&mut self, block: NonNull<u8>) {
        // SAFETY: the caller's promise.
        unsafe { self.young.push::<K, S>(block) };
    }

    /// Ends a write: lets what has been replaced wait for the readers, if that is worth while.
    ///
    /// # Safety
    ///
    /// The caller is the writer of the map that this belongs to, whose ways of reclaiming and of allocating these are. Nothing leads to the
    /// nodes that were added.
    #[inline]
    pub(super) unsafe fn settle<R, A>(&mut self, height: u32, reclaim: &R, alloc: &A)
    where
        R: Reclaim,
        A: SyncAlloc,
    {
        if self.young.count() >= self.limit {
            // SAFETY: the caller's promise.
            unsafe { self.turn(height, reclaim, alloc) };
        }
    }

    /// # Safety
    ///
    /// As [`settle`](Self::settle).
    #[inline(never)]
    unsafe fn turn<R: Reclaim, A: SyncAlloc>(&mut self, height: u32, reclaim: &R, alloc: &A) {
        let batch = R::BATCH.min(BATCH_OF_A_LEAF << (3 * height.saturating_sub(1) / 2).min(16));
        if self.waiting.count() > 0 {
            if !reclaim.poll(self.period) {
                self.limit = self.young.count() + batch;
                return;
            }
            // SAFETY: the grace period of these nodes is over.
            unsafe { self.free_waiting(alloc) };
        }
        let young = take(&mut self.young);
        self.limit = batch;
        match reclaim.start_poll() {
            Some(period) => {
                self.waiting = young;
                self.period = period;
                if reclaim.poll(period) {
                    // SAFETY: as above.
                    unsafe { self.free_waiting(alloc) };
                }
            }
            None => {
                reclaim.published();
                let alloc = alloc.clone();
                // SAFETY: nothing leads to the nodes, which came from this allocator (the caller's promise).
                unsafe { reclaim.retire(move || young.free::<K, S>(&alloc)) };
            }
        }
    }

    /// The nodes that waited are the ones to be taken next.
    ///
    /// # Safety
    ///
    /// No reader is in them any more.
    unsafe fn free_waiting(&mut self, alloc: &impl NodeAlloc) {
        let waited = take(&mut self.waiting);
        // The model checker's nodes go back to where they are overwritten.
        let left_over = if cfg!(samara_loom) {
            waited
        } else {
            core::mem::replace(&mut self.free, waited)
        };
        // SAFETY: the caller's promise.
        unsafe { left_over.free::<K, S>(alloc) };
    }

    /// Sees to it that `count` nodes are in the reserve: such as are free again, and new ones if these are too few. If there is no memory,
    /// those that are free stay here, and of the others those that could be had are in the reserve.
    #[inline]
    pub(super) fn fill<A: NodeAlloc>(
        &mut self,
        reserve: &mut Reserve,
        count: usize,
        alloc: &A,
    ) -> Result<(), AllocError> {
        let wanted = count.saturating_sub(reserve.count());
        let free = self.free.count();
        if wanted > free {
            reserve.provide(count - free, alloc)?;
        }
        // SAFETY: no reader is in them any more, and so they are memory like that of new ones.
        unsafe { reserve.fill_with(count, || self.free.pop::<K, S>()) }
    }

    /// Gives all nodes back.
    ///
    /// # Safety
    ///
    /// They came from `alloc`, and there are no readers.
    pub(super) unsafe fn release(&mut self, alloc: &impl NodeAlloc) {
        for list in [&mut self.young, &mut self.waiting, &mut self.free] {
            // SAFETY: the caller's promise.
            unsafe { take(list).free::<K, S>(alloc) };
        }
    }
}

//! How the writer carries out plans: what they remove is retired.

use core::ops::RangeInclusive;
use core::ptr::NonNull;

use lock_api::RawMutex;

use crate::alloc::{AllocError, Reserve};
use crate::base::{Key, Ref, Shape};
use crate::face::host::{Host, Nodes};
use crate::face::look_ups::view;
use crate::face::store::Held;
use crate::face::sync::retire::Deferred;
use crate::face::sync::writer::Writer;
use crate::face::sync::{SyncAlloc, SyncValue};
use crate::node::{RawTree, Word};
use crate::reclaim::Reclaim;
use crate::write::{Immediate, Sink};

impl<K: Key, V: SyncValue, R: Reclaim, A: SyncAlloc, L: RawMutex, S: Shape>
    Writer<'_, K, V, R, A, L, S>
{
    /// Turns a closure over views into one over words. One that has panicked is not called again.
    pub(super) fn shown(
        mut show: impl FnMut(RangeInclusive<K>, Ref<'_, V>),
    ) -> impl FnMut(K, K, Word) {
        let mut called = false;
        move |first, last, word| {
            if called {
                return;
            }
            // SAFETY: the word was in the tree, and has not been retired yet.
            if let Some(value) = unsafe { view::<V>(word) } {
                called = true;
                show(first..=last, value);
                called = false;
            }
        }
    }
}

// SAFETY: the map's words are values; a writer is the only one, and the tree is in RCU mode, or nobody reads; its nodes come from the map's allocator.
unsafe impl<K: Key, V: SyncValue, R: Reclaim, A: SyncAlloc, L: RawMutex, S: Shape> Host<K, V, S>
    for Writer<'_, K, V, R, A, L, S>
{
    #[inline]
    fn tree(&self) -> &RawTree<K, S> {
        &self.tree.raw
    }

    #[inline]
    fn reserved(&mut self, count: usize) -> Result<Reserve, AllocError> {
        let mut reserve = Reserve::new();
        if let Err(error) = self.fill(&mut reserve, count) {
            reserve.release(&self.tree.own.alloc);
            return Err(error);
        }
        Ok(reserve)
    }

    #[inline(always)]
    fn alone(&self) -> bool {
        !self.tree.raw.in_rcu()
    }

    #[inline]
    fn sink(&self, kept: Option<K>, taken: impl FnMut(K, K, Word)) -> impl Sink<K> {
        // SAFETY: this is the only writer; there is one sink at a time.
        unsafe { Deferred::new(self.tree, kept, taken) }
    }

    #[inline(always)]
    fn sink_alone(&self, mut taken: impl FnMut(K, K, Word)) -> impl Sink<K> {
        Immediate {
            alloc: &self.tree.own.alloc,
            entry: move |first, last, word| {
                // Dropped also if the closure panics.
                let _value = NonNull::new(word).map(Held::<V>::of);
                taken(first, last, word);
            },
        }
    }

    fn discard(_: Word) {
        // It has been retired.
    }
}

impl<K: Key, V: SyncValue, R: Reclaim, A: SyncAlloc, L: RawMutex, S: Shape> Nodes<A>
    for Writer<'_, K, V, R, A, L, S>
{
    fn nodes(&self) -> &A {
        &self.tree.own.alloc
    }

    fn fill(&mut self, reserve: &mut Reserve, count: usize) -> Result<(), AllocError> {
        let own = &*self.tree.own;
        // SAFETY: this is the only writer, and it is borrowed.
        let limbo = unsafe { &mut *own.limbo.get() };
        limbo.fill(reserve, count, &own.alloc)
    }
}

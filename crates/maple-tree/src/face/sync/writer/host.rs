//! How the writer carries out plans: what they remove is retired.

use core::ops::RangeInclusive;
use core::ptr::NonNull;

use lock_api::RawMutex;

use crate::alloc::{AllocError, Reserve};
use crate::base::{Key, Ref, Shape};
use crate::face::host::{Host, Nodes, Reserved};
use crate::face::look_ups::view;
use crate::face::sync::retire::{Alone, Deferred};
use crate::face::sync::writer::Writer;
use crate::face::sync::{SyncAlloc, SyncValue};
use crate::node::{RawTree, Word};
use crate::read::Found;
use crate::reclaim::Reclaim;
use crate::write::{Plan, Quick, Removed, Seat, Sink, SlotAt};

impl<K: Key, V: SyncValue, R: Reclaim, A: SyncAlloc, L: RawMutex, S: Shape>
    Writer<'_, K, V, R, A, L, S>
{
    /// So many nodes.
    #[inline]
    fn reserved(&mut self, count: usize) -> Result<Reserve, AllocError> {
        let mut reserve = Reserve::new();
        if let Err(error) = self.fill(&mut reserve, count) {
            reserve.release(&self.tree.own.alloc);
            return Err(error);
        }
        Ok(reserve)
    }

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

impl<K: Key, V: SyncValue, R: Reclaim, A: SyncAlloc, L: RawMutex, S: Shape> Host<K, V, S>
    for Writer<'_, K, V, R, A, L, S>
{
    fn tree(&self) -> &RawTree<K, S> {
        &self.tree.raw
    }

    fn carry_out(
        &mut self,
        plan: Plan<K, S>,
        taken: impl FnMut(K, K, Word),
    ) -> Result<(), AllocError> {
        let mut reserve = self.reserved(plan.nodes)?;
        self.carry_out_with(plan, &mut reserve, taken);
        Ok(())
    }

    #[inline]
    fn carry_out_quick(
        &mut self,
        quick: Quick<K, S>,
        taken: impl FnMut(K, K, Word),
    ) -> Result<(), AllocError> {
        let mut reserve = self.reserved(quick.nodes(self.raw().in_rcu()))?;
        // SAFETY: this is the only writer; `quick` was just made; its nodes are reserved; its word is a value's or NULL; the
        // tree is in RCU mode, or nobody reads.
        unsafe {
            let mut sink = Deferred::new(self.tree, None, taken);
            self.tree.raw.apply_quick(quick, &mut reserve, &mut sink);
        }
        reserve.assert_used_up();
        Ok(())
    }

    fn carry_out_split(&mut self, quick: Quick<K, S>, twin: NonNull<()>) -> Result<(), AllocError> {
        let mut reserve = self.reserved(quick.nodes(self.raw().in_rcu()))?;
        // SAFETY: as in `carry_out_quick`; the twin is a value's word, too.
        unsafe {
            let mut sink = Deferred::new(self.tree, None, |_, _, _| {});
            self.tree
                .raw
                .apply_split(quick, twin.as_ptr(), &mut reserve, &mut sink);
        }
        reserve.assert_used_up();
        Ok(())
    }

    #[inline]
    fn carry_out_quick_keeping(
        &mut self,
        quick: Quick<K, S>,
        kept: K,
        taken: impl FnMut(K, K, Word),
    ) -> Result<(), AllocError> {
        let mut reserve = self.reserved(quick.nodes(self.raw().in_rcu()))?;
        // SAFETY: as in `carry_out_quick`.
        unsafe {
            let mut sink = Deferred::new(self.tree, Some(kept), taken);
            self.tree.raw.apply_quick(quick, &mut reserve, &mut sink);
        }
        reserve.assert_used_up();
        Ok(())
    }

    #[inline(always)]
    fn fill_hole(&mut self, at: SlotAt<K, S>, range: (K, K), word: NonNull<()>) -> bool {
        // Said at once, for the sake of writers beside readers.
        if self.raw().in_rcu() {
            return false;
        }
        // SAFETY: this is the only writer; `at` was just found; the word is a value's; the tree is not in RCU mode, so that nobody reads.
        unsafe { self.tree.raw.fill_hole(at, range, word.as_ptr()) }
    }

    #[inline(always)]
    fn vacate(&mut self, at: SlotAt<K, S>, alone: bool, taken: impl FnMut(K, K, Word)) -> bool {
        if self.raw().in_rcu() {
            return false;
        }
        // SAFETY: as in `fill_hole`.
        let done = unsafe { self.tree.raw.vacate(at, alone) };
        if done {
            let Found { first, last, word } = at.found;
            Alone::<V, _>::new(taken).entry(first, last, word);
        }
        done
    }

    #[inline(always)]
    fn store_here(
        &mut self,
        seat: &Seat<K, S>,
        range: (K, K),
        (word, twin): (Word, Word),
        kept: Word,
        taken: impl FnMut(K, K, Word),
    ) -> bool {
        if self.raw().in_rcu() {
            return false;
        }
        let raw = &self.tree.raw;
        let mut removed = Removed::but(kept);
        // SAFETY: as in `fill_hole`; the words are values' or NULL.
        let done = unsafe { raw.store_here(seat, range, word, twin, &mut removed) };
        if done && !removed.is_empty() {
            removed.give(&mut Alone::<V, _>::new(taken));
        }
        done
    }

    fn store_spanning(
        &mut self,
        seat: &Seat<K, S>,
        range: (K, K),
        word: Word,
        kept: Word,
        taken: impl FnMut(K, K, Word),
    ) -> bool {
        let raw = &self.tree.raw;
        let mut removed = Removed::but(kept);
        // SAFETY: as in `fill_hole`; the word is a value's or NULL.
        let done = unsafe { raw.store_spanning(seat, range, word, &mut removed) };
        if done {
            removed.give(&mut Alone::<V, _>::new(taken));
        }
        done
    }

    fn carry_out_keeping(
        &mut self,
        plan: Plan<K, S>,
        kept: K,
        taken: impl FnMut(K, K, Word),
    ) -> Result<(), AllocError> {
        let mut reserve = self.reserved(plan.nodes)?;
        // SAFETY: as in `carry_out_with`.
        unsafe {
            let mut sink = Deferred::new(self.tree, Some(kept), taken);
            self.tree.raw.apply(plan, &mut reserve, &mut sink);
        }
        Ok(())
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

impl<K: Key, V: SyncValue, R: Reclaim, A: SyncAlloc, L: RawMutex, S: Shape> Reserved<K, V, S>
    for Writer<'_, K, V, R, A, L, S>
{
    fn carry_out_with(
        &mut self,
        plan: Plan<K, S>,
        reserve: &mut Reserve,
        taken: impl FnMut(K, K, Word),
    ) {
        // SAFETY: this is the only writer; the plan was just made; its nodes are reserved; its word is a value's or NULL;
        // the tree is in RCU mode, or nobody reads.
        unsafe {
            let mut sink = Deferred::new(self.tree, None, taken);
            self.tree.raw.apply(plan, reserve, &mut sink);
        }
    }

    fn carry_out_quick_with(
        &mut self,
        quick: Quick<K, S>,
        reserve: &mut Reserve,
        taken: impl FnMut(K, K, Word),
    ) {
        // SAFETY: as in `carry_out_with`, for `quick`.
        unsafe {
            let mut sink = Deferred::new(self.tree, None, taken);
            self.tree.raw.apply_quick(quick, reserve, &mut sink);
        }
    }
    #[inline(always)]
    fn exchange(&mut self, at: SlotAt<K, S>, word: NonNull<()>, taken: impl FnMut(K, K, Word)) {
        at.exchange(word.as_ptr());
        let Found { first, last, word } = at.found;
        // SAFETY: this is the only writer.
        let mut sink = unsafe { Deferred::new(self.tree, None, taken) };
        sink.entry(first, last, word);
    }
}

//! How the map carries out plans: at once, and in place where that is possible.

use core::ops::RangeInclusive;
use core::ptr::NonNull;

use crate::alloc::{AllocError, NodeAlloc, Reserve};
use crate::base::{Key, Shape, Value};
use crate::face::host::{Host, Nodes, Reserved};
use crate::face::map::MapleTree;
use crate::node::{LAYOUT, RawTree, Word};
use crate::read::Found;
use crate::write::{Plan, Quick, Removed, Seat, Sink, SlotAt};

/// Frees nodes at once, and hands entries to a closure.
pub(super) struct Immediate<'a, A, F> {
    pub(super) alloc: &'a A,
    pub(super) entry: F,
}

impl<K, A: NodeAlloc, F: FnMut(K, K, Word)> Sink<K> for Immediate<'_, A, F> {
    #[inline]
    fn entry(&mut self, first: K, last: K, word: Word) {
        (self.entry)(first, last, word);
    }

    #[inline]
    fn node(&mut self, block: NonNull<u8>) {
        // SAFETY: the tree's nodes come from this allocator; this one has been replaced, and there are no
        // other users of a tree that is exclusively borrowed.
        unsafe { self.alloc.deallocate(block, LAYOUT) }
    }
}

impl<K: Key, V: Value, A: NodeAlloc, S: Shape> Host<K, V, S> for MapleTree<K, V, A, S> {
    #[inline]
    fn tree(&self) -> &RawTree<K, S> {
        &self.raw
    }

    #[inline]
    fn carry_out(
        &mut self,
        plan: Plan<K, S>,
        entry: impl FnMut(K, K, Word),
    ) -> Result<(), AllocError> {
        let mut reserve = Reserve::new();
        if let Err(error) = reserve.fill(plan.nodes, &self.alloc) {
            reserve.release(&self.alloc);
            return Err(error);
        }
        self.carry_out_with(plan, &mut reserve, entry);
        Ok(())
    }

    #[inline]
    fn carry_out_quick(
        &mut self,
        quick: Quick<K, S>,
        entry: impl FnMut(K, K, Word),
    ) -> Result<(), AllocError> {
        let mut reserve = Reserve::new();
        if let Err(error) = reserve.fill(quick.nodes(self.raw.in_rcu()), &self.alloc) {
            reserve.release(&self.alloc);
            return Err(error);
        }
        let mut sink = Immediate {
            alloc: &self.alloc,
            entry,
        };
        // SAFETY: `self` is exclusively borrowed, so that there are no other writers and no readers; `quick` was just made; its
        // nodes are reserved; its word is a value's or NULL.
        unsafe { self.raw.apply_quick(quick, &mut reserve, &mut sink) };
        reserve.assert_used_up();
        Ok(())
    }

    #[inline(always)]
    fn fill_hole(&mut self, at: SlotAt<K, S>, range: (K, K), word: NonNull<()>) -> bool {
        // SAFETY: `self` is exclusively borrowed, so that there are no other writers and no readers; `at` was just found; the word is
        // a value's.
        unsafe { self.raw.fill_hole(at, range, word.as_ptr()) }
    }

    #[inline(always)]
    fn carry_out_fill(&mut self, quick: Quick<K, S>) -> Result<(), AllocError> {
        let mut reserve = Reserve::new();
        if let Err(error) = reserve.fill(quick.nodes(false), &self.alloc) {
            reserve.release(&self.alloc);
            return Err(error);
        }
        // SAFETY: `self` is exclusively borrowed, so that there are no other writers and no readers; `quick` was just made, and its
        // nodes are reserved; the word is a value's.
        unsafe { self.raw.fill_full(quick, &mut reserve) };
        reserve.assert_used_up();
        Ok(())
    }

    #[inline(always)]
    fn vacate(&mut self, at: SlotAt<K, S>, alone: bool, mut taken: impl FnMut(K, K, Word)) -> bool {
        let Found { first, last, word } = at.found;
        // SAFETY: as above.
        let done = unsafe { self.raw.vacate(at, alone) };
        if done {
            taken(first, last, word);
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
        let mut removed = Removed::but(kept);
        // SAFETY: as in `fill_hole`; the words are values' or NULL.
        let done = unsafe { self.raw.store_here(seat, range, word, twin, &mut removed) };
        if done && !removed.is_empty() {
            removed.give(&mut Immediate {
                alloc: &self.alloc,
                entry: taken,
            });
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
        let mut removed = Removed::but(kept);
        // SAFETY: as in `fill_hole`; the word is a value's or NULL.
        let done = unsafe { self.raw.store_spanning(seat, range, word, &mut removed) };
        if done {
            removed.give(&mut Immediate {
                alloc: &self.alloc,
                entry: taken,
            });
        }
        done
    }

    fn carry_out_split(&mut self, quick: Quick<K, S>, twin: NonNull<()>) -> Result<(), AllocError> {
        let mut reserve = Reserve::new();
        if let Err(error) = reserve.fill(quick.nodes(self.raw.in_rcu()), &self.alloc) {
            reserve.release(&self.alloc);
            return Err(error);
        }
        let mut sink = Immediate {
            alloc: &self.alloc,
            entry: |_, _, _| {},
        };
        // SAFETY: as in `carry_out_quick`; the twin is a value's word, too.
        unsafe {
            self.raw
                .apply_split(quick, twin.as_ptr(), &mut reserve, &mut sink);
        }
        reserve.assert_used_up();
        Ok(())
    }

    fn discard(word: Word) {
        if let Some(raw) = NonNull::new(word) {
            // SAFETY: the word has been removed from the tree, which owned the value.
            drop(unsafe { V::from_raw(raw) });
        }
    }
}

impl<K: Key, V: Value, A: NodeAlloc, S: Shape> Nodes<A> for MapleTree<K, V, A, S> {
    fn nodes(&self) -> &A {
        &self.alloc
    }

    fn fill(&mut self, reserve: &mut Reserve, count: usize) -> Result<(), AllocError> {
        reserve.fill(count, &self.alloc)
    }
}

impl<K: Key, V: Value, A: NodeAlloc, S: Shape> Reserved<K, V, S> for MapleTree<K, V, A, S> {
    #[inline]
    fn carry_out_with(
        &mut self,
        plan: Plan<K, S>,
        reserve: &mut Reserve,
        entry: impl FnMut(K, K, Word),
    ) {
        let mut sink = Immediate {
            alloc: &self.alloc,
            entry,
        };
        // SAFETY: `self` is exclusively borrowed, so that there are no other writers and no readers;
        // the plan was just made; its nodes are reserved; its word is a value's or NULL.
        unsafe { self.raw.apply(plan, reserve, &mut sink) }
    }

    fn carry_out_quick_with(
        &mut self,
        quick: Quick<K, S>,
        reserve: &mut Reserve,
        entry: impl FnMut(K, K, Word),
    ) {
        let mut sink = Immediate {
            alloc: &self.alloc,
            entry,
        };
        // SAFETY: as in `carry_out_with`, for `quick`.
        unsafe { self.raw.apply_quick(quick, reserve, &mut sink) }
    }

    #[inline(always)]
    fn exchange(&mut self, at: SlotAt<K, S>, word: NonNull<()>, mut entry: impl FnMut(K, K, Word)) {
        at.exchange(word.as_ptr());
        let Found { first, last, word } = at.found;
        entry(first, last, word);
    }
}

impl<K: Key, V: Value, A: NodeAlloc, S: Shape> MapleTree<K, V, A, S> {
    /// Turns a taker of values into a taker of words. One that has panicked is not called again: what comes after that is dropped.
    pub(super) fn owned(mut take: impl FnMut(RangeInclusive<K>, V)) -> impl FnMut(K, K, Word) {
        let mut called = false;
        move |first, last, word| {
            if let Some(raw) = NonNull::new(word) {
                // SAFETY: the word has been removed from the tree, which owned the value.
                let value = unsafe { V::from_raw(raw) };
                if !called {
                    called = true;
                    take(first..=last, value);
                    called = false;
                }
            }
        }
    }
}

//! How the map carries out plans: at once, and in place where that is possible.

use core::ops::RangeInclusive;
use core::ptr::NonNull;

use crate::alloc::{AllocError, NodeAlloc, Reserve};
use crate::base::{Key, Shape, Value};
use crate::face::host::{Host, Nodes};
use crate::face::map::MapleTree;
use crate::node::{RawTree, Word};
use crate::write::{Immediate, Sink};

// SAFETY: the map owns its values; an exclusive borrow of it has no other writers and no readers beside it; its nodes come from its allocator.
unsafe impl<K: Key, V: Value, A: NodeAlloc, S: Shape> Host<K, V, S> for MapleTree<K, V, A, S> {
    #[inline]
    fn tree(&self) -> &RawTree<K, S> {
        &self.raw
    }

    #[inline]
    fn reserved(&mut self, count: usize) -> Result<Reserve, AllocError> {
        Reserve::of(count, &self.alloc)
    }

    #[inline(always)]
    fn alone(&self) -> bool {
        true
    }

    #[inline(always)]
    fn sink(&self, kept: Option<K>, mut taken: impl FnMut(K, K, Word)) -> impl Sink<K> {
        Immediate {
            alloc: &self.alloc,
            entry: move |first, last, word| {
                // The entry itself is covered by its own range.
                if kept != Some(first) {
                    taken(first, last, word);
                }
            },
        }
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

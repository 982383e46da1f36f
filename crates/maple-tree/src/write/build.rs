//! Builds a tree from entries that come in order. Leaves are filled one after the other and never
//! visited again, so that an entry costs little more than its two words.
//!
//! # The shape while it grows
//!
//! Every node but the last of each level is full and final. A new leaf is linked to its parent at
//! once, and a new parent to its own, up to a new root. What has been built is therefore a tree at
//! any time, except for the bounds and the gap of the last leaf: [`Builder::finish`] adds these.
//! The last node of a level may have few slots, as after ascending stores.
//!
//! # Failure
//!
//! Before an entry is accepted, the nodes are reserved that it *and the hole after it* may need. A
//! refused entry leaves everything unchanged. What has been built can always be finished without
//! another allocation, or abandoned: dropping the builder frees everything.

use core::hint::select_unpredictable;
use core::marker::PhantomData;

use crate::alloc::{AllocError, NodeAlloc, Reserve, TakeNodes};
use crate::base::{Key, Offset, Shape};
use crate::node::{
    Geometry, Kind, LAYOUT, NULL, Node, NodeMut, RawTree, Unread, Word, is_node, prefetch,
};
use crate::write::last::{link, nodes_above, propagate_above};
use crate::write::{Immediate, retire_subtree};

/// The number of nodes ahead that are prefetched: in a slab, fresh nodes are adjacent.
const AHEAD: usize = 2;

/// The reason why an entry was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The entry does not come after all existing ones.
    Order,
    /// There was no memory.
    Alloc,
}

impl From<AllocError> for Refused {
    fn from(AllocError: AllocError) -> Self {
        Self::Alloc
    }
}

/// A tree that grows at its end. Words of an abandoned tree go to `discard`.
pub(crate) struct Builder<'a, K: Key, S: Shape, A: NodeAlloc, D: FnMut(Word)> {
    alloc: &'a A,
    discard: D,
    inner: Kind,
    reserve: Reserve,
    /// The last leaf, and the number of its used slots.
    leaf: Option<NodeMut<K, S>>,
    used: usize,
    /// The last leaf's largest hole so far.
    largest: K,
    /// The first index not covered yet, or `None` when all are covered.
    next: Option<K>,
    height: u32,
    marker: PhantomData<S>,
}

impl<'a, K: Key, S: Shape, A: NodeAlloc, D: FnMut(Word)> Builder<'a, K, S, A, D> {
    const CAPACITY: usize = Geometry::<K, S>::slots(Kind::Leaf);

    /// Starts a tree whose inner nodes are of kind `inner`.
    pub(crate) fn new(inner: Kind, alloc: &'a A, discard: D) -> Self {
        Self {
            alloc,
            discard,
            inner,
            reserve: Reserve::new(),
            leaf: None,
            // As full as if there were a leaf: the first entry then asks for one.
            used: Self::CAPACITY,
            largest: K::MIN,
            next: Some(K::MIN),
            height: 0,
            marker: PhantomData,
        }
    }

    /// Adds an entry and takes the word over. `first` must not be above `last`.
    #[inline]
    pub(crate) fn push(&mut self, first: K, last: K, word: Word) -> Result<(), Refused> {
        debug_assert!(first <= last && !word.is_null());
        let next = self.next.filter(|&next| next <= first);
        let next = next.ok_or(Refused::Order)?;
        let slots = 1 + usize::from(next < first);
        match self.leaf {
            // The hole that may come after all entries has room, too.
            Some(leaf) if self.used + slots < Self::CAPACITY => {
                if next < first {
                    self.put_hole(leaf, next, first.wrapping_sub(K::ONE));
                }
                self.put(leaf, word, last);
            }
            _ => self.push_beyond(next, first, last, word)?,
        }
        self.next = last.successor();
        Ok(())
    }

    /// Adds entries until `entries` returns `None` or one is refused. Returns the refused one, if
    /// any.
    ///
    /// Equivalent to a loop around [`push`](Self::push), but keeps the builder's state in registers
    /// while it fills one leaf.
    pub(crate) fn extend(
        &mut self,
        mut entries: impl FnMut() -> Option<(K, K, Word)>,
    ) -> Option<(K, K, Word, Refused)> {
        let gaps = self.inner == Kind::Gap;
        while let Some((first, last, word)) = entries() {
            if let Err(refused) = self.push(first, last, word) {
                return Some((first, last, word, refused));
            }
            let (Some(leaf), Some(mut next)) = (self.leaf, self.next) else {
                continue;
            };
            let mut used = self.used;
            // What is in the leaf is counted at once, because `entries` may panic. The rest is
            // written back when the leaf is left.
            let refused = loop {
                let Some((first, last, word)) = entries() else {
                    self.next = Some(next);
                    return None;
                };
                if first < next {
                    break Some((first, last, word, Refused::Order));
                }
                let hole = next < first;
                if used + usize::from(hole) + 1 >= Self::CAPACITY {
                    self.next = Some(next);
                    let result = self.push(first, last, word);
                    if let Err(refused) = result {
                        return Some((first, last, word, refused));
                    }
                    break None;
                }
                // A hole is written even if there is none, and the entry then overwrites it: a
                // branch on it could not be predicted.
                let before = first.wrapping_sub(K::ONE);
                leaf.set_slot(used, NULL);
                leaf.set_pivot(used, before);
                used += usize::from(hole);
                if gaps {
                    let size = select_unpredictable(hole, K::span(next, before), K::MIN);
                    self.largest = select_unpredictable(self.largest < size, size, self.largest);
                }
                leaf.set_slot(used, word);
                leaf.set_pivot(used, last);
                used += 1;
                self.used = used;
                match last.successor() {
                    Some(after) => next = after,
                    None => {
                        self.next = None;
                        break None;
                    }
                }
            };
            if refused.is_some() {
                self.next = Some(next);
                return refused;
            }
        }
        None
    }

    /// Does what [`push`](Self::push) does if the entry may need a new leaf.
    #[cold]
    fn push_beyond(&mut self, next: K, first: K, last: K, word: Word) -> Result<(), AllocError> {
        // A leaf, and its new ancestors.
        let above = self.leaf.map(|leaf| nodes_above(leaf.node(), self.inner));
        self.reserve.provide(1 + above.unwrap_or(0), self.alloc)?;
        if next < first {
            let leaf = self.leaf_for(next);
            self.put_hole(leaf, next, first.wrapping_sub(K::ONE));
        }
        let leaf = self.leaf_for(first);
        self.put(leaf, word, last);
        Ok(())
    }

    /// Fills the next slot of the leaf, which has one.
    #[inline(always)]
    fn put(&mut self, leaf: NodeMut<K, S>, word: Word, last: K) {
        let i = self.used;
        leaf.set_slot(i, word);
        if i + 1 < Self::CAPACITY {
            leaf.set_pivot(i, last);
        }
        self.used = i + 1;
    }

    /// Adds a hole as [`put`](Self::put) does, and updates the leaf's largest hole, which only gap
    /// nodes will use.
    #[inline(always)]
    fn put_hole(&mut self, leaf: NodeMut<K, S>, first: K, last: K) {
        self.put(leaf, NULL, last);
        self.largest = self.largest.max(K::span(first, last));
    }

    /// Returns a leaf with room for a slot that starts at `first`: a new one if the last is full.
    /// Its nodes have been reserved.
    fn leaf_for(&mut self, first: K) -> NodeMut<K, S> {
        let old = match self.leaf {
            Some(leaf) if self.used < Self::CAPACITY => return leaf,
            old => old,
        };
        let leaf = self.reserve.take_node(Kind::Leaf);
        let ahead = AHEAD * LAYOUT.size();
        prefetch::node::<0>(leaf.node().word().wrapping_byte_add(ahead));
        match old {
            None => self.height = 1,
            Some(old) => {
                old.set_end(Self::CAPACITY - 1);
                let (old, reserve) = (old.node(), &mut self.reserve);
                // SAFETY: only the builder has the nodes.
                let unread = unsafe { Unread::new() };
                let root = link(old, self.largest, leaf, first, self.inner, reserve, unread);
                self.height += u32::from(root.is_some());
            }
        }
        self.leaf = Some(leaf);
        self.used = 0;
        self.largest = K::MIN;
        leaf
    }

    /// Writes the bounds and the gap of the last leaf, and returns the root. The builder is empty
    /// then.
    fn seal(&mut self) -> Option<Node<K, S>> {
        let leaf = self.leaf.take()?;
        leaf.set_end(self.used - 1);
        if self.used < Self::CAPACITY {
            leaf.set_pivot(self.used - 1, K::MAX);
        }
        Some(propagate_above(leaf.node(), self.largest, self.inner))
    }

    /// Makes the built tree the content of `tree`, which is empty and tracks gaps as the builder
    /// does. Readers see the whole new content at once.
    pub(crate) fn finish(mut self, tree: &RawTree<K, S>) {
        let (word, height) = self.root();
        tree.publish_root(word, height);
    }

    /// Returns the root word and the height. The builder no longer owns the tree then.
    pub(crate) fn root(&mut self) -> (Word, u32) {
        if self.leaf.is_none() {
            return (NULL, 0);
        }
        if let Some(next) = self.next.take() {
            let leaf = self.leaf_for(next);
            self.put_hole(leaf, next, K::MAX);
        }
        let Some(root) = self.seal() else {
            return (NULL, 0);
        };
        if root.is_leaf() && root.end() == 1 && root.pivot(0) == K::MIN {
            // A single entry at index 0 needs no node, unless it could be mistaken for one.
            let only = root.slot(0);
            if !only.is_null() && root.slot(1).is_null() && !is_node(only) {
                // SAFETY: the node came from this allocator, and nothing leads to it.
                unsafe { self.alloc.deallocate(root.block(), LAYOUT) };
                return (only, 0);
            }
        }
        #[cfg(feature = "tracing")]
        crate::base::events::built(self.height);
        (root.word(), self.height)
    }
}

impl<K: Key, S: Shape, A: NodeAlloc, D: FnMut(Word)> Drop for Builder<'_, K, S, A, D> {
    fn drop(&mut self) {
        if let Some(root) = self.seal() {
            let mut sink = Immediate {
                alloc: self.alloc,
                entry: |_, _, word| (self.discard)(word),
            };
            retire_subtree(root, K::MIN, K::MAX, (K::MIN, K::MAX), &mut sink);
        }
        // SAFETY: the reserve was filled from this allocator.
        unsafe { self.reserve.release(self.alloc) };
    }
}

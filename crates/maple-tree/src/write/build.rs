//! Building a tree out of entries that come in order: leaves are filled one after the other and never looked at again, so that
//! an entry costs little more than the two words that it takes.
//!
//! # The shape while it grows
//!
//! Every node except the last of each level is full and final. A new leaf is linked to its parent
//! at once (and a new parent to its own, up to a new root). So the part that has been built is a
//! tree at any time, except for the bounds and the gap of the last leaf, which [`Builder::finish`]
//! adds. The last node of a level may have few slots, as it may after ascending stores.
//!
//! # Failure
//!
//! Before an entry is taken, the nodes are reserved that it *and the hole after it* may need. An entry that is refused leaves everything
//! as it was, and what is there can always be finished without another allocation, or given up: dropping the builder frees all.

use core::hint::select_unpredictable;
use core::marker::PhantomData;

use crate::alloc::{AllocError, NodeAlloc, Reserve, TakeNodes};
use crate::base::{Key, Offset, Shape};
use crate::node::{
    Geometry, Kind, LAYOUT, NULL, Node, NodeMut, RawTree, Unread, Word, is_node, prefetch,
};
use crate::write::last::{link, nodes_above, propagate_above};
use crate::write::{Immediate, retire_subtree};

/// The distance, in nodes, of memory prefetches: in a slab, fresh nodes lie one behind the other.
const AHEAD: usize = 2;

/// Why an entry was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It does not come after all that are there.
    Order,
    /// There was no memory.
    Alloc,
}

impl From<AllocError> for Refused {
    fn from(AllocError: AllocError) -> Self {
        Self::Alloc
    }
}

/// A tree that grows at its end. Words that are given up go to `discard`.
pub(crate) struct Builder<'a, K: Key, S: Shape, A: NodeAlloc, D: FnMut(Word)> {
    alloc: &'a A,
    discard: D,
    inner: Kind,
    reserve: Reserve,
    /// The last leaf, and how many of its slots are used.
    leaf: Option<NodeMut<K, S>>,
    used: usize,
    /// Its largest hole so far.
    largest: K,
    /// The first index that is not covered yet; `None` when all are.
    next: Option<K>,
    height: u32,
    marker: PhantomData<S>,
}

impl<'a, K: Key, S: Shape, A: NodeAlloc, D: FnMut(Word)> Builder<'a, K, S, A, D> {
    const CAPACITY: usize = Geometry::<K, S>::slots(Kind::Leaf);

    /// Begins a tree whose inner nodes are of a kind.
    pub(crate) fn new(inner: Kind, alloc: &'a A, discard: D) -> Self {
        Self {
            alloc,
            discard,
            inner,
            reserve: Reserve::new(),
            leaf: None,
            // As full as if there were one: the first entry asks for a leaf.
            used: Self::CAPACITY,
            largest: K::MIN,
            next: Some(K::MIN),
            height: 0,
            marker: PhantomData,
        }
    }

    /// Adds an entry, which takes the word over; `first` is not above `last`.
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

    /// Adds entries for as long as `entries` gives some and none is refused; gives the one that was, if any.
    ///
    /// The same as a loop around [`push`](Self::push), with what it needs of the builder in registers while it is in one leaf.
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
            // What comes to be in the leaf is counted at once, for `entries` may panic; all else when the leaf is left.
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
                // A hole is written even if there is none, and what follows then lies over it: whether there is one is anybody's guess.
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

    /// As [`push`](Self::push), if the leaf may have to be left for a new one.
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

    /// As [`put`](Self::put), a hole; keeps the size of the largest one of the leaf, which only gap nodes will ask for.
    #[inline(always)]
    fn put_hole(&mut self, leaf: NodeMut<K, S>, first: K, last: K) {
        self.put(leaf, NULL, last);
        self.largest = self.largest.max(K::span(first, last));
    }

    /// The leaf with room for a slot that starts at `first`: a new one, if the last one is full. Its nodes have been reserved.
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

    /// Notes the bounds and the gap of the last leaf; gives the root. The builder has nothing then.
    fn seal(&mut self) -> Option<Node<K, S>> {
        let leaf = self.leaf.take()?;
        leaf.set_end(self.used - 1);
        if self.used < Self::CAPACITY {
            leaf.set_pivot(self.used - 1, K::MAX);
        }
        Some(propagate_above(leaf.node(), self.largest, self.inner))
    }

    /// Moves the built nodes into `tree`, which is empty and tracks gaps as the builder does. No
    /// reader sees the earlier, empty content of the nodes. Later readers of `tree` see all of
    /// them.
    pub(crate) fn finish(mut self, tree: &RawTree<K, S>) {
        let (word, height) = self.root();
        tree.publish_root(word, height);
    }

    /// The root word, and the height; the tree is no longer the builder's.
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
            // A single entry at index 0 needs no node, if it cannot be taken for one.
            let only = root.slot(0);
            if !only.is_null() && root.slot(1).is_null() && !is_node(only) {
                // SAFETY: it came from this allocator, and nothing leads to it.
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
        // SAFETY: it was filled from there.
        unsafe { self.reserve.release(self.alloc) };
    }
}

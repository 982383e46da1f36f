//! Visiting all entries between two bounds at once, in a tree without a concurrent writer.
//!
//! Several leaves are examined together, so that a loop over entries ends once for some sixty
//! slots. If it ended after ten or so, each end would be mispredicted, which costs as much as half
//! of the entries.
//!
//! Bounds and words of the leaves are copied to fixed positions, which is faster than finding the
//! leaf for each entry.

use core::mem::MaybeUninit;

use crate::base::{Key, Offset, Shape};
use crate::node::{Geometry, Kind, Node, RawTree, Word, is_leaf_word, prefetch};
use crate::read::{BoundedLeaf, Found};

/// The number of leaves ahead that are prefetched.
const AHEAD: usize = 4;

/// The number of slots in a window: one for each bit of the word that marks entries.
const SLOTS: usize = u64::BITS as usize;

/// Copies of adjacent leaves.
struct Window<K> {
    /// Bit `i` stands for the entry in slot `i`.
    left: u64,
    leaves: usize,
    /// Slot `i` ends at `ends[i + 1]`, and what comes before it at `ends[i]`. Written with the
    /// leaves.
    ends: [MaybeUninit<K>; SLOTS + 1],
    words: [MaybeUninit<Word>; SLOTS],
}

impl<K: Key> Window<K> {
    #[inline(always)]
    fn new() -> Self {
        Self {
            left: 0,
            leaves: 0,
            ends: [const { MaybeUninit::uninit() }; SLOTS + 1],
            words: [const { MaybeUninit::uninit() }; SLOTS],
        }
    }

    /// Returns the distance between the slots of two leaves.
    const fn stride<S: Shape>() -> usize {
        Geometry::<K, S>::slots(Kind::Leaf).next_power_of_two()
    }

    /// Returns the number of leaves that fit.
    const fn room<S: Shape>() -> usize {
        SLOTS / Self::stride::<S>()
    }

    /// Adds a leaf, for which there is room. `bits` has its entries.
    ///
    /// # Safety
    ///
    /// Nothing writes the leaf during the call.
    #[inline(always)]
    unsafe fn put<S: Shape>(&mut self, place: BoundedLeaf<K, S>, bits: u32) {
        debug_assert!(self.leaves < Self::room::<S>());
        let at = self.leaves * Self::stride::<S>();
        self.leaves += 1;
        self.left |= u64::from(bits) << at;
        // SAFETY: a leaf's slots are at most `stride`, and its pivots one fewer: all are within the
        // arrays.
        unsafe {
            let ends = self.ends.as_mut_ptr().cast::<K>().add(at);
            place
                .leaf
                .copy_out(ends.add(1), self.words.as_mut_ptr().cast::<Word>().add(at));
            ends.write(place.min.wrapping_sub(K::ONE));
            ends.add(1 + place.leaf.end()).write(place.max);
        }
    }

    /// Calls `show` with all entries, and removes the leaves.
    #[inline(always)]
    fn drain<B>(&mut self, init: B, show: &mut impl FnMut(B, Found<K>) -> B) -> B {
        let mut left = self.left;
        self.left = 0;
        self.leaves = 0;
        let mut folded = init;
        while left != 0 {
            let i = left.trailing_zeros() as usize;
            left &= left - 1;
            // SAFETY: bits are set only for slots that have been written, together with both of
            // their bounds.
            let found = unsafe {
                let ends = self.ends.as_ptr().cast::<K>().add(i);
                Found {
                    first: ends.read().wrapping_add(K::ONE),
                    last: ends.add(1).read(),
                    word: self.words.as_ptr().cast::<Word>().add(i).read(),
                }
            };
            folded = show(folded, found);
        }
        folded
    }
}

/// Calls `show` with the entries that intersect `lo..=hi`, in order.
///
/// # Safety
///
/// Nothing writes the tree during the call.
#[inline]
pub(crate) unsafe fn between<K: Key, S: Shape, B>(
    tree: &RawTree<K, S>,
    (lo, hi): (K, K),
    init: B,
    show: &mut impl FnMut(B, Found<K>) -> B,
) -> B {
    let root = match tree.root().at(lo) {
        Ok(root) => root,
        Err(found) if found.word.is_null() => return init,
        Err(found) => return show(init, found),
    };
    let mut fold = Fold {
        window: Window::new(),
        lo,
        hi,
        show,
    };
    let place = BoundedLeaf::of_root(root);
    // SAFETY: nothing writes (the caller's promise). All inner nodes are of one kind.
    let folded = unsafe {
        match root.kind() {
            Kind::Leaf => fold.leaf(place, init),
            Kind::Range => fold.below::<S, B, false>(place, init),
            Kind::Gap => fold.below::<S, B, true>(place, init),
        }
    };
    fold.window.drain(folded, fold.show)
}

struct Fold<'a, K, F> {
    window: Window<K>,
    lo: K,
    hi: K,
    show: &'a mut F,
}

impl<K: Key, F> Fold<'_, K, F> {
    /// Adds a leaf, and visits the entries so far if there is no room for another.
    ///
    /// # Safety
    ///
    /// Nothing writes the tree during the call.
    #[inline(always)]
    unsafe fn leaf<S: Shape, B>(&mut self, place: BoundedLeaf<K, S>, folded: B) -> B
    where
        F: FnMut(B, Found<K>) -> B,
    {
        let leaf = place.leaf.as_leaf();
        // SAFETY: nothing writes (the caller's promise).
        let mut bits = unsafe { leaf.entries() };
        if place.min <= self.lo || self.hi <= place.max {
            bits &= place.within(self.lo, self.hi);
        }
        // SAFETY: as above; the last call left room.
        unsafe { self.window.put(BoundedLeaf { leaf, ..place }, bits) };
        if self.window.leaves < Window::<K>::room::<S>() {
            return folded;
        }
        self.window.drain(folded, self.show)
    }

    /// Adds the leaves below an inner node (a gap node, or else a range node).
    ///
    /// # Safety
    ///
    /// As for [`leaf`](Self::leaf), and the node is of that kind.
    unsafe fn below<S: Shape, B, const GAP: bool>(&mut self, at: BoundedLeaf<K, S>, init: B) -> B
    where
        F: FnMut(B, Found<K>) -> B,
    {
        let kind = if GAP { Kind::Gap } else { Kind::Range };
        // SAFETY: a node of this kind (the caller's promise).
        let node = unsafe { Node::<K, S>::of_kind(at.leaf.word(), kind) };
        let from = if at.min < self.lo {
            node.search(self.lo)
        } else {
            0
        };
        let end = node.end();
        let to = if self.hi < at.max {
            node.search(self.hi)
        } else {
            end
        };
        let mut folded = init;
        let mut min = node.first(from, at.min);
        let leaves = is_leaf_word(node.slot(from));
        let mut i = from;
        while i <= to {
            let word = node.slot(i);
            let max = node.last(i, at.max);
            // SAFETY: slots of inner nodes hold nodes, all of one kind, which nothing writes.
            folded = unsafe {
                if leaves {
                    prefetch::node::<0>(node.slot((i + AHEAD).min(end)));
                    let leaf = Node::<K, S>::of_kind(word, Kind::Leaf);
                    self.leaf(BoundedLeaf { leaf, min, max }, folded)
                } else {
                    prefetch::node::<0>(node.slot((i + 1).min(end)));
                    let leaf = Node::<K, S>::of_kind(word, kind);
                    self.below::<S, B, GAP>(BoundedLeaf { leaf, min, max }, folded)
                }
            };
            min = max.wrapping_add(K::ONE);
            i += 1;
        }
        folded
    }
}

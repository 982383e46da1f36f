//! Traversal of all entries between two bounds at once, in a tree that no thread writes during the
//! traversal.
//!
//! Several leaves are looked at together, so that a loop over entries ends once for some sixty slots: where a loop ends after ten or
//! so, at a guess, the guess costs as much as half of the entries.
//!
//! Bounds and words of the leaves are copied, each to a fixed place, which is quicker than to look up the leaf for each entry.

use core::mem::MaybeUninit;

use crate::base::{Key, Offset, Shape};
use crate::node::{Geometry, Kind, Node, RawTree, Word, is_leaf_word, prefetch};
use crate::read::{Found, Place};

/// The distance, in leaves, of memory prefetches.
const AHEAD: usize = 4;

/// Slots in a window: as many as there are bits to tell the entries among them.
const SLOTS: usize = u64::BITS as usize;

/// Copies of leaves that follow each other.
struct Window<K> {
    /// Bit `i` stands for the entry in slot `i`.
    left: u64,
    leaves: usize,
    /// The slot before slot `i` ends at `ends[i]`, slot `i` itself at `ends[i + 1]`. Written
    /// together with the leaves.
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

    /// The distance between the slots of two leaves.
    const fn stride<S: Shape>() -> usize {
        Geometry::<K, S>::slots(Kind::Leaf).next_power_of_two()
    }

    /// The number of leaves that fit into the window.
    const fn room<S: Shape>() -> usize {
        SLOTS / Self::stride::<S>()
    }

    /// Puts a leaf behind those that there are, and in `bits` which of its entries. There is room for it.
    ///
    /// # Safety
    ///
    /// No thread writes the leaf during the call.
    #[inline(always)]
    unsafe fn put<S: Shape>(&mut self, place: Place<K, S>, bits: u32) {
        debug_assert!(self.leaves < Self::room::<S>());
        let at = self.leaves * Self::stride::<S>();
        self.leaves += 1;
        self.left |= u64::from(bits) << at;
        // SAFETY: a leaf's slots are at most `stride`, and its pivots one fewer: all are within the arrays.
        unsafe {
            let ends = self.ends.as_mut_ptr().cast::<K>().add(at);
            place
                .leaf
                .copy_out(ends.add(1), self.words.as_mut_ptr().cast::<Word>().add(at));
            ends.write(place.min.wrapping_sub(K::ONE));
            ends.add(1 + place.leaf.end()).write(place.max);
        }
    }

    /// Shows `show` all entries, and forgets the leaves.
    #[inline(always)]
    fn drain<B>(&mut self, init: B, show: &mut impl FnMut(B, Found<K>) -> B) -> B {
        let mut left = self.left;
        self.left = 0;
        self.leaves = 0;
        let mut folded = init;
        while left != 0 {
            let i = left.trailing_zeros() as usize;
            left &= left - 1;
            // SAFETY: bits are set for slots that have been written only, together with both of their bounds.
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

/// Shows `show` the entries that intersect `lo..=hi`, in order.
///
/// # Safety
///
/// No thread writes the tree during the call.
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
    let place = Place::of_root(root);
    // SAFETY: no thread writes (the caller's promise). All nodes above the leaves are of one kind.
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
    /// Adds a leaf, and shows what there is if there is no room for one more.
    ///
    /// # Safety
    ///
    /// No thread writes the tree during the call.
    #[inline(always)]
    unsafe fn leaf<S: Shape, B>(&mut self, place: Place<K, S>, folded: B) -> B
    where
        F: FnMut(B, Found<K>) -> B,
    {
        let leaf = place.leaf.as_leaf();
        // SAFETY: no thread writes (the caller's promise).
        let mut bits = unsafe { leaf.entries() };
        if place.min <= self.lo || self.hi <= place.max {
            bits &= place.within(self.lo, self.hi);
        }
        // SAFETY: as above; there is room since the last leaf was added.
        unsafe { self.window.put(Place { leaf, ..place }, bits) };
        if self.window.leaves < Window::<K>::room::<S>() {
            return folded;
        }
        self.window.drain(folded, self.show)
    }

    /// Adds the leaves below an inner node (a gap node, or else a range node).
    ///
    /// # Safety
    ///
    /// As for [`leaf`](Self::leaf); the node is of that kind.
    unsafe fn below<S: Shape, B, const GAP: bool>(&mut self, at: Place<K, S>, init: B) -> B
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
            // SAFETY: slots of inner nodes hold nodes, all of one kind, and no thread writes them.
            folded = unsafe {
                if leaves {
                    prefetch::node::<0>(node.slot((i + AHEAD).min(end)));
                    let leaf = Node::<K, S>::of_kind(word, Kind::Leaf);
                    self.leaf(Place { leaf, min, max }, folded)
                } else {
                    prefetch::node::<0>(node.slot((i + 1).min(end)));
                    let leaf = Node::<K, S>::of_kind(word, kind);
                    self.below::<S, B, GAP>(Place { leaf, min, max }, folded)
                }
            };
            min = max.wrapping_add(K::ONE);
            i += 1;
        }
        folded
    }
}

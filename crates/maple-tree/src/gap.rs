//! Searching for a hole of a size, lowest first or highest first.
//!
//! In a tree that tracks gaps a subtree without a hole that is large enough is not entered; since no hole
//! crosses from one slot to the next, at most two paths (those along the bounds) are entered in vain, unless an
//! alignment rules out holes that are large enough. In other trees every slot within the bounds is looked at.

use crate::key::Key;
use crate::node::{Kind, Node, is_leaf_word};
use crate::prefetch;
use crate::shape::Shape;
use crate::tree::{RawTree, Root};
use crate::walk::{lower_bound, upper_bound};

/// What is looked for: `size` free indices, the first a multiple of `align` plus `offset`, all
/// within `lo..=hi`. Neither `size` nor `align` is 0, and `offset` is below `align`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want<K> {
    /// Lower bound.
    pub(crate) lo: K,
    /// Upper bound.
    pub(crate) hi: K,
    /// How many indices.
    pub(crate) size: K,
    /// The first index is a multiple of this …
    pub(crate) align: K,
    /// … plus this.
    pub(crate) offset: K,
}

impl<K: Key> Want<K> {
    /// `None` if nothing can be like that.
    pub(crate) fn new((lo, hi): (K, K), size: K, align: K, offset: K) -> Option<Self> {
        (lo <= hi && size > K::MIN && offset < align).then_some(Self {
            lo,
            hi,
            size,
            align,
            offset,
        })
    }

    /// The lowest place within the hole `first..=last`.
    fn lowest(&self, first: K, last: K) -> Option<K> {
        let first = first.max(self.lo);
        let last = last.min(self.hi);
        // The lowest start, if there were no upper bound.
        let start = match first.checked_sub(self.offset) {
            Some(first) => first.align_up(self.align)?.checked_add(self.offset)?,
            None => self.offset,
        };
        let end = start.checked_add(self.size.wrapping_sub(K::ONE))?;
        (end <= last).then_some(start)
    }

    /// As [`lowest`](Self::lowest), without alignment, in a hole that does not begin below the bound.
    #[inline(always)]
    fn at_start(&self, first: K, last: K) -> Option<K> {
        let end = first.checked_add(self.size.wrapping_sub(K::ONE))?;
        (end <= last.min(self.hi)).then_some(first)
    }

    /// As [`highest`](Self::highest), without alignment, in a hole that does not end above the bound.
    #[inline(always)]
    fn at_end(&self, first: K, last: K) -> Option<K> {
        let start = last.checked_sub(self.size.wrapping_sub(K::ONE))?;
        (first.max(self.lo) <= start).then_some(start)
    }

    /// The highest place within the hole `first..=last`.
    fn highest(&self, first: K, last: K) -> Option<K> {
        let first = first.max(self.lo);
        let last = last.min(self.hi);
        let start = last.checked_sub(self.size.wrapping_sub(K::ONE))?;
        let start = start
            .checked_sub(self.offset)?
            .align_down(self.align)
            .checked_add(self.offset)?;
        (first <= start).then_some(start)
    }
}

impl<K: Key, S: Shape> RawTree<K, S> {
    /// The lowest place that fits.
    pub(crate) fn gap_up(&self, want: &Want<K>) -> Option<K> {
        match self.root() {
            Root::Empty => want.lowest(K::MIN, K::MAX),
            Root::Single(_) => want.lowest(K::ONE, K::MAX),
            Root::Node(root) if root.kind() == Kind::Gap && want.align == K::ONE => {
                by_gaps_up(root, want)
            }
            Root::Node(root) => up(root, K::MIN, K::MAX, want),
        }
    }

    /// The highest place that fits.
    pub(crate) fn gap_down(&self, want: &Want<K>) -> Option<K> {
        match self.root() {
            Root::Empty => want.highest(K::MIN, K::MAX),
            Root::Single(_) => want.highest(K::ONE, K::MAX),
            Root::Node(root) if root.kind() == Kind::Gap && want.align == K::ONE => {
                by_gaps_down(root, want)
            }
            Root::Node(root) => down(root, K::MIN, K::MAX, want),
        }
    }

    /// As [`gap_up`](Self::gap_up), in a tree whose nodes do not know their parents.
    pub(crate) fn gap_up_from_above(&self, want: &Want<K>) -> Option<K> {
        match self.root() {
            Root::Node(root) => up(root, K::MIN, K::MAX, want),
            Root::Empty | Root::Single(_) => self.gap_up(want),
        }
    }

    /// As [`gap_down`](Self::gap_down), in a tree whose nodes do not know their parents.
    pub(crate) fn gap_down_from_above(&self, want: &Want<K>) -> Option<K> {
        match self.root() {
            Root::Node(root) => down(root, K::MIN, K::MAX, want),
            Root::Empty | Root::Single(_) => self.gap_down(want),
        }
    }
}

/// The lowest hole that is large enough, by the sizes that the nodes keep: down along the lower bound as long as there may be
/// one on that path, up again to where there is one further on, and straight down to it. What begins there begins lowest of
/// all, so that if it does not end within the bounds nothing does.
fn by_gaps_up<K: Key, S: Shape>(root: Node<K, S>, want: &Want<K>) -> Option<K> {
    let key = want.lo;
    let mut word = root.word();
    let (mut node, mut slot);
    loop {
        if is_leaf_word(word) {
            // SAFETY: a leaf of the tree.
            let leaf = unsafe { Node::<K, S>::of_kind(word, Kind::Leaf) };
            slot = leaf.search(key);
            let mut holes = leaf.holes() & (u32::MAX << slot);
            while holes != 0 {
                let i = holes.trailing_zeros() as usize;
                holes &= holes - 1;
                // No branch: whether the bound is in a hole is anybody's guess.
                let first = leaf.first(i, key).max(key);
                if let Some(found) = want.at_start(first, last_in(leaf, i, key)) {
                    return Some(found);
                }
            }
            node = leaf.parent(Kind::Gap)?;
            slot = node.search(key);
            break;
        }
        // SAFETY: all nodes above the leaves are gap nodes, as the root is.
        node = unsafe { Node::<K, S>::of_kind(word, Kind::Gap) };
        slot = node.search(key);
        if node.gap(slot) < want.size {
            break;
        }
        word = node.slot(slot);
        prefetch::node::<1>(word);
    }
    let mut fits;
    loop {
        fits = node.fits(want.size) & (u32::MAX << slot << 1);
        if fits != 0 {
            break;
        }
        node = node.parent(Kind::Gap)?;
        slot = node.search(key);
    }
    let mut min = K::MIN;
    loop {
        slot = fits.trailing_zeros() as usize;
        if slot >= node.capacity() {
            debug_assert!(false, "a gap that is not there");
            return None;
        }
        min = node.first(slot, min);
        word = node.slot(slot);
        prefetch::node::<1>(word);
        if is_leaf_word(word) {
            break;
        }
        // SAFETY: as above.
        node = unsafe { Node::of_kind(word, Kind::Gap) };
        fits = node.fits(want.size);
    }
    // SAFETY: as above.
    let leaf = unsafe { Node::<K, S>::of_kind(word, Kind::Leaf) };
    let mut holes = leaf.holes();
    while holes != 0 {
        let i = holes.trailing_zeros() as usize;
        holes &= holes - 1;
        let (first, last) = (leaf.first(i, min), last_in(leaf, i, min));
        if K::span(first, last) >= want.size {
            return want.at_start(first, last);
        }
    }
    None
}

/// As [`by_gaps_up`], the highest.
fn by_gaps_down<K: Key, S: Shape>(root: Node<K, S>, want: &Want<K>) -> Option<K> {
    let key = want.hi;
    let mut word = root.word();
    let (mut node, mut slot);
    loop {
        if is_leaf_word(word) {
            // SAFETY: a leaf of the tree.
            let leaf = unsafe { Node::<K, S>::of_kind(word, Kind::Leaf) };
            slot = leaf.search(key);
            let mut holes = leaf.holes() & (u32::MAX >> (31 - slot));
            while holes != 0 {
                let i = holes.ilog2() as usize;
                holes ^= 1 << i;
                let last = leaf.last(i, key);
                if let Some(found) = want.at_end(first_in(leaf, i, key), last) {
                    return Some(found);
                }
            }
            node = leaf.parent(Kind::Gap)?;
            slot = node.search(key);
            break;
        }
        // SAFETY: all nodes above the leaves are gap nodes, as the root is.
        node = unsafe { Node::<K, S>::of_kind(word, Kind::Gap) };
        slot = node.search(key);
        if node.gap(slot) < want.size {
            break;
        }
        word = node.slot(slot);
        prefetch::node::<1>(word);
    }
    let mut fits;
    loop {
        fits = node.fits(want.size) & !(u32::MAX << slot);
        if fits != 0 {
            break;
        }
        node = node.parent(Kind::Gap)?;
        slot = node.search(key);
    }
    let mut max = K::MAX;
    loop {
        let Some(highest) = fits.checked_ilog2() else {
            debug_assert!(false, "a gap that is not there");
            return None;
        };
        slot = highest as usize;
        max = node.last(slot, max);
        word = node.slot(slot);
        prefetch::node::<1>(word);
        if is_leaf_word(word) {
            break;
        }
        // SAFETY: as above.
        node = unsafe { Node::of_kind(word, Kind::Gap) };
        fits = node.fits(want.size);
    }
    // SAFETY: as above.
    let leaf = unsafe { Node::<K, S>::of_kind(word, Kind::Leaf) };
    let mut holes = leaf.holes();
    while holes != 0 {
        let i = holes.ilog2() as usize;
        holes ^= 1 << i;
        let (first, last) = (first_in(leaf, i, max), leaf.last(i, max));
        if K::span(first, last) >= want.size {
            return want.at_end(first, last);
        }
    }
    None
}

/// The last index of slot `i` of a leaf, one of whose indices is `key`.
#[inline(always)]
fn last_in<K: Key, S: Shape>(leaf: Node<K, S>, i: usize, key: K) -> K {
    if i < leaf.end() {
        leaf.pivot(i)
    } else {
        upper_bound(leaf, key, Kind::Gap)
    }
}

/// The first index of slot `i` of a leaf, one of whose indices is `key`.
#[inline(always)]
fn first_in<K: Key, S: Shape>(leaf: Node<K, S>, i: usize, key: K) -> K {
    if i > 0 {
        leaf.first(i, key)
    } else {
        lower_bound(leaf, key, Kind::Gap)
    }
}

fn up<K: Key, S: Shape>(node: Node<K, S>, min: K, max: K, want: &Want<K>) -> Option<K> {
    let end = node.end();
    let mut i = node.search(want.lo.max(min));
    while i <= end {
        let first = node.first(i, min);
        if first > want.hi {
            return None;
        }
        let last = node.last(i, max);
        let found = match node.kind() {
            Kind::Leaf if node.slot(i).is_null() => want.lowest(first, last),
            Kind::Leaf => None,
            Kind::Gap if node.gap(i) < want.size => None,
            Kind::Gap | Kind::Range => up(node.child(i), first, last, want),
        };
        if found.is_some() {
            return found;
        }
        i += 1;
    }
    None
}

fn down<K: Key, S: Shape>(node: Node<K, S>, min: K, max: K, want: &Want<K>) -> Option<K> {
    let mut i = node.search(want.hi.min(max)) + 1;
    while i > 0 {
        i -= 1;
        let last = node.last(i, max);
        if last < want.lo {
            return None;
        }
        let first = node.first(i, min);
        let found = match node.kind() {
            Kind::Leaf if node.slot(i).is_null() => want.highest(first, last),
            Kind::Leaf => None,
            Kind::Gap if node.gap(i) < want.size => None,
            Kind::Gap | Kind::Range => down(node.child(i), first, last, want),
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

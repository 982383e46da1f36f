//! Searching for a gap of a size, lowest first or highest first.
//!
//! In a tree that tracks gaps, a subtree without a large enough hole is skipped. No hole crosses
//! from one slot to the next. So at most two paths (those along the bounds) are entered in vain,
//! unless an alignment rules out large enough holes. In other trees every slot within the bounds is
//! examined. A subtree without an aligned position is also skipped. A search that finds nothing
//! thus examines no more holes than there are multiples within the bounds.
//!
//! One generic search serves both directions, `UP` and down. What comes first in that direction is
//! the lowest gap, or the highest.

use core::hint::select_unpredictable;

use crate::base::{Key, Offset, Shape, either};
use crate::node::{Kind, Node, RawTree, Root, is_leaf_word, prefetch};

/// The requested gap: `size` free indices within `lo..=hi`, the first a multiple of `align` plus
/// `offset`. Neither `size` nor `align` is 0, and `offset` is below `align`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GapRequest<K> {
    pub(crate) lo: K,
    pub(crate) hi: K,
    pub(crate) size: K,
    /// The first index is a multiple of this …
    pub(crate) align: K,
    /// … plus this.
    pub(crate) offset: K,
}

impl<K: Key> GapRequest<K> {
    /// Returns an aligned request. Multiples refer to the values of the indices, counted from 0.
    /// Returns `None` if no gap can match.
    pub(crate) fn aligned(
        (lo, hi): (K, K),
        size: K::Size,
        align: K::Size,
        offset: K::Size,
    ) -> Option<Self> {
        (lo <= hi && size > K::Size::MIN && offset < align).then(|| Self {
            lo,
            hi,
            size: K::at(size),
            align: K::at(align),
            offset: K::phase(align, offset),
        })
    }

    /// Returns a request without alignment.
    pub(crate) fn new(bounds: (K, K), size: K::Size) -> Option<Self> {
        Self::aligned(bounds, size, K::ONE.number(), K::MIN.number())
    }

    /// Returns the last of the indices if `first` is the first of them.
    pub(crate) fn last(&self, first: K) -> K {
        first.wrapping_add(self.size.wrapping_sub(K::ONE))
    }

    /// Returns the first matching position in the direction, within the hole `first..=last`.
    #[inline(always)]
    fn position<const UP: bool>(&self, first: K, last: K) -> Option<K> {
        let (first, last) = (first.max(self.lo), last.min(self.hi));
        let others = self.size.wrapping_sub(K::ONE);
        if UP {
            // The lowest start, if there were no upper bound.
            let start = match first.checked_sub(self.offset) {
                Some(first) => first.align_up(self.align)?.checked_add(self.offset)?,
                None => self.offset,
            };
            (start.checked_add(others)? <= last).then_some(start)
        } else {
            let start = last.checked_sub(others)?.checked_sub(self.offset)?;
            let start = start.align_down(self.align).checked_add(self.offset)?;
            (first <= start).then_some(start)
        }
    }

    /// Returns what [`position`](Self::position) does, without alignment, in a hole that does not
    /// begin before the bound where the search starts.
    #[inline(always)]
    fn position_unaligned<const UP: bool>(&self, first: K, last: K) -> Option<K> {
        let others = self.size.wrapping_sub(K::ONE);
        if UP {
            let end = first.checked_add(others)?;
            (end <= last.min(self.hi)).then_some(first)
        } else {
            let start = last.checked_sub(others)?;
            (first.max(self.lo) <= start).then_some(start)
        }
    }
}

impl<K: Key, S: Shape> RawTree<K, S> {
    /// Returns the lowest matching position, `UP`, or the highest.
    #[inline]
    pub(crate) fn gap<const UP: bool>(&self, want: &GapRequest<K>) -> Option<K> {
        match self.root() {
            Root::Node(root) if root.kind() == Kind::Gap && want.align == K::ONE => {
                by_gaps::<UP, K, S>(root, want)
            }
            _ => self.gap_from_above::<UP>(want),
        }
    }

    /// Searches as [`gap`](Self::gap) does, in a tree whose nodes do not know their parents.
    #[inline(never)]
    pub(crate) fn gap_from_above<const UP: bool>(&self, want: &GapRequest<K>) -> Option<K> {
        match self.root().at(K::MAX) {
            Ok(root) => below::<UP, K, S>(root, K::MIN, K::MAX, want),
            Err(hole) => want.position::<UP>(hole.first, hole.last),
        }
    }
}

/// Returns the first large enough hole in the direction, by the sizes in gap nodes. It descends
/// along the bound while that path may have one, ascends to where there is one further on, and
/// descends straight to it. A gap that begins there comes before all others, so that if it does not
/// end within the bounds, none does.
#[inline]
fn by_gaps<const UP: bool, K: Key, S: Shape>(root: Node<K, S>, want: &GapRequest<K>) -> Option<K> {
    let key = either::<UP, _>(want.lo, want.hi);
    let others = want.size.wrapping_sub(K::ONE);
    let mut word = root.word();
    let (mut node, mut slot);
    // The parent, kept so that its address need not be loaded again. Above the root: the root.
    let mut above = root;
    loop {
        if is_leaf_word(word) {
            // SAFETY: a leaf of the tree.
            let leaf = unsafe { Node::<K, S>::of_kind(word, Kind::Leaf) };
            slot = leaf.search(key);
            let mut holes = leaf.holes() & (1 << slot | beyond::<UP>(slot));
            while let Some(i) = take_first::<UP>(&mut holes) {
                let edge = leaf.edge::<UP>(i, key, Kind::Gap);
                // No branch: a hole at the bound cannot be predicted.
                let up = (leaf.first(i, key).max(key), edge);
                let (first, last) = either::<UP, _>(up, (edge, leaf.last(i, key)));
                if let Some(found) = want.position_unaligned::<UP>(first, last) {
                    return Some(found);
                }
            }
            (node, slot) = (above, above.search(key));
            break;
        }
        // SAFETY: all inner nodes are gap nodes, as the root is.
        node = unsafe { Node::<K, S>::of_kind(word, Kind::Gap) };
        slot = node.search(key);
        if node.gap(slot) <= others {
            break;
        }
        above = node;
        word = node.slot(slot);
        prefetch::node::<1>(word);
    }
    let mut fits = node.fits(others) & beyond::<UP>(slot);
    if fits == 0 && node != above {
        (node, slot) = (above, above.search(key));
        fits = node.fits(others) & beyond::<UP>(slot);
    }
    while fits == 0 {
        node = node.parent(Kind::Gap)?;
        slot = node.search(key);
        fits = node.fits(others) & beyond::<UP>(slot);
    }
    let first = first_below::<UP, K, S>(node, fits, others)?;
    either::<UP, _>(want.last(first) <= want.hi, want.lo <= first).then_some(first)
}

/// Returns the first position in the direction for a gap of more than `others` indices in the
/// subtree of a gap node. It is below the slots `fits`, each of which has such a hole below.
#[inline(always)]
fn first_below<const UP: bool, K: Key, S: Shape>(
    node: Node<K, S>,
    fits: u32,
    others: K,
) -> Option<K> {
    let (mut node, mut fits) = (node, fits);
    // An index of the subtree: its first in the direction.
    let mut edge = if UP { K::MIN } else { K::MAX };
    let leaf = loop {
        debug_assert!(fits != 0, "a gap that is not there");
        let slot = first_of::<UP>(fits)?;
        edge = either::<UP, _>(node.first(slot, edge), last(node, slot, edge));
        let word = node.slot(slot);
        prefetch::node::<1>(word);
        if is_leaf_word(word) {
            // SAFETY: a leaf of the tree.
            break unsafe { Node::<K, S>::of_kind(word, Kind::Leaf) };
        }
        // SAFETY: all inner nodes are gap nodes, as this one is.
        node = unsafe { Node::of_kind(word, Kind::Gap) };
        fits = node.fits(others);
    };
    let wide = leaf.wide_holes::<UP>(others, edge);
    debug_assert!(wide != 0, "a hole that is not there");
    let slot = first_of::<UP>(wide)?;
    // The hole is at least as large as requested: nothing overflows.
    let (up, down) = (leaf.first(slot, edge), last(leaf, slot, edge));
    Some(either::<UP, _>(up, down.wrapping_sub(others)))
}

/// Returns what [`Node::last`] does. Reads and compares everything, so that there is no branch.
#[inline(always)]
fn last<K: Key, S: Shape>(node: Node<K, S>, i: usize, max: K) -> K {
    let pivots = node.capacity() - 1;
    let pivot = node.pivot(i.min(pivots - 1));
    select_unpredictable((i < pivots) & (pivot < max), pivot, max)
}

/// Returns the slots after slot `i` in the direction.
#[inline(always)]
fn beyond<const UP: bool>(i: usize) -> u32 {
    either::<UP, _>(u32::MAX << i << 1, !(u32::MAX << i))
}

/// Returns the first of the slots in the direction.
#[inline(always)]
fn first_of<const UP: bool>(slots: u32) -> Option<usize> {
    let slot = if UP {
        (slots != 0).then(|| slots.trailing_zeros())
    } else {
        slots.checked_ilog2()
    };
    slot.map(|slot| slot as usize)
}

/// Removes and returns the [first](first_of) of the slots.
#[inline(always)]
fn take_first<const UP: bool>(slots: &mut u32) -> Option<usize> {
    let slot = first_of::<UP>(*slots)?;
    *slots &= if UP { *slots - 1 } else { !(1 << slot) };
    Some(slot)
}

/// Returns the first matching position in the subtree of a node that covers `min..=max`.
fn below<const UP: bool, K: Key, S: Shape>(
    node: Node<K, S>,
    min: K,
    max: K,
    want: &GapRequest<K>,
) -> Option<K> {
    let slot = node.search(either::<UP, _>(want.lo.max(min), want.hi.min(max)));
    // Slots after the last one may have stale contents.
    let mut slots = (1 << slot | beyond::<UP>(slot)) & !beyond::<true>(node.end());
    let aligned = want.align != K::ONE;
    while let Some(i) = take_first::<UP>(&mut slots) {
        let (first, last) = (node.first(i, min), node.last(i, max));
        if first > want.hi || last < want.lo {
            return None;
        }
        let found = match node.kind() {
            Kind::Leaf if node.slot(i).is_null() => want.position::<UP>(first, last),
            Kind::Leaf => None,
            Kind::Gap if node.gap(i) < want.size => None,
            // No position in its whole range, even if that were one hole.
            Kind::Gap | Kind::Range if aligned && want.position::<UP>(first, last).is_none() => {
                None
            }
            Kind::Gap | Kind::Range => below::<UP, K, S>(node.child(i), first, last, want),
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

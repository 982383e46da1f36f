//! Searching for a hole of a size, lowest first or highest first.
//!
//! In a tree that tracks gaps, a subtree without a hole that is large enough is not entered. No
//! hole crosses from one slot to the next. So at most two paths (those along the bounds) are
//! entered in vain, unless an alignment rules out holes that are large enough. In other trees every
//! slot within the bounds is examined. A subtree without an aligned place is not entered either, so
//! a search that finds nothing examines no more holes than there are multiples within the bounds.
//!
//! Both searches are one, which goes `UP` or down: what comes first on the way is the lowest, or the highest.

use core::hint::select_unpredictable;

use crate::base::{Key, Offset, Shape, either};
use crate::node::{Kind, Node, RawTree, Root, is_leaf_word, prefetch};

/// The gap that a search looks for: `size` free indices, the first a multiple of `align` plus
/// `offset`, all within `lo..=hi`. Neither `size` nor `align` is 0, and `offset` is below `align`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want<K> {
    pub(crate) lo: K,
    pub(crate) hi: K,
    pub(crate) size: K,
    /// The first index is a multiple of this …
    pub(crate) align: K,
    /// … plus this.
    pub(crate) offset: K,
}

impl<K: Key> Want<K> {
    /// Multiples are those of the indices' numbers, counted from 0. `None` if nothing can be like that.
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

    /// Without alignment.
    pub(crate) fn new(bounds: (K, K), size: K::Size) -> Option<Self> {
        Self::aligned(bounds, size, K::ONE.number(), K::MIN.number())
    }

    /// The last of the indices if `first` is the first of them.
    pub(crate) fn last(&self, first: K) -> K {
        first.wrapping_add(self.size.wrapping_sub(K::ONE))
    }

    /// The first place on the way, within the hole `first..=last`.
    #[inline(always)]
    fn place<const UP: bool>(&self, first: K, last: K) -> Option<K> {
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

    /// As [`place`](Self::place), without alignment, in a hole that does not begin before the bound that the way begins at.
    #[inline(always)]
    fn place_unaligned<const UP: bool>(&self, first: K, last: K) -> Option<K> {
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
    /// The lowest place that fits, `UP`, or the highest.
    #[inline]
    pub(crate) fn gap<const UP: bool>(&self, want: &Want<K>) -> Option<K> {
        match self.root() {
            Root::Node(root) if root.kind() == Kind::Gap && want.align == K::ONE => {
                by_gaps::<UP, K, S>(root, want)
            }
            _ => self.gap_from_above::<UP>(want),
        }
    }

    /// As [`gap`](Self::gap), in a tree whose nodes do not know their parents.
    #[inline(never)]
    pub(crate) fn gap_from_above<const UP: bool>(&self, want: &Want<K>) -> Option<K> {
        match self.root().at(K::MAX) {
            Ok(root) => below::<UP, K, S>(root, K::MIN, K::MAX, want),
            Err(hole) => want.place::<UP>(hole.first, hole.last),
        }
    }
}

/// Returns the first hole in the direction that is large enough, by the sizes that the nodes keep.
/// The search goes down along the bound as long as there may be such a hole on that path, up again
/// to a node with one further on, and straight down to it. Any range in that hole comes before all
/// others, so if it does not end within the bounds, none does.
#[inline]
fn by_gaps<const UP: bool, K: Key, S: Shape>(root: Node<K, S>, want: &Want<K>) -> Option<K> {
    let key = either::<UP, _>(want.lo, want.hi);
    let others = want.size.wrapping_sub(K::ONE);
    let mut word = root.word();
    let (mut node, mut slot);
    // The node above, so that its address is not waited for. Above the root: the root.
    let mut above = root;
    loop {
        if is_leaf_word(word) {
            // SAFETY: a leaf of the tree.
            let leaf = unsafe { Node::<K, S>::of_kind(word, Kind::Leaf) };
            slot = leaf.search(key);
            let mut holes = leaf.holes() & (1 << slot | beyond::<UP>(slot));
            while let Some(i) = take_first::<UP>(&mut holes) {
                let edge = leaf.edge::<UP>(i, key, Kind::Gap);
                // No branch: whether the bound is in a hole is anybody's guess.
                let up = (leaf.first(i, key).max(key), edge);
                let (first, last) = either::<UP, _>(up, (edge, leaf.last(i, key)));
                if let Some(found) = want.place_unaligned::<UP>(first, last) {
                    return Some(found);
                }
            }
            (node, slot) = (above, above.search(key));
            break;
        }
        // SAFETY: all nodes above the leaves are gap nodes, as the root is.
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
    // An index of the subtree: its first on the way.
    let mut edge = if UP { K::MIN } else { K::MAX };
    loop {
        debug_assert!(fits != 0, "a gap that is not there");
        let slot = first_of::<UP>(fits)?;
        edge = either::<UP, _>(node.first(slot, edge), last(node, slot, edge));
        word = node.slot(slot);
        prefetch::node::<1>(word);
        if is_leaf_word(word) {
            break;
        }
        // SAFETY: as above.
        node = unsafe { Node::of_kind(word, Kind::Gap) };
        fits = node.fits(others);
    }
    // SAFETY: as above.
    let leaf = unsafe { Node::<K, S>::of_kind(word, Kind::Leaf) };
    let wide = leaf.wide_holes::<UP>(others, edge);
    debug_assert!(wide != 0, "a hole that is not there");
    let slot = first_of::<UP>(wide)?;
    // The hole is as large as what is looked for, at least: nothing overflows.
    let (up, down) = (leaf.first(slot, edge), last(leaf, slot, edge));
    let first = either::<UP, _>(up, down.wrapping_sub(others));
    either::<UP, _>(want.last(first) <= want.hi, want.lo <= first).then_some(first)
}

/// As [`Node::last`]. All is read and compared, so that there is no branch.
#[inline(always)]
fn last<K: Key, S: Shape>(node: Node<K, S>, i: usize, max: K) -> K {
    let pivots = node.capacity() - 1;
    let pivot = node.pivot(i.min(pivots - 1));
    select_unpredictable((i < pivots) & (pivot < max), pivot, max)
}

/// The slots that come after slot `i` on the way.
#[inline(always)]
fn beyond<const UP: bool>(i: usize) -> u32 {
    either::<UP, _>(u32::MAX << i << 1, !(u32::MAX << i))
}

/// Which of the slots comes first on the way.
#[inline(always)]
fn first_of<const UP: bool>(slots: u32) -> Option<usize> {
    let slot = if UP {
        (slots != 0).then(|| slots.trailing_zeros())
    } else {
        slots.checked_ilog2()
    };
    slot.map(|slot| slot as usize)
}

/// As [`first_of`]; it is taken out.
#[inline(always)]
fn take_first<const UP: bool>(slots: &mut u32) -> Option<usize> {
    let slot = first_of::<UP>(*slots)?;
    *slots &= if UP { *slots - 1 } else { !(1 << slot) };
    Some(slot)
}

/// The first place on the way in a node that covers `min..=max`, and in those below.
fn below<const UP: bool, K: Key, S: Shape>(
    node: Node<K, S>,
    min: K,
    max: K,
    want: &Want<K>,
) -> Option<K> {
    let slot = node.search(either::<UP, _>(want.lo.max(min), want.hi.min(max)));
    // What the slots after the last one hold is anything.
    let mut slots = (1 << slot | beyond::<UP>(slot)) & !beyond::<true>(node.end());
    let aligned = want.align != K::ONE;
    while let Some(i) = take_first::<UP>(&mut slots) {
        let (first, last) = (node.first(i, min), node.last(i, max));
        if first > want.hi || last < want.lo {
            return None;
        }
        let found = match node.kind() {
            Kind::Leaf if node.slot(i).is_null() => want.place::<UP>(first, last),
            Kind::Leaf => None,
            Kind::Gap if node.gap(i) < want.size => None,
            // No place in all that is below it, even if that were one hole.
            Kind::Gap | Kind::Range if aligned && want.place::<UP>(first, last).is_none() => None,
            Kind::Gap | Kind::Range => below::<UP, K, S>(node.child(i), first, last, want),
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

//! Searching for a hole of a size, lowest first or highest first.
//!
//! In a tree that tracks gaps a subtree without a hole that is large enough is not entered; since no hole
//! crosses from one slot to the next, at most two paths (those along the bounds) are entered in vain, unless an
//! alignment rules out holes that are large enough. In other trees every slot within the bounds is looked at.

use crate::key::Key;
use crate::node::{Kind, Node};
use crate::shape::Shape;
use crate::tree::{RawTree, Root};

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
            Root::Node(root) => up(root, K::MIN, K::MAX, want),
        }
    }

    /// The highest place that fits.
    pub(crate) fn gap_down(&self, want: &Want<K>) -> Option<K> {
        match self.root() {
            Root::Empty => want.highest(K::MIN, K::MAX),
            Root::Single(_) => want.highest(K::ONE, K::MAX),
            Root::Node(root) => down(root, K::MIN, K::MAX, want),
        }
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

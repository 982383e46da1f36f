//! The sizes of holes in gap nodes.
//!
//! A gap node keeps the size of the largest hole below each of its children. Every write propagates
//! what it changes here, from the changed leaf upwards, until an ancestor is unaffected.

use core::hint::select_unpredictable;

use crate::base::{Key, Offset, Shape, either};
use crate::node::{Geometry, Kind, Node};
use crate::read::BoundedLeaf;

impl<K: Key, S: Shape> BoundedLeaf<K, S> {
    /// Returns the slot and the bound where a new hole up to `key` ends (or, unless `UP`, begins).
    /// `key` is in slot `slot` of the leaf. The new hole joins a hole that it meets there.
    #[inline(always)]
    pub(crate) fn hole_to<const UP: bool>(&self, slot: usize, key: K) -> (usize, K) {
        let leaf = self.leaf;
        let edge = |i| either::<UP, _>(leaf.last(i, self.max), leaf.first(i, self.min));
        if leaf.slot(slot).is_null() {
            return (slot, edge(slot));
        }
        let outermost = if UP { leaf.end() } else { 0 };
        if slot != outermost && edge(slot) == key {
            let adjacent = if UP { slot + 1 } else { slot - 1 };
            if leaf.slot(adjacent).is_null() {
                return (adjacent, edge(adjacent));
            }
        }
        (slot, key)
    }

    /// Propagates to the parent that a write filled or changed this leaf's hole of size `gone`.
    /// `made` is the largest of the holes in its place, and the leaf is in the parent's slot `at`.
    #[inline(never)]
    pub(super) fn propagate_shrunk(self, parent: Node<K, S>, at: usize, gone: K, made: K) {
        let Self { leaf, min, max } = self;
        // No other hole of the leaf can be larger than what the untouched slots cover.
        let gap = if made >= K::span(min, max).wrapping_sub(gone) {
            made
        } else {
            largest_in_leaf(leaf, min, max)
        };
        propagate_from(parent, at, min, gap);
    }
}

/// Returns the size of the largest hole in a leaf that covers `min..=max`. The leaf has more than
/// one slot, or covers less than all indices.
#[inline]
pub(crate) fn largest_in_leaf<K: Key, S: Shape>(leaf: Node<K, S>, min: K, max: K) -> K {
    let leaf = leaf.as_leaf();
    largest_of(leaf, leaf.holes(), min, max)
}

/// Returns the size of the largest of some of the [holes](Node::holes) in a leaf, as
/// [`largest_in_leaf`] does.
///
/// Holes are never adjacent, so at most half of the slots between the first and the last are holes.
/// The loop always examines that many, and repeats some if there are fewer. It therefore hardly
/// branches on the leaf's contents: a mispredicted end of the loop would cost more than the holes
/// examined in vain.
#[inline(never)]
pub(crate) fn largest_of<K: Key, S: Shape>(leaf: Node<K, S>, holes: u32, min: K, max: K) -> K {
    let leaf = leaf.as_leaf();
    let end = leaf.end();
    let left = leaf.last(0, max).wrapping_sub(min).wrapping_add(K::ONE);
    let left = select_unpredictable(holes & 1 != 0, left, K::MIN);
    let right = max.wrapping_sub(leaf.first(end, min)).wrapping_add(K::ONE);
    let right = select_unpredictable(holes >> end != 0, right, K::MIN);
    let mut largest = select_unpredictable(right > left, right, left);
    let mut between = holes & !1 & !(u32::MAX << end);
    if between == 0 {
        return largest;
    }
    loop {
        for _ in 0..(Geometry::<K, S>::SLOTS - 1) / 2 {
            // Bit 31 is beyond those of all slots but the last: it tells the compiler that a bit is
            // set.
            let i = (between | 1 << 31).trailing_zeros() as usize;
            let size = leaf.pivot(i).wrapping_sub(leaf.pivot(i - 1));
            largest = select_unpredictable(size > largest, size, largest);
            let rest = between & between.wrapping_sub(1);
            between = select_unpredictable(rest == 0, between, rest);
        }
        if between.is_power_of_two() {
            return largest;
        }
        // Reached only in a duplicate that leaves entries out, before its holes have been joined.
    }
}

/// Returns the size of the largest hole below a gap node.
#[inline]
pub(crate) fn largest_below<K: Key, S: Shape>(node: Node<K, S>) -> K {
    let mut largest = K::MIN;
    // Slots after the end have gaps of size 0.
    for i in 0..Geometry::<K, S>::GAP_SLOTS {
        let gap = node.gap(i);
        largest = select_unpredictable(gap > largest, gap, largest);
    }
    largest
}

/// Sets the gap of slot `at`, which covers `key`, to `gap`, and propagates the change to the
/// ancestors.
#[inline]
pub(crate) fn propagate_from<K: Key, S: Shape>(node: Node<K, S>, at: usize, key: K, gap: K) {
    let old = node.gap(at);
    if old != gap {
        node.set_gap(at, gap);
        propagate_change(node, key, old, gap);
    }
}

/// Propagates to the ancestors of a gap node that the largest hole below some of its slots was
/// `old` and is now `new`. `key` is one of the node's indices. Stops at the first unaffected
/// ancestor.
#[inline]
pub(crate) fn propagate_change<K: Key, S: Shape>(node: Node<K, S>, key: K, old: K, new: K) {
    let (mut node, mut old, mut new) = (node, old, new);
    while old != new
        && let Some(parent) = node.parent(Kind::Gap)
    {
        let at = parent.search(key);
        let known = parent.gap(at);
        if new < known {
            if old < known {
                // Another hole is the largest, as before.
                return;
            }
            new = largest_below(node);
        }
        parent.set_gap(at, new);
        (node, old) = (parent, known);
    }
}

/// Propagates that the last hole of the tree is the largest of all, from the last gap node above
/// the leaves upwards.
#[inline]
pub(crate) fn propagate_last<K: Key, S: Shape>(node: Node<K, S>, gap: K) {
    let mut next = Some(node);
    while let Some(node) = next {
        node.set_gap(node.end(), gap);
        next = node.parent(Kind::Gap);
    }
}

/// Propagates, as [`propagate_from`] does, that an entry has been stored at `key` in the first hole
/// of the tree. `node` is the first gap node above the leaves, and the leaf is in its slot `at`.
///
/// When ranges come in descending order, the rest of that hole is mostly the largest for the inner
/// nodes. While it has at least as many indices as the rest of a node covers, the node's other
/// holes need no search.
#[inline(never)]
pub(crate) fn propagate_first<K: Key, S: Shape>(node: Node<K, S>, at: usize, key: K, gap: K) {
    if at != 0 || gap != key.wrapping_sub(K::MIN) {
        return propagate_from(node, at, key, gap);
    }
    let mut node = node;
    loop {
        let old = node.gap(0);
        node.set_gap(0, gap);
        let Some(above) = node.parent(Kind::Gap) else {
            return;
        };
        // In a node of one slot this is the largest key.
        if above.pivot(0).wrapping_sub(key) > gap {
            return propagate_change(node, key, old, gap);
        }
        node = above;
    }
}

/// Propagates the largest hole of a node, which covers `min..=max`, to its ancestors, if `inner`
/// nodes are gap nodes.
pub(crate) fn propagate_ancestors<K: Key, S: Shape>(node: Node<K, S>, min: K, max: K, inner: Kind) {
    if inner == Kind::Gap
        && let Some(parent) = node.parent(inner)
    {
        let gap = match node.kind() {
            Kind::Leaf => largest_in_leaf(node, min, max),
            Kind::Range | Kind::Gap => largest_below(node),
        };
        propagate_from(parent, parent.search(min), min, gap);
    }
}

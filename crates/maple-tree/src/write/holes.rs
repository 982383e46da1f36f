//! Keeps the sizes of holes in gap nodes true.

use core::hint::select_unpredictable;

use crate::base::{Key, Offset, Shape, either};
use crate::node::{Geometry, Kind, Node};
use crate::read::Place;

impl<K: Key, S: Shape> Place<K, S> {
    /// The slot, and the bound, where a hole ends (or, unless `UP`, begins) that a write makes up to `key`, which is in a slot of the leaf: it is one with
    /// the hole that it meets there.
    #[inline(always)]
    pub(crate) fn hole_to<const UP: bool>(&self, slot: usize, key: K) -> (usize, K) {
        let leaf = self.leaf;
        let edge = |i| either::<UP, _>(leaf.last(i, self.max), leaf.first(i, self.min));
        if leaf.slot(slot).is_null() {
            return (slot, edge(slot));
        }
        let outermost = if UP { leaf.end() } else { 0 };
        if slot != outermost && edge(slot) == key {
            let beside = if UP { slot + 1 } else { slot - 1 };
            if leaf.slot(beside).is_null() {
                return (beside, edge(beside));
            }
        }
        (slot, key)
    }

    /// Tells a gap node that of this leaf, which is in its slot `at`, the largest hole, `gone`, was filled or changed, and `made` is the largest of those
    /// in its place.
    #[inline(never)]
    pub(super) fn propagate_shrunk(self, parent: Node<K, S>, at: usize, gone: K, made: K) {
        let Self { leaf, min, max } = self;
        // No other hole of the leaf can be larger than what the slots that were not touched cover.
        let gap = if made >= K::span(min, max).wrapping_sub(gone) {
            made
        } else {
            largest_in_leaf(leaf, min, max)
        };
        propagate_from(parent, at, min, gap);
    }
}

/// The size of the largest hole in a leaf that covers `min..=max`, with more than one slot or less than all indices.
#[inline]
pub(crate) fn largest_in_leaf<K: Key, S: Shape>(leaf: Node<K, S>, min: K, max: K) -> K {
    let leaf = leaf.as_leaf();
    largest_of(leaf, leaf.holes(), min, max)
}

/// The size of the largest of some of the [holes](Node::holes) in a leaf, as [`largest_in_leaf`].
///
/// Holes never neighbour each other, so half of the slots between the first and the last may be
/// holes. This many are always examined, some of them twice if there are fewer. Hardly a branch
/// then depends on the leaf's contents: a mispredicted end of the loop would cost more than the
/// holes that are examined in vain.
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
            // The bit beyond those of all slots but the last, so that the compiler knows that there is one.
            let i = (between | 1 << 31).trailing_zeros() as usize;
            let size = leaf.pivot(i).wrapping_sub(leaf.pivot(i - 1));
            largest = select_unpredictable(size > largest, size, largest);
            let rest = between & between.wrapping_sub(1);
            between = select_unpredictable(rest == 0, between, rest);
        }
        if between.is_power_of_two() {
            return largest;
        }
        // Only in a duplicate that leaves entries out, before its holes have been joined.
    }
}

/// The size of the largest hole below a gap node.
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

/// Tells a gap node that the largest hole below its slot `at`, which covers `key`, is now `gap`, and its ancestors what follows from it.
#[inline]
pub(crate) fn propagate_from<K: Key, S: Shape>(node: Node<K, S>, at: usize, key: K, gap: K) {
    let old = node.gap(at);
    if old != gap {
        node.set_gap(at, gap);
        propagate_change(node, key, old, gap);
    }
}

/// Tells the ancestors of a gap node, one of whose indices is `key`, that the largest hole below some of its slots was `old` and is `new` now.
/// Stops at the first that need not know.
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
                // Some other hole is the largest, as before.
                return;
            }
            new = largest_below(node);
        }
        parent.set_gap(at, new);
        (node, old) = (parent, known);
    }
}

/// Tells the last gap node above the leaves, and its ancestors, that the last hole of the tree is the largest of all, and how large it
/// is.
#[inline]
pub(crate) fn propagate_last<K: Key, S: Shape>(node: Node<K, S>, gap: K) {
    let mut next = Some(node);
    while let Some(node) = next {
        node.set_gap(node.end(), gap);
        next = node.parent(Kind::Gap);
    }
}

/// As [`propagate_from`], of the first gap node above the leaves, below whose slot `at` an entry has been stored at `key`, in the hole that comes first of all.
///
/// The rest of that hole is usually still the largest one for the nodes above, for example where
/// ranges come in descending order. As long as it has at least as many indices as the node covers
/// behind it, the node's other holes need not be examined.
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

/// Tells the ancestors of a node, which covers `min..=max`, what its largest hole is, if `inner` nodes are to know.
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

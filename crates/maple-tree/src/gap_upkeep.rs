//! Keeps the sizes of holes in gap nodes true.

use crate::key::Key;
use crate::node::{Kind, Node};
use crate::shape::Shape;

/// The size of the largest hole in a leaf that covers `min..=max`.
pub(crate) fn largest_in_leaf<K: Key, S: Shape>(leaf: Node<K, S>, min: K, max: K) -> K {
    let mut largest = K::MIN;
    let mut first = min;
    for i in 0..=leaf.end() {
        let last = leaf.last(i, max);
        if leaf.slot(i).is_null() {
            largest = largest.max(K::span(first, last));
        }
        first = last.wrapping_add(K::ONE);
    }
    largest
}

/// The size of the largest hole below a gap node.
pub(crate) fn largest_below<K: Key, S: Shape>(node: Node<K, S>) -> K {
    let mut largest = K::MIN;
    for i in 0..=node.end() {
        largest = largest.max(node.gap(i));
    }
    largest
}

/// Tells the ancestors of `node`, one of whose indices is `key`, that its largest hole is `gap`.
/// Stops at the first that knew.
pub(crate) fn tell_ancestors<K: Key, S: Shape>(node: Node<K, S>, key: K, gap: K) {
    let mut node = node;
    let mut gap = gap;
    while let Some(parent) = node.parent(Kind::Gap) {
        let i = parent.search(key);
        if parent.gap(i) == gap {
            return;
        }
        parent.set_gap(i, gap);
        gap = largest_below(parent);
        node = parent;
    }
}

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

/// Tells a gap node that the largest hole below its slot `at`, which covers `key`, is now `gap`, and its ancestors what follows from it.
/// Stops at the first that need not know.
#[inline]
pub(crate) fn tell_from<K: Key, S: Shape>(node: Node<K, S>, at: usize, key: K, gap: K) {
    let mut node = node;
    let mut at = at;
    let mut gap = gap;
    loop {
        let old = node.gap(at);
        if old == gap {
            return;
        }
        node.set_gap(at, gap);
        let Some(parent) = node.parent(Kind::Gap) else {
            return;
        };
        at = parent.search(key);
        let known = parent.gap(at);
        if gap < known {
            if old < known {
                // Some other hole is the largest, as before.
                return;
            }
            gap = largest_below(node);
        }
        node = parent;
    }
}

/// Tells the last gap node above the leaves, and its ancestors, that the last hole of the tree is the largest of all, and how large it
/// is.
#[inline]
pub(crate) fn tell_last<K: Key, S: Shape>(node: Node<K, S>, gap: K) {
    let mut next = Some(node);
    while let Some(node) = next {
        node.set_gap(node.end(), gap);
        next = node.parent(Kind::Gap);
    }
}

/// Tells the ancestors of `node`, one of whose indices is `key`, that its largest hole is `gap`.
/// Stops at the first that knew.
pub(crate) fn tell_ancestors<K: Key, S: Shape>(node: Node<K, S>, key: K, gap: K) {
    if let Some(parent) = node.parent(Kind::Gap) {
        tell_from(parent, parent.search(key), key, gap);
    }
}

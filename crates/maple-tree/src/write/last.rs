//! A new node after the last one of its level, for ascending stores and builders.

use crate::alloc::{Reserve, TakeNodes};
use crate::base::{Key, Offset, Shape};
use crate::node::{Kind, Node, NodeMut, Unread};
use crate::write::holes::largest_below;

/// Returns the number of inner nodes needed to [`link`] a leaf after the last one, `leaf`.
pub(super) fn nodes_above<K: Key, S: Shape>(leaf: Node<K, S>, inner: Kind) -> usize {
    let mut nodes = 0;
    let mut at = leaf;
    while let Some(parent) = at.parent(inner) {
        if parent.used() < parent.capacity() {
            return nodes;
        }
        nodes += 1;
        at = parent;
    }
    // A new root.
    nodes + 1
}

/// Links a new leaf, which begins at `first`, after the last leaf. That one is complete, and its
/// largest hole is `gap`. A full inner node stays full, and a new one is linked after it. Returns
/// the new root, if one was needed.
///
/// The gaps on the path to the new leaf are not set: see [`propagate_above`].
#[must_use = "a root has to be put in its place"]
pub(super) fn link<K: Key, S: Shape>(
    last: Node<K, S>,
    gap: K,
    new: NodeMut<K, S>,
    first: K,
    inner: Kind,
    reserve: &mut Reserve,
    unread: Unread,
) -> Option<Node<K, S>> {
    let (mut old, mut gap, mut new) = (last, gap, new);
    let mut new_root = None;
    loop {
        let parent = match old.parent(inner) {
            Some(parent) => parent,
            None => *new_root.insert(root_above(old, reserve.take_node(inner))),
        };
        let end = parent.end();
        if inner == Kind::Gap {
            parent.set_gap(end, gap);
        }
        let above = parent.write(unread);
        if end + 1 < parent.capacity() {
            above.set_pivot(end, first.wrapping_sub(K::ONE));
            above.set_end(end + 1);
            above.set_slot(end + 1, new.node().word());
            new.node().set_parent(Some(parent));
            return new_root;
        }
        let next = reserve.take_node(inner);
        next.set_slot(0, new.node().word());
        new.node().set_parent(Some(next.node()));
        gap = match inner {
            Kind::Gap => largest_below(parent),
            Kind::Leaf | Kind::Range => K::MIN,
        };
        (old, new) = (parent, next);
    }
}

/// Makes the old root the first child of a new one.
pub(super) fn root_above<K: Key, S: Shape>(old: Node<K, S>, root: NodeMut<K, S>) -> Node<K, S> {
    root.set_slot(0, old.word());
    old.set_parent(Some(root.node()));
    root.node()
}

/// Propagates `gap`, the last leaf's largest hole, to the gap nodes above it. Returns the root.
pub(super) fn propagate_above<K: Key, S: Shape>(
    leaf: Node<K, S>,
    gap: K,
    inner: Kind,
) -> Node<K, S> {
    let mut at = leaf;
    let mut gap = gap;
    while let Some(parent) = at.parent(inner) {
        if inner == Kind::Gap {
            parent.set_gap(parent.end(), gap);
            gap = largest_below(parent);
        }
        at = parent;
    }
    at
}

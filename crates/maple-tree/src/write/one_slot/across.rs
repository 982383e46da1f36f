//! A hole that goes on in the next leaf, or in the one before. It is to be one slot of one of the two: the other gives its part up, and the
//! bound between them moves.

use crate::base::{Key, Shape};
use crate::node::{Geometry, Kind, Node};
use crate::read::Place;
use crate::write::SlotAt;
use crate::write::holes::{largest_in_leaf, tell_from};

/// Makes the first or the last entry of a leaf a hole, if the leaf before or after goes on with a hole; `None` if none does. `left` and `right` tell
/// whether the slots beside it, in the leaf, are holes. Tells whether it is done: both leaves must keep enough slots.
///
/// # Safety
///
/// The caller is the only writer, and nobody reads meanwhile; the tree has not changed since `at` was found.
#[inline(never)]
pub(super) unsafe fn vacate<K: Key, S: Shape>(
    at: SlotAt<K, S>,
    left: bool,
    right: bool,
) -> Option<bool> {
    let SlotAt { spot, slot, .. } = at;
    let Place { leaf, min, max } = spot.place;
    let parent = spot.parent?;
    let inner = parent.kind();
    let before = match spot.at {
        _ if slot > 0 || min == K::MIN => None,
        0 => leaf.neighbour::<false>(min, inner),
        i => Some(parent.child(i - 1)),
    }
    .filter(|node| node.slot(node.end()).is_null());
    let after = match spot.at {
        _ if slot < leaf.end() || max == K::MAX => None,
        i if i == parent.end() => leaf.neighbour::<true>(max, inner),
        i => Some(parent.child(i + 1)),
    }
    .filter(|node| node.slot(0).is_null());
    // SAFETY: the caller's promise.
    unsafe {
        match (before, after) {
            (None, None) => None,
            (Some(before), None) => Some(join::<false, K, S>(at, parent, before.as_leaf(), right)),
            (None, Some(after)) => Some(join::<true, K, S>(at, parent, after.as_leaf(), left)),
            // The leaf has one entry, and nothing would be left of it.
            (Some(_), Some(_)) => Some(false),
        }
    }
}

/// Whether a leaf may be left with so many slots.
fn enough<K: Key, S: Shape>(used: usize) -> bool {
    used >= Geometry::<K, S>::least(Kind::Leaf)
}

/// The leaf after starts with a hole; or the one before ends in one, unless `UP`. `joins` tells whether the slot on the other side is a hole.
///
/// # Safety
///
/// As for [`vacate`].
unsafe fn join<const UP: bool, K: Key, S: Shape>(
    at: SlotAt<K, S>,
    parent: Node<K, S>,
    neighbour: Node<K, S>,
    joins: bool,
) -> bool {
    let SlotAt { spot, slot, found } = at;
    let Place { leaf, min, max } = spot.place;
    let inner = parent.kind();
    let gaps = inner == Kind::Gap;
    let (used, used_there) = (leaf.used(), neighbour.used());
    if used_there < 2 {
        return false;
    }
    let joined = usize::from(joins);
    let (first, last) = match (UP, joins) {
        (true, true) => (leaf.first(slot - 1, min), neighbour.pivot(0)),
        (true, false) => (found.first, neighbour.pivot(0)),
        (false, true) => (
            neighbour.first(used_there - 1, min),
            leaf.last(slot + 1, max),
        ),
        (false, false) => (neighbour.first(used_there - 1, min), found.last),
    };
    let made = K::span(first, last);
    // What the hole ends before: an index of the neighbour, and one of the leaf unless nothing stays in it.
    let (there, here) = if UP {
        (last.wrapping_add(K::ONE), first.wrapping_sub(K::ONE))
    } else {
        (first.wrapping_sub(K::ONE), last.wrapping_add(K::ONE))
    };
    // SAFETY: nobody reads (the caller's promise).
    let (node, node_there) = unsafe { (leaf.write(), neighbour.write()) };
    let edge = if UP { max } else { min };
    if enough::<K, S>(used_there - 1) && (joined == 0 || enough::<K, S>(used - joined)) {
        // SAFETY: nobody reads (the caller's promise).
        unsafe { set_bound::<UP, K, S>(leaf, edge, inner, if UP { last } else { there }) };
        if UP {
            node_there.shift(1, 0);
        } else {
            node_there.set_used(used_there - 1, used_there);
        }
        node.close(slot, UP && joins, !UP && joins, used - 1);
        if gaps {
            let gone = if UP {
                last.wrapping_sub(max)
            } else {
                min.wrapping_sub(first)
            };
            tell_less(neighbour, there, gone, || {
                let far = neighbour.bound::<UP>(there, inner);
                largest_in_leaf(neighbour, there.min(far), there.max(far))
            });
            tell_more(leaf, found.first, made);
        }
        return true;
    }
    if enough::<K, S>(used - joined - 1) {
        // SAFETY: nobody reads (the caller's promise).
        unsafe { set_bound::<UP, K, S>(leaf, edge, inner, if UP { here } else { last }) };
        if UP {
            node.set_used(used - joined - 1, used);
        } else {
            node.shift(slot + joined + 1, 0);
        }
        if gaps {
            if joins {
                let gone = if UP {
                    found.first.wrapping_sub(first)
                } else {
                    last.wrapping_sub(found.last)
                };
                let far = if UP { min } else { max };
                tell_less(leaf, far, gone, || {
                    largest_in_leaf(leaf, here.min(far), here.max(far))
                });
            }
            tell_more(neighbour, there, made);
        }
        return true;
    }
    false
}

/// Lets a leaf, which ends at `edge` and is not the last, end at `bound`, and the one after start behind it; or, unless `UP`, a leaf that starts at
/// `edge` and is not the first, start after `bound`, and the one before end there.
///
/// # Safety
///
/// As for [`vacate`].
unsafe fn set_bound<const UP: bool, K: Key, S: Shape>(
    leaf: Node<K, S>,
    edge: K,
    inner: Kind,
    bound: K,
) {
    let mut node = leaf;
    while let Some(parent) = node.parent(inner) {
        let at = parent.search(edge);
        if at != if UP { parent.end() } else { 0 } {
            let at = if UP { at } else { at - 1 };
            // SAFETY: nobody reads (the caller's promise).
            unsafe { parent.write() }.set_pivot(at, bound);
            return;
        }
        node = parent;
    }
}

/// Tells the nodes above a leaf that a hole of the size `gone` has left it. `key` is an index of the leaf.
fn tell_less<K: Key, S: Shape>(leaf: Node<K, S>, key: K, gone: K, largest: impl FnOnce() -> K) {
    if let Some(parent) = leaf.parent(Kind::Gap) {
        let at = parent.search(key);
        if parent.gap(at) == gone {
            tell_from(parent, at, key, largest());
        }
    }
}

/// Tells the nodes above a leaf that there is a hole of the size `made` in it. `key` is an index of the leaf.
fn tell_more<K: Key, S: Shape>(leaf: Node<K, S>, key: K, made: K) {
    if let Some(parent) = leaf.parent(Kind::Gap) {
        let at = parent.search(key);
        if made > parent.gap(at) {
            tell_from(parent, at, key, made);
        }
    }
}

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
            (Some(before), None) => Some(into_before(at, parent, before.as_leaf(), right)),
            (None, Some(after)) => Some(into_after(at, parent, after.as_leaf(), left)),
            // The leaf has one entry, and nothing would be left of it.
            (Some(_), Some(_)) => Some(false),
        }
    }
}

/// Whether a leaf may be left with so many slots.
fn enough<K: Key, S: Shape>(used: usize) -> bool {
    used >= Geometry::<K, S>::least(Kind::Leaf)
}

/// The leaf before ends in a hole.
///
/// # Safety
///
/// As for [`vacate`].
unsafe fn into_before<K: Key, S: Shape>(
    at: SlotAt<K, S>,
    parent: Node<K, S>,
    before: Node<K, S>,
    right: bool,
) -> bool {
    let SlotAt { spot, slot, found } = at;
    let Place { leaf, min, max } = spot.place;
    let inner = parent.kind();
    let (used, used_before) = (leaf.used(), before.used());
    if used_before < 2 {
        return false;
    }
    let first = before.first(used_before - 1, min);
    let last = if right {
        leaf.last(slot + 1, max)
    } else {
        found.last
    };
    // The last index of the entry before the hole.
    let key = first.wrapping_sub(K::ONE);
    let joined = usize::from(right);
    let made = K::span(first, last);
    // SAFETY: nobody reads (the caller's promise).
    let (node, node_before) = unsafe { (leaf.write(), before.write()) };
    if enough::<K, S>(used_before - 1) && (joined == 0 || enough::<K, S>(used - joined)) {
        // SAFETY: nobody reads (the caller's promise).
        unsafe { set_lower_bound(leaf, min, inner, key) };
        node_before.set_used(used_before - 1, used_before);
        node.close(slot, false, right, used - 1);
        if inner == Kind::Gap {
            let gone = K::span(first, min.wrapping_sub(K::ONE));
            tell_less(before, key, gone, || {
                largest_in_leaf(before, before.bound::<false>(key, inner), key)
            });
            tell_more(leaf, found.last, made);
        }
        return true;
    }
    if enough::<K, S>(used - joined - 1) {
        // SAFETY: nobody reads (the caller's promise).
        unsafe { set_lower_bound(leaf, min, inner, last) };
        node.shift(slot + joined + 1, 0);
        if inner == Kind::Gap {
            if right {
                let gone = last.wrapping_sub(found.last);
                let next = last.wrapping_add(K::ONE);
                tell_less(leaf, max, gone, || largest_in_leaf(leaf, next, max));
            }
            tell_more(before, key, made);
        }
        return true;
    }
    false
}

/// The leaf after starts with a hole.
///
/// # Safety
///
/// As for [`vacate`].
unsafe fn into_after<K: Key, S: Shape>(
    at: SlotAt<K, S>,
    parent: Node<K, S>,
    after: Node<K, S>,
    left: bool,
) -> bool {
    let SlotAt { spot, slot, found } = at;
    let Place { leaf, min, max } = spot.place;
    let inner = parent.kind();
    let (used, used_after) = (leaf.used(), after.used());
    if used_after < 2 {
        return false;
    }
    let first = if left {
        leaf.first(slot - 1, min)
    } else {
        found.first
    };
    let last = after.pivot(0);
    // The first index of the entry after the hole.
    let key = last.wrapping_add(K::ONE);
    let joined = usize::from(left);
    let made = K::span(first, last);
    // SAFETY: nobody reads (the caller's promise).
    let (node, node_after) = unsafe { (leaf.write(), after.write()) };
    if enough::<K, S>(used_after - 1) && (joined == 0 || enough::<K, S>(used - joined)) {
        // SAFETY: nobody reads (the caller's promise).
        unsafe { set_upper_bound(leaf, max, inner, last) };
        node_after.shift(1, 0);
        node.close(slot, left, false, used - 1);
        if inner == Kind::Gap {
            let gone = last.wrapping_sub(max);
            tell_less(after, key, gone, || {
                largest_in_leaf(after, key, after.bound::<true>(key, inner))
            });
            tell_more(leaf, found.first, made);
        }
        return true;
    }
    if enough::<K, S>(used - joined - 1) {
        // What is left ends before the hole.
        let end = first.wrapping_sub(K::ONE);
        // SAFETY: nobody reads (the caller's promise).
        unsafe { set_upper_bound(leaf, max, inner, end) };
        node.set_used(used - joined - 1, used);
        if inner == Kind::Gap {
            if left {
                let gone = found.first.wrapping_sub(first);
                tell_less(leaf, min, gone, || largest_in_leaf(leaf, min, end));
            }
            tell_more(after, key, made);
        }
        return true;
    }
    false
}

/// Lets a leaf, which starts at `min` and is not the first, start after `bound`; the one before ends there.
///
/// # Safety
///
/// As for [`vacate`].
unsafe fn set_lower_bound<K: Key, S: Shape>(leaf: Node<K, S>, min: K, inner: Kind, bound: K) {
    let mut node = leaf;
    while let Some(parent) = node.parent(inner) {
        let at = parent.search(min);
        if at > 0 {
            // SAFETY: nobody reads (the caller's promise).
            unsafe { parent.write() }.set_pivot(at - 1, bound);
            return;
        }
        node = parent;
    }
}

/// Lets a leaf, which ends at `max` and is not the last, end at `bound`; the one after starts behind it.
///
/// # Safety
///
/// As for [`vacate`].
unsafe fn set_upper_bound<K: Key, S: Shape>(leaf: Node<K, S>, max: K, inner: Kind, bound: K) {
    let mut node = leaf;
    while let Some(parent) = node.parent(inner) {
        let at = parent.search(max);
        if at < parent.end() {
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

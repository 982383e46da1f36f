//! Replacing nodes, level by level: splits, rebalancing, stores over several nodes, and trees that
//! grow or shrink.

use crate::alloc::Reserve;
use crate::base::{Key, Offset, Shape};
use crate::node::{Geometry, Kind, Node, NodeMut, RawTree, Root, Unread, Word};
use crate::read::{BoundedLeaf, Found};
use crate::write::apply::fill::Fill;
use crate::write::holes::{propagate_ancestors, propagate_from};
use crate::write::level::Level;
use crate::write::{Item, Items, Removed, Sink, Span, retire_subtree};

/// Replaces the slots of a span by the items, and the inner nodes as needed. Under concurrent
/// readers nothing changes in place.
pub(super) fn apply<K: Key, S: Shape>(
    tree: &RawTree<K, S>,
    span: Span<K, S>,
    items: &Items<K>,
    gone: (K, K),
    reserve: &mut Reserve,
    sink: &mut impl Sink<K>,
    unread: Option<Unread>,
) {
    let inner = tree.inner_kind();
    let old_root = match tree.root() {
        Root::Node(root) => root,
        // A plan rebuilds only trees with nodes.
        Root::Empty | Root::Single(_) => return,
    };
    let (mut span, mut items) = (span, *items);
    let mut height = 1;
    loop {
        let level = Level::of(&span, items.as_slice().len(), inner, unread.is_none());
        if level.is_in_place() {
            return in_place(&span, &items, gone, sink, unread, inner);
        }
        items = build(&span, &level, &items, reserve);
        if let Some(above) = level.above(&span, inner) {
            span = above;
            height += 1;
        } else if level.whole {
            let (root, height) = root_of::<K, S>(&items, inner, height, reserve);
            tree.publish_root(root, height);
            return retire_subtree(old_root, K::MIN, K::MAX, gone, sink);
        } else {
            // One new node replaces one old node.
            let old = span.left;
            let (Some(parent), [new]) = (old.parent(inner), items.as_slice()) else {
                return debug_assert!(false, "only a whole level has no parent");
            };
            // SAFETY: the word is that of the node just built.
            let node = unsafe { Node::<K, S>::from_word(new.word) };
            node.set_parent(Some(parent));
            let at = parent.search(span.min);
            parent.publish(at, new.word);
            if inner == Kind::Gap {
                propagate_from(parent, at, span.min, new.gap);
            }
            return retire_subtree(old, level.min, level.max, gone, sink);
        }
    }
}

/// Returns the root and the height of a tree whose nodes at `height` are these items: the only one
/// of them, or a new node above.
pub(in crate::write) fn root_of<K: Key, S: Shape>(
    items: &Items<K>,
    inner: Kind,
    height: u32,
    reserve: &mut Reserve,
) -> (Word, u32) {
    match *items.as_slice() {
        [only] => (only.word, height),
        _ => (Fill::<K, S>::root(inner, items, reserve), height + 1),
    }
}

/// Builds the new nodes of a level.
pub(in crate::write) fn build<K: Key, S: Shape>(
    span: &Span<K, S>,
    level: &Level<K, S>,
    items: &Items<K>,
    reserve: &mut Reserve,
) -> Items<K> {
    let kind = span.left.kind();
    let sizes = level.sizes(Geometry::<K, S>::slots(kind));
    let mut fill = Fill::<K, S>::new(kind, sizes, level.min, reserve);
    if let Some(before) = level.before {
        fill.push_slots(before, 0, before.used(), span.min.wrapping_sub(K::ONE));
    }
    // `left`'s last index is irrelevant here: slot `from` is not copied.
    fill.push_slots(span.left, 0, span.from, span.max);
    for &item in items.as_slice() {
        fill.push(item);
    }
    fill.push_slots(span.right, span.to + 1, span.right.used(), span.max);
    if let Some(after) = level.after {
        fill.push_slots(after, 0, after.used(), level.max);
    }
    fill.finish()
}

/// Replaces slots of one node in place, and retires the children that were there. Under concurrent
/// readers, only the word of a leaf's slot can be exchanged.
pub(super) fn in_place<K: Key, S: Shape>(
    span: &Span<K, S>,
    items: &Items<K>,
    gone: (K, K),
    sink: &mut impl Sink<K>,
    unread: Option<Unread>,
    inner: Kind,
) {
    let Span { from, to, .. } = *span;
    let (leaf, min, max) = (span.left, span.min, span.max);
    let (node, place) = (leaf, BoundedLeaf { leaf, min, max });
    let mut removed = Removed::none();
    if node.is_leaf() {
        removed.covered(place, from, gone);
    } else {
        (from..=to).for_each(|i| removed.record(place.slot(i)));
    }
    match (items.as_slice(), unread) {
        // The range is that of a slot: one store, visible to readers at once.
        ([item], _) if node.is_leaf() && from == to => node.publish(from, item.word),
        (items, Some(unread)) => splice(node.write(unread), from, to, items),
        (_, None) => debug_assert!(false, "a node that readers may be in is copied"),
    }
    propagate_ancestors(node, min, max, inner);
    removed.each(|Found { first, last, word }| {
        if node.is_leaf() {
            return sink.entry(first, last, word);
        }
        // SAFETY: the word was a child's until now, and the child has not been freed.
        let child = unsafe { Node::<K, S>::from_word(word) };
        retire_subtree(child, first, last, gone, sink);
    });
}

/// Replaces the slots `from..=to` of a node by the items, with their gaps in a gap node, and sets
/// the children's parent.
pub(in crate::write) fn splice<K: Key, S: Shape>(
    node: NodeMut<K, S>,
    from: usize,
    to: usize,
    items: &[Item<K>],
) {
    if from + items.len() != to + 1 {
        node.shift(to + 1, from + items.len());
    }
    let there = node.node();
    let end = there.end();
    for (i, item) in (from..).zip(items) {
        node.set_slot(i, item.word);
        if i < end {
            node.set_pivot(i, item.last);
        } else if i + 1 < there.capacity() {
            node.set_pivot(i, K::MAX);
        }
        if there.kind() == Kind::Gap {
            there.set_gap(i, item.gap);
        }
        if !there.is_leaf() {
            there.child(i).set_parent(Some(there));
        }
    }
}

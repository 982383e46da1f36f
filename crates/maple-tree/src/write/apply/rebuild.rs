//! Replacing nodes, level by level: splits, rebalancing, stores over several nodes, and the growing and
//! shrinking of the tree.

use crate::alloc::Reserve;
use crate::base::{Key, Offset, Shape};
use crate::node::{Geometry, Kind, Node, RawTree, Root, Unread};
use crate::read::Found;
use crate::write::apply::bury;
use crate::write::apply::fill::Fill;
use crate::write::apply::leaf::{Removed, splice};
use crate::write::holes::{largest_below, tell_ancestors};
use crate::write::level::Level;
use crate::write::{Items, Sink, Span};

/// Replaces the slots of a span by the items, and what is above them as it follows from that. Beside readers nothing is changed in place.
pub(super) fn apply<K: Key, S: Shape>(
    tree: &RawTree<K, S>,
    span: Span<K, S>,
    items: Items<K>,
    gone: (K, K),
    reserve: &mut Reserve,
    sink: &mut impl Sink<K>,
    unread: Option<Unread>,
) {
    let inner = tree.inner_kind();
    let old_root = match tree.root() {
        Root::Node(root) => root,
        // Plans rebuild only where there are nodes.
        Root::Empty | Root::Single(_) => return,
    };
    let mut span = span;
    let mut items = items;
    let mut height = 1;
    loop {
        let level = Level::of(&span, items.as_slice().len(), inner, unread.is_none());
        if let Some(unread) = unread.filter(|_| level.in_place) {
            change_in_place(span, &items, gone, sink, unread);
            return;
        }
        items = build(&span, &level, &items, reserve);
        if level.whole {
            let root = match *items.as_slice() {
                [only] => only.word,
                _ => {
                    height += 1;
                    Fill::<K, S>::root(inner, &items, reserve)
                }
            };
            tree.publish_root(root, height);
            bury(old_root, K::MIN, K::MAX, gone, sink);
            return;
        }
        if level.is_one_for_one(&span) {
            replace_one(tree, &span, &level, &items, gone, sink);
            return;
        }
        let Some(above) = level.above(&span, inner) else {
            debug_assert!(false, "a level that is not whole has a parent");
            return;
        };
        span = above;
        height += 1;
    }
}

/// Builds the new nodes of a level.
fn build<K: Key, S: Shape>(
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
    // The last index of `left` does not matter: slot `from` is not among these.
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

/// Puts the one new node into the slot of the one that it replaces.
fn replace_one<K: Key, S: Shape>(
    tree: &RawTree<K, S>,
    span: &Span<K, S>,
    level: &Level<K, S>,
    items: &Items<K>,
    gone: (K, K),
    sink: &mut impl Sink<K>,
) {
    let old = span.left;
    let (Some(parent), [new]) = (old.parent(tree.inner_kind()), items.as_slice()) else {
        debug_assert!(
            false,
            "only the root has no parent, and it is a whole level"
        );
        return;
    };
    // SAFETY: the word is that of the node just built.
    let node = unsafe { Node::<K, S>::from_word(new.word) };
    node.set_parent(Some(parent));
    parent.publish(parent.search(span.min), new.word);
    if tree.tracks_gaps() {
        tell_ancestors(node, span.min, new.gap);
    }
    bury(old, level.min, level.max, gone, sink);
}

/// Replaces slots of one inner node in place, and buries the children that were there.
fn change_in_place<K: Key, S: Shape>(
    span: Span<K, S>,
    items: &Items<K>,
    gone: (K, K),
    sink: &mut impl Sink<K>,
    unread: Unread,
) {
    let node = span.left;
    debug_assert!(!node.is_leaf());
    let mut children = Removed::none();
    for i in span.from..=span.to {
        children.removes(Found {
            first: node.first(i, span.min),
            last: node.last(i, span.max),
            word: node.slot(i),
        });
    }
    splice(node.write(unread), span.from, span.to, items.as_slice());
    for i in span.from..span.from + items.as_slice().len() {
        node.child(i).set_parent(Some(node));
    }
    if node.kind() == Kind::Gap {
        tell_ancestors(node, span.min, largest_below(node));
    }
    children.each(|Found { first, last, word }| {
        // SAFETY: the word was a child's until now, and nobody has freed it.
        let child = unsafe { Node::<K, S>::from_word(word) };
        bury(child, first, last, gone, sink);
    });
}

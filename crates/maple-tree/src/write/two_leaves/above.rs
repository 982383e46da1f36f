//! Room for one more child in a full inner node, made without readers. The node shares its children
//! with a neighbour that has room, as leaves do. Otherwise it is split, after its parent got room.

use crate::alloc::{Reserve, TakeNodes};
use crate::base::{Key, Shape};
use crate::node::{Kind, Node, NodeMut, RawTree, Unread};
use crate::write::holes::largest_below;
use crate::write::last::root_above;
use crate::write::two_leaves::cut::cut_anew;

/// Returns the number of nodes that it takes to [make room](make_room) for one more child in an
/// inner node, which covers `key`.
pub(super) fn nodes_for_room<K: Key, S: Shape>(node: Node<K, S>, key: K) -> usize {
    if node.used() < node.capacity() {
        return 0;
    }
    match node.parent(node.kind()) {
        // The other half of the root, and a new root.
        None => 2,
        Some(parent) if neighbour(parent, parent.search(key)).is_some() => 0,
        Some(parent) => 1 + nodes_for_room(parent, key),
    }
}

/// Returns the left one of two children that should share: the full one in slot `at`, and a
/// neighbour with room.
fn neighbour<K: Key, S: Shape>(parent: Node<K, S>, at: usize) -> Option<usize> {
    let slots = parent.capacity();
    // The free slots of both then leave room for at least one child in each.
    let has_room = |i: usize| parent.child(i).used() + (slots / 4).max(2) <= slots;
    if at > 0 && has_room(at - 1) {
        return Some(at - 1);
    }
    (at < parent.end() && has_room(at + 1)).then_some(at)
}

/// Makes room for one more child, below which `key` is. `node`, an inner node that covers `key`, or
/// the new half that it gets, has the room. Takes [`nodes_for_room`] nodes.
#[cold]
fn make_room<K: Key, S: Shape>(
    tree: &RawTree<K, S>,
    node: Node<K, S>,
    key: K,
    reserve: &mut Reserve,
    unread: Unread,
) {
    if node.used() < node.capacity() {
        return;
    }
    let inner = node.kind();
    if let Some(parent) = node.parent(inner) {
        if let Some(left) = neighbour(parent, parent.search(key)) {
            return halve(parent, left, parent.child(left + 1).used(), unread);
        }
        make_room(tree, parent, key, reserve, unread);
    }
    // The node is split in two. Its parent now has room, and may be a different one. A root gets a
    // parent.
    let parent = node.parent(inner).unwrap_or_else(|| {
        let root = root_above(node, reserve.take_node(inner));
        tree.publish_root(root.word(), tree.height() + 1);
        root
    });
    let at = parent.search(key);
    let new = reserve.take_node::<K, S>(inner).node();
    insert_child(parent.write(unread), at, new);
    halve(parent, at, 0, unread);
}

/// Gives each of two neighbours half of their children. They are in the slots `at` and `at + 1`.
/// The right one may have no children yet.
fn halve<K: Key, S: Shape>(parent: Node<K, S>, at: usize, in_right: usize, unread: Unread) {
    let (left, right) = (parent.child(at), parent.child(at + 1));
    let in_left = left.used();
    let keep = (in_left + in_right).div_ceil(2);
    let middle = parent.pivot(at);
    let bound = cut_anew((left, in_left), (right, in_right), keep, middle, unread);
    parent.write(unread).set_pivot(at, bound);
    if parent.kind() == Kind::Gap {
        parent.set_gap(at, largest_below(left));
        parent.set_gap(at + 1, largest_below(right));
    }
}

/// Adds a leaf without slots after an existing one, which covers `key` and is in the parent's slot
/// `at`. Returns the parent of both, and the old leaf's slot there. The pivot between the two is
/// not set. Takes one node plus [`nodes_for_room`]. If the parent has room, no other node changes.
#[inline(never)]
pub(super) fn add_leaf<K: Key, S: Shape>(
    tree: &RawTree<K, S>,
    leaf: Node<K, S>,
    parent: Node<K, S>,
    (at, key): (usize, K),
    reserve: &mut Reserve,
    unread: Unread,
) -> (Node<K, S>, usize) {
    let (mut parent, mut at) = (parent, at);
    let inner = parent.kind();
    if parent.used() == parent.capacity() {
        make_room(tree, parent, key, reserve, unread);
        // `unwrap_or` never applies: the leaf had a parent before.
        parent = leaf.parent(inner).unwrap_or(parent);
        at = parent.search(key);
    }
    let new = reserve.take_node::<K, S>(Kind::Leaf).node();
    insert_child(parent.write(unread), at, new);
    (parent, at)
}

/// Makes a node the child after slot `at` of another, which has room. The pivot between the two is
/// not set.
#[inline(always)]
fn insert_child<K: Key, S: Shape>(above: NodeMut<K, S>, at: usize, child: Node<K, S>) {
    let parent = above.node();
    child.set_parent(Some(parent));
    above.shift(at + 1, at + 2);
    above.set_slot(at + 1, child.word());
    // Together, the two cover what the old one covered.
    if at + 1 < parent.end() {
        above.set_pivot(at + 1, parent.pivot(at));
    }
    if parent.kind() == Kind::Gap {
        parent.set_gap(at + 1, K::MIN);
    }
}

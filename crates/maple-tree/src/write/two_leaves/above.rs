//! Space for one more child in a full inner node, without concurrent readers: the node shares its
//! children with a neighbour that has space, as leaves do, or is split, after the node above it has
//! got space.

use crate::alloc::{Reserve, TakeNodes};
use crate::base::{Key, Shape};
use crate::node::{Kind, Node, NodeMut, RawTree, Unread};
use crate::write::holes::largest_below;
use crate::write::last::root_above;
use crate::write::two_leaves::cut::cut_anew;

/// Returns the number of nodes that [`make_room`] takes for one more child in an inner node, which
/// covers `key`.
pub(super) fn nodes_for_room<K: Key, S: Shape>(node: Node<K, S>, key: K) -> usize {
    if node.used() < node.capacity() {
        return 0;
    }
    match node.parent(node.kind()) {
        // The other half of the root, and a new one.
        None => 2,
        Some(parent) if neighbour(parent, parent.search(key)).is_some() => 0,
        Some(parent) => 1 + nodes_for_room(parent, key),
    }
}

/// The left one of two children that are to share: the one in slot `at`, which is full, and a neighbour with room.
fn neighbour<K: Key, S: Shape>(parent: Node<K, S>, at: usize) -> Option<usize> {
    let slots = parent.capacity();
    // What is left over by both is room for at least one child in each.
    let has_room = |i: usize| parent.child(i).used() + (slots / 4).max(2) <= slots;
    if at > 0 && has_room(at - 1) {
        return Some(at - 1);
    }
    (at < parent.end() && has_room(at + 1)).then_some(at)
}

/// Sees to it that an inner node, which covers `key`, or the other half that it gets, has room for one more child below which `key` is. Takes as many nodes as
/// [`nodes_for_room`] says.
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
    // It is split in two. The node above it has room now, and may be another one; a root gets one.
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

/// Gives each of two neighbours half of their children. They are in the slots `at` and `at + 1`, and the right one may have none yet.
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

/// Adds a leaf without slots behind one, whose slot in the node above it is `at`, and which covers `key`. Gives the node above both,
/// and the slot of the old one there. The bound between the two is not set. Takes a node, and as many as [`nodes_for_room`] says. If
/// the node above has room, it alone is changed.
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
        // The leaf has a parent: it had one before.
        parent = leaf.parent(inner).unwrap_or(parent);
        at = parent.search(key);
    }
    let new = reserve.take_node::<K, S>(Kind::Leaf).node();
    insert_child(parent.write(unread), at, new);
    (parent, at)
}

/// Makes a node the child after slot `at` of another, which has room. The bound between the two is not set.
#[inline(always)]
fn insert_child<K: Key, S: Shape>(above: NodeMut<K, S>, at: usize, child: Node<K, S>) {
    let parent = above.node();
    child.set_parent(Some(parent));
    above.shift(at + 1, at + 2);
    above.set_slot(at + 1, child.word());
    // What the old one covered is what the two cover.
    if at + 1 < parent.end() {
        above.set_pivot(at + 1, parent.pivot(at));
    }
    if parent.kind() == Kind::Gap {
        parent.set_gap(at + 1, K::MIN);
    }
}

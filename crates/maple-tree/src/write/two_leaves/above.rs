//! Room for one more child in an inner node that has none, where nobody reads: it shares its children with a neighbour that has room, as leaves
//! do, or is split, after the node above it has got room.

use crate::alloc::Reserve;
use crate::base::{Key, Shape};
use crate::node::{Kind, Node, NodeMut, RawTree};
use crate::write::holes::largest_below;

/// What making room in a node takes.
pub(super) struct Above<K, S> {
    /// How many new nodes.
    pub(super) nodes: usize,
    /// The topmost node without room, and whether it shares with a neighbour rather than being split.
    top: Option<(Node<K, S>, bool)>,
}

impl<K: Key, S: Shape> Above<K, S> {
    /// Looks at an inner node, which covers `key`, and at those above it.
    #[inline(always)]
    pub(super) fn of(node: Node<K, S>, key: K) -> Self {
        let room = Self {
            nodes: 0,
            top: None,
        };
        if node.used() < node.capacity() {
            return room;
        }
        Self::of_full(node, key)
    }

    #[cold]
    fn of_full(node: Node<K, S>, key: K) -> Self {
        let mut full = node;
        let mut nodes = 0;
        loop {
            let Some(parent) = full.parent(node.kind()) else {
                // Two where the root was, and a new root.
                return Self {
                    nodes: nodes + 2,
                    top: Some((full, false)),
                };
            };
            if neighbour(parent, parent.search(key)).is_some() {
                return Self {
                    nodes,
                    top: Some((full, true)),
                };
            }
            nodes += 1;
            if parent.used() < parent.capacity() {
                return Self {
                    nodes,
                    top: Some((full, false)),
                };
            }
            full = parent;
        }
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

/// Sees to it that the node above a child, which covers `key` and is below `node` now, has room for one more. Takes as many nodes as [`Above`]
/// says.
///
/// # Safety
///
/// The caller is the only writer, and nobody reads meanwhile.
#[cold]
unsafe fn make_room<K: Key, S: Shape>(
    tree: &RawTree<K, S>,
    node: Node<K, S>,
    key: K,
    reserve: &mut Reserve,
) {
    let inner = node.kind();
    let Some((mut full, shares)) = Above::of(node, key).top else {
        return;
    };
    if shares {
        if let Some(parent) = full.parent(inner)
            && let Some(left) = neighbour(parent, parent.search(key))
        {
            // SAFETY: the caller's promise.
            unsafe { share(parent, left) };
        }
        if full == node {
            return;
        }
        full = topmost(node, inner);
    }
    loop {
        // SAFETY: the caller's promise. The node above has room, or there is none.
        unsafe { split(tree, full, key, reserve) };
        if full == node {
            return;
        }
        full = topmost(node, inner);
    }
}

/// The topmost of those from `node` upwards that have no room.
fn topmost<K: Key, S: Shape>(node: Node<K, S>, inner: Kind) -> Node<K, S> {
    let mut full = node;
    while let Some(parent) = full.parent(inner)
        && parent.used() == parent.capacity()
    {
        full = parent;
    }
    full
}

/// Gives each of two neighbours half of their children. They are in the slots `at` and `at + 1`.
///
/// # Safety
///
/// The caller is the only writer, and nobody reads meanwhile.
unsafe fn share<K: Key, S: Shape>(parent: Node<K, S>, at: usize) {
    let (left, right) = (parent.child(at), parent.child(at + 1));
    let (in_left, in_right) = (left.used(), right.used());
    let keep = (in_left + in_right).div_ceil(2);
    let middle = parent.pivot(at);
    // SAFETY: the caller's promise.
    let (left_mut, right_mut, above) = unsafe { (left.write(), right.write(), parent.write()) };
    let bound;
    if keep > in_left {
        let count = keep - in_left;
        bound = right.pivot(count - 1);
        left_mut.set_pivot(in_left - 1, middle);
        take_children(left_mut, in_left, right, 0, count);
        left_mut.set_end(keep - 1);
        right_mut.shift(count, 0);
    } else {
        let count = in_left - keep;
        bound = left.pivot(keep - 1);
        right_mut.shift(0, count);
        take_children(right_mut, 0, left, keep, count);
        right_mut.set_pivot(count - 1, middle);
        left_mut.truncate(keep);
    }
    above.set_pivot(at, bound);
    note_gaps(parent, at, left, right);
}

/// Takes `count` children of another node, from its slot `from` on, into the slots from `to` on. What bounds the last of them is not set.
fn take_children<K: Key, S: Shape>(
    new: NodeMut<K, S>,
    to: usize,
    old: Node<K, S>,
    from: usize,
    count: usize,
) {
    for i in 0..count {
        new.set_slot(to + i, old.slot(from + i));
        if i + 1 < count {
            new.set_pivot(to + i, old.pivot(from + i));
        }
        if old.kind() == Kind::Gap {
            new.node().set_gap(to + i, old.gap(from + i));
        }
        old.child(from + i).set_parent(Some(new.node()));
    }
}

/// Notes the largest holes below the nodes in the slots `at` and `at + 1`, if they are known.
fn note_gaps<K: Key, S: Shape>(parent: Node<K, S>, at: usize, left: Node<K, S>, right: Node<K, S>) {
    if parent.kind() == Kind::Gap {
        parent.set_gap(at, largest_below(left));
        parent.set_gap(at + 1, largest_below(right));
    }
}

/// Splits an inner node, which covers `key` and is full, in two; the node above it has room. A root gets one above it.
///
/// # Safety
///
/// The caller is the only writer, and nobody reads meanwhile. The reserve has the nodes.
unsafe fn split<K: Key, S: Shape>(
    tree: &RawTree<K, S>,
    node: Node<K, S>,
    key: K,
    reserve: &mut Reserve,
) {
    let inner = node.kind();
    let parent = node.parent(inner).unwrap_or_else(|| {
        let root = reserve.take::<K, S>(inner);
        root.set_slot(0, node.word());
        node.set_parent(Some(root.node()));
        tree.publish_root(root.node().word(), tree.height() + 1);
        root.node()
    });
    let at = parent.search(key);
    let used = node.used();
    let keep = used.div_ceil(2);
    let bound = node.pivot(keep - 1);
    let new = reserve.take::<K, S>(inner);
    new.node().set_parent(Some(parent));
    take_children(new, 0, node, keep, used - keep);
    new.set_end(used - keep - 1);
    // SAFETY: the caller's promise.
    unsafe {
        node.write().truncate(keep);
        insert_child(parent, at, new.node(), K::MIN);
        parent.write().set_pivot(at, bound);
    }
    note_gaps(parent, at, node, new.node());
}

/// Adds a leaf without slots behind one, whose slot in the node above it is `at`, and which covers `key`. Gives the node above both,
/// and the slot of the old one there. The bound between the two is not set. Takes a node, and as many as [`Above`] says.
///
/// # Safety
///
/// The caller is the only writer, and nobody reads meanwhile: the tree, or, if it has room, the node above.
#[inline(never)]
pub(super) unsafe fn add_leaf<K: Key, S: Shape>(
    tree: &RawTree<K, S>,
    leaf: Node<K, S>,
    parent: Node<K, S>,
    (at, key): (usize, K),
    reserve: &mut Reserve,
) -> (Node<K, S>, usize) {
    let (mut parent, mut at) = (parent, at);
    let inner = parent.kind();
    if parent.used() == parent.capacity() {
        // SAFETY: the caller's promise.
        unsafe { make_room(tree, parent, key, reserve) };
        // The leaf has a parent: it had one before.
        parent = leaf.parent(inner).unwrap_or(parent);
        at = parent.search(key);
    }
    let new = reserve.take::<K, S>(Kind::Leaf).node();
    new.set_parent(Some(parent));
    // SAFETY: nobody reads (the caller's promise).
    unsafe { insert_child(parent, at, new, K::MIN) };
    (parent, at)
}

/// Makes a node the child after slot `at` of another, which has room. The bound between the two is not set.
///
/// # Safety
///
/// The caller is the only writer, and nobody reads meanwhile.
#[inline(always)]
pub(super) unsafe fn insert_child<K: Key, S: Shape>(
    parent: Node<K, S>,
    at: usize,
    child: Node<K, S>,
    gap: K,
) {
    // SAFETY: the caller's promise.
    let above = unsafe { parent.write() };
    above.shift(at + 1, at + 2);
    above.set_slot(at + 1, child.word());
    // What the old one covered is what the two cover.
    if at + 1 < parent.end() {
        above.set_pivot(at + 1, parent.pivot(at));
    }
    if parent.kind() == Kind::Gap {
        parent.set_gap(at + 1, gap);
    }
}

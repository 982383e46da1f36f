//! Splitting a tree.

use core::ptr::NonNull;

use crate::alloc::{Reserve, TakeNodes};
use crate::base::{Key, Offset, Shape};
use crate::node::{Geometry, Kind, NULL, Node, RawTree, Root, Unread, Word};
use crate::read::{BoundedLeaf, descend};
use crate::write::apply::{build, root_of};
use crate::write::halves::free_above;
use crate::write::holes::{largest_in_leaf, propagate_from};
use crate::write::last::{link, propagate_above};
use crate::write::level::Level;
use crate::write::{Item, Items, Span};

/// The words of an entry around the key, for its two sides.
#[derive(Clone, Copy)]
pub(crate) struct Sides {
    pub(crate) below: Word,
    pub(crate) above: Word,
}

/// The position of a split.
struct Cut<K, S> {
    /// The leaf with the last index below the key, and that index's slot.
    place: BoundedLeaf<K, S>,
    slot: usize,
    /// The slots that the upper tree replaces: by a hole, and by the rest of the entry around the
    /// key.
    span: Span<K, S>,
    items: Items<K>,
}

impl<K: Key, S: Shape> Cut<K, S> {
    fn new(root: Node<K, S>, below: K, above: Option<Word>) -> Self {
        let place = descend(root, below);
        let slot = place.leaf.search(below);
        // The upper part begins with one hole, which may continue in the next leaf.
        let mut right = place;
        let (mut to, mut last) = right.hole_to::<true>(slot, below);
        if last == right.max && !right.leaf.slot(to).is_null() {
            let after = descend(root, last.wrapping_add(K::ONE));
            if last != K::MAX && after.leaf.slot(0).is_null() {
                (right, to) = (after, 0);
                last = after.slot(0).last;
            }
        }
        let tail = right.slot(to);
        let mut items = Items::new();
        items.push(Item::of_leaf(NULL, last));
        if last < tail.last {
            items.push(Item::of_leaf(above.unwrap_or(tail.word), tail.last));
        }
        let span = Span {
            left: descend(root, K::MIN).leaf,
            from: 0,
            right: right.leaf,
            to,
            min: K::MIN,
            max: right.max,
        };
        Self {
            place,
            slot,
            span,
            items,
        }
    }

    /// Returns `true` if the lower tree ends with an entry in its leaf's last slot, so that the
    /// hole after it needs another leaf.
    fn needs_leaf(&self) -> bool {
        !self.place.leaf.slot(self.slot).is_null() && self.slot + 1 == Geometry::<K, S>::SLOTS
    }

    /// Removes what is above the key from the inner nodes on the path from `root`.
    #[inline]
    fn truncate_path(&self, root: Node<K, S>, below: K, unread: Unread) {
        let mut node = root;
        while !node.is_leaf() {
            let slot = node.search(below);
            let child = node.child(slot);
            node.write(unread).shift(node.end() + 1, slot + 1);
            node = child;
        }
    }

    /// Removes what is above the key from the leaf, and lets the lower part end with a hole if the
    /// leaf has room for it. An entry around the key gets its word for the lower part.
    #[inline]
    fn truncate_leaf(&self, below: K, sides: Option<Sides>, needs_leaf: bool, unread: Unread) {
        let (leaf, slot) = (self.place.leaf, self.slot);
        let write = leaf.write(unread);
        write.shift(leaf.end() + 1, slot + 1);
        if leaf.slot(slot).is_null() {
            return;
        }
        if let Some(sides) = sides {
            write.set_slot(slot, sides.below);
        }
        if !needs_leaf {
            write.set_end(slot + 1);
            write.set_pivot(slot, below);
        }
    }
}

/// Replaces the first child of a node, which is the first of its level.
#[inline]
fn replace_first_child<K: Key, S: Shape>(parent: Node<K, S>, new: &Item<K>) {
    // SAFETY: the word is that of a node just built.
    let node = unsafe { Node::<K, S>::from_word(new.word) };
    node.set_parent(Some(parent));
    parent.publish(0, new.word);
    if parent.kind() == Kind::Gap {
        propagate_from(parent, 0, K::MIN, new.gap);
    }
}

/// Returns the most nodes that splitting a tree of this height can take.
pub(crate) fn most_for_split(height: u32) -> usize {
    // Upper part: three on each level, and a root. Lower part, for the hole at its end: a leaf, one
    // on each level, and a root.
    4 * height as usize + 3
}

/// Returns the root of the part below `key`, and its number of levels below `root`. It is the first
/// node on the path to the key that does not have the key in its first slot, or else the leaf.
fn top<K: Key, S: Shape>(root: Node<K, S>, key: K) -> (Node<K, S>, u32) {
    let (mut node, mut down) = (root, 0);
    while !node.is_leaf() && node.search(key) == 0 {
        node = node.child(0);
        down += 1;
    }
    (node, down)
}

/// Returns the number of nodes needed to link a leaf after the one that covers `key`, once the
/// nodes on the path from `root` end with that leaf.
fn nodes_above_cut<K: Key, S: Shape>(root: Node<K, S>, key: K) -> usize {
    // The lowest run of full nodes, from the leaf up.
    let (mut node, mut full, mut all) = (root, 0, true);
    while !node.is_leaf() {
        let slot = node.search(key);
        if slot + 1 == node.capacity() {
            full += 1;
        } else {
            (full, all) = (0, false);
        }
        node = node.child(slot);
    }
    full + usize::from(all)
}

impl<K: Key, S: Shape> RawTree<K, S> {
    /// Returns the number of nodes that it takes to [split](Self::split) the tree.
    pub(crate) fn nodes_for_split(&self, key: K) -> usize {
        let (Root::Node(root), Some(below)) = (self.root(), key.predecessor()) else {
            return 0;
        };
        if !self.has_both(key, below) {
            return 0;
        }
        let inner = self.inner_kind();
        let cut = Cut::new(root, below, None);
        let (mut span, mut items) = (cut.span, cut.items.as_slice().len());
        let mut nodes = 0;
        let whole = loop {
            let level = Level::of(&span, items, inner, true);
            nodes += level.parts + usize::from(level.whole && level.parts > 1);
            let Some(above) = level.above(&span, inner) else {
                break level.whole;
            };
            (span, items) = (above, level.parts);
        };
        if cut.needs_leaf() {
            let root = if whole { root } else { span.left };
            nodes += 1 + nodes_above_cut(top(root, below).0, below);
        }
        nodes
    }

    /// Returns `true` if there are entries below the key and entries at or above it.
    fn has_both(&self, key: K, below: K) -> bool {
        self.find::<false>((K::MIN, below)).is_some() && self.find::<true>((key, K::MAX)).is_some()
    }

    /// Moves the part at `key` and above to another tree, which is empty and has the same modes. An
    /// entry around the key gets the words of `sides`, or keeps its word on both sides if there are
    /// none. Nodes that are in neither tree any more go to `free`.
    ///
    /// The reserve has [`nodes_for_split`](Self::nodes_for_split) nodes.
    pub(crate) fn split(
        &self,
        key: K,
        other: &Self,
        sides: Option<Sides>,
        reserve: &mut Reserve,
        unread: Unread,
        free: &mut impl FnMut(NonNull<u8>),
    ) {
        let below = key.predecessor();
        let low = below.is_some_and(|below| self.find::<false>((K::MIN, below)).is_some());
        if !low {
            return other.take(self);
        }
        let (Root::Node(old), Some(below)) = (self.root(), below) else {
            return;
        };
        if self.find::<true>((key, K::MAX)).is_none() {
            return;
        }
        let cut = Cut::new(old, below, sides.map(|sides| sides.above));
        let needs_leaf = cut.needs_leaf();
        let (root, height) = self.move_upper(&cut, old, other, reserve, free);
        root.set_parent(None);
        let (root, down) = top(root, below);
        free_above(root, None, self.inner_kind(), free);
        root.set_parent(None);
        cut.truncate_path(root, below, unread);
        cut.truncate_leaf(below, sides, needs_leaf, unread);
        self.publish_root(root.word(), height - down);
        self.finish_lower(&cut, key, needs_leaf, reserve, unread);
    }

    /// Builds the upper part, level by level, and publishes it as the content of `other`. Nodes
    /// that only the old tree had above the key go to `free`.
    ///
    /// Returns the root and the height of the lower part, whose nodes have not changed yet: the
    /// highest node on the path to the key that is not in `other`, or `old`.
    #[inline]
    fn move_upper(
        &self,
        cut: &Cut<K, S>,
        old: Node<K, S>,
        other: &Self,
        reserve: &mut Reserve,
        free: &mut impl FnMut(NonNull<u8>),
    ) -> (Node<K, S>, u32) {
        let inner = self.inner_kind();
        let Cut {
            place,
            mut span,
            mut items,
            ..
        } = *cut;
        // The node on the path to the key, on the level of the span.
        let mut on_path = place.leaf;
        let mut height = 1;
        loop {
            let level = Level::of(&span, items.as_slice().len(), inner, true);
            items = build(&span, &level, &items, reserve);
            let above = level.above(&span, inner);
            let (left, right) = (span.left, span.right);
            let parent_on_path = on_path.parent(inner);
            if let Some(above) = above {
                span = above;
            } else if level.whole {
                // The whole upper part is on this level, so that the levels above are not needed.
                let (word, height) = root_of::<K, S>(&items, inner, height, reserve);
                other.publish_root(word, height);
                free_above(level.after.unwrap_or(right), Some(on_path), inner, free);
            } else if let (Some(parent), [new]) = (left.parent(inner), items.as_slice()) {
                replace_first_child(parent, new);
                other.publish_root(self.root_word(), self.height());
            } else {
                debug_assert!(false, "only a whole level has no parent");
            }
            let gone = [(right != on_path).then_some(right), level.after];
            gone.into_iter()
                .flatten()
                .for_each(|node| free(node.block()));
            match (above, parent_on_path) {
                (Some(_), Some(parent)) => {
                    on_path = parent;
                    height += 1;
                }
                _ if level.whole => return (old, self.height()),
                _ => return (on_path, height),
            }
        }
    }

    /// Completes the lower part, which ends at the key's predecessor: adds a leaf for the hole at
    /// its end if the last leaf has no room for it, and propagates the largest holes.
    #[inline]
    fn finish_lower(
        &self,
        cut: &Cut<K, S>,
        key: K,
        needs_leaf: bool,
        reserve: &mut Reserve,
        unread: Unread,
    ) {
        let inner = self.inner_kind();
        let BoundedLeaf { leaf, min, .. } = cut.place;
        if !needs_leaf {
            propagate_above(leaf, largest_in_leaf(leaf, min, K::MAX), inner);
            return;
        }
        let gap = largest_in_leaf(leaf, min, key.wrapping_sub(K::ONE));
        let new = reserve.take_node(Kind::Leaf);
        if let Some(root) = link(leaf, gap, new, key, inner, reserve, unread) {
            self.publish_root(root.word(), self.height() + 1);
        }
        propagate_above(new.node(), K::span(key, K::MAX), inner);
    }
}

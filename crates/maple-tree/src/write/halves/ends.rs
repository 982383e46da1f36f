//! Splits near an end of a tree: the few entries at that end move to another tree, in copies of
//! their slots.
//!
//! This is the short path of a [split](super::split) whose key is in the outermost leaf, or in the
//! leaf next to it. The remaining part changes in place and takes no node. Leaves that lost all of
//! their slots are freed. The new tree takes one node, or three. The two trees share no node, so
//! that they need not share an allocator.
//!
//! [`End::of`] decides and changes nothing. It returns `None` for whatever needs more: an entry on
//! both sides of the key, a side without entries, a node above the first leaf that would have too
//! few slots.
//!
//! Only without readers, and in trees that share no nodes.

use core::ptr::NonNull;

use crate::alloc::{Reserve, TakeNodes};
use crate::base::{Key, Offset, Shape};
use crate::node::{Geometry, Kind, NULL, Node, NodeMut, RawTree, Root, Unread, Word};
use crate::read::{BoundedLeaf, Found, descend};
use crate::write::holes::{largest_in_leaf, propagate_change, propagate_last};
use crate::write::last::propagate_above;

/// The entries that move.
pub(crate) enum End<K, S> {
    /// Those below the key.
    Low(Low<K, S>),
    /// Those at the key and above.
    High(High<K, S>),
}

/// The leaf with the last index below the key.
#[derive(Clone, Copy)]
struct Bound<K, S> {
    place: BoundedLeaf<K, S>,
    /// The slot of that index, its contents, and the index.
    slot: usize,
    found: Found<K>,
    below: K,
    inner: Kind,
}

/// Entries at the upper end.
pub(crate) struct High<K, S> {
    bound: Bound<K, S>,
    /// The last leaf, if it is a different one, and the lowest common ancestor of both.
    last: Option<(Node<K, S>, Node<K, S>)>,
    /// The first slot of the leaf that is copied.
    from: usize,
    /// `true` if the new tree begins with a hole that is not a slot here.
    hole: bool,
    total: usize,
}

/// Entries at the lower end.
pub(crate) struct Low<K, S> {
    bound: Bound<K, S>,
    /// The first leaf, if it is a different one.
    first: Option<Node<K, S>>,
    /// The leaf's parent, and the leaf's slot there.
    parent: Option<(Node<K, S>, usize)>,
    /// `true` if the new tree ends with a hole that is not a slot here.
    hole: bool,
    total: usize,
    /// The last index of the hole that starts the remaining part, and the first slot after it in
    /// the leaf.
    edge: K,
    rest: usize,
    /// `true` if the leaf keeps only that hole, which joins the hole that starts the next leaf. The
    /// leaf is then freed.
    goes: bool,
}

impl<K: Key, S: Shape> End<K, S> {
    /// Returns the end at which a split at `key` moves few entries. Returns `None` if both sides
    /// have many, or if it needs more than this module does.
    pub(crate) fn of(tree: &RawTree<K, S>, key: K) -> Option<Self> {
        let (Root::Node(root), Some(below)) = (tree.root(), key.predecessor()) else {
            return None;
        };
        let place = descend(root, below);
        let slot = place.leaf.search(below);
        let found = place.slot(slot);
        if !found.word.is_null() && found.last != below {
            return None;
        }
        let bound = Bound {
            place,
            slot,
            found,
            below,
            inner: tree.inner_kind(),
        };
        match bound.high(root) {
            Some(high) => Some(Self::High(high)),
            None => bound.low(root).map(Self::Low),
        }
    }

    /// Returns the number of nodes that the new tree takes.
    pub(crate) fn nodes(&self) -> usize {
        let (Self::Low(Low { total, .. }) | Self::High(High { total, .. })) = *self;
        if total > Geometry::<K, S>::SLOTS {
            3
        } else {
            1
        }
    }
}

/// Returns the lowest common ancestor of two leaves, of which `right` is the last of all. Returns
/// `None` if `left` is not just before it.
fn above_both<K: Key, S: Shape>(
    left: Node<K, S>,
    right: Node<K, S>,
    inner: Kind,
) -> Option<Node<K, S>> {
    let (mut left, mut right) = (left, right);
    loop {
        let (left_parent, right_parent) = (left.parent(inner)?, right.parent(inner)?);
        let end = left_parent.end();
        if left_parent == right_parent {
            return (end > 0 && left_parent.slot(end - 1) == left.word()).then_some(left_parent);
        }
        if left_parent.slot(end) != left.word() || right_parent.end() > 0 {
            return None;
        }
        (left, right) = (left_parent, right_parent);
    }
}

/// The leaves of the new tree. The first is full if there is a second one.
struct Copies<K, S> {
    first: NodeMut<K, S>,
    second: Option<NodeMut<K, S>>,
    used: usize,
    /// The last index of the first leaf, if there is a second one.
    bound: K,
}

impl<K: Key, S: Shape> Copies<K, S> {
    /// Takes the leaves for `total` slots.
    fn new(total: usize, reserve: &mut Reserve) -> Self {
        let more = total > Geometry::<K, S>::SLOTS;
        Self {
            first: reserve.take_node(Kind::Leaf),
            second: more.then(|| reserve.take_node(Kind::Leaf)),
            used: 0,
            bound: K::MAX,
        }
    }

    #[inline(always)]
    fn push(&mut self, word: Word, last: K) {
        let slots = Geometry::<K, S>::SLOTS;
        let (leaf, i) = match self.second {
            Some(second) if self.used >= slots => (second, self.used - slots),
            _ => (self.first, self.used),
        };
        leaf.set_slot(i, word);
        if i + 1 < slots {
            leaf.set_pivot(i, last);
        } else if self.used < slots {
            self.bound = last;
        }
        self.used += 1;
    }

    /// Adds the slots `from..to` of a leaf that ends at `max`.
    #[inline(never)]
    fn push_slots(&mut self, leaf: Node<K, S>, from: usize, to: usize, max: K) {
        let leaf = leaf.as_leaf();
        for i in from..to {
            self.push(leaf.slot(i), leaf.last(i, max));
        }
    }

    /// Publishes the leaves as the tree, which is empty. The last slot extends to the last index.
    fn publish(self, tree: &RawTree<K, S>, reserve: &mut Reserve) {
        let slots = Geometry::<K, S>::SLOTS;
        let (last, used) = match self.second {
            Some(second) => (second, self.used - slots),
            None => (self.first, self.used),
        };
        last.set_end(used - 1);
        if used < slots {
            last.set_pivot(used - 1, K::MAX);
        }
        let first = self.first.node();
        let Some(second) = self.second.map(NodeMut::node) else {
            return tree.publish_root(first.word(), 1);
        };
        self.first.set_end(slots - 1);
        let above = reserve.take_node::<K, S>(tree.inner_kind());
        above.set_slot(0, first.word());
        above.set_slot(1, second.word());
        above.set_pivot(0, self.bound);
        above.set_end(1);
        let root = above.node();
        first.set_parent(Some(root));
        second.set_parent(Some(root));
        if tree.tracks_gaps() {
            root.set_gap(0, largest_in_leaf(first, K::MIN, self.bound));
            let begin = self.bound.wrapping_add(K::ONE);
            root.set_gap(1, largest_in_leaf(second, begin, K::MAX));
        }
        tree.publish_root(root.word(), 2);
    }
}

impl<K: Key, S: Shape> Bound<K, S> {
    /// Returns `true` if there is no entry below the key.
    fn is_first(&self) -> bool {
        self.slot == 0 && self.place.min == K::MIN && self.found.word.is_null()
    }

    /// Returns the split that moves the entries at the key and above, if these are few.
    fn high(self, root: Node<K, S>) -> Option<High<K, S>> {
        let Self { place, slot, .. } = self;
        let leaf = place.leaf.as_leaf();
        let last = if place.max == K::MAX {
            None
        } else {
            let mut last = root;
            while !last.is_leaf() {
                last = last.child(last.end());
            }
            Some((last, above_both(leaf, last, self.inner)?))
        };
        // A hole around the key is in both trees.
        let from = slot + usize::from(!self.found.word.is_null());
        let here = leaf.used() - from;
        let first = match last {
            _ if here > 0 => leaf.slot(from),
            Some((last, _)) => last.slot(0),
            None => return None,
        };
        let copied = here + last.map_or(0, |(last, _)| last.used());
        let hole = !first.is_null();
        let total = copied + usize::from(hole);
        let any = copied > 1 || hole;
        let fits = total <= 2 * Geometry::<K, S>::SLOTS;
        (any && fits && !self.is_first()).then_some(High {
            bound: self,
            last,
            from,
            hole,
            total,
        })
    }

    /// Returns the split that moves the entries below the key, if these are few.
    fn low(self, root: Node<K, S>) -> Option<Low<K, S>> {
        let (parent, first) = self.leaves_below(root)?;
        if self.is_first() {
            return None;
        }
        let is_hole = self.found.word.is_null();
        let copied = first.map_or(0, Node::used) + self.slot + 1;
        let total = copied + usize::from(!is_hole);
        if total > 2 * Geometry::<K, S>::SLOTS {
            return None;
        }
        let (edge, rest) = self.front_hole();
        let goes = rest == self.place.leaf.used() && joins_next(parent)?;
        if let Some((above, at)) = parent
            && !keeps_enough(above, at + usize::from(goes), self.inner)
        {
            return None;
        }
        Some(Low {
            bound: self,
            first,
            parent,
            hole: !is_hole,
            total,
            edge,
            rest,
            goes,
        })
    }

    /// Returns the leaf's parent with the leaf's slot there, and the first leaf, if it is a
    /// different one. Returns `None` if there are more leaves below the key, or if the two have not
    /// the same parent.
    #[expect(clippy::type_complexity, reason = "two optional nodes, used once")]
    #[inline(always)]
    fn leaves_below(
        &self,
        root: Node<K, S>,
    ) -> Option<(Option<(Node<K, S>, usize)>, Option<Node<K, S>>)> {
        let BoundedLeaf { leaf, min, .. } = self.place;
        let Some(above) = leaf.as_leaf().parent(self.inner) else {
            return Some((None, None));
        };
        let at = above.search(min);
        if min == K::MIN {
            return Some((Some((above, at)), None));
        }
        let mut leftmost = root;
        while !leftmost.is_leaf() {
            leftmost = leftmost.child(0);
        }
        (at == 1 && above.child(0) == leftmost).then_some((Some((above, at)), Some(leftmost)))
    }

    /// Returns the last index of the hole that starts the remaining part, and the first slot after
    /// it in the leaf.
    #[inline(always)]
    fn front_hole(&self) -> (K, usize) {
        let Self { place, slot, .. } = *self;
        let leaf = place.leaf.as_leaf();
        if self.found.word.is_null() {
            (self.found.last, slot + 1)
        } else if slot < leaf.end() && leaf.slot(slot + 1).is_null() {
            (leaf.last(slot + 1, place.max), slot + 2)
        } else {
            (self.below, slot + 1)
        }
    }
}

/// Returns `true` if a hole at the end of a leaf joins the one that starts the next leaf. Returns
/// `None` if there is no next leaf of the same parent, or if it has no other slot.
#[inline(always)]
fn joins_next<K: Key, S: Shape>(parent: Option<(Node<K, S>, usize)>) -> Option<bool> {
    let (above, at) = parent.filter(|&(above, at)| at < above.end())?;
    let next = above.child(at + 1);
    let joins = next.slot(0).is_null();
    (!joins || next.end() > 0).then_some(joins)
}

/// Returns `true` if a node has enough slots without the first `gone`.
#[inline(always)]
fn keeps_enough<K: Key, S: Shape>(node: Node<K, S>, gone: usize, inner: Kind) -> bool {
    let least = match node.parent(inner) {
        None => 2,
        Some(_) => Geometry::<K, S>::least(inner),
    };
    gone == 0 || node.used() - gone >= least
}

impl<K: Key, S: Shape> High<K, S> {
    /// Moves the entries to `other`, which is empty and has the same modes. Takes [`End::nodes`]
    /// nodes. The tree must not have changed since the end was found. Nodes that are not needed any
    /// more go to `free`.
    pub(crate) fn take(
        self,
        tree: &RawTree<K, S>,
        other: &RawTree<K, S>,
        reserve: &mut Reserve,
        unread: Unread,
        free: &mut impl FnMut(NonNull<u8>),
    ) {
        self.copy_to(other, reserve);
        let (last, first) = self.end_with_hole(tree, unread, free);
        self.propagate(last, first);
    }

    /// Publishes copies of the entries as the content of `other`.
    #[inline(always)]
    fn copy_to(&self, other: &RawTree<K, S>, reserve: &mut Reserve) {
        let Bound { place, below, .. } = self.bound;
        let leaf = place.leaf.as_leaf();
        let mut copies = Copies::new(self.total, reserve);
        if self.hole {
            copies.push(NULL, below);
        }
        copies.push_slots(leaf, self.from, leaf.used(), place.max);
        if let Some((last, _)) = self.last {
            copies.push_slots(last, 0, last.used(), K::MAX);
        }
        copies.publish(other, reserve);
    }

    /// Removes the entries from the tree, whose remaining part then ends with a hole: in the leaf,
    /// or, if that is full, in the next one. Returns the last leaf, and the first index of the
    /// hole.
    #[inline(always)]
    fn end_with_hole(
        &self,
        tree: &RawTree<K, S>,
        unread: Unread,
        free: &mut impl FnMut(NonNull<u8>),
    ) -> (Node<K, S>, K) {
        let Bound {
            place,
            slot,
            found,
            below,
            ..
        } = self.bound;
        let (leaf, from) = (place.leaf.as_leaf(), self.from);
        if let Some((last, _)) = self.last
            && from == Geometry::<K, S>::SLOTS
        {
            let last = last.as_leaf();
            let write = last.write(unread);
            write.set_used(1, last.used());
            write.set_slot(0, NULL);
            return (last, below.wrapping_add(K::ONE));
        }
        let write = leaf.write(unread);
        write.set_used(from + 1, leaf.used());
        let mut first = found.first;
        if from > slot {
            write.set_slot(from, NULL);
            write.set_pivot(slot, below);
            first = below.wrapping_add(K::ONE);
        }
        if let Some((last, above)) = self.last {
            tree.drop_last(last, above, unread, free);
        }
        (leaf, first)
    }

    /// Propagates the hole that ends the remaining part. It begins at `first`, in the leaf `last`.
    #[inline(always)]
    fn propagate(&self, last: Node<K, S>, first: K) {
        let Bound { place, inner, .. } = self.bound;
        let Some(above) = last.parent(inner).filter(|_| inner == Kind::Gap) else {
            return;
        };
        let leaf = place.leaf.as_leaf();
        let gap = K::span(first, K::MAX);
        if gap >= first {
            // All indices before it are no more than that.
            propagate_last(above, gap);
        } else if last == leaf {
            propagate_above(leaf, largest_in_leaf(leaf, place.min, K::MAX), inner);
        } else {
            propagate_above(last, gap, inner);
        }
    }
}

impl<K: Key, S: Shape> RawTree<K, S> {
    /// Removes the last leaf from the tree. `above` is its lowest ancestor with other children. The
    /// gaps are not set.
    fn drop_last(
        &self,
        last: Node<K, S>,
        above: Node<K, S>,
        unread: Unread,
        free: &mut impl FnMut(NonNull<u8>),
    ) {
        let inner = above.kind();
        let mut next = Some(last);
        while let Some(node) = next.filter(|&node| node != above) {
            next = node.parent(inner);
            free(node.block());
        }
        above.write(unread).shift(above.used(), above.end());
        let Root::Node(root) = self.root() else {
            return;
        };
        let (mut node, mut down) = (root, 0);
        while !node.is_leaf() && node.end() == 0 {
            let child = node.child(0);
            free(node.block());
            (node, down) = (child, down + 1);
        }
        if down > 0 {
            node.set_parent(None);
            self.publish_root(node.word(), self.height() - down);
        }
    }
}

impl<K: Key, S: Shape> Low<K, S> {
    /// Moves the entries as [`High::take`] does.
    pub(crate) fn take(
        self,
        other: &RawTree<K, S>,
        reserve: &mut Reserve,
        unread: Unread,
        free: &mut impl FnMut(NonNull<u8>),
    ) {
        self.copy_to(other, reserve);
        if !self.goes {
            self.begin_with_hole(unread);
        }
        if let Some((above, at)) = self.parent {
            self.drop_first(above, at, unread, free);
        }
    }

    /// Publishes copies of the entries as the content of `other`.
    #[inline(always)]
    fn copy_to(&self, other: &RawTree<K, S>, reserve: &mut Reserve) {
        let Bound { place, slot, .. } = self.bound;
        let leaf = place.leaf.as_leaf();
        let mut copies = Copies::new(self.total, reserve);
        if let Some(first) = self.first {
            copies.push_slots(first, 0, first.used(), place.min.wrapping_sub(K::ONE));
        }
        copies.push_slots(leaf, 0, slot + usize::from(self.hole), place.max);
        copies.push(NULL, K::MAX);
        copies.publish(other, reserve);
    }

    /// Removes the entries from the leaf, which then begins with a hole.
    #[inline(always)]
    fn begin_with_hole(&self, unread: Unread) {
        let leaf = self.bound.place.leaf.as_leaf();
        let (used, end) = (leaf.used(), leaf.end());
        let write = leaf.write(unread);
        write.close_up(self.rest, 1, end);
        write.set_slot(0, NULL);
        if self.rest < used {
            write.set_pivot(0, self.edge);
        }
    }

    /// Removes the leaves that are not needed any more from their parent, in which the leaf is in
    /// slot `at`, and propagates the largest holes.
    #[inline(always)]
    fn drop_first(
        &self,
        above: Node<K, S>,
        at: usize,
        unread: Unread,
        free: &mut impl FnMut(NonNull<u8>),
    ) {
        let Bound { place, inner, .. } = self.bound;
        let gone = at + usize::from(self.goes);
        let mut old = K::MIN;
        if inner == Kind::Gap {
            old = (0..=gone).fold(old, |old, i| old.max(above.gap(i)));
        }
        if let Some(first) = self.first {
            free(first.block());
        }
        if self.goes {
            free(place.leaf.block());
        }
        // The first leaf of the remaining part, which may have few slots.
        let max = above.edge::<true>(gone, place.max, inner);
        if gone > 0 {
            above.write(unread).shift(gone, 0);
        }
        if inner == Kind::Gap {
            let new = largest_in_leaf(above.child(0), K::MIN, max);
            above.set_gap(0, new);
            propagate_change(above, K::MIN, old, new);
        }
    }
}

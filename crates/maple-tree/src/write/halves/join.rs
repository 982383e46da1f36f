//! Joining two trees.

use core::ptr::NonNull;

use crate::alloc::Reserve;
use crate::base::{Key, Shape};
use crate::node::{Kind, NULL, Node, RawTree, Root, Unread, Word};
use crate::read::descend;
use crate::write::apply::{build, root_of, splice};
use crate::write::halves::free_above;
use crate::write::holes::propagate_ancestors;
use crate::write::level::Level;
use crate::write::{Item, Items, Span};

/// The change above a level.
enum Above<K, S> {
    /// Slots of the next level are replaced.
    Slots(Span<K, S>),
    /// The new nodes are the whole level.
    Root,
}

/// The adjacent nodes of one level of both trees, and the items between them.
struct Seam<K, S> {
    span: Span<K, S>,
    items: usize,
    /// The tree that has more levels, once the other has no more: `true` for the left one.
    rest: Option<bool>,
}

impl<K: Key, S: Shape> Seam<K, S> {
    /// Returns the change of the level above that the new nodes of this level need. Reads the old
    /// nodes, so call it before they are freed.
    fn above(&mut self, level: &Level<K, S>, inner: Kind) -> Above<K, S> {
        let (first, last) = (
            level.before.unwrap_or(self.span.left),
            level.after.unwrap_or(self.span.right),
        );
        if level.whole {
            return Above::Root;
        }
        let (left, right) = match (first.parent(inner), last.parent(inner)) {
            (None, None) => return Above::Root,
            (Some(left), Some(right)) => (left, right),
            (None, Some(right)) => {
                self.rest = Some(false);
                (right, right)
            }
            (Some(left), None) => {
                self.rest = Some(true);
                (left, left)
            }
        };
        let (from, min) = match self.rest {
            // The first node of its level: no slot is before it.
            Some(false) => (0, K::MIN),
            _ => (
                left.search(level.min),
                left.bound::<false>(level.min, inner),
            ),
        };
        let (to, max) = match self.rest {
            Some(true) => (right.end(), K::MAX),
            _ => (
                right.search(level.max),
                right.bound::<true>(level.max, inner),
            ),
        };
        self.items = level.parts;
        Above::Slots(Span {
            left,
            from,
            right,
            to,
            min,
            max,
        })
    }
}

/// Returns the most nodes that joining two trees of these heights can take.
pub(crate) fn most_for_join(left: u32, right: u32) -> usize {
    // Three on each level, and a root.
    3 * left.max(right) as usize + 1
}

/// Returns the slots of the leaves to replace, and the hole between the two trees, if there is one.
fn begin<K: Key, S: Shape>(left: Node<K, S>, right: Node<K, S>) -> (Seam<K, S>, Items<K>) {
    let (left, right) = (descend(left, K::MAX), descend(right, K::MIN));
    let (from, to) = (left.leaf.end(), 0);
    debug_assert!(left.leaf.slot(from).is_null() && right.leaf.slot(to).is_null());
    let mut items = Items::new();
    let last = right.leaf.last(to, right.max);
    if left.leaf.first(from, left.min) <= last {
        items.push(Item::of_leaf(NULL, last));
    }
    let span = Span {
        left: left.leaf,
        from,
        right: right.leaf,
        to,
        min: left.min,
        max: right.max,
    };
    let (rest, count) = (None, items.as_slice().len());
    let seam = Seam {
        span,
        items: count,
        rest,
    };
    (seam, items)
}

/// Frees the nodes of a level that new ones have replaced. `left` and `right` may be the same.
#[inline]
fn free_replaced<K: Key, S: Shape>(
    level: &Level<K, S>,
    left: Node<K, S>,
    right: Node<K, S>,
    free: &mut impl FnMut(NonNull<u8>),
) {
    let right = (right != left).then_some(right);
    let gone = [level.before, Some(left), right, level.after];
    gone.into_iter()
        .flatten()
        .for_each(|node| free(node.block()));
}

impl<K: Key, S: Shape> RawTree<K, S> {
    /// Returns the number of nodes that it takes to [join](Self::join) another tree to this one.
    pub(crate) fn nodes_for_join(&self, other: &Self) -> usize {
        let (Root::Node(left), Root::Node(right)) = (self.root(), other.root()) else {
            return 0;
        };
        let inner = self.inner_kind();
        let (mut seam, _) = begin(left, right);
        let mut nodes = 0;
        loop {
            let level = Level::of(&seam.span, seam.items, inner, false);
            if level.is_in_place() {
                return nodes;
            }
            nodes += level.parts;
            match seam.above(&level, inner) {
                Above::Slots(span) => seam.span = span,
                Above::Root => return nodes + usize::from(level.parts > 1),
            }
        }
    }

    /// Takes over the entries of another tree, which all come after those of this one. Neither is a
    /// single entry without a node. Nodes that are in neither tree any more go to `free`.
    ///
    /// The reserve has [`nodes_for_join`](Self::nodes_for_join) nodes.
    pub(crate) fn join(
        &self,
        other: &Self,
        reserve: &mut Reserve,
        unread: Unread,
        free: &mut impl FnMut(NonNull<u8>),
    ) {
        let (left, right) = match (self.root(), other.root()) {
            (Root::Node(left), Root::Node(right)) => (left, right),
            (Root::Empty, _) => return self.take(other),
            (_, root) => return debug_assert!(matches!(root, Root::Empty), "a single entry"),
        };
        let inner = self.inner_kind();
        let (mut seam, mut items) = begin(left, right);
        let mut height = 1;
        let (root, height) = loop {
            let Span {
                left, right, min, ..
            } = seam.span;
            let level = Level::of(&seam.span, seam.items, inner, false);
            if level.is_in_place() {
                splice(
                    left.write(unread),
                    seam.span.from,
                    seam.span.to,
                    items.as_slice(),
                );
                propagate_ancestors(left, min, seam.span.max, inner);
                let rest = if seam.rest == Some(true) { self } else { other };
                break (rest.root_word(), rest.height());
            }
            items = build(&seam.span, &level, &items, reserve);
            let above = seam.above(&level, inner);
            let first = level.before.unwrap_or(left);
            let last = level.after.unwrap_or(right);
            if let Above::Root = above {
                free_above(last, None, inner, free);
                free_above(first, Some(last), inner, free);
            }
            free_replaced(&level, left, right, free);
            match above {
                Above::Slots(span) => {
                    seam.span = span;
                    height += 1;
                }
                Above::Root => break root_of::<K, S>(&items, inner, height, reserve),
            }
        };
        self.publish_root(root, height);
        other.publish_root(NULL, 0);
    }

    /// Takes over all of another tree. This one must be empty.
    pub(crate) fn take(&self, other: &Self) {
        let (word, height): (Word, u32) = (other.root_word(), other.height());
        other.publish_root(NULL, 0);
        self.publish_root(word, height);
    }
}

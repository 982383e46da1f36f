//! Two trees made one.

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

/// The levels above the one where two trees meet.
enum Above<K, S> {
    /// Slots of the next level are replaced.
    Slots(Span<K, S>),
    /// The new nodes are all that there are on their level.
    Root,
}

/// Nodes of one level that meet, and the items that go between them.
struct Seam<K, S> {
    span: Span<K, S>,
    items: usize,
    /// Which tree goes on, where the other has no more levels: `true` for the left one.
    rest: Option<bool>,
}

impl<K: Key, S: Shape> Seam<K, S> {
    /// Returns what the new nodes of this level change on the level above. Reads the old nodes, so that it comes before they are freed.
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
            // The first node of its level, of which no slot is before.
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

/// The first slots to be replaced, and the hole between the two trees, if there is one.
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

impl<K: Key, S: Shape> RawTree<K, S> {
    /// Returns how many nodes it takes to [join](Self::join) another tree to this one.
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

    /// Takes over the entries of another tree, which all come after those of this one. Neither is a single entry without a node. Nodes
    /// that are in neither tree any more go to `free`.
    ///
    /// The reserve has as many nodes as [`nodes_for_join`](Self::nodes_for_join) says.
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
            let gone = [level.before, Some(left), Some(right), level.after];
            for (i, node) in gone.into_iter().enumerate() {
                if let Some(node) = node.filter(|&node| i != 2 || node != left) {
                    free(node.block());
                }
            }
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

    /// Takes over all of another tree; this one is empty.
    pub(crate) fn take(&self, other: &Self) {
        let (word, height): (Word, u32) = (other.root_word(), other.height());
        other.publish_root(NULL, 0);
        self.publish_root(word, height);
    }
}

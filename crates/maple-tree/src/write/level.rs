//! One level of a change: how many nodes replace the touched ones.

use crate::base::{Key, Offset, Shape};
use crate::node::{Geometry, Kind, Node};
use crate::write::Span;

/// The change of one level. The plan computes it to count nodes, and `apply` computes it again from
/// the same tree.
pub(crate) struct Level<K, S> {
    /// The number of slots after the change, including a neighbour's.
    pub(crate) total: usize,
    /// The number of nodes that replace the touched ones: 0 if the only touched node changes in
    /// place.
    pub(crate) parts: usize,
    /// `true` if the touched nodes are the whole level.
    pub(crate) whole: bool,
    /// `true` if the items are the last slots of the level. The nodes before them are then filled.
    pub(crate) append: bool,
    /// A neighbour that takes part because too few slots would be left without it.
    pub(crate) before: Option<Node<K, S>>,
    pub(crate) after: Option<Node<K, S>>,
    /// One of the indices of a neighbour that should take part but may be shared with other trees.
    /// The rest is unknown then.
    pub(crate) shared: Option<K>,
    /// The range that all participating nodes cover.
    pub(crate) min: K,
    pub(crate) max: K,
}

impl<K: Key, S: Shape> Level<K, S> {
    /// Returns the effect of replacing `span` by `items` items. With `cow`, no node changes in
    /// place.
    pub(crate) fn of(span: &Span<K, S>, items: usize, inner: Kind, cow: bool) -> Self {
        let kind = span.left.kind();
        let capacity = Geometry::<K, S>::slots(kind);
        let least = Geometry::<K, S>::least(kind);
        let one = span.left == span.right;
        let kept_after = span.right.end() - span.to;
        let mut level = Self {
            total: span.from + items + kept_after,
            parts: 1,
            whole: span.min == K::MIN && span.max == K::MAX,
            append: span.max == K::MAX && kept_after == 0,
            before: None,
            after: None,
            shared: None,
            min: span.min,
            max: span.max,
        };
        let shrinks = !one || level.total < span.left.used();
        if level.total < least && shrinks && !level.whole {
            level.pull(span, inner);
        }
        let alone = !level.has_neighbour();
        level.append &= alone;
        level.parts = level.total.div_ceil(capacity);
        if level.parts == 1 && one && alone && !cow && level.shared.is_none() {
            level.parts = 0;
        }
        level
    }

    /// Adds a neighbour, preferably one with the same parent: the inner nodes then change least.
    fn pull(&mut self, span: &Span<K, S>, inner: Kind) {
        let has_right =
            |node: Node<K, S>, key| node.parent(inner).is_some_and(|p| p.search(key) < p.end());
        let has_left =
            |node: Node<K, S>, key| node.parent(inner).is_some_and(|p| p.search(key) > 0);
        let right = has_right(span.right, span.max)
            || (!has_left(span.left, span.min) && span.max != K::MAX);
        if right {
            self.pull_from::<true>(span.right, span.max, inner);
        } else {
            self.pull_from::<false>(span.left, span.min, inner);
        }
    }

    /// Adds the node after one that ends at `edge`, or, unless `UP`, the node before one that
    /// begins there.
    fn pull_from<const UP: bool>(&mut self, node: Node<K, S>, edge: K, inner: Kind) {
        let (Some(next), Some(key)) = (node.neighbour::<UP>(edge, inner), edge.next::<UP>()) else {
            return;
        };
        if !next.is_linked(inner) {
            self.shared = Some(key);
            return;
        }
        self.total += next.used();
        let bound = next.bound::<UP>(key, inner);
        if UP {
            (self.max, self.after) = (bound, Some(next));
        } else {
            (self.min, self.before) = (bound, Some(next));
        }
        self.whole = self.min == K::MIN && self.max == K::MAX;
    }

    /// Returns the number of slots of each new node.
    pub(crate) fn sizes(&self, capacity: usize) -> [usize; 3] {
        let n = self.total;
        match self.parts {
            0 | 1 => [n, 0, 0],
            2 if self.append => [capacity, n - capacity, 0],
            2 => [n - n / 2, n / 2, 0],
            _ => [n - 2 * (n / 3), n / 3, n / 3],
        }
    }

    /// Returns `true` if a neighbour takes part.
    pub(crate) fn has_neighbour(&self) -> bool {
        self.before.is_some() || self.after.is_some()
    }

    /// Returns `true` if the only touched node changes in place.
    pub(crate) fn is_in_place(&self) -> bool {
        self.parts == 0
    }

    /// Returns the slots of the next level that the new nodes replace. Returns `None` if that level
    /// keeps its shape: this one changes in place, or is the topmost, or one new node replaces one
    /// old node.
    pub(crate) fn above(&self, span: &Span<K, S>, inner: Kind) -> Option<Span<K, S>> {
        let first = self.before.unwrap_or(span.left);
        let last = self.after.unwrap_or(span.right);
        if self.is_in_place() || self.whole || self.parts == 1 && first == last {
            return None;
        }
        let left = first.parent(inner)?;
        let right = last.parent(inner)?;
        Some(Span {
            left,
            from: left.search(self.min),
            right,
            to: right.search(self.max),
            min: left.bound::<false>(self.min, inner),
            max: right.bound::<true>(self.max, inner),
        })
    }
}

//! Filling new nodes with the slots that they take over and the items between these.

use crate::alloc::{Reserve, TakeNodes};
use crate::base::{Key, Offset, Shape};
use crate::node::{Kind, Node, NodeMut, Word};
use crate::write::{Item, Items};

/// Up to three new nodes of one level, filled from the left.
pub(super) struct Fill<'r, K, S> {
    reserve: &'r mut Reserve,
    kind: Kind,
    sizes: [usize; 3],
    /// The current node, and the number of its filled slots.
    node: Option<NodeMut<K, S>>,
    used: usize,
    /// The first index of the next slot.
    first: K,
    /// The largest hole so far in the current node.
    largest: K,
    done: Items<K>,
}

impl<'r, K: Key, S: Shape> Fill<'r, K, S> {
    /// Starts filling nodes of a kind with `sizes` slots each (0: no such node), from index `min`
    /// on. The reserve has the nodes.
    pub(super) fn new(kind: Kind, sizes: [usize; 3], min: K, reserve: &'r mut Reserve) -> Self {
        Self {
            reserve,
            kind,
            sizes,
            node: None,
            used: 0,
            first: min,
            largest: K::MIN,
            done: Items::new(),
        }
    }

    /// Builds one node of a kind, over all indices, from the items.
    pub(super) fn root(kind: Kind, items: &Items<K>, reserve: &'r mut Reserve) -> Word {
        let items = items.as_slice();
        let mut fill = Self::new(kind, [items.len(), 0, 0], K::MIN, reserve);
        for &item in items {
            fill.push(item);
        }
        fill.finish().as_slice()[0].word
    }

    /// Returns the current node and its number of slots.
    #[inline(always)]
    fn current(&mut self) -> (NodeMut<K, S>, usize) {
        let size = self.sizes[self.done.as_slice().len()];
        let node = match self.node {
            Some(node) => node,
            None => *self.node.insert(self.reserve.take_node(self.kind)),
        };
        (node, size)
    }

    /// Advances past the slot that ends at `last`: to the next node, if this one has all its slots.
    #[inline(always)]
    fn advance(&mut self, node: NodeMut<K, S>, count: usize, size: usize, last: K) {
        self.first = last.wrapping_add(K::ONE);
        self.used += count;
        if self.used == size {
            node.set_end(size - 1);
            let (word, gap) = (node.node().word(), self.largest);
            self.done.push(Item { word, last, gap });
            self.node = None;
            self.used = 0;
            self.largest = K::MIN;
        }
    }

    #[inline]
    pub(super) fn push(&mut self, item: Item<K>) {
        let (node, size) = self.current();
        let mut at = (self.first, self.largest);
        put(self.kind, (node, size), self.used, item, &mut at);
        self.largest = at.1;
        self.advance(node, 1, size, item.last);
    }

    /// Adds the slots `from..to` of a node of the same kind, which ends at `max`. Each step copies
    /// as many as the new node has room for.
    pub(super) fn push_slots(&mut self, old: Node<K, S>, from: usize, to: usize, max: K) {
        let mut from = from;
        while from < to {
            let (node, size) = self.current();
            let count = (to - from).min(size - self.used);
            let part = (old, from, count);
            // As a constant, the kind decides what each slot needs.
            let last = match self.kind {
                Kind::Leaf => self.copy(Kind::Leaf, (node, size), part, max),
                Kind::Range => self.copy(Kind::Range, (node, size), part, max),
                Kind::Gap => self.copy(Kind::Gap, (node, size), part, max),
            };
            self.advance(node, count, size, last);
            from += count;
        }
    }

    /// Copies `count` slots, from `from` on, of a node that ends at `max` into one that will have
    /// `size` slots. Sets the children's parent. Returns the last index of the last copied slot.
    #[inline(always)]
    fn copy(
        &mut self,
        kind: Kind,
        (node, size): (NodeMut<K, S>, usize),
        (old, from, count): (Node<K, S>, usize, usize),
        max: K,
    ) -> K {
        // SAFETY: the old node is of the kind that is filled.
        let old = unsafe { Node::<K, S>::of_kind(old.word(), kind) };
        let mut at = (self.first, self.largest);
        for (to, from) in (self.used..).zip(from..from + count) {
            let gap = match kind {
                Kind::Gap => old.gap(from),
                Kind::Leaf | Kind::Range => K::MIN,
            };
            let (word, last) = (old.slot(from), old.last(from, max));
            put(kind, (node, size), to, Item { word, last, gap }, &mut at);
        }
        self.largest = at.1;
        at.0.wrapping_sub(K::ONE)
    }

    /// Returns the new nodes as slots of the level above.
    pub(super) fn finish(self) -> Items<K> {
        debug_assert!(self.node.is_none(), "fewer slots than planned");
        self.done
    }
}

/// Fills slot `i` of a node that will have `size` slots, and sets the child's parent. The slot
/// begins at `first`. `largest` is the largest hole so far.
#[inline(always)]
fn put<K: Key, S: Shape>(
    kind: Kind,
    (node, size): (NodeMut<K, S>, usize),
    i: usize,
    item: Item<K>,
    (first, largest): &mut (K, K),
) {
    node.set_slot(i, item.word);
    if i + 1 < size {
        node.set_pivot(i, item.last);
    }
    let hole = match kind {
        Kind::Leaf if item.word.is_null() => K::span(*first, item.last),
        Kind::Leaf | Kind::Range => K::MIN,
        Kind::Gap => item.gap,
    };
    *largest = (*largest).max(hole);
    if kind == Kind::Gap {
        node.node().set_gap(i, hole);
    }
    if !kind.is_leaf() {
        let child = node.node().child(i);
        // A counted child need not know its parent.
        if !child.is_counted() {
            child.set_parent(Some(node.node()));
        }
    }
    *first = item.last.wrapping_add(K::ONE);
}

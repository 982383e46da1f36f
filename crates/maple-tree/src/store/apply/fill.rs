//! Filling new nodes with the slots that they take over and the items between.

use crate::key::Key;
use crate::node::{Kind, Node, NodeMut};
use crate::reserve::Reserve;
use crate::shape::Shape;
use crate::store::{Item, Items};

/// Up to three new nodes of one level, being filled from the left.
pub(super) struct Fill<'r, K, S> {
    reserve: &'r mut Reserve,
    kind: Kind,
    sizes: [usize; 3],
    /// The node being filled and how many slots of it are.
    node: Option<NodeMut<K, S>>,
    used: usize,
    /// First index of the next slot.
    first: K,
    /// Largest hole so far in the node being filled.
    largest: K,
    done: Items<K>,
}

impl<'r, K: Key, S: Shape> Fill<'r, K, S> {
    /// Fills nodes of a kind with `sizes` slots each (0: no such node); they start at `min`.
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

    /// Adds one slot.
    #[inline]
    pub(super) fn push(&mut self, item: Item<K>) {
        let size = self.sizes[self.done.as_slice().len()];
        let node = match self.node {
            Some(node) => node,
            None => *self.node.insert(self.reserve.take(self.kind)),
        };
        let i = self.used;
        node.set_slot(i, item.word);
        if i + 1 < size {
            node.set_pivot(i, item.last);
        }
        match self.kind {
            Kind::Leaf => {
                if item.word.is_null() {
                    self.largest = self.largest.max(K::span(self.first, item.last));
                }
            }
            Kind::Gap => {
                node.node().set_gap(i, item.gap);
                self.largest = self.largest.max(item.gap);
            }
            Kind::Range => {}
        }
        if !self.kind.is_leaf() {
            node.node().child(i).set_parent(Some(node.node()));
        }
        self.first = item.last.wrapping_add(K::ONE);
        self.used += 1;
        if self.used == size {
            node.set_end(i);
            self.done.push(Item {
                word: node.node().word(),
                last: item.last,
                gap: self.largest,
            });
            self.node = None;
            self.used = 0;
            self.largest = K::MIN;
        }
    }

    /// Adds the slots `from..to` of a node that ends at `max`.
    pub(super) fn push_slots(&mut self, node: Node<K, S>, from: usize, to: usize, max: K) {
        for i in from..to {
            let gap = if node.kind() == Kind::Gap {
                node.gap(i)
            } else {
                K::MIN
            };
            self.push(Item {
                word: node.slot(i),
                last: node.last(i, max),
                gap,
            });
        }
    }

    /// The new nodes, as slots of the level above.
    pub(super) fn finish(self) -> Items<K> {
        debug_assert!(self.node.is_none(), "fewer slots than planned");
        self.done
    }
}

//! New nodes, filled from the left; and nodes changed in place.

use crate::key::Key;
use crate::node::{Kind, NodeMut};
use crate::reserve::Reserve;
use crate::shape::Shape;
use crate::store::{Item, Items};

/// Up to three new nodes of one level, being filled. Each begins with a count of 1, which is for what will lead to it.
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
    /// Fills nodes of a kind with `sizes` slots each (0: no such node); they start at `min`. The reserve has them.
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
            None => {
                let new = self.reserve.take(self.kind);
                new.node().count_one();
                *self.node.insert(new)
            }
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

    /// The new nodes, as slots of the level above.
    pub(super) fn finish(self) -> Items<K> {
        debug_assert!(self.node.is_none(), "fewer slots than planned");
        self.done
    }
}

/// Replaces the slots `from..=to` of a node by the items, with their gaps if it keeps those.
pub(super) fn splice<K: Key, S: Shape>(
    node: NodeMut<K, S>,
    from: usize,
    to: usize,
    items: &[Item<K>],
) {
    if from + items.len() != to + 1 {
        node.shift(to + 1, from + items.len());
    }
    let end = node.node().end();
    for (i, item) in items.iter().enumerate() {
        let i = from + i;
        node.set_slot(i, item.word);
        if i < end {
            node.set_pivot(i, item.last);
        } else if i + 1 < node.node().capacity() {
            node.set_pivot(i, K::MAX);
        }
        if node.node().kind() == Kind::Gap {
            node.node().set_gap(i, item.gap);
        }
    }
}

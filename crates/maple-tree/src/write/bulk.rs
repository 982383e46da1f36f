//! The number of nodes for a run of stores that come in ascending order after all existing entries.
//!
//! Such a store puts at most two slots in front of the hole at the end of the last leaf: the hole
//! before the entry, and the entry. A full node is [split](crate::write::level::Level::sizes) so
//! that its first part is full again, on each level. A level that gets `added` slots therefore gets
//! one node for each `capacity` of them, and one more if its last node had no room left. The level
//! above gets that many slots.
//!
//! Under concurrent readers, nodes are copied instead of changed: one leaf for each store, and for
//! each new node its parent.

use crate::base::{Key, Shape};
use crate::node::{Geometry, Kind, RawTree};

/// The most slots of a tree without nodes: a single entry, and the hole behind it.
const SLOTS_WITHOUT_NODES: usize = 2;

impl<K: Key, S: Shape> RawTree<K, S> {
    /// Returns a sufficient number of nodes for `entries` stores in ascending order after all
    /// existing entries. It is exact if each store leaves a hole before it and the last nodes are
    /// full.
    pub(crate) fn bulk_nodes(&self, entries: usize) -> usize {
        if entries == 0 {
            return 0;
        }
        let copies = self.in_rcu();
        let height = self.height() as usize;
        let mut added = entries.saturating_mul(2);
        let mut nodes: usize = if copies { entries } else { 0 };
        for level in 0.. {
            let kind = match level {
                0 => Kind::Leaf,
                _ => self.inner_kind(),
            };
            let capacity = Geometry::<K, S>::slots(kind);
            if level >= height {
                // The level begins with one node, for the nodes below it or for what the tree held
                // without nodes.
                let there = match level {
                    0 => SLOTS_WITHOUT_NODES,
                    _ => 1,
                };
                added = added.saturating_add(there).div_ceil(capacity) - 1;
                // The first leaf is one of the copies.
                nodes = nodes.saturating_add(usize::from(level > 0 || !copies));
            } else {
                added = added.div_ceil(capacity);
            }
            nodes = nodes.saturating_add(added);
            if added == 0 {
                break;
            }
            if copies && level + 1 < height {
                nodes = nodes.saturating_add(added);
            } else if copies {
                // The first makes the level above, which counts it. Each of the others copies a
                // node there.
                nodes = nodes.saturating_add(added - 1);
            }
        }
        nodes
    }
}

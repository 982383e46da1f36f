//! The number of nodes for a run of stores that are known to come in ascending order, behind all
//! existing entries.
//!
//! Such a store puts at most two slots (the hole before the entry, and the entry) in front of the hole at the end of the last
//! leaf. A node that is full is [split](crate::write::level::Level::sizes) so that the first part is full again, on each level. So a level
//! that gets `added` slots gets a node for each `capacity` of them, and one more if its last node had no room left; and these nodes are the slots
//! that the level above gets.
//!
//! With readers about, nodes are not changed but copied: one leaf for each store, and for each new node the one above it.

use crate::base::{Key, Shape};
use crate::node::{Geometry, Kind, RawTree};

/// A tree without nodes has up to two slots: a single entry, and the hole behind it.
const SLOTS_WITHOUT_NODES: usize = 2;

impl<K: Key, S: Shape> RawTree<K, S> {
    /// Enough nodes for `entries` stores in ascending order behind all that is there, and no more than they take if each leaves a hole
    /// before it and the last nodes are full.
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
                // The level begins with one node, for what is below it, or for what was there without nodes.
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
                // The first makes the level above, which counts it; each of the others copies a node there.
                nodes = nodes.saturating_add(added - 1);
            }
        }
        nodes
    }
}

//! Statistics of a tree's nodes.

use crate::base::{Key, Shape};
use crate::node::{Geometry, Kind, NODE_BYTES, Node, RawTree, Root};

/// Statistics of a tree, from [`MapleTree::stats`](crate::MapleTree::stats).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The number of levels of nodes.
    pub height: usize,
    /// The number of leaves.
    pub leaves: usize,
    /// The number of inner nodes that do not track gaps.
    pub range_nodes: usize,
    /// The number of inner nodes that track gaps.
    pub gap_nodes: usize,
    /// The number of entries.
    pub entries: usize,
    /// The number of holes, including those before the first and after the last entry.
    pub holes: usize,
    /// The number of used slots in leaves.
    pub leaf_slots_used: usize,
    /// The number of slots in leaves.
    pub leaf_slots: usize,
    /// The number of used slots in inner nodes.
    pub inner_slots_used: usize,
    /// The number of slots in inner nodes.
    pub inner_slots: usize,
}

impl Stats {
    /// Returns the number of nodes of all kinds.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.leaves + self.range_nodes + self.gap_nodes
    }

    /// Returns the bytes of the nodes, without the allocator's overhead.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.nodes() * NODE_BYTES
    }

    /// Returns the used share of the leaves' slots, from 0 to 1.
    #[must_use]
    pub fn leaf_fill(&self) -> f64 {
        share(self.leaf_slots_used, self.leaf_slots)
    }

    /// Returns the bytes of nodes for each entry.
    #[must_use]
    pub fn bytes_per_entry(&self) -> f64 {
        share(self.bytes(), self.entries)
    }
}

/// Returns `all` divided by `many`, or 0 if `many` is 0.
fn share(all: usize, many: usize) -> f64 {
    if many == 0 {
        0.0
    } else {
        all as f64 / many as f64
    }
}

impl<K: Key, S: Shape> RawTree<K, S> {
    pub(crate) fn stats(&self) -> Stats {
        let mut stats = Stats {
            height: self.height() as usize,
            ..Stats::default()
        };
        match self.root() {
            Root::Empty => stats.holes = 1,
            Root::Single(_) => {
                stats.entries = 1;
                stats.holes = 1;
            }
            Root::Node(root) => count(root, &mut stats),
        }
        stats
    }
}

fn count<K: Key, S: Shape>(node: Node<K, S>, stats: &mut Stats) {
    match node.kind() {
        Kind::Leaf => {
            stats.leaves += 1;
            stats.leaf_slots += Geometry::<K, S>::slots(Kind::Leaf);
            stats.leaf_slots_used += node.used();
            let holes = (0..node.used()).filter(|&i| node.slot(i).is_null()).count();
            stats.holes += holes;
            stats.entries += node.used() - holes;
        }
        kind => {
            match kind {
                Kind::Gap => stats.gap_nodes += 1,
                Kind::Range | Kind::Leaf => stats.range_nodes += 1,
            }
            stats.inner_slots += Geometry::<K, S>::slots(kind);
            stats.inner_slots_used += node.used();
            for i in 0..node.used() {
                count(node.child(i), stats);
            }
        }
    }
}

//! Figures about a tree's nodes.

use crate::base::{Key, Shape};
use crate::node::{Geometry, Kind, NODE_BYTES, Node, RawTree, Root};

/// Figures about a tree; from [`MapleTree::stats`](crate::MapleTree::stats).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Levels of nodes.
    pub height: usize,
    /// Leaves.
    pub leaves: usize,
    /// Inner nodes that do not track gaps.
    pub range_nodes: usize,
    /// Inner nodes that track gaps.
    pub gap_nodes: usize,
    /// Entries.
    pub entries: usize,
    /// Holes, those before the first and after the last entry included.
    pub holes: usize,
    /// Slots used in leaves.
    pub leaf_slots_used: usize,
    /// Slots that the leaves have.
    pub leaf_slots: usize,
    /// Slots used in inner nodes.
    pub inner_slots_used: usize,
    /// Slots that the inner nodes have.
    pub inner_slots: usize,
}

impl Stats {
    /// Nodes of all kinds.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.leaves + self.range_nodes + self.gap_nodes
    }

    /// Bytes that the nodes take, without what the allocator adds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.nodes() * NODE_BYTES
    }

    /// Share of the leaves' slots that are used, from 0 to 1.
    #[must_use]
    pub fn leaf_fill(&self) -> f64 {
        share(self.leaf_slots_used, self.leaf_slots)
    }

    /// Bytes in nodes for each entry.
    #[must_use]
    pub fn bytes_per_entry(&self) -> f64 {
        share(self.bytes(), self.entries)
    }
}

/// A part of each of `many`; 0 if there is none.
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

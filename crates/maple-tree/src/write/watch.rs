//! Events of one write, for `tracing`. Without the feature this module does not exist.

use crate::base::{Key, Shape, events};
use crate::node::RawTree;
use crate::write::two_leaves::Receiver;
use crate::write::{Plan, Quick, Rebalance, StoreType};

/// The expected effect of a write, recorded before it is made.
pub(crate) struct Watch<K> {
    kind: StoreType,
    first: K,
    last: K,
    nodes: usize,
    height: u32,
}

impl<K: Key> Watch<K> {
    pub(crate) fn new<S: Shape>(tree: &RawTree<K, S>, plan: &Plan<K, S>) -> Self {
        Self {
            kind: plan.kind,
            first: plan.first,
            last: plan.last,
            nodes: plan.nodes,
            height: tree.height(),
        }
    }

    /// Describes a write that also changes a neighbour of its leaf.
    pub(crate) fn rebalancing<S: Shape>(tree: &RawTree<K, S>, quick: Quick<K, S>) -> Self {
        let Quick { first, last, .. } = quick;
        Self {
            kind: match quick.rebalance {
                Rebalance::Spill { receiver, .. } if receiver != Receiver::New => {
                    StoreType::Rebalance
                }
                Rebalance::Append(_) | Rebalance::Spill { .. } => StoreType::Split,
                Rebalance::Underflow { .. } | Rebalance::HoleAcross { .. } => StoreType::Rebalance,
                Rebalance::None => StoreType::Node,
            },
            first,
            last,
            nodes: quick.nodes(tree.in_rcu()),
            height: tree.height(),
        }
    }

    pub(crate) fn made<S: Shape>(self, tree: &RawTree<K, S>) {
        if matches!(
            self.kind,
            StoreType::Split | StoreType::Rebalance | StoreType::Spanning
        ) {
            events::nodes(self.kind, self.first, self.last, self.nodes);
        }
        let height = tree.height();
        if self.height != height {
            events::height(self.height, height);
        }
    }
}

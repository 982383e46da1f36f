//! What the tree tells `tracing`. Without the feature this module is not there, and neither are the statements that use it.
//!
//! All events have the target `maple_tree`.
//!
//! | level | message | fields |
//! |---|---|---|
//! | `TRACE` | `nodes` | `kind` (a [`StoreType`](crate::StoreType)), `first`, `last` (the range of the write), `nodes` (allocated for it): a split, a rebalance, or a store over several leaves |
//! | `DEBUG` | `height` | `from`, `to` |
//! | `DEBUG` | `no memory` | `wanted`, `had`: nodes of a write that was therefore not made |
//! | `DEBUG` | `built` | `height`: of a tree made out of sorted entries |
//! | `DEBUG` | `duplicate` | `height`, `made` (whether it succeeded) |

use crate::key::Key;
use crate::shape::Shape;
use crate::store::StoreType;
use crate::store::plan::Plan;
use crate::tree::RawTree;

/// Watches one write, from before it is made.
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

    /// The write has been made.
    pub(crate) fn made<S: Shape>(self, tree: &RawTree<K, S>) {
        let Self {
            kind,
            first,
            last,
            nodes,
            height: from,
        } = self;
        if matches!(
            kind,
            StoreType::Split | StoreType::Rebalance | StoreType::Spanning
        ) {
            tracing::trace!(target: "maple_tree", ?kind, %first, %last, nodes, "nodes");
        }
        let to = tree.height();
        if from != to {
            tracing::debug!(target: "maple_tree", from, to, "height");
        }
    }
}

/// A node could not be had.
pub(crate) fn refused(wanted: usize, had: usize) {
    tracing::debug!(target: "maple_tree", wanted, had, "no memory");
}

/// A tree was built out of sorted entries.
pub(crate) fn built(height: u32) {
    tracing::debug!(target: "maple_tree", height, "built");
}

/// A tree was to be duplicated.
pub(crate) fn duplicate(height: u32, made: bool) {
    tracing::debug!(target: "maple_tree", height, made, "duplicate");
}

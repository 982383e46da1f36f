//! Events for `tracing`. Without the feature, neither this module nor the statements that use it
//! exist.
//!
//! All events have the target `maple_tree`.
//!
//! | level | message | fields |
//! |---|---|---|
//! | `TRACE` | `nodes` | `kind` (a [`StoreType`](crate::StoreType)), `first`, `last` (the range of the write), `nodes` (allocated for it): a split, a rebalance, or a store over several leaves |
//! | `DEBUG` | `height` | `from`, `to` |
//! | `DEBUG` | `no memory` | `wanted`, `had`: nodes of a write that was not made for lack of memory |
//! | `DEBUG` | `built` | `height`: of a tree built from sorted entries |
//! | `DEBUG` | `duplicate` | `height`, `made` (`true` if it succeeded) |

use core::fmt::{Debug, Display};

pub(crate) fn nodes(kind: impl Debug, first: impl Display, last: impl Display, nodes: usize) {
    tracing::trace!(target: "maple_tree", ?kind, %first, %last, nodes, "nodes");
}

pub(crate) fn height(from: u32, to: u32) {
    tracing::debug!(target: "maple_tree", from, to, "height");
}

pub(crate) fn refused(wanted: usize, had: usize) {
    tracing::debug!(target: "maple_tree", wanted, had, "no memory");
}

pub(crate) fn built(height: u32) {
    tracing::debug!(target: "maple_tree", height, "built");
}

pub(crate) fn duplicate(height: u32, made: bool) {
    tracing::debug!(target: "maple_tree", height, made, "duplicate");
}

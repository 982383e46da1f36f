//! Reading the tree of words: down to a leaf ([`walk`], [`path`]), to a gap of a size ([`gap`]),
//! past a few entries at once ([`visit`]), and from entry to entry ([`iterate`]).
//!
//! May use: [`base`](crate::base) and [`node`](crate::node). Nothing here writes, allocates, or
//! knows what a value is.

pub(crate) mod gap;
pub(crate) mod iterate;
pub(crate) mod path;
pub(crate) mod visit;
pub(crate) mod walk;

pub(crate) use gap::GapRequest;
pub(crate) use path::LeafPath;
pub(crate) use walk::{BoundedLeaf, Found, InSlot, descend};
// Only bindings to other languages use this, and the model checker does not compile them.
#[cfg(not(samara_loom))]
pub(crate) use walk::prefetch_leaves;

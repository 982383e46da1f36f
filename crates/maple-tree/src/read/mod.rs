//! Reading the tree of words: down to a leaf ([`walk`], [`path`]), to a hole of a size ([`gap`]), past a few entries at once ([`visit`]),
//! and from entry to entry ([`iterate`]).
//!
//! May know: [`base`](crate::base) and [`node`](crate::node). Nothing here writes, allocates, or knows what a value is.

pub(crate) mod gap;
pub(crate) mod iterate;
pub(crate) mod path;
pub(crate) mod visit;
pub(crate) mod walk;

pub(crate) use gap::Want;
pub(crate) use path::LeafPath;
pub(crate) use walk::{Found, InSlot, Place, descend};
// The model checker does not compile the shell for other languages, which alone goes this way.
#[cfg(not(samara_loom))]
pub(crate) use walk::ask_ahead;

//! Iterating over entries in order without a concurrent writer, in two modes that differ in how
//! much of the tree they read together. (Readers under a concurrent writer go from slot to slot, as
//! [cursors](crate::api::cursor) do.)
//!
//! | module | reads | for |
//! |---|---|---|
//! | [`by_leaf`] | a leaf, its entries as bits of a word | iterators of maps |
//! | [`by_window`] | several leaves, their entries as bits of a word | `fold`, `for_each` and the like |

pub(crate) mod by_leaf;
pub(crate) mod by_window;

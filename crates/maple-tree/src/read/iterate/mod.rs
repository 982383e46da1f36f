//! Two ways of traversing entries in order while no writer is active. They differ in the part of
//! the tree that they read at once. (Readers concurrent with a writer go from slot to slot, as
//! [cursors](crate::api::cursor) do.)
//!
//! | module | looks at | for |
//! |---|---|---|
//! | [`by_leaf`] | a leaf, its entries as bits of a word | iterators of maps |
//! | [`by_window`] | several leaves, their entries as bits of a word | `fold`, `for_each` and the like |

pub(crate) mod by_leaf;
pub(crate) mod by_window;

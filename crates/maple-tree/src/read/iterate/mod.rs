//! Going through entries in order, three ways that differ in how much of the tree they look at together.
//!
//! | module | looks at | while a writer is about | for |
//! |---|---|---|---|
//! | [`by_entry`] | a slot | yes | readers, and maps that are taken apart |
//! | [`by_leaf`] | a leaf, its entries as bits of a word | no | iterators of maps |
//! | [`by_window`] | several leaves, their entries as bits of a word | no | `fold`, `for_each` and the like |

pub(crate) mod by_entry;
pub(crate) mod by_leaf;
pub(crate) mod by_window;

#![doc = include_str!("../README.md")]
//!
//! One module a header. They translate and nothing more: pointers to references, results to the values that C callers expect.
#![cfg_attr(docsrs, feature(doc_cfg))]

/// A constructor that is `const`, except with the model checker's atomics, which have no constant ones.
#[cfg(any(not(samara_loom), test))]
macro_rules! const_unless_loom {
    ($(#[$meta:meta])* $vis:vis const fn $($rest:tt)*) => {
        #[cfg(not(samara_loom))]
        $(#[$meta])* $vis const fn $($rest)*
        #[cfg(samara_loom)]
        $(#[$meta])* $vis fn $($rest)*
    };
}

#[cfg(any(not(samara_loom), test))]
mod atomic;
#[cfg(not(samara_loom))]
pub mod maple_tree;
pub mod memblock;
#[cfg(all(feature = "mm", not(samara_loom)))]
#[cfg_attr(docsrs, doc(cfg(feature = "mm")))]
pub mod mm;
#[cfg(all(samara_loom, test))]
#[path = "maple_tree/rcu/model.rs"]
mod model;

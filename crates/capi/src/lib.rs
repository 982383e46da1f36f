#![doc = include_str!("../README.md")]
//!
//! There is one module for each header. The modules only translate: pointers to references, and
//! results to the values that C callers expect.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(any(not(samara_loom), test))]
#[macro_use(const_unless_loom)]
extern crate samara_rcu;

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

#![doc = include_str!("../README.md")]
//!
//! One module a header. They translate and nothing more: pointers to references, results to the values that C callers expect.

pub mod maple_tree;
pub mod memblock;

#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]

extern crate alloc as std_alloc;

#[macro_use]
mod macros;

mod batch;
mod block;
mod counted;
mod pool;
mod reserve;
mod shared;
mod slabs;
mod source;

pub use batch::NodeBatch;
pub use counted::Counted;
pub use pool::Pool;
pub use reserve::{AllocError, Reserve};
pub use shared::SharedPool;
pub use source::{Fork, Global, NodeAlloc};

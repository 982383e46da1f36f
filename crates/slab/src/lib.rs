#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]

extern crate alloc as std_alloc;

#[macro_use]
mod common;

mod block;
mod counted;
mod pool;
mod reserve;
mod shared;
mod slabs;
mod source;
mod supply;

pub use counted::Counted;
pub use pool::Pool;
pub use reserve::{AllocError, Reserve};
pub use shared::SharedPool;
pub use source::{Fork, Global, NodeAlloc};
pub use supply::Supply;

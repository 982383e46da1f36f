#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(test), no_std)]
#![warn(missing_docs)]

mod add;
mod alloc;
mod array;
mod change;
mod cursor;
mod dump;
mod error;
pub mod firmware;
mod frames;
mod grow;
mod isolate;
mod iter;
mod map;
mod memblock;
mod notice;
mod pfn;
mod query;
mod region;
mod release;

#[cfg(test)]
mod tests;

pub use alloc::{ALLOC_NOLEAKTRACE, CACHE_LINE, LOW_ADDRESS_LIMIT};
pub use array::RegionType;
pub use cursor::{Cursor, Filter, Span};
pub use dump::Dump;
pub use error::Error;
pub use frames::{FreeFrames, FreedFrames, PfnRanges};
pub use iter::Spans;
pub use map::{DirectMap, Identity, PhysMap, Unmapped};
pub use memblock::{ALLOC_ACCESSIBLE, ALLOC_ANYWHERE, INIT_REGIONS, Kind, Memblock, Storage};
pub use notice::Notice;
pub use pfn::PAGE_SIZE;
pub use region::{Flags, NodeId, Region, addrs_overlap};
pub use release::{PageAllocator, PageBlocks, Released};

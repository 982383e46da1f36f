#![doc = include_str!("../README.md")]
// The model checker's build does not use some items.
#![cfg_attr(samara_loom, allow(dead_code, unused_imports, missing_docs))]
#![cfg_attr(not(any(test, feature = "hosted")), no_std)]

extern crate alloc;

mod arena;
mod atomic;
mod check;
mod copy;
mod cursor;
mod deferred_free;
mod dump;
mod entry;
mod error;
mod fault;
mod fork;
pub mod format;
mod frame_cache;
mod frames;
#[cfg(feature = "hosted")]
mod hosted;
mod huge;
mod invalidate;
mod kernel_half;
mod map;
mod merge;
mod phys;
mod prealloc;
mod protect;
mod pte_ref;
mod reclaim;
mod relax;
mod relocate;
mod rmap;
mod shard;
mod share;
mod space;
mod spin;
mod swap;
mod table;
mod table_count;
mod unmap;
mod walk;
mod zero;

pub use arena::{Arena, ArenaMemory, Bytes, DirectMap, HeapBytes, Ranges};
pub use check::check;
pub use dump::Dump;
pub use entry::{Attrs, ENTRIES, Entry, PAGE_SIZE, PageSize};
pub use error::Error;
pub use fault::FrameRef;
pub use fork::{ForkFilter, Mapping};
pub use format::Format;
pub use frames::{Census, FrameInfo, Frames, Kind};
#[cfg(feature = "hosted")]
pub use hosted::HostMemory;
pub use invalidate::{Asid, Changed, Context, Invalidate, SHARED_TABLE_BATCH};
pub use map::Source;
pub use phys::{FrameAllocator, Memory, PhysMem, Physical};
pub use prealloc::Preallocation;
pub use protect::{Change, PageFilter, WritePolicy};
pub use pte_ref::PteRef;
pub use reclaim::{Exclusive, Grace, GraceSection, Reclaim};
pub use relax::{relax, set_relax};
pub use space::PageTables;
pub use unmap::UnmapFilter;
pub use walk::{PageInfo, View};

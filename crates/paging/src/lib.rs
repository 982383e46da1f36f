#![doc = include_str!("../README.md")]
// Some of it the model checker's build does not use.
#![cfg_attr(samara_loom, allow(dead_code, unused_imports, missing_docs))]
#![cfg_attr(not(any(test, feature = "hosted")), no_std)]

extern crate alloc;

mod arena;
mod atomic;
mod check;
mod copy;
mod cursor;
mod dead;
mod dump;
mod entry;
mod error;
mod fault;
mod fork;
pub mod format;
mod frames;
mod half;
#[cfg(feature = "hosted")]
mod hosted;
mod huge;
mod invalidate;
mod lane;
mod map;
mod merge;
mod phys;
mod protect;
mod reclaim;
mod relax;
mod relocate;
mod reserve;
mod share;
mod space;
mod spare;
mod spin;
mod spot;
mod stock;
mod strip;
mod swap;
mod table;
mod unmap;
mod walk;
mod zero;

pub use arena::{Arena, Bytes, DirectMap, HeapBytes, Place, Ranges};
pub use check::check;
pub use dump::Dump;
pub use entry::{Attrs, ENTRIES, Entry, PAGE_SIZE, PageSize};
pub use error::Error;
pub use fault::Pin;
pub use fork::{Copy, Mapping};
pub use format::Format;
pub use frames::{Census, FrameInfo, Frames, Kind};
#[cfg(feature = "hosted")]
pub use hosted::HostMemory;
pub use invalidate::{Asid, Changed, Context, Invalidate, SHARED_AT_ONCE};
pub use map::Source;
pub use phys::{FrameAllocator, Memory, PhysMem, Physical};
pub use protect::{Among, Change, Write};
pub use reclaim::{Exclusive, Grace, GraceSection, Reclaim};
pub use relax::{relax, set_relax};
pub use space::PageTables;
pub use spare::Spare;
pub use spot::Spot;
pub use unmap::Take;
pub use walk::{PageInfo, View};

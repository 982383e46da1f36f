//! Processes with pages: an [`AddressSpace`](crate::AddressSpace) and the page tables that follow each of its calls.
//!
//! A [`Machine`] is physical memory, with the pages of the files that are mapped on it. A [`Process`] takes system calls and page faults,
//! copies bytes in and out, and forks. What a fault does, which signal it raises and what `/proc/PID/pagemap` would tell is what Linux on x86-64 does
//! and tells.
//!
//! ```
//! use samara_mm::process::{Access, Fault, Machine, Platform, Process};
//! use samara_mm::{Config, Layout, Limits, MmapOptions, Prot};
//! use samara_paging::{Arena, Grace, HeapBytes, Physical, format::X86_64};
//!
//! struct Hosted;
//!
//! impl Platform for Hosted {
//!     type Format = X86_64;
//!     type Backing = Arena<HeapBytes>;
//!     type Reclaim = Grace;
//!     type Tlb = ();
//!     type Mutex = parking_lot::RawMutex;
//!     type RwLock = parking_lot::RawRwLock;
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let memory = Arena::on_heap(1024)?;
//! let physical = Physical::new(memory, Grace::new(), Arena::<HeapBytes>::BASE, 1024)?;
//! let machine: Machine<Hosted> = Machine::new(physical, ()).map_err(|e| e.to_string())?;
//! let process = Process::new(&machine, Config::default(), Limits::default(), Layout::default())
//!     .map_err(|e| e.to_string())?;
//!
//! let memory = MmapOptions::anonymous(0x2000).prot(Prot::READ | Prot::WRITE);
//! let addr = process.mmap(&memory).map_err(|e| e.to_string())?;
//! assert_eq!(process.copy_in(addr + 0xffe, b"four"), 4); // two pages, by two faults
//! let mut bytes = [0; 4];
//! assert_eq!(process.copy_out(addr + 0xffe, &mut bytes), 4);
//! assert_eq!(&bytes, b"four");
//! assert_eq!(process.fault(addr + 0x2000, Access::READ), Err(Fault::MAPERR));
//! # Ok(())
//! # }
//! ```
//!
//! # Locks, outermost first
//!
//! ```text
//! address space (read: faults, copies, look-ups; write: calls, fork, growth, an area's first owner of private pages)
//!   of two, a parent's before its child's
//!   an area (held by faults that do without the lock above; closed by calls, which hold that one, too)
//!     a file's pages
//!       last-level table, frames' counts (samara-paging's own)
//!   lists of a machine (nothing is taken inside)
//! ```
//!
//! Whoever changes what several processes map (truncation, punched holes, write-back) visits them one after the other and holds no more than one
//! address space's lock, and none of its own.

mod access;
mod bytes;
mod check;
mod fault;
mod file;
mod fork;
mod look;
mod machine;
mod mm;
mod owner;
mod platform;
mod signal;
mod smaps;
mod typed;

pub use file::{Inode, PAGE_BYTES, PageSource};
pub use fork::ForkMode;
pub use look::{PageStatus, PageView};
pub use machine::{Machine, MachineStats};
pub use mm::Process;
pub use platform::Platform;
pub use signal::{Access, Fault, Signal};
pub use smaps::Smaps;

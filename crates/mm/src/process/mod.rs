//! Processes with pages: an [`AddressSpace`](crate::AddressSpace) and the page tables that follow each of its calls.
//!
//! A [`Machine`] is physical memory, with the pages of the files that are mapped on it. A [`Process`] takes system calls and page faults,
//! copies bytes in and out, and forks. What a fault does, which signal it raises and what `/proc/PID/pagemap` would tell is what Linux on x86-64 does
//! and tells.
//!
//! ```
//! # #[cfg(not(feature = "hosted"))]
//! # fn main() {}
//! # #[cfg(feature = "hosted")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use samara_mm::process::{Access, Fault, Machine, Process};
//! use samara_mm::{Config, Layout, Limits, MmapOptions, Prot};
//! use samara_paging::Arena;
//!
//! // With the feature `hosted`: a machine of a program. Others choose each part, see `Platform`.
//! let machine = Machine::over(Arena::on_heap(1024)?).map_err(|e| e.to_string())?;
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
//! # Ends
//!
//! Dropping a process, a file or a machine closes it. A process ends by [`Process::exit`], too. A file ends, and writes its dirty pages, with the last handle of its
//! [`Object`](crate::Object): each open file, each mapping and the file system may have one. Only `exit` and [`Machine::sync_file`] return an error of that.
//! A machine ends with its last handle and its last process. The project's guide
//! `docs/guides/kernel-in-a-program.md` has a program that shows all of it.
//!
//! # Locks, outermost first
//!
//! ```text
//! address space (read: faults, copies, look-ups; write: calls, fork, growth, an area's first owner of private pages)
//!   of two, a parent's before its child's
//!   an area (held by faults, and by `discard`, that do without the lock above; closed by calls, which hold that one, too)
//!     a file's pages
//!       last-level table, frames' counts (samara-paging's own)
//!         what a virtual processor is asked to forget (nothing is taken inside)
//!   lists of a machine (nothing is taken inside)
//! ```
//!
//! Whoever changes what several processes map (truncation, punched holes, write-back) visits them one after the other and holds no more than one
//! address space's lock, and none of its own.

mod access;
mod address_set;
mod atomic_ops;
mod bytes;
mod check;
mod discard;
#[cfg(feature = "exec")]
mod exec;
mod fault;
mod file;
mod fork;
mod handle;
#[cfg(feature = "hosted")]
mod hosted;
mod in_place;
#[cfg(feature = "hosted")]
mod lock;
mod lockless_map;
mod machine;
mod merged;
mod mm;
mod needed_pages;
mod owner;
mod page_status;
mod platform;
mod retained_tables;
mod signal;
mod soft;
mod typed;

pub use crate::observe::smaps::Smaps;
pub use fault::{SwapDevice, Swapped};
pub(crate) use file::is_memory;
pub use file::{FrameRun, Inode, PAGE_BYTES, PageFrame, PageSource};
pub use fork::ForkMode;
pub use handle::Process;
#[cfg(feature = "hosted")]
pub use hosted::Hosted;
#[cfg(feature = "hosted")]
pub use lock::HostLock;
pub use machine::{Machine, MachineStats};
pub(crate) use mm::Mm;
pub use page_status::{PageStatus, PageView};
pub use platform::Platform;
pub use signal::{Access, Fault, Signal};
pub use soft::{Running, SoftTlb, Stop, TellsVcpus, Vcpus, Word};

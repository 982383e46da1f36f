//! Processes with pages: an [`AddressSpace`](crate::AddressSpace) and the page tables that follow
//! each of its calls.
//!
//! A [`Machine`] is physical memory with the pages of the files that are mapped on it. A
//! [`Process`] performs system calls, handles page faults, copies bytes in and out, and forks.
//! Faults, the signals that they raise, and the words of `/proc/PID/pagemap` are those of Linux on
//! x86-64.
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
//! // With the feature `hosted`, a machine within a program. `Platform` chooses each part.
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
//! # Lifetimes
//!
//! Dropping a process, a file or a machine closes it. [`Process::exit`] ends a process and reports
//! errors. A file writes its dirty pages and ends with the last handle of its
//! [`Object`](crate::Object). Each open file, each mapping and the file system may hold one. Only
//! `exit` and [`Machine::sync_file`] return an error of that write. A machine ends with its last
//! handle and its last process. The project's guide `docs/guides/kernel-in-a-program.md` has a
//! program that shows all of it.
//!
//! # Lock order, outermost first
//!
//! ```text
//! Mm::space       address space: read by faults, copies and look-ups; written by calls, fork, stack growth,
//!                 and the fault that gives a VMA its owner of private pages (anon_vma)
//!                 of two, the parent's before the child's
//!   VMA lock      held by faults and by `discard` that take no `Mm::space`;
//!                 closed by calls, which hold `Mm::space` for writing, too
//!     Cache       the cached pages of a file
//!       page table   last-level table and frame counts (the locks of samara-paging)
//!         Slot::requests   invalidation requests of a virtual processor; innermost
//!   Machine       its lists (processes, swap area, merged frames), each innermost
//!   AddressSet    retained tables, needed pages; each innermost
//! ```
//!
//! A change of a file that several processes map (truncation, punched holes, write-back) visits
//! them one after the other. It holds the lock of at most one address space at a time, and no lock
//! of the machine.
//!
//! # Not modelled
//!
//! No scheduler, no thread and no signal delivery: the caller delivers the signal that a fault
//! returns. No page is reclaimed unasked: the caller asks for swap-out, reaping and collapse.

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

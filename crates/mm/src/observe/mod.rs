//! Observers: what Linux shows of an address space, and walks over one. None has a list of its own:
//! they walk the tree of VMAs and the page tables.
//!
//! | file | concept | in Linux |
//! |---|---|---|
//! | `text` | the map | `/proc/PID/maps` |
//! | `query` | one VMA, by address and conditions | `PROCMAP_QUERY` |
//! | `probe` | a range's holes, files and special VMAs | tests of drivers before they use a range |
//! | `boundaries` | the reasons why VMAs do not merge, for a map that comes line by line | |
//! | `file_offset` | the addresses of a byte of a file | uprobes |
//! | `task_vma` | iteration over VMAs that does not hold the map between steps | `bpf_iter_task_vma` |
//! | `records` | mappings, all or as they are made | `PERF_RECORD_MMAP2` |
//! | `mapped_files` | the mapped files | `/proc/PID/map_files` |
//! | `acct` | the size of the map for accounting | acct(5) |
//! | `flush` | mapped parts to flush | caches of architectures |
//! | `special` | the kernel's own VMAs, `[vdso]` and similar | the same |
//! | `regions` | the three regions of an address space | DAMON |
//! | `oom` | the choice of a process to kill without memory | `/proc/PID/oom_score` |
//! | `core_file` | a core dump, as a stream | core(5) |
//! | `walk` | VMAs, holes, pages and guards, in order | a page walk with callbacks |
//! | `smaps` | pages in memory, by VMA and in all | `/proc/PID/smaps`, `smaps_rollup` |
//! | `pagemap` | a word for each page | `/proc/PID/pagemap` |
//! | `clear_refs` | clearing accessed and soft-dirty bits | `/proc/PID/clear_refs` |
//! | `numa_maps` | policies, and pages of each node | `/proc/PID/numa_maps` |
//! | `memory` | totals | `/proc/PID/statm`, `status` |
//! | `dump` | a process with pages as the source of a core dump | |
//! | `transfer` | copies between processes | `process_vm_readv(2)` |
//!
//! Those from `walk` on need the feature `paging`.

mod acct;
mod boundaries;
#[cfg(feature = "paging")]
mod clear_refs;
pub mod core_file;
#[cfg(feature = "paging")]
mod dump;
mod file_offset;
mod flush;
mod mapped_files;
#[cfg(feature = "paging")]
mod memory;
#[cfg(feature = "paging")]
mod numa_maps;
mod oom;
#[cfg(feature = "paging")]
mod pagemap;
mod probe;
mod query;
mod records;
mod regions;
#[cfg(feature = "paging")]
pub(crate) mod smaps;
mod special;
mod task_vma;
mod text;
#[cfg(feature = "paging")]
mod transfer;
#[cfg(feature = "paging")]
mod walk;

pub use acct::Acct;
pub use boundaries::Borders;
#[cfg(feature = "paging")]
pub use clear_refs::ClearRefs;
pub use mapped_files::MapFile;
#[cfg(feature = "paging")]
pub use memory::Memory;
#[cfg(feature = "paging")]
pub use numa_maps::NumaLine;
pub use oom::{badness, oom_score};
#[cfg(feature = "paging")]
pub use pagemap::PagemapWord;
pub use probe::Contents;
pub use query::{Query, QueryFlags};
pub use records::{MmapEvents, MmapRecord};
#[cfg(feature = "paging")]
pub use smaps::{Rollup, Smaps};
pub use special::Special;
pub use task_vma::TaskVmas;
#[cfg(feature = "paging")]
pub use transfer::IoVec;
#[cfg(feature = "paging")]
pub use walk::Seen;

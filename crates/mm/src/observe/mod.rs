//! Observers: what Linux tells of an address space, and what walks over one. None has a list of its own: they go over the areas' tree
//! and the page tables.
//!
//! | file | concept | as |
//! |---|---|---|
//! | `text` | the map | `/proc/PID/maps` |
//! | `query` | one area, by address and conditions | `PROCMAP_QUERY` |
//! | `probe` | whether a range has a hole, a file, a special area | what drivers ask before they use a range |
//! | `borders` | what keeps areas apart, of a map that comes line by line | |
//! | `places` | where a byte of a file is | what uprobes ask |
//! | `task_vma` | areas one after the other, with the map let go in between | `bpf_iter_task_vma` |
//! | `records` | mappings, all or as they are made | `PERF_RECORD_MMAP2` |
//! | `mapped_files` | the files that are mapped | `/proc/PID/map_files` |
//! | `acct` | the size of the map, as it is accounted for | acct(5) |
//! | `flush` | mapped parts to be flushed | what architectures ask |
//! | `special` | where the kernel's own pages are, `[vdso]` and its like | the same |
//! | `regions` | the three regions of an address space | DAMON |
//! | `oom` | which process is ended where memory runs out | `/proc/PID/oom_score` |
//! | `core_file` | a core dump, as a stream | core(5) |
//! | `walk` | areas, holes, pages and guards, in order | a page walk with callbacks |
//! | `smaps` | pages in memory, by area and in all | `/proc/PID/smaps`, `smaps_rollup` |
//! | `pagemap` | a word for each page | `/proc/PID/pagemap` |
//! | `clear_refs` | marks of use and of writing are cleared | `/proc/PID/clear_refs` |
//! | `numa_maps` | policies, and pages of each node | `/proc/PID/numa_maps` |
//! | `memory` | figures of memory | `/proc/PID/statm`, `status` |
//! | `dump` | a process with pages as the source of a core dump | |
//! | `transfer` | bytes from one process to another | `process_vm_readv(2)` |
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

//! Walkers: passes over the VMAs and pages of processes that change them. None has a list of pages,
//! except KSM, which records the merged and the unmerged pages of its pass.
//!
//! | file | concept | in Linux |
//! |---|---|---|
//! | `damon` | access sampling by regions | DAMON |
//! | `khugepaged` | small pages become huge ones | `khugepaged` |
//! | `ksm` | equal pages become one | KSM |
//! | `numa_scan` | hinting faults, which show the accessing processor; moving charges of pages | NUMA balancing, memory control |
//! | `pin` | references on pages for devices and debuggers | `get_user_pages`, `pin_user_pages` |
//! | `reap` | early release of the memory of a killed process | the OOM reaper |
//!
//! Swap is with the faults that bring pages back: [`SwapDevice`](crate::process::SwapDevice).

mod damon;
mod khugepaged;
mod ksm;
mod numa_scan;
mod pin;
mod reap;

pub use damon::{Damon, DamonRegion};
pub use khugepaged::{CollapseLimits, CollapseStats, Khugepaged};
pub use ksm::{Ksm, KsmStats};
pub use numa_scan::{Charges, NumaScan, NumaStats};
pub use pin::{PinFlags, PinnedPages};

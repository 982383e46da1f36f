//! Walkers: what goes over the areas and pages of processes and does something with them. None has a list of pages of its own, but for KSM, which
//! remembers what it has merged and what was alone in this pass.
//!
//! | file | concept | in Linux |
//! |---|---|---|
//! | `pin` | references on pages for devices and debuggers | `get_user_pages`, `pin_user_pages` |
//! | `ksm` | equal pages become one | KSM |
//! | `khugepaged` | small pages become huge ones | `khugepaged` |
//! | `numa_scan` | pages fault once, so that it is seen who uses them; charges of pages move | NUMA balancing, memory control |
//! | `damon` | regions that are used alike, by sampling | DAMON |
//! | `reap` | the memory of a process that is being ended | the OOM reaper |
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

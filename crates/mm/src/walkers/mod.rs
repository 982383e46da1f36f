//! Walkers: what goes over the areas and pages of processes and does something with them. None has a list of pages of its own.
//!
//! | file | concept | in Linux |
//! |---|---|---|
//! | `pin` | references on pages for devices and debuggers | `get_user_pages`, `pin_user_pages` |
//! | `reap` | the memory of a process that is being ended | the OOM reaper |
//!
//! Swap is with the faults that bring pages back: [`SwapDevice`](crate::process::SwapDevice).

mod pin;
mod reap;

pub use pin::{PinFlags, PinnedPages};

//! Walkers: what goes over the areas and pages of processes and does something with them. None has a list of pages of its own.
//!
//! | file | concept | in Linux |
//! |---|---|---|
//! | `pin` | references on pages for devices and debuggers | `get_user_pages`, `pin_user_pages` |

mod pin;

pub use pin::{PinFlags, PinnedPages};

//! What the standard types do on the heap, with allocations that can fail. Public for the C interface, which has none that may abort either; no part of
//! what this crate promises.

pub(crate) mod boxed;
pub(crate) mod counted;
pub(crate) mod place;

pub use boxed::{try_box, try_str};
pub use counted::{Counted, Weak};

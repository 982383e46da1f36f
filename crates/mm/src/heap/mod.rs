//! Boxes, counted handles and strings of the heap, with allocations that can fail. Public for the C
//! interface, which must not abort either, and no part of this crate's promises.

pub(crate) mod boxed;
pub(crate) mod counted;
pub(crate) mod place;

pub use boxed::{try_box, try_str};
pub use counted::{Counted, Weak};

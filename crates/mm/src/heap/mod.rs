//! What the standard types do on the heap, with allocations that can fail.

pub(crate) mod boxed;
pub(crate) mod counted;

//! Views of a whole tree from outside: its soundness ([`check`]), its contents ([`dump`]), and its cost
//! ([`stats`]).
//!
//! May know: [`base`](crate::base) and [`node`](crate::node). Nothing that works on trees depends on it.

pub(crate) mod check;
pub(crate) mod dump;
pub(crate) mod stats;

//! Looking at a whole tree from outside: is it sound ([`check`]), what is in it ([`dump`]), and what does it cost ([`stats`])?
//!
//! May know: [`base`](crate::base) and [`node`](crate::node). Nothing that works on trees depends on it.

pub(crate) mod check;
pub(crate) mod dump;
pub(crate) mod stats;

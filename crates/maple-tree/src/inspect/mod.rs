//! Inspecting a whole tree: checking it ([`check`]), printing it ([`dump`]), and measuring it
//! ([`stats`]).
//!
//! May use: [`base`](crate::base) and [`node`](crate::node). No module that works on trees depends
//! on it.

pub(crate) mod check;
pub(crate) mod dump;
pub(crate) mod stats;

#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

pub mod checker;
pub mod compare;
pub mod counted;
pub mod describe;
pub mod names;
pub mod orderings;
pub mod replica;
pub mod seed;
pub mod tally;
pub mod undecided;

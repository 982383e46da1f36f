#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

pub mod compare;
pub mod counted;
pub mod describe;
pub mod follow;
pub mod histories;
pub mod names;
pub mod seed;
pub mod side;
pub mod tally;
pub mod undecided;

//! The data of the benchmarks: the same on every machine for the same seed.

mod random;
mod ranges;

pub use random::Random;
pub use ranges::{Item, Ranges};

//! Tests with access to internals: against a model, with forced growth, with arrays that cannot
//! grow.

mod allocation;
mod arena;
mod exhaustive;
mod grow;
mod hostile;
mod model;
mod random;
mod regions;
mod release;
mod walks;

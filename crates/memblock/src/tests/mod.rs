//! Tests that need to see inside: against a model, with growth forced, with arrays that cannot grow.

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

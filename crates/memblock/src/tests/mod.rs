//! Tests that need to see inside: against a model, with growth forced, with arrays that cannot grow.

mod arena;
mod exhaustive;
mod grow;
mod model;
mod random;
mod release;
mod semantics;

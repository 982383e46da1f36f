//! The calls of both faces that change a map as a whole or join neighbours, against the flat array: over every short history at
//! fanout 4, with allocations that fail at each place, and with values that count how many of them live.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod face;
mod support;

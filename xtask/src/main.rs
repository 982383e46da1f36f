//! Placeholder while the first storey is built.
fn main() {}

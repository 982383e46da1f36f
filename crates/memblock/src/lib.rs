//! Placeholder while the first storey is built.
#![no_std]

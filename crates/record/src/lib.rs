//! The format of recorded memory calls: what a program did and what the kernel answered, enough to perform all of it again without either.
//!
//! # The file
//!
//! ```text
//! "SAMARATR"  version:u32  length:u32  crc32:u32  description (JSON, `length` bytes)
//! chunk*      length:u32   crc32:u32   records (`length` bytes)
//! ```
//!
//! Numbers in headers are little-endian. A chunk's check sum starts from the chunk's number, so that chunks cannot
//! change places. Chunks hold whole records; each starts with a byte for its kind, and its fields are LEB128 numbers (signed ones
//! in zigzag form), texts with their length in front, or lists with their count in front. The last record of a complete trace is
//! `end`: a file without it was interrupted, and what is whole of it is read. The description names the records and their fields, so that a file explains itself.
//!
//! [`Recorder`] writes the whole file for whoever performs calls by [`AddressSpace`](samara_mm::AddressSpace). Others append its parts:
//! a part that is appended has a function `put_…`, and one of the same name without `put_` reads it again: `None` for bytes that make no sense.

#![no_std]

extern crate alloc;

mod call;
mod fields;
mod format;
mod recorder;
mod state;

pub use call::{call, put_call};
pub use fields::{Fields, put, put_signed, put_text};
pub use format::{MAGIC, OLDEST, SCHEMA, VERSION, head_of_chunk, head_of_file, kind};
pub use recorder::Recorder;
pub use state::{
    config, file, layout, limits, put_config, put_file, put_layout, put_limits, put_ranges,
    put_seed_area, ranges, seed_area,
};

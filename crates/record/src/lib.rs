//! The format of recorded memory calls: the calls of a program and the kernel's results, complete
//! enough to perform all of them again without either.
//!
//! # The file
//!
//! ```text
//! "SAMARATR"  version:u32  length:u32  crc32:u32  description (JSON, `length` bytes)
//! chunk*      length:u32   crc32:u32   records (`length` bytes)
//! ```
//!
//! Numbers in headers are little-endian. A chunk's checksum starts from the chunk's number, so that
//! chunks cannot change places. Chunks contain whole records. A record starts with a byte for its
//! kind. Its fields are LEB128 numbers (signed ones in zigzag form), texts preceded by their
//! length, and lists preceded by their count. The last record of a complete trace is `end`. A file
//! without it was interrupted, and its complete chunks can be read. The description names the
//! records and their fields, so that a file explains itself.
//!
//! [`Recorder`] writes the whole file for a program that performs calls through
//! [`AddressSpace`](samara_mm::AddressSpace). Other programs append its parts. Each part has a
//! function `put_…` that appends it, and one of the same name without `put_` that reads it. The
//! latter returns `None` for invalid bytes.

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

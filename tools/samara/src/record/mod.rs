//! Recorded traces: what a program did and what the kernel answered, enough to perform all of it again without either.
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

mod call;
mod fields;
mod format;
mod map;
mod read;
mod sink;
mod state;
mod strace;
mod write;

pub(crate) use format::{Reason, Record};
pub(crate) use map::MapChange;
pub(crate) use read::{Cut, Reader};
pub(crate) use write::{Writer, file_of};

//! Recorded traces: what a program did and what the kernel answered, enough to perform all of it again without either.
//!
//! The format is that of `samara-record`.

mod format;
mod map;
mod read;
mod sink;
mod strace;
mod write;

pub use format::{Reason, Record};
pub use map::MapChange;
pub use read::{Cut, Reader};
pub use write::{Writer, file_of};

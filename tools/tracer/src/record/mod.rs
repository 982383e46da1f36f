//! Recorded traces: the program's calls and the kernel's answers. They suffice to perform all calls
//! again without the program and its kernel.
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

//! Files and shared objects: where their pages come from, and those that are in memory.
//!
//! | file | concept |
//! |---|---|
//! | `source` | what a file is to the machine: the owner's part |
//! | `inode` | a file, with its pages on each machine |
//! | `cache` | its pages on one machine |
//! | `cached` | those that are in memory, by their numbers |
//! | `copied` | the bytes of a page for a source that takes them |
//! | `written` | what came of writing its pages when it is given up |
//! | `seen` | which processes may have pages of it |
//! | `by_offset` | its bytes as `read(2)` and `write(2)` name them |
//! | `mapped` | what is done to all mappings of a file: truncation, holes, write-back |

mod bounce_buffer;
mod cache;
mod cached;
mod file_filter;
mod inode;
mod mapped;
mod read_write;
mod source;
mod writeback;

pub(super) use cached::CachedPages;
pub(super) use file_filter::FileFilter;
pub use inode::Inode;
pub(crate) use inode::is_memory;
pub(super) use source::Zeroes;
pub use source::{FrameRun, PAGE_BYTES, PageFrame, PageSource};

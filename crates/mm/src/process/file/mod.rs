//! Files and shared objects: the sources of their pages, and the cached pages.
//!
//! | file | concept |
//! |---|---|
//! | `bounce_buffer` | the bytes of one page, copied for a source |
//! | `cache` | the cached pages of a file on one machine |
//! | `cached` | the index of cached pages by number |
//! | `file_filter` | the files whose pages a process may have |
//! | `inode` | a file, with its cache on each machine |
//! | `mapped` | operations on all mappings of a file: truncation, holes, write-back |
//! | `read_write` | a file's bytes by offset |
//! | `source` | the client's part: the content of a file |
//! | `writeback` | the result of writing the pages of a released file |

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

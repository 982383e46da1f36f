//! The result of writing back the pages of a file that is being released.

#[cfg(feature = "hosted")]
use core::any::Any;

use crate::errno::Errno;
use crate::process::bytes::PAGE;
use crate::process::file::cache::clear_beyond;
use crate::process::file::source::PageSource;

/// The first error, and the first panic of a source: the other pages are written all the same, and a thread that is unwinding already goes on unwinding.
/// Without the feature `hosted` panics are not caught.
pub(super) struct Writeback {
    result: Result<(), Errno>,
    #[cfg(feature = "hosted")]
    panic: Option<std::boxed::Box<dyn Any + Send>>,
}

impl Writeback {
    pub(super) const fn new() -> Self {
        Writeback {
            result: Ok(()),
            #[cfg(feature = "hosted")]
            panic: None,
        }
    }

    /// Writes a page, of which nothing beyond the end of the file is part.
    pub(super) fn write(&mut self, source: &dyn PageSource, page: u64, bytes: &mut [u8; PAGE]) {
        let write = || {
            clear_beyond(source, page, bytes);
            source.write_page(page, bytes)
        };
        let written = self.caught(write);
        self.result = self.result.and(written);
    }

    #[cfg(feature = "hosted")]
    fn caught(&mut self, write: impl FnOnce() -> Result<(), Errno>) -> Result<(), Errno> {
        // What a source leaves broken by a panic is its own.
        let write = std::panic::AssertUnwindSafe(write);
        std::panic::catch_unwind(write).unwrap_or_else(|panic| {
            self.panic.get_or_insert(panic);
            Err(Errno::EIO)
        })
    }

    #[cfg(not(feature = "hosted"))]
    fn caught(&mut self, write: impl FnOnce() -> Result<(), Errno>) -> Result<(), Errno> {
        write()
    }

    /// Goes on with the first panic, unless the thread is unwinding for another one.
    ///
    /// # Errors
    /// The first one of the source.
    pub(super) fn end(self) -> Result<(), Errno> {
        #[cfg(feature = "hosted")]
        if let Some(panic) = self.panic
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
        self.result
    }
}

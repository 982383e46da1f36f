//! The result of writing back the pages of a file that is being released.

#[cfg(feature = "hosted")]
use core::any::Any;

use crate::errno::Errno;
use crate::process::bytes::PAGE;
use crate::process::file::cache::clear_beyond;
use crate::process::file::source::PageSource;

/// The first error, and the first panic of a source. All other pages are written nevertheless. A
/// panic is not raised if the thread is unwinding already. Without the feature `hosted`, panics are
/// not caught.
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

    /// Writes a page without the bytes beyond the end of the file.
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
        // A source answers for the state that it leaves after a panic.
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

    /// Returns the result, or resumes the first panic, unless the thread is unwinding already.
    ///
    /// # Errors
    /// The first error of the source.
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

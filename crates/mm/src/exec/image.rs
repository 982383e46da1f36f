//! Files as exec sees them: bytes of a program, and programs by their path.

use crate::errno::Errno;
use crate::file::File;
use crate::heap::Counted;

/// The bytes of a program's file.
///
/// Exec reads headers only, some hundred bytes of them.
pub trait Image {
    /// Returns the length of the file in bytes.
    fn len(&self) -> u64;

    /// Reads into `into` what the file has from byte `offset` on, and says how many bytes that were: fewer than asked for only at the end
    /// of the file.
    ///
    /// # Errors
    /// Those of reading; exec fails with them.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize, Errno>;

    /// Returns a file without any byte.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Image for [u8] {
    fn len(&self) -> u64 {
        <[u8]>::len(self) as u64
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize, Errno> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let there = self.get(from..).unwrap_or_default();
        let count = there.len().min(into.len());
        into[..count].copy_from_slice(&there[..count]);
        Ok(count)
    }
}

impl<I: Image + ?Sized> Image for &I {
    fn len(&self) -> u64 {
        (**self).len()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize, Errno> {
        (**self).read_at(offset, into)
    }
}

/// Set-user-ID and set-group-ID programs (`execve(2)`). Settings of the calling program must not
/// weaken them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SetId {
    /// The file has neither bit.
    #[default]
    No,
    /// It has one, and the process has these identities already. The program does not inherit the part of the
    /// [`Personality`](super::Personality) that would weaken it.
    Same,
    /// It has one, and the process gets another identity. Moreover the stack's limit counts as 8 MiB at most.
    Other,
}

/// A file that was opened to be executed.
#[derive(Debug, Clone)]
pub struct Program<I> {
    /// The file that its mappings show. Its [`description`](File::description) must be new, because
    /// each exec opens its files anew.
    pub file: Counted<File>,
    /// Its bytes.
    pub image: I,
    /// Its set-user-ID or set-group-ID property.
    pub set_id: SetId,
}

/// Programs by their path: the caller's file system.
pub trait Files {
    /// The source of its bytes.
    type Image: Image;

    /// Opens a program, its interpreter, or the interpreter of a script.
    ///
    /// # Errors
    /// As `execve(2)` has them for a path: `ENOENT`, `EACCES` if the file may not be executed, `ELOOP` … Exec fails with them.
    fn open(&mut self, path: &[u8]) -> Result<Program<Self::Image>, Errno>;
}

impl<I: Image, F: FnMut(&[u8]) -> Result<Program<I>, Errno>> Files for F {
    type Image = I;

    fn open(&mut self, path: &[u8]) -> Result<Program<I>, Errno> {
        self(path)
    }
}

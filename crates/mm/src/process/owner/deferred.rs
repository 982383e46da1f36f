//! Work that a call does after it has unlocked the address space, because it concerns other
//! processes.

use core::ops::Range;

use crate::errno::Errno;
use crate::flags::PAGE_SIZE;
use crate::object::Object;
use crate::process::file::Inode;
use crate::process::mm::Mm;
use crate::process::platform::Platform;
use crate::vma::{Backing, Vma};

/// Deferred work of a call.
pub(super) enum Deferred {
    /// An operation on a range of a file's pages.
    File(Object, Range<u64>, FileOp),
    /// `MADV_FREE` of the pages in this range.
    Freed(Range<u64>),
}

#[derive(Clone, Copy)]
pub(super) enum FileOp {
    /// Writes dirty pages back (`msync`).
    WriteBack,
    /// Punches a hole (`MADV_REMOVE`).
    Punch,
}

impl Deferred {
    /// Creates the work for the part `[start, end)` of a VMA, if it maps an object.
    pub(super) fn of(start: u64, end: u64, vma: &Vma, what: FileOp) -> Option<Self> {
        let object = match &vma.backing {
            Backing::File(file) => &file.object,
            Backing::SharedAnonymous(shared) => shared.object(),
            Backing::Shm { segment, .. } => &segment.file.object,
            _ => return None,
        };
        let first = vma.page_offset(start);
        let pages = first..first + (end - start) / PAGE_SIZE;
        Some(Deferred::File(object.clone(), pages, what))
    }

    /// Does the work.
    ///
    /// Preconditions: no address space is locked.
    ///
    /// # Errors
    /// The call's.
    pub(super) fn perform<P: Platform>(self, mm: &Mm<P>) -> Result<(), Errno> {
        let (object, Range { start, end }, what) = match self {
            Deferred::File(object, pages, what) => (object, pages, what),
            Deferred::Freed(range) => {
                mm.note_lazily_freed(range);
                return Ok(());
            }
        };
        let Some(inode) = object.get::<Inode>() else {
            return Ok(());
        };
        let machine = &mm.machine;
        match what {
            FileOp::WriteBack => machine.write_back(inode, start, end),
            FileOp::Punch => {
                let (start, end) = (start * PAGE_SIZE, end * PAGE_SIZE);
                // The source comes first. Otherwise a page that is read again after it left the
                // cache would have the old bytes.
                inode.source().punch(start, end)?;
                machine.punch(&object, start, end)
            }
        }
    }
}

//! The tables as the owner of an address space's pages: what calls tell is done to them.
//!
//! What needs memory is done before the map changes (`prepare`): whatever is divided at the ends of a range by a huge page or a shared table is
//! made whole and own. What goes to files (`msync`, `MADV_REMOVE`) is noted during the call, and done afterwards without the address space's lock, since
//! it concerns other processes, too.

use alloc::vec::Vec;
use core::ops::Range;

use samara_paging::{Attrs, Change, Error, Take, Write};

use crate::abi::SyncFlags;
use crate::errno::Errno;
use crate::flags::{PAGE_SIZE, PMD_SIZE, VmFlags};
use crate::pages::{Coming, Discard, Object, Pages};
use crate::process::fault::{allowed, is_memory};
use crate::process::file::{Inode, Zeroes};
use crate::process::mm::Mm;
use crate::process::platform::Platform;
use crate::process::signal::Fault;
use crate::space::vma::{Area, Backing, Vma};

/// What stands in the tables where a guard is (`MADV_GUARD_INSTALL`).
const GUARD: u32 = 1;

/// The tables of one process during one call.
pub(super) struct Owner<'a, P: Platform> {
    mm: &'a Mm<P>,
    later: Vec<Later>,
}

/// Something to be done with a file after the call.
struct Later {
    object: Object,
    /// Pages of the file.
    pages: Range<u64>,
    what: What,
}

#[derive(Clone, Copy)]
enum What {
    WriteBack,
    Punch,
}

impl<'a, P: Platform> Owner<'a, P> {
    pub(super) fn new(mm: &'a Mm<P>) -> Self {
        Owner {
            mm,
            later: Vec::new(),
        }
    }

    /// What the call has left to be done; the address space is not locked.
    ///
    /// # Errors
    /// The call's.
    pub(super) fn finish(self) -> Result<(), Errno> {
        let machine = &self.mm.machine;
        let mut result = Ok(());
        for later in self.later {
            let Some(inode) = later.object.get::<Inode>() else {
                continue;
            };
            let Range { start, end } = later.pages;
            let done = match later.what {
                What::WriteBack => machine.write_back(inode, start, end),
                What::Punch => {
                    let (start, end) = (start * PAGE_SIZE, end * PAGE_SIZE);
                    // First the source: a page that is read after it has left the cache must not be what it was.
                    inode
                        .source()
                        .punch(start, end)
                        .and_then(|()| machine.punch(&later.object, start, end))
                }
            };
            result = result.and(done);
        }
        result
    }

    fn note(&mut self, start: u64, end: u64, vma: &Vma, what: What) -> Result<(), Errno> {
        let object = match &vma.backing {
            Backing::File(file) => &file.object,
            Backing::SharedAnonymous(shared) => shared.object(),
            Backing::Shm { segment, .. } => &segment.file.object,
            _ => return Ok(()),
        };
        self.later.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        self.later.push(Later {
            object: object.clone(),
            pages: vma.page_offset(start)..vma.page_offset(start) + (end - start) / PAGE_SIZE,
            what,
        });
        Ok(())
    }

    /// Nothing that is shared or huge reaches across `addr`.
    fn divide(&self, addr: u64) -> Result<(), Errno> {
        if addr.is_multiple_of(PMD_SIZE) {
            return Ok(());
        }
        let page = addr & !(PAGE_SIZE - 1);
        self.change(page..page + PAGE_SIZE, Change::without(Attrs::empty()))
    }

    /// Pages go, guards stay.
    fn take_pages(&self, start: u64, end: u64) -> Result<(), Errno> {
        let tlb = self.mm.machine.tlb();
        self.mm
            .tables
            .unmap_with(start..end, Take::Pages, tlb, |_, _| {})
            .map_err(no_memory)
    }

    /// Puts markers where no pages are, or takes them away. When memory runs out, some are there and others not.
    fn mark(&self, start: u64, end: u64, marker: Option<u32>) -> Result<(), Errno> {
        let tlb = self.mm.machine.tlb();
        let mut page = start;
        while page < end {
            match self.mm.tables.mark(page, marker, tlb) {
                Ok(()) => {}
                // A page, which is no guard.
                Err(Error::Exists) if marker.is_none() => {}
                // The page of a file, which another has cut off and a third one faulted in meanwhile.
                Err(Error::Exists) => {
                    self.take_pages(page, page + PAGE_SIZE)?;
                    continue;
                }
                Err(error) => return Err(no_memory(error)),
            }
            page += PAGE_SIZE;
        }
        Ok(())
    }

    fn change(&self, range: Range<u64>, change: Change) -> Result<(), Errno> {
        self.mm
            .tables
            .protect(range, change, self.mm.machine.tlb())
            .map_err(no_memory)
    }
}

impl<P: Platform> Pages for Owner<'_, P> {
    fn prepare(&mut self, coming: Coming) -> Result<(), Errno> {
        if !self.mm.divisible() {
            return Ok(());
        }
        match coming {
            Coming::Unmap { start, end } => {
                self.divide(start)?;
                self.divide(end)
            }
            Coming::Protect { start, end } => {
                self.change(start..end, Change::without(Attrs::empty()))
            }
            Coming::Move { from, len, .. } => {
                self.change(from..from + len, Change::without(Attrs::empty()))
            }
            _ => Ok(()),
        }
    }

    fn unmap(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        let tlb = self.mm.machine.tlb();
        self.mm.tables.unmap(start..end, tlb).map_err(no_memory)
    }

    fn protect(&mut self, start: u64, end: u64, vma: &Vma) -> Result<(), Errno> {
        let write = if vma.is_private() {
            Write::Alone
        } else if is_memory(vma) {
            Write::Always
        } else {
            // The file is told of the first write.
            Write::Never
        };
        self.change(start..end, Change::access(allowed(vma.flags), write))
    }

    fn relocate(&mut self, from: u64, to: u64, len: u64) -> Result<(), Errno> {
        let tlb = self.mm.machine.tlb();
        self.mm
            .tables
            .move_range(from, to, len, tlb)
            .map_err(no_memory)
    }

    fn discard(&mut self, start: u64, end: u64, vma: &Vma, how: Discard) -> Result<(), Errno> {
        match how {
            Discard::DontNeed => self.take_pages(start, end),
            Discard::GuardInstall => {
                self.take_pages(start, end)?;
                self.mark(start, end, Some(GUARD))
            }
            Discard::GuardRemove => self.mark(start, end, None),
            Discard::Remove => self.note(start, end, vma, What::Punch),
            // Pages that may go at leisure stay, and a write cancels what was said of them.
            _ => Ok(()),
        }
    }

    fn populate(
        &mut self,
        start: u64,
        end: u64,
        area: &Area<'_>,
        write: bool,
    ) -> Result<(), Errno> {
        let mut page = start;
        while page < end {
            self.mm
                .fault_in(area, page, write)
                .map_err(|fault| match fault {
                    Fault::NoMemory => Errno::ENOMEM,
                    Fault::Signal { .. } => Errno::EFAULT,
                })?;
            page += PAGE_SIZE;
        }
        Ok(())
    }

    fn sync(&mut self, start: u64, end: u64, vma: &Vma, flags: SyncFlags) -> Result<(), Errno> {
        if flags.contains(SyncFlags::SYNC) && vma.flags.contains(VmFlags::SHARED) {
            self.note(start, end, vma, What::WriteBack)
        } else {
            Ok(())
        }
    }

    fn object(&mut self, pages: u64) -> Result<Object, Errno> {
        Inode::object(Zeroes { pages })
    }
}

fn no_memory(_: Error) -> Errno {
    Errno::ENOMEM
}

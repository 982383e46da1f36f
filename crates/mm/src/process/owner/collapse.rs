//! `MADV_COLLAPSE`: huge pages in the place of small ones.

use samara_paging::{Attrs, Change, Entry, Kind, PageSize, Source, Write};

use crate::errno::Errno;
use crate::flags::{PAGE_SIZE, PMD_SIZE, whole_stretches};
use crate::process::bytes;
use crate::process::fault::allowed;
use crate::process::machine::HUGE_ORDER;
use crate::process::mm::Mm;
use crate::process::platform::Platform;
use crate::space::vma::Vma;

impl<P: Platform> Mm<P> {
    /// Each whole 2 MiB of the range gets a huge page, in turn, if private memory is there. The caller holds the address space's lock, and the area is
    /// closed to faults.
    ///
    /// # Errors
    /// `EINVAL` at the first 2 MiB where nothing is there and nothing has been, or a guard is, and `ENOMEM` at the first for which there is no block of memory: those that follow
    /// stay as they are. `EAGAIN` in the end, where somebody has a reference on a page of some.
    pub(super) fn collapse(&self, start: u64, end: u64, vma: &Vma) -> Result<(), Errno> {
        if !vma.is_anonymous() {
            // Whether a file's pages lie together in memory is seen by nobody.
            return Ok(());
        }
        let mut result = Ok(());
        let whole = whole_stretches(start, end).unwrap_or_default();
        for at in whole.step_by(PMD_SIZE as usize) {
            match self.collapse_one(at, vma) {
                Err(Errno::EAGAIN) => result = Err(Errno::EAGAIN),
                done => {
                    match done {
                        Err(Errno::EINVAL) if self.is_hollow(at) => {
                            self.collapse_hollow(at, vma)?
                        }
                        other => other?,
                    }
                    self.forget_hollow(&(at..at + PMD_SIZE));
                }
            }
        }
        result
    }

    /// A huge page of zeroes where pages have been, but none is now.
    fn collapse_hollow(&self, start: u64, vma: &Vma) -> Result<(), Errno> {
        let physical = self.machine.physical();
        let block = physical
            .alloc_zeroed_block(HUGE_ORDER, Kind::Anon)
            .map_err(|_| Errno::ENOMEM)?;
        self.set_divisible();
        let tlb = self.machine.tlb();
        let (source, attrs) = (Source::Owned(block), collapsed_attrs(vma));
        if (self.tables)
            .map(start, PageSize::Large, source, attrs, tlb)
            .is_err()
        {
            physical.put_block(block, HUGE_ORDER);
            return Err(Errno::ENOMEM);
        }
        Ok(())
    }

    pub(crate) fn collapse_one(&self, start: u64, vma: &Vma) -> Result<(), Errno> {
        let (tables, tlb) = (&self.tables, self.machine.tlb());
        let range = start..start + PMD_SIZE;
        let (mut huge, mut guarded, mut present) = (false, false, false);
        tables.walk(range.clone(), |_, entry| match entry {
            Entry::Page { size, .. } => {
                huge |= size != PageSize::Small;
                present = true;
            }
            Entry::Marker(_) => guarded = true,
            _ => {}
        });
        if huge {
            return Ok(());
        }
        if guarded && self.swapped() {
            self.swap_in_range(range.clone(), vma)?;
            (guarded, present) = (false, false);
            tables.walk(range.clone(), |_, entry| match entry {
                Entry::Page { .. } => present = true,
                Entry::Marker(_) => guarded = true,
                _ => {}
            });
        }
        if guarded || !present {
            return Err(Errno::EINVAL);
        }
        self.set_divisible();
        // Nobody uses the pages while they are copied, nor gets a reference, and the table is this address space's own.
        let still = Change::without(Attrs::ACCESS);
        tables
            .protect(range.clone(), still, tlb)
            .map_err(|_| Errno::ENOMEM)?;
        let collapsed = self.collapse_still(start, vma);
        if collapsed.is_err() {
            // As it was; what cannot be given back now, a fault gives.
            let access = Change::access(allowed(vma.flags), Write::Alone);
            let _ = tables.protect(range, access, tlb);
        }
        collapsed
    }

    /// The same of pages that nobody can use.
    fn collapse_still(&self, start: u64, vma: &Vma) -> Result<(), Errno> {
        let (tables, tlb) = (&self.tables, self.machine.tlb());
        let physical = self.machine.physical();
        let mut held = false;
        tables.walk(start..start + PMD_SIZE, |page, _| {
            let frame = tables.page(page).and_then(|page| page.frame);
            held |= frame.is_some_and(|frame| frame.references > 0);
        });
        if held {
            return Err(Errno::EAGAIN);
        }
        let block = physical
            .alloc_block(HUGE_ORDER, Kind::Anon)
            .map_err(|_| Errno::ENOMEM)?;
        for page in (0..PMD_SIZE).step_by(PAGE_SIZE as usize) {
            let to = physical.to_virt(block + page);
            match tables.entry(start + page) {
                Entry::Page { phys, .. } => {
                    // SAFETY: a new frame, and one that the table keeps: entries of this area are taken out by calls, which wait for this one, and
                    // by changes of files, of which it has none. It is private memory that nobody stores to.
                    unsafe { bytes::copy_still_page(physical.to_virt(phys), to) };
                }
                // SAFETY: a new frame.
                _ => unsafe { bytes::clear_page(to) },
            }
        }
        let (source, attrs) = (Source::Owned(block), collapsed_attrs(vma));
        let collapsed = tables.collapse(start, PageSize::Large, source, attrs, tlb);
        if collapsed.is_err() {
            physical.put_block(block, HUGE_ORDER);
            return Err(Errno::EINVAL);
        }
        Ok(())
    }
}

/// What the entry of a new huge page allows and says.
fn collapsed_attrs(vma: &Vma) -> Attrs {
    let written = Attrs::ACCESSED | Attrs::DIRTY | Attrs::SOFT_DIRTY;
    allowed(vma.flags) | Attrs::USER | written
}

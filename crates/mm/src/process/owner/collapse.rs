//! `MADV_COLLAPSE`: replaces small pages by huge pages.

use core::ops::Range;

use samara_paging::{Attrs, Change, Entry, Kind, PageSize, Source, WritePolicy};

use crate::errno::Errno;
use crate::flags::{PAGE_SIZE, PMD_SIZE, whole_stretches};
use crate::process::bytes;
use crate::process::fault::vma_attrs;
use crate::process::machine::HUGE_ORDER;
use crate::process::mm::Mm;
use crate::process::platform::Platform;
use crate::vma::Vma;

impl<P: Platform> Mm<P> {
    /// Gives each whole 2 MiB of the range a huge page, in turn, if it has private memory.
    ///
    /// Preconditions: the caller holds the address space's lock, and the VMA is closed to faults.
    ///
    /// # Errors
    /// `EINVAL` at the first 2 MiB that has a guard, or that has no page and never had one.
    /// `ENOMEM` at the first 2 MiB for which there is no block of memory. Both end the call.
    /// `EAGAIN` at the end, if a page had a reference.
    pub(super) fn collapse(&self, start: u64, end: u64, vma: &Vma) -> Result<(), Errno> {
        if !vma.is_anonymous() {
            // No program sees if a file's pages are contiguous in memory.
            return Ok(());
        }
        let mut result = Ok(());
        let whole = whole_stretches(start, end).unwrap_or_default();
        for at in whole.step_by(PMD_SIZE as usize) {
            match self.collapse_one(at, vma) {
                Err(Errno::EAGAIN) => result = Err(Errno::EAGAIN),
                done => {
                    match done {
                        Err(Errno::EINVAL) if self.has_retained_table(at) => {
                            self.collapse_empty(at, vma)?
                        }
                        other => other?,
                    }
                    self.forget_retained(&(at..at + PMD_SIZE));
                }
            }
        }
        result
    }

    /// Maps a zeroed huge page where Linux still has an empty table.
    #[inline(never)]
    fn collapse_empty(&self, start: u64, vma: &Vma) -> Result<(), Errno> {
        let physical = self.machine.physical();
        let block = physical
            .alloc_zeroed_block(HUGE_ORDER, Kind::Anon)
            .map_err(|_| Errno::ENOMEM)?;
        self.set_may_need_split();
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

    // Replaces the pages of one stretch of 2 MiB. Out of line, as its steps, so that each step's
    // stack frame is gone before the next.
    #[inline(never)]
    pub(crate) fn collapse_one(&self, start: u64, vma: &Vma) -> Result<(), Errno> {
        let range = start..start + PMD_SIZE;
        let mut there = self.what_is_there(&range);
        if there.huge {
            return Ok(());
        }
        if there.guarded && self.swapped() {
            self.swap_in_stretch(&range, vma)?;
            there = self.what_is_there(&range);
        }
        if there.guarded || !there.present {
            return Err(Errno::EINVAL);
        }
        self.set_may_need_split();
        // From here on no thread uses the pages or gets a reference, and the table belongs to this
        // address space alone.
        let still = Change::without(Attrs::ACCESS);
        self.change_each(&range, still)?;
        let collapsed = self.collapse_still(start, vma);
        if collapsed.is_err() {
            // Restores the permissions. If that fails, a fault restores them.
            let access = Change::access(vma_attrs(vma.flags), WritePolicy::Exclusive);
            let _ = self.change_each(&range, access);
        }
        collapsed
    }

    /// Swaps the pages of 2 MiB in.
    ///
    /// # Errors
    /// As [`swap_in_range`](Self::swap_in_range).
    #[cold]
    #[inline(never)]
    fn swap_in_stretch(&self, range: &Range<u64>, vma: &Vma) -> Result<(), Errno> {
        self.swap_in_range(range.clone(), vma)
    }

    /// Changes the entries of 2 MiB.
    ///
    /// # Errors
    /// `ENOMEM`.
    #[inline(never)]
    fn change_each(&self, range: &Range<u64>, change: Change) -> Result<(), Errno> {
        let done = (self.tables).protect(range.clone(), change, self.machine.tlb());
        done.map_err(|_| Errno::ENOMEM)
    }

    /// Classifies the entries of 2 MiB.
    #[inline(never)]
    fn what_is_there(&self, range: &Range<u64>) -> There {
        let mut there = There::default();
        self.tables.walk(range.clone(), |_, entry| match entry {
            Entry::Page { size, .. } => {
                there.huge |= size != PageSize::Small;
                there.present = true;
            }
            Entry::Marker(_) => there.guarded = true,
            _ => {}
        });
        there
    }

    /// Returns `true` if a page of the 2 MiB has a reference.
    #[inline(never)]
    fn is_held(&self, start: u64) -> bool {
        let mut held = false;
        self.tables.walk(start..start + PMD_SIZE, |page, _| {
            let frame = self.tables.page(page).and_then(|page| page.frame);
            held |= frame.is_some_and(|frame| frame.references > 0);
        });
        held
    }

    /// As [`collapse_one`](Self::collapse_one), for pages that no thread can access.
    #[inline(never)]
    fn collapse_still(&self, start: u64, vma: &Vma) -> Result<(), Errno> {
        if self.is_held(start) {
            return Err(Errno::EAGAIN);
        }
        let block = self.copy_still(start)?;
        let (source, attrs) = (Source::Owned(block), collapsed_attrs(vma));
        let tlb = self.machine.tlb();
        let collapsed = (self.tables).collapse(start, PageSize::Large, source, attrs, tlb);
        if collapsed.is_err() {
            self.machine.physical().put_block(block, HUGE_ORDER);
            return Err(Errno::EINVAL);
        }
        Ok(())
    }

    /// Copies the pages of 2 MiB, which no thread can access, to a new block.
    ///
    /// # Errors
    /// `ENOMEM`.
    #[inline(never)]
    fn copy_still(&self, start: u64) -> Result<u64, Errno> {
        let (tables, physical) = (&self.tables, self.machine.physical());
        let block = physical
            .alloc_block(HUGE_ORDER, Kind::Anon)
            .map_err(|_| Errno::ENOMEM)?;
        for page in (0..PMD_SIZE).step_by(PAGE_SIZE as usize) {
            let to = physical.to_virt(block + page);
            match tables.entry(start + page) {
                Entry::Page { phys, .. } => {
                    // SAFETY: a new frame, and one that the table keeps: entries of this VMA are
                    // removed by calls, which wait for this one, and by changes of files, of which
                    // it has none. It is private memory to which no thread stores.
                    unsafe { bytes::copy_still_page(physical.to_virt(phys), to) };
                }
                // SAFETY: a new frame.
                _ => unsafe { bytes::clear_page(to) },
            }
        }
        Ok(block)
    }
}

/// The entries found in a stretch of 2 MiB.
#[derive(Default)]
struct There {
    /// A huge page.
    huge: bool,
    /// A page, small or huge.
    present: bool,
    /// A guard, or a page in swap.
    guarded: bool,
}

/// Attributes of a new huge page.
fn collapsed_attrs(vma: &Vma) -> Attrs {
    let written = Attrs::ACCESSED | Attrs::DIRTY | Attrs::SOFT_DIRTY;
    vma_attrs(vma.flags) | Attrs::USER | written
}

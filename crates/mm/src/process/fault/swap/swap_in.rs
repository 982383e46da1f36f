//! Swap-in: by a fault, for a range, for a whole process.

use core::ops::Range;

use samara_paging::{Attrs, Entry, Error, Source};

use super::Swapped;
use crate::errno::Errno;
use crate::process::fault::{Step, clean_attrs, dirty_attrs};
use crate::process::mm::Mm;
use crate::process::platform::Platform;
use crate::process::signal::Fault;
use crate::vma::Vma;

impl<P: Platform> Mm<P> {
    /// Handles a fault on a page in swap.
    #[inline(never)]
    pub(in crate::process::fault) fn swap_in(
        &self,
        vma: &Vma,
        page: u64,
        marker: u32,
        write: bool,
    ) -> Result<Step, Fault> {
        let gone = || self.tables.entry(page) != Entry::Marker(marker);
        let swapped = Swapped::of(marker).ok_or(Fault::MAPERR)?;
        let Some(swap) = self.machine.swap() else {
            return if gone() {
                Ok(Step::Again)
            } else {
                Err(Fault::ADRERR)
            };
        };
        let frame = self.new_frame()?;
        // SAFETY: a whole new frame, known only here.
        let bytes = unsafe { self.machine.physical().to_virt(frame.phys).cast().as_mut() };
        if swap.device.read(swapped.place, bytes).is_err() {
            return if gone() {
                Ok(Step::Again)
            } else {
                Err(Fault::ADRERR)
            };
        }
        let attrs = if write {
            dirty_attrs(vma.flags)
        } else {
            let mut attrs = clean_attrs(vma.flags) | Attrs::DIRTY;
            attrs.set(Attrs::SOFT_DIRTY, swapped.soft_dirty);
            attrs
        };
        let tlb = self.machine.tlb();
        let source = Source::Owned(frame.phys);
        match self.tables.swap_in(page, marker, source, attrs, tlb) {
            Ok(()) => {
                frame.keep();
                swap.put(swapped.place);
                Ok(if write { Step::Done } else { Step::Again })
            }
            // Another thread was first.
            Err(Error::NotMapped) => Ok(Step::Again),
            Err(error) => Err(error.into()),
        }
    }

    /// Swaps all pages of the process in.
    pub(super) fn swap_in_all(&self) -> Result<(), Errno> {
        let space = self.space.read();
        for area in space.areas.iter() {
            self.swap_in_range(area.start..area.end, area.vma)?;
        }
        Ok(())
    }

    /// Swaps the pages of a part of a VMA in.
    ///
    /// Preconditions: the caller holds the address space's lock.
    pub(in crate::process) fn swap_in_range(
        &self,
        range: Range<u64>,
        vma: &Vma,
    ) -> Result<(), Errno> {
        self.each_marker(range, |page, _| {
            while let Entry::Marker(marker) = self.tables.entry(page)
                && Swapped::of(marker).is_some()
            {
                self.swap_in(vma, page, marker, false)
                    .map_err(|fault| match fault {
                        Fault::NoMemory => Errno::ENOMEM,
                        Fault::Signal { .. } | Fault::Deadlock => Errno::EIO,
                    })?;
            }
            Ok(())
        })
    }
}

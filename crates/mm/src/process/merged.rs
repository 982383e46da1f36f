//! The frames of pages that [`Ksm`](crate::walkers::Ksm) has merged. The list tells them from pages
//! that processes share after a fork.

use core::ops::ControlFlow;

use samara_paging::Entry;

use crate::errno::Errno;
use crate::flags::PAGE_SIZE;
use crate::process::machine::Machine;
use crate::process::mm::Mm;
use crate::process::platform::Platform;
use crate::process::signal::Fault;
use crate::vma::Area;

impl<P: Platform> Machine<P> {
    /// Adds a frame to which equal pages will be merged. O(merged frames).
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn enter_merged(&self, phys: u64) -> Result<(), Errno> {
        let mut merged = self.merged_slot().lock();
        if let Err(at) = merged.binary_search(&phys) {
            merged.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
            merged.insert(at, phys);
        }
        Ok(())
    }

    /// Removes a frame, which is not used any more or never was. O(merged frames).
    pub(crate) fn leave_merged(&self, phys: u64) {
        let mut merged = self.merged_slot().lock();
        if let Ok(at) = merged.binary_search(&phys) {
            merged.remove(at);
        }
    }

    /// Returns `true` if equal pages were merged to a frame. O(log n).
    pub(crate) fn is_merged(&self, phys: u64) -> bool {
        self.merged_slot().lock().binary_search(&phys).is_ok()
    }
}

impl<P: Platform> Mm<P> {
    /// Gives each merged page of `[start, end)`, which lies in one VMA, a frame of its own.
    ///
    /// Preconditions: the caller holds the address space's lock.
    ///
    /// # Errors
    /// `ENOMEM`: some pages are still on merged frames.
    pub(super) fn unmerge(&self, area: &Area<'_>, start: u64, end: u64) -> Result<(), Errno> {
        if self.machine.merged_slot().lock().is_empty() {
            return Ok(());
        }
        let mut next = start;
        loop {
            let found = self
                .tables
                .walk_until(next..end, |page, entry| match entry {
                    Entry::Page { phys, .. } if self.machine.is_merged(phys) => {
                        ControlFlow::Break(page)
                    }
                    _ => ControlFlow::Continue(()),
                });
            let ControlFlow::Break(page) = found else {
                return Ok(());
            };
            let pin = self.pin_unshared(area, page).map_err(|fault| match fault {
                Fault::NoMemory => Errno::ENOMEM,
                Fault::Signal { .. } | Fault::Deadlock => Errno::EFAULT,
            })?;
            pin.put(self.machine.physical());
            next = page + PAGE_SIZE;
        }
    }
}

//! Unsharing a page of a private VMA: the process gets a copy of its own, whether or not the VMA
//! allows writing.
//!
//! Long-term pins and writes of a debugger need it. It differs from copy-on-write: no permission to
//! write is added.

use samara_paging::{Attrs, Entry, Error, FrameRef, PageSize, Source};

use super::dirty_attrs;
use crate::process::bytes;
use crate::process::mm::Mm;
use crate::process::platform::Platform;
use crate::process::signal::Fault;
use crate::vma::{Area, Vma};

impl<P: Platform> Mm<P> {
    /// Pins the page at `page` of a private VMA as memory of this process alone. A page of a file,
    /// a zero page, or a page shared with other processes is copied first. The entry keeps its
    /// permissions.
    ///
    /// Preconditions: the VMA has an owner of private pages, and the caller holds its lock or the
    /// address space's.
    ///
    /// # Errors
    /// As [`Process::fault`](crate::process::Process::fault).
    pub(crate) fn pin_unshared(&self, area: &Area<'_>, page: u64) -> Result<FrameRef, Fault> {
        let (tables, physical) = (&self.tables, self.machine.physical());
        loop {
            match tables.entry(page) {
                Entry::Page { size, .. } if size != PageSize::Small => {
                    self.split_huge(page)?;
                    continue;
                }
                Entry::Page { .. } => {}
                // Not as an access, which the VMA may forbid.
                _ => self.fault_in(area, page, false)?,
            }
            match tables.pin_page(page, Attrs::empty()) {
                Ok(pin) if pin.counted() && physical.frames().is_private(pin.phys()) => {
                    return Ok(pin);
                }
                Ok(pin) => pin.put(physical),
                Err(Error::NotMapped) => continue,
                Err(Error::Exists) => {}
                Err(error) => return Err(error.into()),
            }
            self.replace(area.vma, page)?;
        }
    }

    /// Replaces the present page by a copy.
    fn replace(&self, vma: &Vma, page: u64) -> Result<(), Fault> {
        let physical = self.machine.physical();
        let pin = match self.tables.get_page(page, Attrs::empty()) {
            Ok(pin) => pin,
            Err(Error::NotMapped) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if !physical.frames().contains(pin.phys()) {
            // A device's page, which is not counted.
            return Err(Fault::ADRERR);
        }
        let copied = self.new_frame().and_then(|frame| {
            let (from, to) = (physical.to_virt(pin.phys()), physical.to_virt(frame.phys));
            // SAFETY: a new frame. The reference keeps the old one, whose words others access by
            // atomic instructions.
            unsafe { bytes::copy_page(from, to) };
            let attrs = dirty_attrs(vma.flags) - Attrs::WRITE;
            let mut spot = self.tables.pte(page, self.machine.tlb());
            match spot.replace(pin.phys(), Source::Owned(frame.phys), attrs) {
                Ok(()) => frame.keep(),
                // Another thread replaced it first.
                Err(Error::NotMapped) => {}
                Err(error) => return Err(error.into()),
            }
            Ok(())
        });
        pin.put(physical);
        copied
    }
}

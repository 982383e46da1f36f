//! Pins: references on a program's pages for devices and debuggers, which access memory themselves
//! (Documentation/core-api/pin_user_pages.rst).
//!
//! # The fast path
//!
//! Present pages with the needed permissions are pinned without the lock of the address space or of
//! the VMA. The walk takes no lock down to the last-level table. Then it takes the lock of that
//! table, tests the entry again, and takes the reference. (A reference without any lock is not
//! possible: the holder of a table's lock may store to the counts of a frame that only this table
//! maps. That makes a fork cheap.)
//!
//! *Concurrent fork.* A fork copies entries under the same table's lock. If the pin comes first,
//! the fork finds the frame pinned and copies its bytes. If the fork comes first, the pin finds the
//! page shared, and gives the process a copy of its own. Shared tables are not copied under their
//! locks. So a fork shares none after [`Mm::set_forks_by_copy`]. That is called with the lock of
//! the address space held, before the first page is pinned. The fast path requires it.

use alloc::vec::Vec;
use core::fmt;

use bitflags::bitflags;
use samara_paging::{Attrs, Error, FrameRef};

use crate::errno::Errno;
use crate::flags::{PAGE_MASK, PAGE_SIZE, VmFlags};
use crate::process::is_memory;
use crate::process::{Fault, Machine, Platform, Process};
use crate::vma::{Area, Vma};

bitflags! {
    /// Options of a pin. The names are those of Linux's `FOLL_` flags.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct PinFlags: u32 {
        /// The pages will be written.
        const WRITE = 1;
        /// A plain reference, which keeps the frame but not its place. After a fork, or a write by
        /// another process, the program may have another frame there.
        const GET = 2;
        /// Nothing is faulted in. The first absent page ends the call.
        const NOFAULT = 4;
        /// As a debugger: the VMA may forbid the access, if it could be made to permit it. A write
        /// goes to a copy in private memory.
        const FORCE = 8;
        /// For longer than a system call. A page pinned for reading is unshared, so that later
        /// writes of the program are seen. Pages of files that must be notified of writes are
        /// refused for writing.
        const LONGTERM = 16;
        /// Only anonymous memory.
        const ANON = 32;
    }
}

/// Pinned pages. They keep their frames until this is dropped, also if the program unmaps them or
/// ends.
pub struct PinnedPages<P: Platform> {
    machine: Machine<P>,
    pins: Vec<FrameRef>,
}

impl<P: Platform> PinnedPages<P> {
    /// Returns the number of pages.
    pub fn len(&self) -> usize {
        self.pins.len()
    }

    /// Returns `true` if there are no pages.
    pub fn is_empty(&self) -> bool {
        self.pins.is_empty()
    }

    /// Returns the physical addresses, page by page.
    pub fn frames(&self) -> impl ExactSizeIterator<Item = u64> {
        self.pins.iter().map(FrameRef::phys)
    }
}

impl<P: Platform> Drop for PinnedPages<P> {
    fn drop(&mut self) {
        for pin in self.pins.drain(..) {
            pin.put(self.machine.physical());
        }
    }
}

impl<P: Platform> fmt::Debug for PinnedPages<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.frames()).finish()
    }
}

/// The reason why a page was not pinned.
enum Refusal {
    /// The VMA must get its owner of private pages first.
    Unowned,
    Final(Errno),
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Refusal::Final(match fault {
            Fault::NoMemory => Errno::ENOMEM,
            Fault::Signal { .. } => Errno::EFAULT,
            Fault::Deadlock => Errno::EDEADLK,
        })
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Refusal::Final(match error {
            Error::NoMemory | Error::TooMany => Errno::ENOMEM,
            _ => Errno::EFAULT,
        })
    }
}

impl<P: Platform> Process<P> {
    /// Pins `pages` pages from that of `addr` on, and faults absent ones in. Returns fewer pages if
    /// one cannot be had. Stacks do not grow.
    ///
    /// A pinned page of private memory stays the process's own: the holder of the pin sees the
    /// process's writes, and a fork gives the child a copy.
    ///
    /// Once pages of a process have been pinned, present pages are pinned without the lock of its
    /// address space. Otherwise calls wait until it returns, and faults do not. O(log n) for each page.
    ///
    /// # Errors
    /// Linux's, if no page can be had: `EFAULT` if nothing is mapped, if the VMA forbids the access
    /// or is not ordinary memory; `ENOMEM`. `EDEADLK` from within an [atomic
    /// operation](Process::atomic_u32) on this process.
    ///
    /// ```
    /// # use samara_mm::process::{ForkMode, Machine, Platform, Process};
    /// # use samara_mm::{Config, Errno, Layout, Limits, MmapOptions, Prot};
    /// use samara_mm::walkers::PinFlags;
    ///
    /// # fn device<P: Platform>(machine: &Machine<P>) -> Result<(), Errno> {
    /// let process = Process::new(machine, Config::default(), Limits::default(), Layout::default())?;
    /// let start = process.mmap(&MmapOptions::anonymous(0x2000).prot(Prot::READ | Prot::WRITE))?;
    /// let buffer = process.pin(start, 2, PinFlags::WRITE | PinFlags::LONGTERM)?;
    /// let frame = buffer.frames().next().unwrap();
    ///
    /// let child = process.fork(ForkMode::Share)?;
    /// process.copy_in(start, b"seen by the device");
    /// assert_eq!(process.translate(start).unwrap().0, frame);
    /// assert_ne!(child.translate(start).unwrap().0, frame);
    /// # Ok(())
    /// # }
    /// ```
    pub fn pin(&self, addr: u64, pages: usize, flags: PinFlags) -> Result<PinnedPages<P>, Errno> {
        self.mm.atomic_ops.check()?;
        let mut pinned = PinnedPages {
            machine: self.machine().clone(),
            pins: Vec::new(),
        };
        let pins = &mut pinned.pins;
        pins.try_reserve_exact(pages).map_err(|_| Errno::ENOMEM)?;
        let page = |done: usize| {
            let offset = (done as u64).checked_mul(PAGE_SIZE);
            offset.and_then(|offset| (addr & PAGE_MASK).checked_add(offset))
        };
        if self.mm.forks_by_copy() {
            while pins.len() < pages
                && let Some(pin) = page(pins.len()).and_then(|page| self.pin_fast(page, flags))
            {
                pins.push(pin);
            }
        }
        let mut result = Ok(());
        while pins.len() < pages && result.is_ok() {
            let unowned = {
                let space = self.mm.space.read();
                self.mm.set_forks_by_copy();
                loop {
                    if pins.len() == pages {
                        break None;
                    }
                    let at = page(pins.len());
                    let area = at.and_then(|at| Some((at, space.areas.at(at)?)));
                    let Some((at, area)) = area else {
                        result = Err(Errno::EFAULT);
                        break None;
                    };
                    match self.pin_one(&area, at, flags) {
                        Ok(pin) => pins.push(pin),
                        Err(Refusal::Unowned) => break Some(at),
                        Err(Refusal::Final(error)) => {
                            result = Err(error);
                            break None;
                        }
                    }
                }
            };
            if let Some(at) = unowned {
                self.mm.space.write().touch(at);
            }
        }
        match result {
            Err(error) if pinned.is_empty() => Err(error),
            _ => Ok(pinned),
        }
    }

    /// Pins a present page, if the page-table entry alone permits it.
    fn pin_fast(&self, page: u64, flags: PinFlags) -> Option<FrameRef> {
        let asks = PinFlags::FORCE | PinFlags::LONGTERM | PinFlags::ANON;
        if flags.intersects(asks) || self.mm.has_execute_only() {
            return None;
        }
        let need = if flags.contains(PinFlags::WRITE) {
            Attrs::WRITE
        } else {
            Attrs::READ
        };
        let pin = self.get_page(page, need, flags).ok()?;
        // An uncounted page may be a device's, which only its VMA tells.
        if !pin.counted() {
            pin.put(self.machine().physical());
            return None;
        }
        Some(pin)
    }

    fn get_page(&self, page: u64, need: Attrs, flags: PinFlags) -> Result<FrameRef, Error> {
        if flags.contains(PinFlags::GET) {
            self.mm.tables.get_page(page, need)
        } else {
            self.mm.tables.pin_page(page, need)
        }
    }

    fn pin_one(&self, area: &Area<'_>, page: u64, flags: PinFlags) -> Result<FrameRef, Refusal> {
        let (mm, vma) = (&*self.mm, area.vma);
        let write = flags.contains(PinFlags::WRITE);
        check_access(vma, flags).map_err(Refusal::Final)?;
        let granted = vma
            .flags
            .contains(if write { VmFlags::WRITE } else { VmFlags::READ });
        let need = match (granted, write) {
            (false, _) => Attrs::empty(),
            (true, false) => Attrs::READ,
            (true, true) => Attrs::WRITE,
        };
        let own = || match vma.anon() {
            _ if flags.contains(PinFlags::NOFAULT) => Err(Refusal::Final(Errno::EFAULT)),
            None => Err(Refusal::Unowned),
            Some(_) => Ok(mm.pin_unshared(area, page)?),
        };
        if write && !granted {
            let pin = own()?;
            return Ok(pin);
        }
        loop {
            match self.get_page(page, need, flags) {
                Ok(pin) => {
                    // A page pinned for long reading that is not the process's own yet would miss
                    // later writes.
                    let cow = vma.is_private() && vma.flags.contains(VmFlags::MAYWRITE);
                    let long = flags.contains(PinFlags::LONGTERM) && !flags.contains(PinFlags::GET);
                    let frames = self.machine().physical().frames();
                    let theirs = !pin.counted() || !frames.is_private(pin.phys());
                    if !write && long && cow && theirs {
                        pin.put(self.machine().physical());
                        return own();
                    }
                    return Ok(pin);
                }
                Err(Error::Exists) if !write => return own(),
                Err(Error::NotMapped | Error::Exists) => {
                    if flags.contains(PinFlags::NOFAULT) {
                        return Err(Refusal::Final(Errno::EFAULT));
                    }
                    let owned = write && vma.is_private() && vma.anon().is_none();
                    if owned || mm.is_owned_by_reading(area, page) {
                        return Err(Refusal::Unowned);
                    }
                    mm.fault_in(area, page, write)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Checks that pages of a VMA may be pinned with these flags.
fn check_access(vma: &Vma, flags: PinFlags) -> Result<(), Errno> {
    let refused = Err(Errno::EFAULT);
    if vma.flags.intersects(VmFlags::IO | VmFlags::PFNMAP) {
        return refused;
    }
    if flags.contains(PinFlags::ANON) && !vma.is_anonymous() {
        return refused;
    }
    let force = flags.contains(PinFlags::FORCE);
    if !flags.contains(PinFlags::WRITE) {
        let may =
            vma.flags.contains(VmFlags::READ) || force && vma.flags.contains(VmFlags::MAYREAD);
        return if may { Ok(()) } else { refused };
    }
    if !vma.flags.contains(VmFlags::WRITE) {
        let may = force && vma.is_private() && vma.flags.contains(VmFlags::MAYWRITE);
        return if may { Ok(()) } else { refused };
    }
    if flags.contains(PinFlags::LONGTERM) && !vma.is_private() && !is_memory(vma) {
        return refused;
    }
    Ok(())
}

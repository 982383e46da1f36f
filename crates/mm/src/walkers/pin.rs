//! References on a program's pages, for those who read and write memory themselves: devices, debuggers (Documentation/core-api/pin_user_pages.rst).
//!
//! # The fast way
//!
//! Pages that are there, and may be used as they are, are pinned without the lock of the address space or of the area: the way down takes no lock,
//! and then that of the last-level table, under which the entry is looked at again and the reference taken. (A reference without any lock cannot be
//! had: who holds the lock of a table may store to the counts of a frame that only this table maps. That is what makes a fork cheap.)
//!
//! *Next to a fork.* A fork copies entries under the same table's lock. If the pin comes first, the fork finds the frame pinned and copies its bytes; if the fork
//! comes first, the pin finds the page had by two, and gives the process one of its own. Whole tables are not copied under their locks where they are
//! shared, so that a fork shares none once [`Mm::set_forks_by_copy`] was called. That is called with the lock of the address space held, before the
//! first page is pinned; the fast way goes only where it has been.

use alloc::vec::Vec;
use core::fmt;

use bitflags::bitflags;
use samara_paging::{Attrs, Error, FrameRef};

use crate::errno::Errno;
use crate::flags::{PAGE_MASK, PAGE_SIZE, VmFlags};
use crate::process::is_memory;
use crate::process::{Fault, Machine, Platform, Process};
use crate::space::vma::{Area, Vma};

bitflags! {
    /// How pages are asked for; the names are those of Linux's `FOLL_` flags.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct PinFlags: u32 {
        /// They will be written.
        const WRITE = 1;
        /// A plain reference, which keeps the frame and not the place: after a fork, or a write by another, the program may have another frame there.
        const GET = 2;
        /// Nothing is faulted in: the first page that would have to be ends the call.
        const NOFAULT = 4;
        /// As a debugger: the area need not allow the access as long as it could be made to. A write goes to a copy in private memory.
        const FORCE = 8;
        /// For longer than a system call takes. What is read is made the process's own, so that its later writes are seen; pages of files that must be told of
        /// writes are refused for writing.
        const LONGTERM = 16;
        /// Only anonymous memory.
        const ANON = 32;
    }
}

/// Pages that stay where they are until this is dropped; they stay also if the program unmaps them, or ends.
pub struct PinnedPages<P: Platform> {
    machine: Machine<P>,
    pins: Vec<FrameRef>,
}

impl<P: Platform> PinnedPages<P> {
    /// How many.
    pub fn len(&self) -> usize {
        self.pins.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pins.is_empty()
    }

    /// The physical addresses, page by page.
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

/// Why a page was not pinned.
enum Refusal {
    /// The area must get its owner of private pages first.
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
    /// References on `pages` pages from that of `addr` on, faulting in what is missing: fewer if one cannot be had. Stacks do not grow.
    ///
    /// While a page of private memory is pinned it stays the process's own: what it writes is seen by who has pinned it, and a fork gives the child a copy.
    ///
    /// Once pages of a process have been pinned, those that are there are pinned without the lock of its address space. Otherwise calls wait meanwhile; faults do
    /// not. O(log n) for each page.
    ///
    /// # Errors
    /// Linux's, if not one can be had: `EFAULT` where nothing is mapped, where the area does not allow the access, or is no ordinary memory; `ENOMEM`. `EDEADLK` from
    /// within an [atomic operation](Process::atomic_u32) on this process.
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

    /// Pins a page that is there and may be used as it is, if nothing else has to be looked at.
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
        // A page that is not counted may be a device's, of whose area this is not to be known here.
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
                    // What is read for long, and is not the process's own yet, would not be what it writes later.
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

/// Whether pages of an area may be had like this.
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

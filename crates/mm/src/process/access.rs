//! A program's loads and stores, done for it: copies in and out, and atomics on its words.

use core::ptr::NonNull;
use core::sync::atomic::AtomicU32;
#[cfg(target_has_atomic = "64")]
use core::sync::atomic::AtomicU64;

use samara_paging::Attrs;

use crate::process::bytes;
use crate::process::mm::{Mm, Process};
use crate::process::platform::Platform;
use crate::process::signal::{Access, Fault};
use crate::space::AddressSpace;

/// Bytes of a page, as addresses count.
const PAGE: u64 = crate::flags::PAGE_SIZE;

impl<P: Platform> Process<P> {
    /// Copies from the program's memory, as its own loads would; faults are taken. The number of bytes copied: fewer than asked for at the first that raises a signal
    /// or finds no memory, which [`fault`](Self::fault) there tells.
    pub fn copy_out(&self, addr: u64, to: &mut [u8]) -> usize {
        let mut done = 0;
        while done < to.len() {
            let Some((at, len)) = piece(addr, done, to.len()) else {
                break;
            };
            let into = &mut to[done..done + len];
            // SAFETY: the bytes lie in one page, which stays while this runs; whoever has it, too, uses these functions.
            let copied =
                self.with_page(at, Access::READ, |from| unsafe { bytes::load(from, into) });
            if copied.is_err() {
                break;
            }
            done += len;
        }
        done
    }

    /// Copies to the program's memory, as its own stores would; see [`copy_out`](Self::copy_out).
    pub fn copy_in(&self, addr: u64, from: &[u8]) -> usize {
        let mut done = 0;
        while done < from.len() {
            let Some((at, len)) = piece(addr, done, from.len()) else {
                break;
            };
            let piece = &from[done..done + len];
            // SAFETY: as above.
            let copied = self.with_page(at, Access::WRITE, |to| unsafe { bytes::store(to, piece) });
            if copied.is_err() {
                break;
            }
            done += len;
        }
        done
    }

    /// Performs `op` on the 32 bits at `addr`, a futex word say; a fault for writing is taken. `op` must not call into this process.
    ///
    /// # Errors
    /// What the program's own access would raise; [`Fault::ADRALN`] if the address is not a multiple of 4.
    pub fn atomic_u32<R>(&self, addr: u64, op: impl FnOnce(&AtomicU32) -> R) -> Result<R, Fault> {
        if !addr.is_multiple_of(4) {
            return Err(Fault::ADRALN);
        }
        // SAFETY: aligned, so that the word lies in the page; all others use it by atomic instructions, too.
        self.with_page(addr, Access::WRITE, |at| op(unsafe { at.cast().as_ref() }))
    }

    /// The same for 64 bits.
    ///
    /// # Errors
    /// As [`atomic_u32`](Self::atomic_u32); the address must be a multiple of 8.
    #[cfg(target_has_atomic = "64")]
    pub fn atomic_u64<R>(&self, addr: u64, op: impl FnOnce(&AtomicU64) -> R) -> Result<R, Fault> {
        if !addr.is_multiple_of(8) {
            return Err(Fault::ADRALN);
        }
        // SAFETY: as above.
        self.with_page(addr, Access::WRITE, |at| op(unsafe { at.cast().as_ref() }))
    }

    /// Calls `use_it` with where the byte at `addr` is, once the access would succeed there.
    fn with_page<R>(
        &self,
        addr: u64,
        access: Access,
        use_it: impl FnOnce(NonNull<u8>) -> R,
    ) -> Result<R, Fault> {
        loop {
            {
                let space = self.mm.space.read();
                if self.mm.permits(&space, addr, access).is_ok()
                    && let Some(page) = self.mm.pin(addr, access)
                {
                    return Ok(use_it(page.at()));
                }
            }
            self.fault(addr, access)?;
        }
    }
}

/// The next piece of a copy that lies in one page: its address and length.
fn piece(addr: u64, done: usize, len: usize) -> Option<(u64, usize)> {
    let at = addr.checked_add(done as u64)?;
    let in_page = (PAGE - at % PAGE) as usize;
    Some((at, in_page.min(len - done)))
}

/// A page of a program that stays while this is held, together with the address space's lock.
pub(super) struct Pinned<'a, P: Platform> {
    mm: &'a Mm<P>,
    phys: u64,
}

impl<P: Platform> Pinned<'_, P> {
    /// Where the byte is.
    fn at(&self) -> NonNull<u8> {
        let physical = self.mm.machine.physical();
        let page = physical.to_virt(self.phys & !(PAGE - 1));
        // SAFETY: within the frame.
        unsafe { page.add((self.phys % PAGE) as usize) }
    }
}

impl<P: Platform> Mm<P> {
    /// The page at `addr`, if the access succeeds there without a fault.
    fn pin(&self, addr: u64, access: Access) -> Option<Pinned<'_, P>> {
        let (phys, attrs) = self.tables.translate(addr)?;
        if access.contains(Access::WRITE) && !attrs.contains(Attrs::WRITE)
            || access.contains(Access::EXEC) && !attrs.contains(Attrs::EXEC)
        {
            return None;
        }
        Some(Pinned { mm: self, phys })
    }

    /// Whether the map, as far as it alone tells, allows an access.
    ///
    /// # Errors
    /// The signal.
    pub(super) fn permits(
        &self,
        space: &AddressSpace,
        addr: u64,
        access: Access,
    ) -> Result<(), Fault> {
        let area = space.areas.at(addr).ok_or(Fault::MAPERR)?;
        super::fault::permits(space, area.vma.flags, access)
    }
}

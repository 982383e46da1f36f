//! Loads and stores on behalf of a program: copies in and out, and atomic operations.

use core::ptr::NonNull;
use core::sync::atomic::AtomicU32;
#[cfg(target_has_atomic = "64")]
use core::sync::atomic::AtomicU64;

use samara_paging::Attrs;

use crate::process::bytes;
use crate::process::handle::Process;
use crate::process::mm::Mm;
use crate::process::platform::Platform;
use crate::process::signal::{Access, Fault};

/// The size of a page, as `u64`.
const PAGE: u64 = crate::flags::PAGE_SIZE;

impl<P: Platform> Process<P> {
    /// Copies bytes from the program's memory, as its own loads would, and returns their number.
    /// Faults are handled.
    ///
    /// The number is smaller than asked for at the first fault that raises a signal or finds no
    /// memory. [`fault`](Self::fault) at the next address returns the reason. It is also smaller at
    /// pages of [devices](super::PageFrame) that are not memory of the machine.
    pub fn copy_out(&self, addr: u64, to: &mut [u8]) -> usize {
        let mut done = 0;
        while done < to.len() {
            let Some((at, len)) = piece_of_page(addr, done, to.len()) else {
                break;
            };
            let into = &mut to[done..done + len];
            // SAFETY: the bytes lie in one page, which stays while this runs. Other accesses to it
            // use these functions.
            let copied =
                self.with_page(at, Access::READ, |from| unsafe { bytes::load(from, into) });
            if copied.is_err() {
                break;
            }
            done += len;
        }
        done
    }

    /// Copies bytes to the program's memory, as its own stores would; see
    /// [`copy_out`](Self::copy_out).
    pub fn copy_in(&self, addr: u64, from: &[u8]) -> usize {
        let mut done = 0;
        while done < from.len() {
            let Some((at, len)) = piece_of_page(addr, done, from.len()) else {
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

    /// Calls `op` with the 32 bits at `addr`, for example a futex word. A fault for writing is
    /// handled.
    ///
    /// The lock of the page's table keeps the page in its place during the operation. So `op` must not call
    /// into this process, nor change the cached pages of files. With the feature `hosted`, calls,
    /// faults and forks from there return [`EDEADLK`](crate::Errno::EDEADLK) or
    /// [`Fault::Deadlock`], and copies copy nothing. A look at the map or the pages is not
    /// detected. Without that feature, the thread waits for itself. The same holds for other
    /// processes that share tables with this one.
    ///
    /// # Errors
    /// The signal that the program's own access would raise. [`Fault::ADRALN`] if the address is
    /// not a multiple of 4. [`Fault::Deadlock`] from within such an operation.
    pub fn atomic_u32<R>(&self, addr: u64, op: impl FnOnce(&AtomicU32) -> R) -> Result<R, Fault> {
        if !addr.is_multiple_of(4) {
            return Err(Fault::ADRALN);
        }
        // SAFETY: aligned, so the word lies in the page. All other accesses are atomic, too.
        self.with_word(addr, |at| op(unsafe { at.cast().as_ref() }))
    }

    /// Calls `op` with the 64 bits at `addr`, as [`atomic_u32`](Self::atomic_u32).
    ///
    /// # Errors
    /// As [`atomic_u32`](Self::atomic_u32). The address must be a multiple of 8.
    #[cfg(target_has_atomic = "64")]
    pub fn atomic_u64<R>(&self, addr: u64, op: impl FnOnce(&AtomicU64) -> R) -> Result<R, Fault> {
        if !addr.is_multiple_of(8) {
            return Err(Fault::ADRALN);
        }
        // SAFETY: as above.
        self.with_word(addr, |at| op(unsafe { at.cast().as_ref() }))
    }

    /// Calls a client's operation with the address of a word.
    fn with_word<R>(&self, addr: u64, op: impl FnOnce(NonNull<u8>) -> R) -> Result<R, Fault> {
        let machine = self.mm.machine.number();
        self.with_page(addr, Access::WRITE, |at| {
            self.mm.atomic_ops.within(machine, |_| op(at))
        })
    }

    /// Calls `use_it` with the address in the host of the byte at `addr`, once the access succeeds.
    fn with_page<R>(
        &self,
        addr: u64,
        access: Access,
        use_it: impl FnOnce(NonNull<u8>) -> R,
    ) -> Result<R, Fault> {
        let need = if access.contains(Access::WRITE) {
            Attrs::WRITE
        } else {
            Attrs::READ
        };
        let mm = &*self.mm;
        mm.atomic_ops.check().map_err(|_| Fault::Deadlock)?;
        let physical = mm.machine.physical();
        let mut once = Some(use_it);
        loop {
            if mm.is_execute_only(addr) {
                return Err(Fault::PKUERR);
            }
            let found = mm.tables.access(addr, need, |phys| {
                if !physical.frames().contains(phys) {
                    // A device's page.
                    return None;
                }
                let page = physical.to_virt(phys & !(PAGE - 1));
                // SAFETY: within the frame.
                let at = unsafe { page.add((phys % PAGE) as usize) };
                once.take().map(|use_it| use_it(at))
            });
            match found {
                Ok(Some(result)) => return Ok(result),
                // `use_it` is called once.
                Ok(None) => return Err(Fault::ADRERR),
                Err(_) => self.fault(addr, access)?,
            }
        }
    }
}

/// Returns the next part of a copy that lies in one page: its address and length.
fn piece_of_page(addr: u64, done: usize, len: usize) -> Option<(u64, usize)> {
    let at = addr.checked_add(done as u64)?;
    let in_page = (PAGE - at % PAGE) as usize;
    Some((at, in_page.min(len - done)))
}

impl<P: Platform> Mm<P> {
    /// Returns `true` if a protection key forbids reads at `addr` that the page-table entry allows.
    fn is_execute_only(&self, addr: u64) -> bool {
        self.has_execute_only() && self.is_execute_only_now(addr)
    }

    /// Does the same, but waits for a running call.
    pub(super) fn is_execute_only_now(&self, addr: u64) -> bool {
        let space = self.space.read();
        space.config.pkeys
            && (space.areas.at(addr)).is_some_and(|area| space.is_execute_only(area.vma.flags))
    }
}

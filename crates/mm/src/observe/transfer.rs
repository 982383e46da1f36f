//! Copies from one process to another, as `process_vm_readv(2)` and `process_vm_writev(2)`.

use crate::errno::Errno;
use crate::flags::{PAGE_SIZE, VmFlags};
use crate::process::{Platform, Process};

/// The size of the copy buffer in bytes. It is on the stack, which is small in a kernel.
const PIECE: usize = 512;

/// A range of a program's memory, in a list: `struct iovec`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoVec {
    /// The first address.
    pub base: u64,
    /// The length in bytes.
    pub len: u64,
}

/// The most ranges in a list.
const MOST: usize = 1024;

/// The direction of the copy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Read,
    Write,
}

/// The remaining bytes of a list of ranges.
struct Rest<'a> {
    list: &'a [IoVec],
    /// The number of used bytes of the first range.
    done: u64,
}

impl<'a> Rest<'a> {
    /// Creates the state at the start of a list.
    ///
    /// # Errors
    /// `EINVAL`: too many ranges or bytes.
    fn new(list: &'a [IoVec]) -> Result<Self, Errno> {
        let all = list
            .iter()
            .try_fold(0u64, |all, range| all.checked_add(range.len));
        let fits = all.is_some_and(|all| i64::try_from(all).is_ok());
        (fits && list.len() <= MOST)
            .then_some(Rest { list, done: 0 })
            .ok_or(Errno::EINVAL)
    }

    /// Returns the address and the length of the next non-empty range. The address is `None` beyond
    /// all addresses.
    fn next(&mut self) -> Option<(Option<u64>, u64)> {
        while let Some((first, others)) = self.list.split_first() {
            if self.done < first.len {
                return Some((first.base.checked_add(self.done), first.len - self.done));
            }
            (self.list, self.done) = (others, 0);
        }
        None
    }
}

impl<P: Platform> Process<P> {
    /// Copies bytes of `remote`, from one list of ranges to another, into this process
    /// (`process_vm_readv(2)`). It returns the number of bytes.
    ///
    /// It ends with the shorter list, or at the first byte that cannot be read or written. Pages
    /// that the other process may not read itself are not read, and its stacks do not grow. `flags`
    /// must be 0. Neither process waits for the other's calls for longer than one page takes.
    ///
    /// # Errors
    /// `EFAULT`: no byte could be copied. `EINVAL`: flags, more than 1,024 ranges, or more bytes
    /// than fit in an `ssize_t`.
    ///
    /// ```
    /// # use samara_mm::process::{Machine, Platform, Process};
    /// # use samara_mm::{Config, Errno, Layout, Limits, MmapOptions, Prot};
    /// use samara_mm::observe::IoVec;
    ///
    /// # fn two<P: Platform>(machine: &Machine<P>) -> Result<(), Errno> {
    /// # let new = || Process::new(machine, Config::default(), Limits::default(), Layout::default());
    /// let (one, other) = (new()?, new()?);
    /// let memory = MmapOptions::anonymous(0x1000).prot(Prot::READ | Prot::WRITE);
    /// let (here, there) = (one.mmap(&memory)?, other.mmap(&memory)?);
    /// other.copy_in(there, b"bytes");
    ///
    /// let remote = [IoVec { base: there, len: 3 }, IoVec { base: there + 0xffe, len: 4 }];
    /// let local = [IoVec { base: here, len: 100 }];
    /// assert_eq!(one.vm_readv(&local, &other, &remote, 0)?, 5); // the page ends there
    /// # Ok(())
    /// # }
    /// ```
    pub fn vm_readv<Q: Platform>(
        &self,
        local: &[IoVec],
        remote: &Process<Q>,
        remote_list: &[IoVec],
        flags: u64,
    ) -> Result<usize, Errno> {
        self.vm_copy(local, remote, remote_list, flags, Way::Read)
    }

    /// Copies bytes from this process into `remote` (`process_vm_writev(2)`), as
    /// [`vm_readv`](Self::vm_readv).
    ///
    /// # Errors
    /// As [`vm_readv`](Self::vm_readv).
    pub fn vm_writev<Q: Platform>(
        &self,
        local: &[IoVec],
        remote: &Process<Q>,
        remote_list: &[IoVec],
        flags: u64,
    ) -> Result<usize, Errno> {
        self.vm_copy(local, remote, remote_list, flags, Way::Write)
    }

    fn vm_copy<Q: Platform>(
        &self,
        local: &[IoVec],
        remote: &Process<Q>,
        remote_list: &[IoVec],
        flags: u64,
        way: Way,
    ) -> Result<usize, Errno> {
        if flags != 0 {
            return Err(Errno::EINVAL);
        }
        let (mut here, mut there) = (Rest::new(local)?, Rest::new(remote_list)?);
        let mut bytes = [0; PIECE];
        let mut done = 0;
        while let (Some((at, left)), Some((to, room))) = (here.next(), there.next()) {
            let (Some(at), Some(to)) = (at, to) else {
                return result(done);
            };
            // Permissions are tested page by page.
            let page = PAGE_SIZE - to % PAGE_SIZE;
            let len = left.min(room).min(page).min(PIECE as u64) as usize;
            let bytes = &mut bytes[..len];
            if !remote.lets(to, way) {
                return result(done);
            }
            let copied = match way {
                Way::Read => {
                    let read = remote.copy_out(to, bytes);
                    self.copy_in(at, &bytes[..read])
                }
                Way::Write => {
                    let read = self.copy_out(at, bytes);
                    remote.copy_in(to, &bytes[..read])
                }
            };
            done += copied;
            if copied < len {
                return result(done);
            }
            here.done += copied as u64;
            there.done += copied as u64;
        }
        Ok(done)
    }

    /// Returns `true` if another process may use the page at an address in this direction.
    fn lets(&self, addr: u64, way: Way) -> bool {
        let need = match way {
            Way::Read => VmFlags::READ,
            Way::Write => VmFlags::WRITE,
        };
        let special = VmFlags::IO | VmFlags::PFNMAP;
        let found = self.find(addr, |area| {
            area.start <= addr && area.flags.contains(need) && !area.flags.intersects(special)
        });
        found == Some(true)
    }
}

/// Returns the result of a copy that ended early.
fn result(done: usize) -> Result<usize, Errno> {
    if done > 0 {
        Ok(done)
    } else {
        Err(Errno::EFAULT)
    }
}

impl<P: Platform> Process<P> {
    /// Copies `len` bytes from `addr` to `to_addr` of another process, and returns their number.
    /// The other process may be this one, and may run on another machine.
    ///
    /// Faults are handled on both sides. The number is smaller than asked for at the first byte
    /// that cannot be read or written. Overlapping ranges in one process are copied in ascending
    /// order, buffer by buffer.
    pub fn copy_to<Q: Platform>(
        &self,
        addr: u64,
        to: &Process<Q>,
        to_addr: u64,
        len: usize,
    ) -> usize {
        let mut bytes = [0; PIECE];
        let mut done = 0;
        while done < len {
            let piece = &mut bytes[..PIECE.min(len - done)];
            let (Some(from), Some(into)) = (
                addr.checked_add(done as u64),
                to_addr.checked_add(done as u64),
            ) else {
                break;
            };
            let read = self.copy_out(from, piece);
            let written = to.copy_in(into, &piece[..read]);
            done += written;
            if written < piece.len() {
                break;
            }
        }
        done
    }
}

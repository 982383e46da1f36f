//! A file's bytes by offset, as `pread(2)` and `pwrite(2)` use them. They are the same pages that
//! programs map.

use crate::errno::Errno;
use crate::flags::PAGE_SIZE;
use crate::object::Object;
use crate::process::bytes;
use crate::process::file::inode::Inode;
use crate::process::machine::Machine;
use crate::process::platform::Platform;
use crate::process::signal::Fault;

impl<P: Platform> Machine<P> {
    /// Copies a file's bytes from `offset` on, and returns their number. It is smaller than the
    /// buffer at the end of the file, and before a page that cannot be had.
    ///
    /// The bytes include stores through shared mappings, written back or not. Pages that are not
    /// cached are read, and stay cached.
    ///
    /// ```
    /// # #[cfg(not(feature = "hosted"))]
    /// # fn main() {}
    /// # #[cfg(feature = "hosted")]
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use samara_mm::process::{Inode, Machine, PAGE_BYTES, PageSource};
    /// # use samara_mm::Errno;
    /// # use samara_paging::Arena;
    /// # struct Ones;
    /// # impl PageSource for Ones {
    /// #     fn read_page(&self, _: u64, into: &mut [u8; PAGE_BYTES]) -> Result<(), Errno> {
    /// #         into.fill(1);
    /// #         Ok(())
    /// #     }
    /// #     fn write_page(&self, _: u64, _: &[u8; PAGE_BYTES]) -> Result<(), Errno> {
    /// #         Ok(())
    /// #     }
    /// #     fn punch(&self, _: u64, _: u64) -> Result<(), Errno> {
    /// #         Ok(())
    /// #     }
    /// #     fn size(&self) -> u64 {
    /// #         5000
    /// #     }
    /// # }
    /// let machine = Machine::over(Arena::on_heap(64)?)?;
    /// let object = Inode::object(Ones)?; // 5,000 ones
    /// assert_eq!(machine.write_file(&object, 4998, b"abcd"), Ok(2));
    /// let mut bytes = [0; 8];
    /// assert_eq!(machine.read_file(&object, 4996, &mut bytes), Ok(4));
    /// assert_eq!(&bytes[..4], b"\x01\x01ab");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If no byte could be copied: `EIO` if the page cannot be read, `ENOMEM`. `EINVAL` if the
    /// object is not a file's.
    pub fn read_file(&self, object: &Object, offset: u64, into: &mut [u8]) -> Result<usize, Errno> {
        self.each_page(object, offset, into.len(), false, |at, from, len| {
            // SAFETY: within a page that the locked cache keeps. Programs change it by atomic
            // stores.
            unsafe { bytes::load(at, &mut into[from..from + len]) };
        })
    }

    /// Copies bytes to a file from `offset` on, and returns their number.
    ///
    /// All mappings see them, except private copies. They are written back as stores of programs
    /// are, at `msync` and when the file is released. The file does not grow: bytes beyond its end
    /// are not copied.
    ///
    /// # Errors
    /// As [`read_file`](Self::read_file).
    pub fn write_file(&self, object: &Object, offset: u64, from: &[u8]) -> Result<usize, Errno> {
        self.each_page(object, offset, from.len(), true, |at, start, len| {
            // SAFETY: as above. All other accesses are atomic.
            unsafe { bytes::store(at, &from[start..start + len]) };
        })
    }

    /// Calls `copy` for each part of a page, with its address, the index of its first byte among
    /// all bytes, and its length.
    fn each_page(
        &self,
        object: &Object,
        offset: u64,
        len: usize,
        write: bool,
        mut copy: impl FnMut(core::ptr::NonNull<u8>, usize, usize),
    ) -> Result<usize, Errno> {
        let inode = object.get::<Inode>().ok_or(Errno::EINVAL)?;
        let left = inode.source().size().saturating_sub(offset);
        let len = len.min(usize::try_from(left).unwrap_or(usize::MAX));
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let inside = (at % PAGE_SIZE) as usize;
            let part = (len - done).min(PAGE_SIZE as usize - inside);
            let cache = inode.cache(self)?;
            // Dirty before the bytes change: a concurrent write-back takes the page once more.
            match cache.page(inode, at / PAGE_SIZE, write) {
                // With the pages locked, so that a later truncation finds these bytes.
                Ok((_pages, phys)) => {
                    let start = self.physical().to_virt(phys);
                    // SAFETY: within the frame.
                    copy(unsafe { start.add(inside) }, done, part);
                }
                Err(_) if done > 0 => break,
                Err(Fault::NoMemory) => return Err(Errno::ENOMEM),
                // The file has become shorter.
                Err(_) if at >= inode.source().size() => break,
                Err(_) => return Err(Errno::EIO),
            }
            done += part;
        }
        Ok(done)
    }
}

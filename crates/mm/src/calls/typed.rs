//! Calls with types for arguments, for programs that make them themselves. Each becomes a [`Call`] and goes through
//! [`AddressSpace::perform`] like any other.

use crate::abi::{
    Advice, AttachFlags, LockAllFlags, LockFlags, MapFlags, Prot, RemapFlags, SyncFlags,
};
use crate::call::{Call, ShmSegment};
use crate::config::Layout;
use crate::errno::Errno;
use crate::file::{File, FileArg};
use crate::heap::Counted;
use crate::pages::Pages;
use crate::space::AddressSpace;

/// The arguments of `mmap(2)`.
///
/// Private and without access by default.
///
/// ```
/// use samara_mm::{AddressSpace, Config, Errno, Layout, Limits, MmapOptions, Prot};
///
/// let mut space = AddressSpace::new(Config::default(), Limits::default(), Layout::default())?;
/// let page = MmapOptions::anonymous(0x1000).prot(Prot::READ | Prot::WRITE);
/// // Where the kernel likes …
/// let first = space.mmap(&page)?;
/// // … and at a place of one's own, unless something is there.
/// assert_eq!(space.mmap(&page.clone().fixed_noreplace(first)), Err(Errno::EEXIST));
/// assert_eq!(space.mmap(&page.fixed_noreplace(0x10_0000))?, 0x10_0000);
/// # Ok::<(), Errno>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct MmapOptions {
    addr: u64,
    len: u64,
    prot: Prot,
    flags: MapFlags,
    file: FileArg,
    offset: u64,
}

impl MmapOptions {
    /// Returns a request for zeroed memory of `len` bytes, rounded up to pages.
    pub const fn anonymous(len: u64) -> Self {
        MmapOptions {
            addr: 0,
            len,
            prot: Prot::empty(),
            flags: MapFlags::PRIVATE.union(MapFlags::ANONYMOUS),
            file: FileArg::None,
            offset: 0,
        }
    }

    /// Returns a request for `len` bytes of a file from `offset`, which must be a multiple of the
    /// page size.
    pub const fn file(file: Counted<File>, offset: u64, len: u64) -> Self {
        MmapOptions {
            addr: 0,
            len,
            prot: Prot::empty(),
            flags: MapFlags::PRIVATE,
            file: FileArg::File(file),
            offset,
        }
    }

    /// Sets the protection.
    pub const fn prot(mut self, prot: Prot) -> Self {
        self.prot = prot;
        self
    }

    /// Sets the length in bytes.
    pub const fn len(mut self, len: u64) -> Self {
        self.len = len;
        self
    }

    /// Asks for this address. If the range is not free, the kernel chooses another.
    pub const fn hint(mut self, addr: u64) -> Self {
        self.addr = addr;
        self
    }

    /// Fixes the address. What is mapped there is replaced (`MAP_FIXED`).
    pub const fn fixed(self, addr: u64) -> Self {
        self.hint(addr).flags(MapFlags::FIXED)
    }

    /// Fixes the address. Fails with `EEXIST` if something is mapped there (`MAP_FIXED_NOREPLACE`).
    pub const fn fixed_noreplace(self, addr: u64) -> Self {
        self.hint(addr).flags(MapFlags::FIXED_NOREPLACE)
    }

    /// Makes the mapping shared: writes go to the object, and other mappings see them
    /// (`MAP_SHARED`).
    pub const fn shared(mut self) -> Self {
        self.flags = self.flags.difference(MapFlags::PRIVATE);
        self.flags(MapFlags::SHARED)
    }

    /// Adds flags.
    pub const fn flags(mut self, flags: MapFlags) -> Self {
        self.flags = self.flags.union(flags);
        self
    }
}

impl From<&MmapOptions> for Call {
    fn from(options: &MmapOptions) -> Self {
        Call::Mmap {
            addr: options.addr,
            len: options.len,
            prot: options.prot.bits(),
            flags: options.flags.bits(),
            file: options.file.clone(),
            offset: options.offset,
        }
    }
}

/// The arguments of `mremap(2)`.
///
/// ```
/// use samara_mm::{AddressSpace, Config, Errno, Layout, Limits, MmapOptions, MremapOptions, Prot};
///
/// let mut space = AddressSpace::new(Config::default(), Limits::default(), Layout::default())?;
/// let pages = MmapOptions::anonymous(0x2000).prot(Prot::READ);
/// space.mmap(&pages.clone().fixed(0x10_0000))?;
/// space.mmap(&pages.shared().fixed(0x10_2000))?;
/// let larger = MremapOptions::new(0x10_0000, 0x2000, 0x8000);
/// assert_eq!(space.mremap(&larger), Err(Errno::ENOMEM));
/// assert_ne!(space.mremap(&larger.may_move())?, 0x10_0000);
/// # Ok::<(), Errno>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct MremapOptions {
    old_addr: u64,
    old_len: u64,
    new_len: u64,
    flags: RemapFlags,
    new_addr: u64,
}

impl MremapOptions {
    /// Returns a request to resize the `old_len` bytes at `old_addr` to `new_len` in place.
    pub const fn new(old_addr: u64, old_len: u64, new_len: u64) -> Self {
        MremapOptions {
            old_addr,
            old_len,
            new_len,
            flags: RemapFlags::empty(),
            new_addr: 0,
        }
    }

    /// Allows a move if there is no room (`MREMAP_MAYMOVE`).
    pub const fn may_move(self) -> Self {
        self.flags(RemapFlags::MAYMOVE)
    }

    /// Fixes the new address. What is mapped there is replaced (`MREMAP_FIXED`).
    pub const fn to(mut self, addr: u64) -> Self {
        self.new_addr = addr;
        self.flags(RemapFlags::MAYMOVE.union(RemapFlags::FIXED))
    }

    /// Keeps the old range mapped, without its pages (`MREMAP_DONTUNMAP`).
    pub const fn keep_source(self) -> Self {
        self.flags(RemapFlags::MAYMOVE.union(RemapFlags::DONTUNMAP))
    }

    /// Adds flags.
    pub const fn flags(mut self, flags: RemapFlags) -> Self {
        self.flags = self.flags.union(flags);
        self
    }
}

impl From<&MremapOptions> for Call {
    fn from(options: &MremapOptions) -> Self {
        Call::Mremap {
            old_addr: options.old_addr,
            old_len: options.old_len,
            new_len: options.new_len,
            flags: options.flags.bits(),
            new_addr: options.new_addr,
        }
    }
}

/// Defines the system calls by name, as methods of a type that performs a [`Call`]. Takes `self`
/// and the receiver.
macro_rules! typed_calls {
    ($me:ident, $($receiver:tt)+) => {
        /// Performs `mmap(2)`. Returns the address of the new mapping.
        pub fn mmap($($receiver)+, options: &MmapOptions) -> Result<u64, Errno> {
            $me.perform(&options.into())
        }

        /// Performs `munmap(2)`: unmaps whatever is in the range.
        pub fn munmap($($receiver)+, addr: u64, len: u64) -> Result<(), Errno> {
            $me.done(&Call::Munmap { addr, len })
        }

        /// Performs `mprotect(2)`.
        pub fn mprotect($($receiver)+, addr: u64, len: u64, prot: Prot) -> Result<(), Errno> {
            let prot = prot.bits();
            $me.done(&Call::Mprotect {
                addr,
                len,
                prot,
                pkey: -1,
            })
        }

        /// Performs `pkey_mprotect(2)`.
        pub fn pkey_mprotect(
            $($receiver)+,
            addr: u64,
            len: u64,
            prot: Prot,
            pkey: i32,
        ) -> Result<(), Errno> {
            let prot = prot.bits();
            $me.done(&Call::Mprotect {
                addr,
                len,
                prot,
                pkey,
            })
        }

        /// Performs `mremap(2)`. Returns the new address of the range.
        pub fn mremap($($receiver)+, options: &MremapOptions) -> Result<u64, Errno> {
            $me.perform(&options.into())
        }

        /// Performs `brk(2)` as the kernel does. Returns the program break afterwards, which is the
        /// old one if it could not be moved.
        pub fn brk($($receiver)+, addr: u64) -> u64 {
            $me.perform(&Call::Brk { addr })
                .unwrap_or($me.layout().brk)
        }

        /// Performs `madvise(2)`.
        pub fn madvise($($receiver)+, addr: u64, len: u64, advice: Advice) -> Result<(), Errno> {
            let advice = advice.0;
            $me.done(&Call::Madvise { addr, len, advice })
        }

        /// Performs `mlock2(2)`, or `mlock(2)` without flags.
        pub fn mlock($($receiver)+, addr: u64, len: u64, flags: LockFlags) -> Result<(), Errno> {
            let flags = flags.bits();
            $me.done(&Call::Mlock { addr, len, flags })
        }

        /// Performs `munlock(2)`.
        pub fn munlock($($receiver)+, addr: u64, len: u64) -> Result<(), Errno> {
            $me.done(&Call::Munlock { addr, len })
        }

        /// Performs `mlockall(2)`.
        pub fn mlockall($($receiver)+, flags: LockAllFlags) -> Result<(), Errno> {
            let flags = flags.bits();
            $me.done(&Call::Mlockall { flags })
        }

        /// Performs `munlockall(2)`.
        pub fn munlockall($($receiver)+) -> Result<(), Errno> {
            $me.done(&Call::Munlockall)
        }

        /// Performs `msync(2)`: checks that the range is mapped and may be invalidated.
        pub fn msync($($receiver)+, addr: u64, len: u64, flags: SyncFlags) -> Result<(), Errno> {
            let flags = flags.bits();
            $me.done(&Call::Msync { addr, len, flags })
        }

        /// Performs `mseal(2)`: the mappings in the range cannot be changed any more.
        pub fn mseal($($receiver)+, addr: u64, len: u64) -> Result<(), Errno> {
            $me.done(&Call::Mseal {
                addr,
                len,
                flags: 0,
            })
        }

        /// Performs `shmat(2)`. Returns the address of the attachment.
        pub fn shmat(
            $($receiver)+,
            segment: &Counted<ShmSegment>,
            addr: u64,
            flags: AttachFlags,
        ) -> Result<u64, Errno> {
            $me.perform(&Call::Shmat {
                segment: Some(segment.clone()),
                addr,
                flags: flags.bits(),
            })
        }

        /// Performs `shmdt(2)`.
        pub fn shmdt($($receiver)+, addr: u64) -> Result<(), Errno> {
            $me.done(&Call::Shmdt { addr })
        }

        /// Performs a call that returns no value.
        fn done($($receiver)+, call: &Call) -> Result<(), Errno> {
            $me.perform(call).map(|_| ())
        }
    };
}

#[cfg(feature = "paging")]
pub(crate) use typed_calls;

/// The system calls by name. Lengths are in bytes and are rounded up to pages. Errors are Linux's,
/// as for [`perform`](Self::perform).
#[allow(
    clippy::missing_errors_doc,
    reason = "said once, above: each call's are in its manual page"
)]
impl AddressSpace {
    typed_calls!(self, &mut self);

    /// Returns the same calls with an owner of the pages.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, Errno, Layout, Limits, MmapOptions, Vma, Watch};
    ///
    /// /// Counts pages.
    /// struct Counter(u64);
    ///
    /// impl Watch for Counter {
    ///     fn map(&mut self, start: u64, end: u64, _: &Vma) {
    ///         self.0 += (end - start) / 4096;
    ///     }
    ///
    ///     fn unmap(&mut self, start: u64, end: u64) {
    ///         self.0 -= (end - start) / 4096;
    ///     }
    /// }
    ///
    /// let mut space = AddressSpace::new(Config::default(), Limits::default(), Layout::default())?;
    /// let mut counter = Counter(0);
    /// let memory = space.with(&mut counter).mmap(&MmapOptions::anonymous(0x4000))?;
    /// space.with(&mut counter).munmap(memory + 0x1000, 0x8000)?;
    /// assert_eq!(counter.0, 1);
    /// # Ok::<(), Errno>(())
    /// ```
    pub fn with<'a, P: Pages + ?Sized>(&'a mut self, pages: &'a mut P) -> WithPages<'a, P> {
        WithPages { space: self, pages }
    }
}

/// An address space and an owner of its pages, for performing calls: [`AddressSpace::with`].
#[derive(Debug)]
pub struct WithPages<'a, P: ?Sized> {
    space: &'a mut AddressSpace,
    pages: &'a mut P,
}

/// The system calls by name, as for [`AddressSpace`].
#[allow(
    clippy::missing_errors_doc,
    reason = "said once, there: each call's are in its manual page"
)]
impl<P: Pages + ?Sized> WithPages<'_, P> {
    /// As [`AddressSpace::perform_with`].
    pub fn perform(&mut self, call: &Call) -> Result<u64, Errno> {
        self.space.perform_with(call, self.pages)
    }

    /// As [`AddressSpace::fault_with`].
    pub fn fault(&mut self, address: u64, write: bool) -> Result<(), Errno> {
        self.space.fault_with(address, write, self.pages)
    }

    fn layout(&self) -> Layout {
        self.space.layout()
    }

    typed_calls!(self, &mut self);
}

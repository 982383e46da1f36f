//! The content of a file, as a client provides it.

use samara_paging::{Attrs, Source};

use crate::errno::Errno;
use crate::flags::PAGE_SIZE;

/// The number of bytes in a page.
pub const PAGE_BYTES: usize = PAGE_SIZE as usize;

/// A frame that the source of a file provides, and that faults map directly.
///
/// The address is trusted, as every [`samara_paging::Source`] is: a frame of this machine must hold
/// neither page tables nor private memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageFrame {
    /// A counted frame of [`Kind::File`](samara_paging::Kind::File). The source has a reference on
    /// it for as long as it returns the frame. Each mapping has a reference of its own, which keeps
    /// the frame afterwards.
    Counted(u64),
    /// Memory that is not counted and never freed: a part of the kernel's image, a framebuffer.
    /// Private mappings copy it at the first write if it is memory of the machine, and raise
    /// `SIGBUS` otherwise.
    Special(u64),
    /// Registers of a device, neither cached nor reordered ([`Attrs::DEVICE`]); otherwise as
    /// [`Special`](Self::Special). A write to a private mapping raises `SIGBUS`. RISC-V needs
    /// Svpbmt for this. Without it, the platform decides the memory's attributes, and the source
    /// returns `Special`.
    Device(u64),
}

impl PageFrame {
    /// Returns the physical address.
    pub const fn phys(self) -> u64 {
        let (Self::Counted(phys) | Self::Special(phys) | Self::Device(phys)) = self;
        phys
    }

    /// Returns how tables map the frame, and the attributes of its entry besides those of the VMA.
    pub(crate) fn source(self) -> (Source, Attrs) {
        match self {
            Self::Counted(phys) => (Source::Counted(phys), Attrs::empty()),
            Self::Special(phys) => (Source::Special(phys), Attrs::empty()),
            Self::Device(phys) => (Source::Special(phys), Attrs::DEVICE),
        }
    }
}

/// Consecutive frames as a source: the registers of a device, a framebuffer, a page of the kernel's
/// image.
///
/// ```
/// use samara_mm::process::{FrameRun, Inode, PageFrame};
/// use samara_mm::{DriverFlags, Errno, File, FileId, FileKind, VmFlags};
///
/// // The registers of a serial port.
/// let registers = FrameRun { first: PageFrame::Device(0x1000_0000), pages: 1 };
/// let adds = VmFlags::IO | VmFlags::PFNMAP | VmFlags::DONTEXPAND | VmFlags::DONTDUMP;
/// let driver = DriverFlags { adds, ..DriverFlags::default() };
/// let (kind, object) = (FileKind::Device, Inode::object(registers)?);
/// let id = FileId { major: 0, minor: 6, inode: 64 };
/// let file = File { kind, driver, object, ..File::new(id, "/dev/port".into()) };
/// # Ok::<(), Errno>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRun {
    /// The first frame.
    pub first: PageFrame,
    /// The number of frames.
    pub pages: u64,
}

impl PageSource for FrameRun {
    fn frame(&self, page: u64) -> Option<PageFrame> {
        let bytes = page.checked_mul(PAGE_SIZE).filter(|_| page < self.pages)?;
        Some(match self.first {
            PageFrame::Counted(phys) => PageFrame::Counted(phys.checked_add(bytes)?),
            PageFrame::Special(phys) => PageFrame::Special(phys.checked_add(bytes)?),
            PageFrame::Device(phys) => PageFrame::Device(phys.checked_add(bytes)?),
        })
    }

    fn size(&self) -> u64 {
        self.pages.saturating_mul(PAGE_SIZE)
    }

    /// Never called, since each page has its frame.
    fn read_page(&self, _: u64, _: &mut [u8; PAGE_BYTES]) -> Result<(), Errno> {
        Err(Errno::EIO)
    }

    fn write_page(&self, _: u64, _: &[u8; PAGE_BYTES]) -> Result<(), Errno> {
        Err(Errno::EIO)
    }

    fn punch(&self, _: u64, _: u64) -> Result<(), Errno> {
        Err(Errno::EOPNOTSUPP)
    }
}

/// The content of a file. Methods may be called by several threads at once, also for one page.
///
/// No lock of the file's pages is held during a call, except for [`size`](Self::size) and
/// [`frame`](Self::frame). So a source may read other files and fault in other processes. The lock
/// of the faulting address space, or of its VMA, may be held. So a source must not call into a
/// process that maps the file: such a call would wait for itself.
pub trait PageSource: Send + Sync {
    /// Fills a page, with zeroes beyond the end of the file.
    ///
    /// # Errors
    /// The program gets `SIGBUS`.
    fn read_page(&self, page: u64, into: &mut [u8; PAGE_BYTES]) -> Result<(), Errno>;

    /// Writes a dirty page, at `msync(2)` with `MS_SYNC` and when the file is released.
    ///
    /// # Errors
    /// Those of `msync`: the page stays dirty. When the file is released, the page is lost, and
    /// [`Process::exit`](crate::process::Process::exit) returns the first error.
    fn write_page(&self, page: u64, from: &[u8; PAGE_BYTES]) -> Result<(), Errno>;

    /// Zeroes the bytes of `[start, end)` (`MADV_REMOVE`).
    ///
    /// # Errors
    /// Those of `madvise`.
    fn punch(&self, start: u64, end: u64) -> Result<(), Errno>;

    /// Returns the size of the file in bytes. An access to a page wholly beyond it raises `SIGBUS`.
    ///
    /// Called at each fault with the lock of the file's pages held, so it must not call into the
    /// machine.
    fn size(&self) -> u64;

    /// Returns the frame of a page that the source keeps itself. A fault maps it directly, and the
    /// page is never read, cached or written back.
    ///
    /// Called at each fault for a page within the [size](Self::size), also with the lock of the
    /// file's pages held, so it must not call into the machine.
    ///
    /// A source that takes a frame back returns something else from then on, and then calls
    /// [`Machine::truncate`](crate::process::Machine::truncate) with the size 0. After that no
    /// process maps the frame.
    ///
    /// VMAs of such files usually have [`VmFlags::PFNMAP`](crate::VmFlags::PFNMAP) or
    /// [`VmFlags::IO`](crate::VmFlags::IO), which a device adds by
    /// [`File::driver`](crate::File::driver). Then other processes cannot read them, they are not
    /// locked, and core files leave them out.
    ///
    /// [`FrameRun`] is a source of consecutive frames.
    fn frame(&self, page: u64) -> Option<PageFrame> {
        let _ = page;
        None
    }

    /// Returns `true` if the cached pages are the only copy (a memfd, a file of tmpfs). They are
    /// zero at first, and are never read or written.
    fn is_memory(&self) -> bool {
        false
    }
}

/// A shared anonymous object.
pub(crate) struct Zeroes {
    pub(crate) pages: u64,
}

impl PageSource for Zeroes {
    fn read_page(&self, _: u64, into: &mut [u8; PAGE_BYTES]) -> Result<(), Errno> {
        into.fill(0);
        Ok(())
    }

    fn write_page(&self, _: u64, _: &[u8; PAGE_BYTES]) -> Result<(), Errno> {
        Ok(())
    }

    fn punch(&self, _: u64, _: u64) -> Result<(), Errno> {
        Ok(())
    }

    fn size(&self) -> u64 {
        self.pages.saturating_mul(PAGE_SIZE)
    }

    fn is_memory(&self) -> bool {
        true
    }
}

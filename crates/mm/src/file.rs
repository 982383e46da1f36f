//! The facts about the object behind a mapping that an address space needs.

use alloc::boxed::Box;
use core::num::NonZeroU64;

use crate::flags::VmFlags;
use crate::heap::Counted;
use crate::object::Object;
use crate::object::new_object;

/// An open file description as `mmap(2)` sees it: the object's identity and what the opener may do.
///
/// Two mappings continue each other only when they were made through the same open file description, so that
/// both [`FileId`] and [`description`](File::description) are equal; the name does not matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Identity of the object behind the description.
    pub id: FileId,
    /// Number of the open file description (what `open(2)` makes and `dup(2)` shares). Linux does not join mappings of two
    /// separate opens of one file: [`File::opened`] gives each open a number of its own.
    ///
    /// `None` if the caller cannot tell which one it was. All such files of one [`id`](File::id) count as one open file, so
    /// that mappings of two opens **join**.
    pub description: Option<NonZeroU64>,
    /// The name as `/proc/PID/maps` prints it.
    pub name: Box<str>,
    /// Opened for reading.
    pub readable: bool,
    /// Opened for writing.
    pub writable: bool,
    /// On a file system mounted `noexec`.
    pub noexec: bool,
    /// The kind of object.
    pub kind: FileKind,
    /// `F_SEAL_*` bits of a memfd (`fcntl(2)`), zero elsewhere.
    pub seals: u32,
    /// For a device: what its driver makes of the properties of a mapping.
    pub driver: DriverFlags,
    /// Data that the owner of the pages keeps with the object. It lives as long as this description
    /// and its mappings.
    pub object: Object,
}

impl File {
    /// Returns a regular file that has just been opened for reading and writing, with a [`description`](File::description)
    /// unlike that of any other. Other properties are set as fields. Call this for each `open(2)`; `dup(2)` and `fork(2)` clone
    /// the [`Counted`] that holds the file.
    ///
    /// The numbers are the library's: a caller that numbers open files itself uses [`File::new`] for all of them.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, Counted, Errno, File, FileId, FileKind, Layout, Limits, MmapOptions};
    ///
    /// let id = FileId { major: 8, minor: 1, inode: 4711 };
    /// let open = || Counted::try_new(File { kind: FileKind::Shmem, ..File::opened(id, "/dev/shm/x".into()) });
    /// let (one, other) = (open()?, open()?);
    /// let mut space = AddressSpace::new(Config::default(), Limits::default(), Layout::default())?;
    /// space.mmap(&MmapOptions::file(one.clone(), 0, 0x1000).fixed(0x10_0000))?;
    /// space.mmap(&MmapOptions::file(one, 0x1000, 0x1000).fixed(0x10_1000))?;
    /// assert_eq!(space.area_count(), 1);
    /// space.mmap(&MmapOptions::file(other, 0x2000, 0x1000).fixed(0x10_2000))?;
    /// assert_eq!(space.area_count(), 2);
    /// # Ok::<(), Errno>(())
    /// ```
    #[must_use]
    pub fn opened(id: FileId, name: Box<str>) -> Self {
        File {
            description: NonZeroU64::new(new_object()),
            ..File::new(id, name)
        }
    }

    /// Returns a regular file that was opened for reading and writing. Which `open(2)` it came from is not known: its
    /// [`description`](File::description) is `None`. Other properties are set as fields:
    ///
    /// ```
    /// use samara_mm::{File, FileId, FileKind};
    ///
    /// let id = FileId { major: 8, minor: 1, inode: 4711 };
    /// let file = File { kind: FileKind::Shmem, writable: false, ..File::new(id, "/dev/shm/x".into()) };
    /// assert!(file.readable);
    /// ```
    #[must_use]
    pub fn new(id: FileId, name: Box<str>) -> Self {
        File {
            id,
            description: None,
            name,
            readable: true,
            writable: true,
            noexec: false,
            kind: FileKind::Regular,
            seals: 0,
            driver: DriverFlags::default(),
            object: Object::none(),
        }
    }
}

/// The changes that a driver makes to a VMA when the device is mapped. For example, a ring of
/// `io_uring` is not copied by fork and cannot grow, and a `memfd_secret` is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DriverFlags {
    /// Properties that the area gets.
    pub adds: VmFlags,
    /// Properties that it loses.
    pub removes: VmFlags,
}

/// Device and inode, as printed in `/proc/PID/maps`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// Major device number.
    pub major: u32,
    /// Minor device number.
    pub minor: u32,
    /// Inode number.
    pub inode: u64,
}

/// Objects that `mmap` treats differently.
///
/// ```
/// use samara_mm::{AddressSpace, Config, Counted, Errno, File, FileId, FileKind, Layout, Limits, MmapOptions, Prot};
///
/// let id = FileId { major: 0, minor: 15, inode: 1 };
/// let ring = File { kind: FileKind::WholeDevice, ..File::new(id, "anon_inode:[perf_event]".into()) };
/// let ring = Counted::try_new(ring).map_err(|_| Errno::ENOMEM)?;
/// let mut space = AddressSpace::new(Config::default(), Limits::default(), Layout::default())?;
/// let addr = space.mmap(&MmapOptions::file(ring, 0, 0x3000).shared().prot(Prot::READ))?;
/// assert_eq!(space.munmap(addr, 0x1000), Err(Errno::EINVAL));
/// assert_eq!(space.mprotect(addr + 0x1000, 0x2000, Prot::NONE), Err(Errno::EINVAL));
/// space.munmap(addr, 0x3000)?;
/// # Ok::<(), Errno>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileKind {
    /// A regular file on a file system that aligns large mappings for huge pages (ext4, xfs, btrfs).
    Regular,
    /// A regular file on another file system (network, proc …).
    Unaligned,
    /// A regular file of a file system that has a file of another one mapped in its place (overlayfs). What `mmap` makes of it joins no neighbour, since it looks
    /// for the file that it was asked for, and areas have the other. Whatever else is done to it joins it with areas of the same open file.
    Stacked,
    /// A regular file of FUSE, whose driver is told of each area that ends. Areas of it may grow and shrink, but none vanishes in another: a new one joins one
    /// neighbour at most, the lower one if it can, and a whole one that is changed joins none.
    Fuse,
    /// A file of tmpfs or a memfd (placement of large shared mappings differs).
    Shmem,
    /// A hugetlbfs file, with its page size in bytes.
    HugeTlb(u64),
    /// `/dev/zero`: a private mapping of it is anonymous memory, a shared one is shmem of its own. A shared one of a description that was opened for reading only
    /// is anonymous memory, too.
    DevZero,
    /// A file of ramfs, which chooses the places of its mappings itself: an area of it moves alone, in no call with others.
    Placed,
    /// Another device: its driver decides the flags of the mapping.
    Device,
    /// A device that chooses the places of its mappings itself, such as a ring of `io_uring` or a map of BPF: an area of it moves alone, too.
    PlacedDevice,
    /// A device whose areas cannot be cut, such as the ring of a perf event: a call whose range ends inside one is `EINVAL`. They cannot
    /// grow, either.
    WholeDevice,
    /// A file of `memfd_secret(2)`. Its mappings are locked by its driver or not at all: `mlock` and `munlock` leave them as they are.
    Secret,
    /// A packet socket (`packet(7)`), a device whose rings grew in place up to Linux 6.3.
    PacketSocket,
    /// Something that cannot be mapped at all (directory, pipe, socket …): `ENODEV`.
    Unmappable,
}

/// The descriptor argument of `mmap`, resolved by the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileArg {
    /// No descriptor was looked at (`MAP_ANONYMOUS`).
    None,
    /// The descriptor is not open, or was opened with `O_PATH`: `EBADF`.
    Bad,
    /// An open file description.
    File(Counted<File>),
}

impl FileKind {
    /// Bytes in the largest object of this kind, as mmap checks it.
    pub(crate) const fn largest(self) -> u64 {
        match self {
            FileKind::Regular
            | FileKind::Unaligned
            | FileKind::Stacked
            | FileKind::Fuse
            | FileKind::Placed
            | FileKind::Shmem
            | FileKind::HugeTlb(_) => i64::MAX as u64,
            _ => u64::MAX,
        }
    }

    /// Returns `true` if a driver decides the flags of a mapping.
    pub const fn is_driven(self) -> bool {
        matches!(
            self,
            FileKind::Device
                | FileKind::PlacedDevice
                | FileKind::WholeDevice
                | FileKind::Secret
                | FileKind::PacketSocket
        )
    }

    /// Returns `true` if the object's pages are placed so that its huge pages are aligned (as on
    /// ext4).
    pub(crate) const fn aligns_huge(self) -> bool {
        matches!(self, FileKind::Regular)
    }
}

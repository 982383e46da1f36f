//! Inodes: the properties that files of all kinds have, and the data of each kind.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use samara_mm::Errno;
use spin::Mutex;

use super::device::Device;
use super::path::Dentry;
use super::pipe::Pipe;
use super::regular::Regular;
use crate::arch::{Arch, Machine};
use crate::memory::heap;
use crate::process::Process;

pub struct Inode {
    pub ino: u64,
    mode: AtomicU32,
    pub uid: AtomicU32,
    pub gid: AtomicU32,
    /// The number of names.
    pub nlink: AtomicU32,
    /// The time of the last change of the content, in nanoseconds since 1970.
    pub mtime: AtomicU64,
    pub kind: Kind,
}

pub enum Kind {
    Directory(Directory),
    Regular(Regular),
    /// A symbolic link to this path.
    Symlink(Vec<u8>),
    /// A link of `/proc` that leads to this file, even if the file has no name.
    MagicLink(Vec<u8>, Arc<Dentry>),
    Pipe(Arc<Pipe>),
    Device(Device),
    /// Content that is computed by each read, at any offset.
    Computed(Box<ReadAt>),
    /// Text that is made when the file is opened.
    Text(Box<dyn Fn() -> Result<Vec<u8>, Errno> + Send + Sync>),
}

/// Reads at an offset. Returns the number of bytes.
pub type ReadAt = dyn Fn(u64, &mut [u8]) -> Result<usize, Errno> + Send + Sync;

/// The entries of a directory.
pub enum Directory {
    Stored(Mutex<Stored>),
    /// Entries that are computed by each lookup.
    Computed(Box<dyn Entries>),
}

/// Inodes by their names.
pub type Stored = BTreeMap<Vec<u8>, Arc<Inode>>;

/// A name and its inode.
pub type DirEntry = (Vec<u8>, Arc<Inode>);

/// A directory whose entries are computed.
pub trait Entries: Send + Sync {
    fn find(&self, name: &[u8]) -> Option<Arc<Inode>>;
    fn names(&self) -> Vec<Vec<u8>>;

    /// Returns the process if this is a process's directory in `/proc`.
    fn process(&self) -> Option<Arc<Process>> {
        None
    }
}

pub const S_IFMT: u32 = 0o170_000;
const S_IFIFO: u32 = 0o10_000;
const S_IFCHR: u32 = 0o20_000;
const S_IFDIR: u32 = 0o40_000;
const S_IFREG: u32 = 0o100_000;
const S_IFLNK: u32 = 0o120_000;

/// Returns the nanoseconds since 1970.
pub fn wall_time() -> u64 {
    static START: spin::Once<u64> = spin::Once::new();
    let start = START.call_once(|| Arch::wall_clock() * 1_000_000_000 - Arch::now());
    start + Arch::now()
}

impl Inode {
    pub fn new(kind: Kind, mode: u32) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Arc::new(Inode {
            ino: NEXT.fetch_add(1, Ordering::Relaxed),
            mode: AtomicU32::new(mode & 0o7777),
            uid: AtomicU32::new(0),
            gid: AtomicU32::new(0),
            nlink: AtomicU32::new(1),
            mtime: AtomicU64::new(wall_time()),
            kind,
        })
    }

    pub fn directory(mode: u32) -> Arc<Self> {
        Self::new(Kind::Directory(Directory::Stored(Mutex::new(BTreeMap::new()))), mode)
    }

    /// Creates an empty regular file.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn regular(mode: u32) -> Result<Arc<Self>, Errno> {
        Ok(Self::new(Kind::Regular(Regular::new()?), mode))
    }

    /// Returns the process if this is a process's directory in `/proc`.
    pub fn process(&self) -> Option<Arc<Process>> {
        match &self.kind {
            Kind::Directory(Directory::Computed(entries)) => entries.process(),
            _ => None,
        }
    }

    pub fn symlink(target: Vec<u8>) -> Arc<Self> {
        Self::new(Kind::Symlink(target), 0o777)
    }

    pub fn text(
        mode: u32,
        make: impl Fn() -> Result<Vec<u8>, Errno> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Self::new(Kind::Text(Box::new(make)), mode)
    }

    pub fn is_regular(&self) -> bool {
        matches!(self.kind, Kind::Regular(_))
    }

    pub fn is_directory(&self) -> bool {
        matches!(self.kind, Kind::Directory(_))
    }

    /// Returns the permissions and the type of the file.
    pub fn mode(&self) -> u32 {
        let kind = match &self.kind {
            Kind::Directory(_) => S_IFDIR,
            Kind::Regular(_) | Kind::Computed(_) | Kind::Text(_) => S_IFREG,
            Kind::Symlink(_) | Kind::MagicLink(..) => S_IFLNK,
            Kind::Pipe(_) => S_IFIFO,
            Kind::Device(_) => S_IFCHR,
        };
        kind | self.mode.load(Ordering::Relaxed)
    }

    pub fn set_mode(&self, mode: u32) {
        self.mode.store(mode & 0o7777, Ordering::Relaxed);
    }

    pub fn touch(&self) {
        self.mtime.store(wall_time(), Ordering::Relaxed);
    }

    /// Returns the length of the content in bytes.
    pub fn size(&self) -> u64 {
        match &self.kind {
            Kind::Regular(regular) => regular.size(),
            Kind::Symlink(target) | Kind::MagicLink(target, _) => target.len() as u64,
            _ => 0,
        }
    }

    /// Reads content at an offset. Returns the number of bytes, which is short only at the end.
    ///
    /// # Errors
    ///
    /// `EISDIR`, `EINVAL`, `ENOMEM`.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<usize, Errno> {
        match &self.kind {
            Kind::Regular(regular) => regular.read(offset, into),
            Kind::Computed(read) => read(offset, into),
            Kind::Directory(_) => Err(Errno::EISDIR),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Returns the number of names as `stat(2)` reports it.
    pub fn nlink(&self) -> u32 {
        if self.is_directory() { 2 } else { self.nlink.load(Ordering::Relaxed) }
    }

    /// Returns the device number, or 0 if the file is no device.
    pub fn rdev(&self) -> u64 {
        if let Kind::Device(device) = &self.kind { device.rdev() } else { 0 }
    }

    /// Looks up a name in a directory.
    ///
    /// # Errors
    ///
    /// `ENOTDIR`, `ENOENT`.
    pub fn lookup(&self, name: &[u8]) -> Result<Arc<Inode>, Errno> {
        match &self.kind {
            Kind::Directory(Directory::Stored(entries)) => {
                entries.lock().get(name).cloned().ok_or(Errno::ENOENT)
            }
            Kind::Directory(Directory::Computed(entries)) => {
                entries.find(name).ok_or(Errno::ENOENT)
            }
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// Returns the entries of a directory.
    ///
    /// # Errors
    ///
    /// `ENOTDIR`, `ENOMEM`.
    pub fn names(&self) -> Result<Vec<DirEntry>, Errno> {
        match &self.kind {
            Kind::Directory(Directory::Stored(entries)) => {
                let entries = entries.lock();
                let mut names = Vec::new();
                names.try_reserve_exact(entries.len()).map_err(|_| Errno::ENOMEM)?;
                for (name, inode) in entries.iter() {
                    heap::check_reserve()?;
                    names.push((name.clone(), inode.clone()));
                }
                Ok(names)
            }
            Kind::Directory(Directory::Computed(entries)) => {
                let named = |name: Vec<u8>| entries.find(&name).map(|inode| (name, inode));
                Ok(entries.names().into_iter().filter_map(named).collect())
            }
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// Returns the entries of a directory that can be changed.
    ///
    /// # Errors
    ///
    /// `ENOTDIR`; `EPERM` for a directory whose entries are computed.
    pub fn entries(&self) -> Result<&Mutex<Stored>, Errno> {
        match &self.kind {
            Kind::Directory(Directory::Stored(entries)) => Ok(entries),
            Kind::Directory(Directory::Computed(_)) => Err(Errno::EPERM),
            _ => Err(Errno::ENOTDIR),
        }
    }
}

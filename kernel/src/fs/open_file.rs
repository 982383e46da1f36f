//! OpenFile file descriptions: what `open(2)` makes and descriptors share.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};

use samara_mm::{Counted, Errno, File, FileId, FileKind};
use spin::Mutex;

use super::device::Device;
use super::inode::{DirEntry, Inode, Kind};
use super::path::Dentry;
use super::{O_ACCMODE, O_APPEND, O_NONBLOCK, O_PATH, O_RDONLY, O_RDWR, O_WRONLY};
use crate::process::wait::WaitQueue;

pub struct OpenFile {
    pub dentry: Arc<Dentry>,
    /// `O_*` of how it was opened; `O_APPEND` and `O_NONBLOCK` may change.
    pub flags: AtomicU32,
    /// Where the next read or write begins; the next name, in a directory.
    offset: Mutex<u64>,
    /// As areas know it.
    file: Option<Counted<File>>,
    /// The text of a file that is made when it is opened.
    text: Vec<u8>,
    /// The names in a directory, as they were when reading began.
    names: Mutex<Vec<DirEntry>>,
    /// How often the other side of a pipe had been opened before this, those that were there not counted.
    pub others_before: u32,
}

/// What a read or a write found.
pub enum Transfer {
    Done(usize),
    /// It would have to wait for one of these.
    WouldBlock,
}

impl OpenFile {
    /// # Errors
    /// `ENOMEM`, `ENXIO` for a pipe without a reader that is opened for writing without waiting, and what making a text gives.
    pub fn new(dentry: Arc<Dentry>, flags: u32) -> Result<Arc<Self>, Errno> {
        let inode = &dentry.inode;
        let access = flags & O_ACCMODE;
        let (readable, writable) =
            (matches!(access, O_RDONLY | O_RDWR), matches!(access, O_WRONLY | O_RDWR));
        let kind = match &inode.kind {
            Kind::Regular(_) => Some(FileKind::Shmem),
            Kind::Device(Device::Zero) => Some(FileKind::DevZero),
            _ => None,
        };
        let file = match kind {
            Some(kind) if flags & O_PATH == 0 => {
                let id = FileId { major: 0, minor: 2, inode: inode.ino };
                let name: Box<str> = alloc::string::String::from_utf8_lossy(&dentry.path()).into();
                let object = match &inode.kind {
                    Kind::Regular(regular) => regular.object().clone(),
                    _ => samara_mm::Object::none(),
                };
                let file = File { readable, writable, kind, object, ..File::opened(id, name) };
                Some(Counted::try_new(file).map_err(|_| Errno::ENOMEM)?)
            }
            _ => None,
        };
        let text = match &inode.kind {
            Kind::Text(make) if flags & O_PATH == 0 => make()?,
            _ => Vec::new(),
        };
        let others_before = match &inode.kind {
            Kind::Pipe(pipe) if flags & O_PATH == 0 => pipe.open(readable, writable),
            _ => 0,
        };
        let (offset, names) = (Mutex::new(0), Mutex::new(Vec::new()));
        let flags = AtomicU32::new(flags);
        Ok(Arc::new(OpenFile { dentry, flags, offset, file, text, names, others_before }))
    }

    /// As `mmap(2)` sees it. `None`: it cannot be mapped.
    pub fn file(&self) -> Option<Counted<File>> {
        self.file.clone()
    }

    pub fn inode(&self) -> &Arc<Inode> {
        &self.dentry.inode
    }

    pub fn has(&self, flag: u32) -> bool {
        self.flags.load(Ordering::Relaxed) & flag != 0
    }

    pub fn is_readable(&self) -> bool {
        let flags = self.flags.load(Ordering::Relaxed);
        flags & O_PATH == 0 && matches!(flags & O_ACCMODE, O_RDONLY | O_RDWR)
    }

    pub fn is_writable(&self) -> bool {
        let flags = self.flags.load(Ordering::Relaxed);
        flags & O_PATH == 0 && matches!(flags & O_ACCMODE, O_WRONLY | O_RDWR)
    }

    /// The wait queue of what is not always ready.
    pub fn queue(&self) -> Option<&WaitQueue> {
        match &self.inode().kind {
            Kind::Pipe(pipe) => Some(pipe.queue()),
            Kind::Device(device) => device.queue(),
            _ => None,
        }
    }

    /// Reads at an offset, or where the last read ended.
    ///
    /// # Errors
    /// Those of `read(2)`, but for waiting.
    pub fn read(&self, at: Option<u64>, into: &mut [u8]) -> Result<Transfer, Errno> {
        if !self.is_readable() {
            return Err(Errno::EBADF);
        }
        match &self.inode().kind {
            Kind::Pipe(_) if at.is_some() => Err(Errno::ESPIPE),
            Kind::Pipe(pipe) => Ok(pipe.read(into)),
            Kind::Device(device) => device.read(into),
            Kind::Directory(_) => Err(Errno::EISDIR),
            _ => {
                let mut own = self.offset.lock();
                let from = at.unwrap_or(*own);
                let done = if let Kind::Text(_) = &self.inode().kind {
                    let left = self.text.get(from as usize..).unwrap_or_default();
                    let done = left.len().min(into.len());
                    into[..done].copy_from_slice(&left[..done]);
                    done
                } else {
                    self.inode().read(from, into)?
                };
                if at.is_none() {
                    *own = from + done as u64;
                }
                Ok(Transfer::Done(done))
            }
        }
    }

    /// Writes at an offset, where the last write ended, or at the end of the file.
    ///
    /// # Errors
    /// Those of `write(2)`, but for waiting. `EPIPE`: the caller sends the signal.
    pub fn write(&self, at: Option<u64>, from: &[u8]) -> Result<Transfer, Errno> {
        if !self.is_writable() {
            return Err(Errno::EBADF);
        }
        match &self.inode().kind {
            Kind::Pipe(_) if at.is_some() => Err(Errno::ESPIPE),
            Kind::Pipe(pipe) => pipe.write(from),
            Kind::Device(device) => device.write(from),
            Kind::Regular(regular) => {
                let mut own = self.offset.lock();
                let offset = if self.has(O_APPEND) { None } else { Some(at.unwrap_or(*own)) };
                let (start, done) = regular.write(offset, from)?;
                if at.is_none() {
                    *own = start + done as u64;
                }
                self.inode().touch();
                Ok(Transfer::Done(done))
            }
            _ => Err(Errno::EINVAL),
        }
    }

    /// Returns `true` if a read, or a write, would not wait.
    pub fn is_ready(&self, write: bool) -> bool {
        match &self.inode().kind {
            Kind::Pipe(pipe) if write => pipe.has_room(),
            Kind::Pipe(pipe) => pipe.has_bytes(),
            Kind::Device(device) => write || device.has_input(),
            _ => true,
        }
    }

    /// Returns `true` if the other side of a pipe is closed.
    pub fn is_hung_up(&self) -> bool {
        match &self.inode().kind {
            Kind::Pipe(pipe) => pipe.is_hung_up(self.is_writable()),
            _ => false,
        }
    }

    /// `lseek(2)`.
    ///
    /// # Errors
    /// `ESPIPE`, `EINVAL`, `ENXIO`.
    pub fn seek(&self, offset: i64, whence: u64) -> Result<u64, Errno> {
        let size = match &self.inode().kind {
            Kind::Pipe(_) => return Err(Errno::ESPIPE),
            Kind::Device(device) if device.is_console() => return Err(Errno::ESPIPE),
            Kind::Device(_) => return Ok(0),
            Kind::Text(_) => self.text.len() as u64,
            _ => self.inode().size(),
        };
        let mut own = self.offset.lock();
        let from = match whence {
            0 => 0,
            1 => *own,
            2 => size,
            // Data up to the end, and a hole there.
            3 | 4 if offset < 0 || offset as u64 >= size => return Err(Errno::ENXIO),
            3 => 0,
            4 => size - offset as u64,
            _ => return Err(Errno::EINVAL),
        };
        let to = i64::try_from(from)
            .ok()
            .and_then(|from| from.checked_add(offset))
            .filter(|&to| to >= 0);
        *own = to.ok_or(Errno::EINVAL)? as u64;
        if self.inode().is_directory() {
            self.names.lock().clear();
        }
        Ok(*own)
    }

    /// Calls `entry` for each name of a directory from where the last call ended, until it returns `false`. It is told the offset of the next one.
    ///
    /// # Errors
    /// `ENOTDIR`.
    pub fn read_dir(&self, mut entry: impl FnMut(&[u8], &Inode, u64) -> bool) -> Result<(), Errno> {
        let mut own = self.offset.lock();
        let mut names = self.names.lock();
        if *own == 0 {
            *names = self.inode().names()?;
        }
        loop {
            let next = *own + 1;
            let more = match *own {
                0 => entry(b".", self.inode(), next),
                1 => entry(b"..", self.inode(), next),
                at => match names.get(at as usize - 2) {
                    Some((name, inode)) => entry(name, inode, next),
                    None => return Ok(()),
                },
            };
            if !more {
                return Ok(());
            }
            *own = next;
        }
    }

    /// Returns `true` if reads and writes do not wait.
    pub fn is_nonblocking(&self) -> bool {
        self.has(O_NONBLOCK)
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        if let Kind::Pipe(pipe) = &self.inode().kind
            && !self.has(O_PATH)
        {
            pipe.close(self.is_readable(), self.is_writable());
        }
    }
}

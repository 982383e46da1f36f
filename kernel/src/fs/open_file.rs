//! Open file descriptions, which `open(2)` creates and file descriptors refer to.

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
    /// The `O_*` flags. `O_APPEND` and `O_NONBLOCK` may change.
    pub flags: AtomicU32,
    /// The offset of the next read or write; in a directory, the index of the next entry.
    offset: Mutex<u64>,
    /// The file as VMAs refer to it.
    file: Option<Counted<File>>,
    /// The text of a file whose text is made when it is opened.
    text: Vec<u8>,
    /// The entries of a directory at the time when its reading began.
    names: Mutex<Vec<DirEntry>>,
    /// The pipe's count of opens of the other side, without those that were still open at this
    /// open.
    pub peer_opens: u32,
}

/// The result of a read or a write.
pub enum Transfer {
    Done(usize),
    /// The call would have to wait on [`OpenFile::queue`].
    WouldBlock,
}

impl OpenFile {
    /// Creates an open file description.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and the errors of making a text.
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
        let peer_opens = match &inode.kind {
            Kind::Pipe(pipe) if flags & O_PATH == 0 => pipe.open(readable, writable),
            _ => 0,
        };
        let (offset, names) = (Mutex::new(0), Mutex::new(Vec::new()));
        let flags = AtomicU32::new(flags);
        Ok(Arc::new(OpenFile { dentry, flags, offset, file, text, names, peer_opens }))
    }

    /// Returns the file that `mmap(2)` maps, or `None` if it cannot be mapped.
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

    /// Returns the wait queue of a file that may not be ready.
    pub fn queue(&self) -> Option<&WaitQueue> {
        match &self.inode().kind {
            Kind::Pipe(pipe) => Some(pipe.queue()),
            Kind::Device(device) => device.queue(),
            _ => None,
        }
    }

    /// Reads at the offset `at`, or at the file's own offset, which then advances.
    ///
    /// # Errors
    ///
    /// Those of `read(2)`, except those of waiting.
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

    /// Writes at the offset `at`, or at the file's own offset, which then advances. With
    /// `O_APPEND`, writes at the end of the file.
    ///
    /// # Errors
    ///
    /// Those of `write(2)`, except those of waiting. For `EPIPE`, the caller sends the signal.
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

    /// Returns `true` if a read, or with `write` a write, would not wait.
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

    /// Moves the file's own offset (`lseek(2)`).
    ///
    /// # Errors
    ///
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
            // A file is one range of data, with a hole at its end.
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

    /// Calls `entry` for each name of a directory, from where the last call ended, until it returns
    /// `false`. Its last argument is the offset of the next name.
    ///
    /// # Errors
    ///
    /// `ENOTDIR`, `ENOMEM`.
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

    /// Returns `true` if reads and writes return `EAGAIN` instead of waiting.
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

//! The file descriptors of a process.

use alloc::sync::Arc;
use alloc::vec::Vec;

use samara_mm::Errno;
use spin::Mutex;

use super::inode::Inode;
use super::open_file::OpenFile;
use super::path::Dentry;
use super::{O_RDWR, console, device};

/// The most file descriptors of a process, which `RLIMIT_NOFILE` always reports.
pub const MAX_FDS: usize = 1024;

#[derive(Clone)]
pub struct Descriptor {
    pub open: Arc<OpenFile>,
    pub close_on_exec: bool,
}

#[derive(Default)]
pub struct FdTable(Mutex<Vec<Option<Descriptor>>>);

impl FdTable {
    pub fn empty() -> Arc<Self> {
        Arc::default()
    }

    /// Creates a table whose descriptors 0 to 2 are the console.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn with_console() -> Result<Arc<Self>, Errno> {
        let inode: Arc<Inode> = device::inode(device::Device::Console(console::get()));
        let open = OpenFile::new(Dentry::unnamed(inode, b"/dev/console".to_vec()), O_RDWR)?;
        let descriptor = Descriptor { open, close_on_exec: false };
        Ok(Arc::new(FdTable(Mutex::new(alloc::vec![Some(descriptor); 3]))))
    }

    /// Returns a copy of the table for another process.
    pub fn copy(&self) -> Arc<Self> {
        Arc::new(FdTable(Mutex::new(self.0.lock().clone())))
    }

    /// Returns the open file of a descriptor.
    ///
    /// # Errors
    ///
    /// `EBADF`.
    pub fn get(&self, number: u64) -> Result<Arc<OpenFile>, Errno> {
        Ok(self.descriptor(number)?.open)
    }

    /// Returns a descriptor with its flag.
    ///
    /// # Errors
    ///
    /// `EBADF`.
    pub fn descriptor(&self, number: u64) -> Result<Descriptor, Errno> {
        let number = number as u32 as usize;
        self.0.lock().get(number).cloned().flatten().ok_or(Errno::EBADF)
    }

    /// Adds a descriptor with the lowest free number from `lowest` on. Returns the number.
    ///
    /// # Errors
    ///
    /// `EMFILE`.
    pub fn add(&self, descriptor: Descriptor, lowest: usize) -> Result<i64, Errno> {
        let mut table = self.0.lock();
        let free = (lowest..MAX_FDS)
            .find(|&at| table.get(at).is_none_or(Option::is_none))
            .ok_or(Errno::EMFILE)?;
        put(&mut table, free, descriptor);
        Ok(free as i64)
    }

    /// Sets the descriptor with this number, and closes the one that had it. Returns the number.
    ///
    /// # Errors
    ///
    /// `EBADF`.
    pub fn set(&self, number: u64, descriptor: Descriptor) -> Result<i64, Errno> {
        let at = usize::try_from(number).ok().filter(|&at| at < MAX_FDS).ok_or(Errno::EBADF)?;
        let before = put(&mut self.0.lock(), at, descriptor);
        drop(before);
        Ok(at as i64)
    }

    /// Closes a descriptor.
    ///
    /// # Errors
    ///
    /// `EBADF`.
    pub fn close(&self, number: u64) -> Result<(), Errno> {
        let closed = self.0.lock().get_mut(number as u32 as usize).and_then(Option::take);
        closed.map(drop).ok_or(Errno::EBADF)
    }

    /// Sets or clears a descriptor's close-on-exec flag.
    ///
    /// # Errors
    ///
    /// `EBADF`.
    pub fn set_close_on_exec(&self, number: u64, on: bool) -> Result<(), Errno> {
        let mut table = self.0.lock();
        let descriptor =
            table.get_mut(number as u32 as usize).and_then(Option::as_mut).ok_or(Errno::EBADF)?;
        descriptor.close_on_exec = on;
        Ok(())
    }

    pub fn close_on_exec(&self) {
        self.close_where(|descriptor| descriptor.close_on_exec);
    }

    fn close_where(&self, wanted: impl Fn(&Descriptor) -> bool) {
        let mut closed = Vec::new();
        for slot in self.0.lock().iter_mut() {
            if slot.as_ref().is_some_and(&wanted) {
                closed.extend(slot.take());
            }
        }
        // Dropped after the lock is released, because closing a pipe wakes other threads.
        drop(closed);
    }

    /// Returns all descriptors with their open files, in ascending order.
    pub fn all(&self) -> Vec<(usize, Arc<OpenFile>)> {
        let table = self.0.lock();
        let taken = |(at, slot): (usize, &Option<Descriptor>)| {
            slot.as_ref().map(|descriptor| (at, descriptor.open.clone()))
        };
        table.iter().enumerate().filter_map(taken).collect()
    }
}

fn put(
    table: &mut Vec<Option<Descriptor>>,
    at: usize,
    descriptor: Descriptor,
) -> Option<Descriptor> {
    if table.len() <= at {
        table.resize(at + 1, None);
    }
    table[at].replace(descriptor)
}

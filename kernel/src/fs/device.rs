//! Devices without hardware, and the console.

use alloc::sync::Arc;

use samara_mm::Errno;

use super::console::Console;
use super::inode::{Inode, Kind};
use super::open_file::Transfer;
use super::path::{self, Dentry};
use crate::arch::{Arch, Machine};
use crate::process::wait::WaitQueue;

pub enum Device {
    Null,
    Zero,
    Full,
    Random,
    Console(&'static Console),
}

type Make = fn() -> Device;

/// The devices' names. Their numbers are Linux's.
const DEVICES: [(&[u8], Make); 7] = [
    (b"null", || Device::Null),
    (b"zero", || Device::Zero),
    (b"full", || Device::Full),
    (b"random", || Device::Random),
    (b"urandom", || Device::Random),
    (b"console", || Device::Console(super::console::get())),
    (b"tty", || Device::Console(super::console::get())),
];

pub fn inode(device: Device) -> Arc<Inode> {
    Inode::new(Kind::Device(device), 0o666)
}

/// Creates a directory with all devices.
///
/// # Errors
///
/// None is expected, because the names differ.
pub fn directory() -> Result<Arc<Inode>, Errno> {
    let directory = Inode::directory(0o755);
    let dentry = Dentry::unnamed(directory.clone(), b"/dev".to_vec());
    for (name, make) in DEVICES {
        path::create(&dentry, name, inode(make()))?;
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        path::create(&dentry, name.as_bytes(), Inode::symlink(target.as_bytes().to_vec()))?;
    }
    Ok(directory)
}

/// Fills a buffer with random bytes.
pub fn fill_random(into: &mut [u8]) {
    for chunk in into.chunks_mut(8) {
        let word = Arch::random().to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
}

impl Device {
    /// Returns the device number for `stat(2)`.
    pub fn rdev(&self) -> u64 {
        let (major, minor) = match self {
            Device::Null => (1, 3),
            Device::Zero => (1, 5),
            Device::Full => (1, 7),
            Device::Random => (1, 9),
            Device::Console(_) => (5, 1),
        };
        major << 8 | minor
    }

    pub fn is_console(&self) -> bool {
        matches!(self, Device::Console(_))
    }

    pub(super) fn queue(&self) -> Option<&WaitQueue> {
        match self {
            Device::Console(console) => Some(console.queue()),
            _ => None,
        }
    }

    pub(super) fn read(&self, into: &mut [u8]) -> Result<Transfer, Errno> {
        match self {
            Device::Null => return Ok(Transfer::Done(0)),
            Device::Zero | Device::Full => into.fill(0),
            Device::Random => fill_random(into),
            Device::Console(console) => return console.read(into),
        }
        Ok(Transfer::Done(into.len()))
    }

    pub(super) fn write(&self, from: &[u8]) -> Result<Transfer, Errno> {
        match self {
            Device::Full => return Err(Errno::ENOSPC),
            Device::Console(_) => Arch::console_write(from),
            _ => {}
        }
        Ok(Transfer::Done(from.len()))
    }

    pub(super) fn has_input(&self) -> bool {
        match self {
            Device::Console(console) => console.has_input(),
            _ => true,
        }
    }
}

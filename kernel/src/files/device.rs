//! Devices that have no hardware, and the console.

use alloc::sync::Arc;

use samara_mm::Errno;

use super::console::Console;
use super::node::{Kind, Node};
use super::open::Transfer;
use super::place::{self, Place};
use crate::arch::{Arch, Machine};
use crate::process::wait::Queue;

pub enum Device {
    Null,
    Zero,
    Full,
    Random,
    Console(&'static Console),
}

type Make = fn() -> Device;

/// Names, and numbers as Linux has them.
const ALL: [(&[u8], Make); 7] = [
    (b"null", || Device::Null),
    (b"zero", || Device::Zero),
    (b"full", || Device::Full),
    (b"random", || Device::Random),
    (b"urandom", || Device::Random),
    (b"console", || Device::Console(super::console::get())),
    (b"tty", || Device::Console(super::console::get())),
];

pub fn node(device: Device) -> Arc<Node> {
    Node::new(Kind::Device(device), 0o666)
}

/// A directory with all devices.
///
/// # Errors
/// None is expected: names differ.
pub fn directory() -> Result<Arc<Node>, Errno> {
    let directory = Node::directory(0o755);
    let place = Place::nameless(directory.clone(), b"/dev".to_vec());
    for (name, make) in ALL {
        place::create(&place, name, node(make()))?;
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        place::create(&place, name.as_bytes(), Node::link(target.as_bytes().to_vec()))?;
    }
    Ok(directory)
}

/// Fills bytes at random.
pub fn fill_random(into: &mut [u8]) {
    for chunk in into.chunks_mut(8) {
        let word = Arch::random().to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
}

impl Device {
    /// As `stat(2)` gives it.
    pub fn number(&self) -> u64 {
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

    pub(super) fn queue(&self) -> Option<&Queue> {
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

//! Notes: information in a core file besides the memory.

use alloc::vec::Vec;

use super::fields::Fields;
use super::{PAGE, Sink};
use crate::errno::Errno;
use crate::space::AddressSpace;

/// The name of notes of the System V interface.
pub const CORE: &[u8] = b"CORE";
/// The name of Linux's own notes.
pub const LINUX: &[u8] = b"LINUX";
/// State and registers of a thread.
pub const NT_PRSTATUS: u32 = 1;
/// Floating-point registers of a thread.
pub const NT_PRFPREG: u32 = 2;
/// Identity of the process.
pub const NT_PRPSINFO: u32 = 3;
/// The auxiliary vector.
pub const NT_AUXV: u32 = 6;
/// The signal that a thread got.
pub const NT_SIGINFO: u32 = 0x5349_4749;
/// The mapped files.
pub const NT_FILE: u32 = 0x4649_4c45;
/// All other registers of a thread.
pub const NT_X86_XSTATE: u32 = 0x202;

/// A note of a core file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Note<'a> {
    /// The owner of its kind, [`CORE`] or [`LINUX`]; without the zero at its end.
    pub name: &'a [u8],
    /// Its kind.
    pub kind: u32,
    /// Its content.
    pub bytes: &'a [u8],
}

impl Note<'_> {
    /// Returns the size of the note in bytes, with padding.
    pub(super) fn len(&self) -> u64 {
        let name = (self.name.len() as u64 + 1).next_multiple_of(4);
        12 + name + (self.bytes.len() as u64).next_multiple_of(4)
    }

    pub(super) fn write<S: Sink>(&self, to: &mut S) -> Result<(), S::Error> {
        let mut head = [0; 12];
        head[..4].copy_from_slice(&(self.name.len() as u32 + 1).to_le_bytes());
        head[4..8].copy_from_slice(&(self.bytes.len() as u32).to_le_bytes());
        head[8..].copy_from_slice(&self.kind.to_le_bytes());
        to.write(&head)?;
        to.write(self.name)?;
        // At least one zero.
        to.skip((self.name.len() as u64 + 1).next_multiple_of(4) - self.name.len() as u64)?;
        to.write(self.bytes)?;
        let length = self.bytes.len() as u64;
        to.skip(length.next_multiple_of(4) - length)
    }
}

/// The identity of a process or a thread, in the kernel's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ids {
    /// The thread's, or the process's.
    pub pid: u32,
    /// The parent's.
    pub parent: u32,
    /// The process group.
    pub group: u32,
    /// The session.
    pub session: u32,
}

/// A thread on x86-64: the content of [`NT_PRSTATUS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadStatus {
    /// The signal that it got, or 0.
    pub signal: u16,
    /// Pending signals, bit by bit.
    pub pending: u64,
    /// Blocked signals.
    pub blocked: u64,
    /// Its identity.
    pub ids: Ids,
    /// The 27 general registers in the order of `struct user_regs_struct`.
    pub registers: [u64; 27],
    /// `true` if there is a note with floating-point registers.
    pub has_fp: bool,
}

impl ThreadStatus {
    /// Returns the note's bytes: `struct elf_prstatus`.
    pub fn bytes(&self) -> [u8; 336] {
        let mut fields = Fields::new()
            .word(u32::from(self.signal))
            .to(12)
            .half(self.signal)
            .to(16)
            .long(self.pending)
            .long(self.blocked)
            .word(self.ids.pid)
            .word(self.ids.parent)
            .word(self.ids.group)
            .word(self.ids.session)
            // Four times, which no reader uses.
            .to(112);
        for register in self.registers {
            fields = fields.long(register);
        }
        fields.word(u32::from(self.has_fp)).bytes
    }
}

/// A process: the content of [`NT_PRPSINFO`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessInfo<'a> {
    /// The letter of its state, as in `/proc/PID/stat`.
    pub state: u8,
    /// The nice value.
    pub nice: i8,
    /// The kernel's flags.
    pub flags: u64,
    /// User and group.
    pub user: (u32, u32),
    /// Its identity.
    pub ids: Ids,
    /// The file's name; the first 15 bytes are kept.
    pub name: &'a [u8],
    /// Its arguments, separated by spaces; the first 79 bytes are kept.
    pub arguments: &'a [u8],
}

impl ProcessInfo<'_> {
    /// Returns the note's bytes: `struct elf_prpsinfo`.
    pub fn bytes(&self) -> [u8; 136] {
        let number = b"RSDTZW".iter().position(|&state| state == self.state);
        let start = |text: &[u8], longest: usize| text.len().min(longest);
        Fields::new()
            .put(&[
                number.unwrap_or(0) as u8,
                self.state,
                u8::from(self.state == b'Z'),
                self.nice as u8,
            ])
            .to(8)
            .long(self.flags)
            .word(self.user.0)
            .word(self.user.1)
            .word(self.ids.pid)
            .word(self.ids.parent)
            .word(self.ids.group)
            .word(self.ids.session)
            .put(&self.name[..start(self.name, 15)])
            .to(56)
            .put(&self.arguments[..start(self.arguments, 79)])
            .bytes
    }
}

/// Returns the bytes of [`NT_FILE`]: the mapped files, in ascending order.
///
/// As in the kernel's core files, they include shared anonymous memory (`/dev/zero (deleted)`),
/// segments, and files in memory, although gdb warns that it cannot open these. O(n).
///
/// # Errors
/// `ENOMEM`.
pub fn files(space: &AddressSpace) -> Result<Vec<u8>, Errno> {
    let names: usize = space.map_files().map(|file| file.target().len() + 1).sum();
    let count = space.map_files().count();
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(16 + count * 24 + names)
        .map_err(|_| Errno::ENOMEM)?;
    let mut long = |number: u64| bytes.extend_from_slice(&number.to_le_bytes());
    long(count as u64);
    long(PAGE as u64);
    for file in space.map_files() {
        let area = file.area();
        long(area.start);
        long(area.end);
        long(area.page_offset());
    }
    for file in space.map_files() {
        bytes.extend_from_slice(file.target().as_bytes());
        bytes.push(0);
    }
    Ok(bytes)
}

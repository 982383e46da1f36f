//! The bytes that a new program finds on its stack: strings, vectors, and what the auxiliary vector tells.

use alloc::vec::Vec;

use crate::errno::Errno;
use crate::flags::PAGE_SIZE;

use super::headers::Class;
use super::stack::SEED;
use super::{Exec, Started};

/// Types of entries of the auxiliary vector (`getauxval(3)`).
mod at {
    pub(super) const NULL: u64 = 0;
    pub(super) const EXECFD: u64 = 2;
    pub(super) const PHDR: u64 = 3;
    pub(super) const PHENT: u64 = 4;
    pub(super) const PHNUM: u64 = 5;
    pub(super) const PAGESZ: u64 = 6;
    pub(super) const BASE: u64 = 7;
    pub(super) const FLAGS: u64 = 8;
    pub(super) const ENTRY: u64 = 9;
    pub(super) const UID: u64 = 11;
    pub(super) const EUID: u64 = 12;
    pub(super) const GID: u64 = 13;
    pub(super) const EGID: u64 = 14;
    pub(super) const PLATFORM: u64 = 15;
    pub(super) const HWCAP: u64 = 16;
    pub(super) const CLKTCK: u64 = 17;
    pub(super) const SECURE: u64 = 23;
    pub(super) const RANDOM: u64 = 25;
    pub(super) const HWCAP2: u64 = 26;
    pub(super) const RSEQ_FEATURE_SIZE: u64 = 27;
    pub(super) const RSEQ_ALIGN: u64 = 28;
    pub(super) const EXECFN: u64 = 31;
    pub(super) const SYSINFO: u64 = 32;
    pub(super) const SYSINFO_EHDR: u64 = 33;
    pub(super) const MINSIGSTKSZ: u64 = 51;
}

/// The facts in the auxiliary vector that do not follow from a program's files (`getauxval(3)`).
///
/// The default is user 0 on a processor without any feature that has a name there, with 16 zero bytes for random ones. C libraries
/// make stack canaries of these: [`new`](Self::new) takes real ones. Fields are said on top of either:
///
/// ```
/// use samara_mm::exec::Auxiliary;
///
/// let random = *b"sixteen letters!"; // from the kernel's generator
/// let auxiliary = Auxiliary { user: (1000, 1000), group: (1000, 1000), ..Auxiliary::new(random) };
/// assert_eq!(auxiliary.clock_ticks, Auxiliary::default().clock_ticks);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Auxiliary {
    /// `AT_HWCAP`: features of the processor.
    pub hwcap: u64,
    /// `AT_HWCAP2`: further ones.
    pub hwcap2: u64,
    /// `AT_CLKTCK`: ticks of `times(2)` in a second.
    pub clock_ticks: u64,
    /// `AT_MINSIGSTKSZ`: bytes that a signal takes of the stack.
    pub signal_stack: u64,
    /// `AT_UID` and `AT_EUID`: the real user and the effective one.
    pub user: (u32, u32),
    /// `AT_GID` and `AT_EGID`, likewise.
    pub group: (u32, u32),
    /// `AT_SECURE`: the program runs with the privileges of another user.
    pub secure: bool,
    /// The bytes at `AT_RANDOM`.
    pub random: [u8; 16],
    /// `AT_RSEQ_FEATURE_SIZE` and `AT_RSEQ_ALIGN`: bytes of restartable sequences. Not told by kernels that are too old; 28 and 32 by default.
    pub rseq: (u64, u64),
    /// `AT_SYSINFO`: where programs with 32-bit addresses enter the kernel. Others are not told.
    pub system_call: u64,
}

impl Auxiliary {
    /// Returns the default with these bytes for `AT_RANDOM`.
    #[must_use]
    pub fn new(random: [u8; 16]) -> Self {
        Auxiliary {
            random,
            ..Auxiliary::default()
        }
    }
}

impl Default for Auxiliary {
    fn default() -> Self {
        Auxiliary {
            hwcap: 0,
            hwcap2: 0,
            clock_ticks: 100,
            signal_stack: 2048,
            user: (0, 0),
            group: (0, 0),
            secure: false,
            random: [0; 16],
            rseq: (28, 32),
            system_call: 0,
        }
    }
}

/// The place of bytes on the stack, for a writer that gets them in pieces.
struct Pieces<W> {
    next: u64,
    piece: [u8; 256],
    len: usize,
    write: W,
}

impl<E, W: FnMut(u64, &[u8]) -> Result<(), E>> Pieces<W> {
    fn new(start: u64, write: W) -> Self {
        Pieces {
            next: start,
            piece: [0; 256],
            len: 0,
            write,
        }
    }

    /// Returns the address of the next byte.
    fn at(&self) -> u64 {
        self.next.wrapping_add(self.len as u64)
    }

    fn put(&mut self, mut bytes: &[u8]) -> Result<(), E> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(self.piece.len() - self.len));
            self.piece[self.len..self.len + now.len()].copy_from_slice(now);
            self.len += now.len();
            if self.len == self.piece.len() {
                self.flush()?;
            }
            bytes = later;
        }
        Ok(())
    }

    fn put_word(&mut self, class: Class, word: u64) -> Result<(), E> {
        self.put(&word.to_le_bytes()[..class.word() as usize])
    }

    fn flush(&mut self) -> Result<(), E> {
        if self.len != 0 {
            (self.write)(self.next, &self.piece[..self.len])?;
        }
        self.next = self.at();
        self.len = 0;
        Ok(())
    }
}

impl<S> Started<S> {
    /// Returns the arguments that the program gets: for a script, its interpreter and the script's
    /// path are in the first one's place.
    pub fn arguments<'a>(&'a self, exec: &Exec<'a>) -> impl Iterator<Item = &'a [u8]> + use<'a, S> {
        let leading = self.leading.0.iter().rev().map(Vec::as_slice);
        let skipped = usize::from(!self.leading.0.is_empty());
        leading.chain(exec.arguments.iter().skip(skipped).copied())
    }

    /// Returns the address of the strings: the first argument is there, and the others, the
    /// environment and the path follow.
    fn strings_start(&self, exec: &Exec<'_>) -> u64 {
        let strings = self.arguments(exec).chain(exec.environment.iter().copied());
        let bytes = |text: &[u8]| text.len() as u64 + 1;
        let used: u64 = strings.map(bytes).sum();
        // The last word of the stack is zero.
        self.stack_end
            .wrapping_sub(used + bytes(exec.path) + Class::Elf64.word())
    }

    /// Returns the auxiliary vector: pairs of a type and a value. The last one is (0, 0).
    ///
    /// `exec` is the one that the program was made from.
    pub fn auxiliary(
        &self,
        exec: &Exec<'_>,
        auxiliary: &Auxiliary,
    ) -> impl Iterator<Item = (u64, u64)> + use<S> {
        let (class, rseq) = (self.class, self.tells_rseq);
        let has_descriptor = exec.settings.descriptor.is_some();
        let has_platform = !self.platform_name.is_empty();
        let header = match class {
            Class::Elf32 => 32,
            Class::Elf64 => 56,
        };
        let path_len = exec.path.len() as u64 + 1;
        let path = self.stack_end.wrapping_sub(Class::Elf64.word() + path_len);
        let entries = [
            (at::SYSINFO, auxiliary.system_call),
            (at::SYSINFO_EHDR, self.vdso.unwrap_or(0)),
            (at::MINSIGSTKSZ, auxiliary.signal_stack),
            (at::HWCAP, auxiliary.hwcap),
            (at::PAGESZ, PAGE_SIZE),
            (at::CLKTCK, auxiliary.clock_ticks),
            (at::PHDR, self.headers),
            (at::PHENT, header),
            (at::PHNUM, self.header_count.into()),
            (at::BASE, self.interpreter),
            (at::FLAGS, 0),
            (at::ENTRY, self.entry),
            (at::UID, auxiliary.user.0.into()),
            (at::EUID, auxiliary.user.1.into()),
            (at::GID, auxiliary.group.0.into()),
            (at::EGID, auxiliary.group.1.into()),
            (at::SECURE, auxiliary.secure.into()),
            (at::RANDOM, self.platform - SEED),
            (at::HWCAP2, auxiliary.hwcap2),
            (at::EXECFN, path),
            (at::PLATFORM, self.platform),
            (at::EXECFD, exec.settings.descriptor.unwrap_or(0).into()),
            (at::RSEQ_FEATURE_SIZE, auxiliary.rseq.0),
            (at::RSEQ_ALIGN, auxiliary.rseq.1),
            (at::NULL, 0),
        ];
        entries.into_iter().filter(move |(kind, _)| match *kind {
            at::SYSINFO => class == Class::Elf32,
            at::EXECFD => has_descriptor,
            at::PLATFORM => has_platform,
            at::RSEQ_FEATURE_SIZE | at::RSEQ_ALIGN => rseq,
            _ => true,
        })
    }

    /// Hands over all bytes that exec writes, in pieces, each with its address: zeroes behind the files' parts of pages ([`zeroed`](Self::zeroed)), and
    /// [the stack's](Self::write_stack).
    ///
    /// # Errors
    /// Those of `write`, with the first of which it stops.
    pub fn write<E>(
        &self,
        exec: &Exec<'_>,
        auxiliary: &Auxiliary,
        mut write: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        const ZEROES: [u8; 256] = [0; 256];
        for &(start, end) in &self.zeroed {
            let mut at = start;
            while at < end {
                let len = (end - at).min(ZEROES.len() as u64);
                write(at, &ZEROES[..len as usize])?;
                at += len;
            }
        }
        self.write_stack(exec, auxiliary, write)
    }

    /// Hands over what the stack holds when the program starts, in pieces, each with its address: from the stack pointer up the number of arguments, the pointers
    /// to them and to the environment, the auxiliary vector; further up the strings. What is between is zero, but that Linux leaves parts
    /// of a long first argument there when it runs a script.
    ///
    /// `exec` is the one that the program was made from; with another one the bytes make no sense. Linear in the bytes; nothing is allocated.
    ///
    /// # Errors
    /// Those of `write`, with the first of which it stops.
    pub fn write_stack<E>(
        &self,
        exec: &Exec<'_>,
        auxiliary: &Auxiliary,
        mut write: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let class = self.class;
        let first = self.strings_start(exec);
        let arguments = || self.arguments(exec);
        let environment = || exec.environment.iter().copied();

        let mut vectors = Pieces::new(self.stack_pointer, &mut write);
        vectors.put_word(class, arguments().count() as u64)?;
        let mut at = first;
        for text in arguments() {
            vectors.put_word(class, at)?;
            at = at.wrapping_add(text.len() as u64 + 1);
        }
        vectors.put_word(class, 0)?;
        for text in environment() {
            vectors.put_word(class, at)?;
            at = at.wrapping_add(text.len() as u64 + 1);
        }
        vectors.put_word(class, 0)?;
        for (kind, value) in self.auxiliary(exec, auxiliary) {
            vectors.put_word(class, kind)?;
            vectors.put_word(class, value)?;
        }
        vectors.flush()?;

        write(self.platform - SEED, &auxiliary.random)?;
        write(self.platform, self.platform_name)?;

        let mut strings = Pieces::new(first, &mut write);
        for text in arguments().chain(environment()).chain([exec.path]) {
            strings.put(text)?;
            strings.put(&[0])?;
        }
        strings.flush()
    }
}

/// The arguments that take the place of the caller's first one, the last of them first.
#[derive(Debug, Default)]
pub(super) struct Leading(Vec<Vec<u8>>);

impl Leading {
    /// Puts an argument before the others.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(super) fn push(&mut self, text: &[u8]) -> Result<(), Errno> {
        let mut copy = Vec::new();
        copy.try_reserve_exact(text.len())
            .and_then(|()| self.0.try_reserve(1))
            .map_err(|_| Errno::ENOMEM)?;
        copy.extend_from_slice(text);
        self.0.push(copy);
        Ok(())
    }

    /// Takes the first argument away, if it is one of these.
    pub(super) fn pop(&mut self) -> Option<Vec<u8>> {
        self.0.pop()
    }
}

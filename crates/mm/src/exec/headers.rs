//! The parts of an ELF file that exec reads (`elf(5)`): the header and the program headers.

use alloc::vec::Vec;

use object::LittleEndian;
use object::elf;
use object::pod::{self, Pod};
use object::read::elf::{FileHeader, ProgramHeader};

use crate::errno::Errno;
use crate::flags::PAGE_SIZE;
use crate::kernel::{KernelVersion, Rule};

use super::image::Image;
use super::settings::Architecture;

/// The width of a program's addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// ELF32 for i386.
    Elf32,
    /// ELF64.
    Elf64,
}

impl Class {
    /// Bytes in an address.
    pub(super) const fn word(self) -> u64 {
        match self {
            Class::Elf32 => 4,
            Class::Elf64 => 8,
        }
    }

    /// Returns an address as the program sees it.
    pub(super) const fn wrap(self, address: u64) -> u64 {
        match self {
            Class::Elf32 => address & 0xffff_ffff,
            Class::Elf64 => address,
        }
    }
}

/// A program header of type `PT_LOAD`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) offset: u64,
    pub(super) address: u64,
    pub(super) in_file: u64,
    pub(super) in_memory: u64,
    /// `PROT_*` bits.
    pub(super) protection: u64,
    pub(super) align: u64,
}

/// The loading instructions in an ELF file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Headers {
    pub(super) class: Class,
    /// `ET_DYN`, as opposed to `ET_EXEC`.
    pub(super) moves: bool,
    pub(super) entry: u64,
    /// The offset of the program headers in the file.
    pub(super) table: u64,
    /// Their number.
    pub(super) count: u16,
    pub(super) segments: Vec<Segment>,
    /// `PT_INTERP`: where in the file the path is, and its length with the zero byte.
    pub(super) interpreter: Option<(u64, u64)>,
    /// The stack that `PT_GNU_STACK` asks for: whether it may be executed.
    pub(super) stack: Option<bool>,
}

/// Bytes that all program headers may have together.
const TABLE_LIMIT: u64 = 65536;
/// Longest path, with its zero byte (`PATH_MAX`).
const PATH_LIMIT: u64 = 4096;

impl Headers {
    /// Reads the headers of a program.
    ///
    /// # Errors
    /// `ENOEXEC` if it is no ELF file that can be executed here, or is cut short; those of reading, and `ENOMEM` when an allocation fails.
    pub(super) fn read(
        image: &(impl Image + ?Sized),
        kernel: KernelVersion,
        architecture: Architecture,
    ) -> Result<Self, Errno> {
        let mut ident = [0; 5];
        let there = image.read_at(0, &mut ident)?;
        if there < ident.len() || ident[..4] != elf::ELFMAG {
            return Err(Errno::ENOEXEC);
        }
        // The class is not looked at: whichever loader knows the machine takes the file.
        let mut machine = [0; 2];
        if image.read_at(18, &mut machine)? < machine.len() {
            return Err(Errno::ENOEXEC);
        }
        let limit = match kernel.has(Rule::LongTables) {
            true => TABLE_LIMIT,
            false => PAGE_SIZE,
        };
        match architecture.class(u16::from_le_bytes(machine)) {
            Some(class @ Class::Elf64) => {
                Self::of::<elf::FileHeader64<LittleEndian>>(image, class, limit)
            }
            Some(class @ Class::Elf32) => {
                Self::of::<elf::FileHeader32<LittleEndian>>(image, class, limit)
            }
            None => Err(Errno::ENOEXEC),
        }
    }

    fn of<H>(image: &(impl Image + ?Sized), class: Class, limit: u64) -> Result<Self, Errno>
    where
        H: FileHeader<Endian = LittleEndian> + Pod,
        H::ProgramHeader: Pod,
    {
        let endian = LittleEndian;
        let mut bytes = [0; size_of::<elf::FileHeader64<LittleEndian>>()];
        let bytes = &mut bytes[..size_of::<H>()];
        // The kernel sees zeros behind the end of a short file.
        let _ = image.read_at(0, bytes)?;
        let (header, _) = pod::from_bytes::<H>(bytes).map_err(|()| Errno::ENOEXEC)?;
        let moves = match header.e_type(endian) {
            elf::ET_EXEC => false,
            elf::ET_DYN => true,
            _ => return Err(Errno::ENOEXEC),
        };
        let size = size_of::<H::ProgramHeader>();
        let count = header.e_phnum(endian);
        if usize::from(header.e_phentsize(endian)) != size
            || count == 0
            || u64::from(count) * size as u64 > limit
        {
            return Err(Errno::ENOEXEC);
        }
        let start: u64 = header.e_phoff(endian).into();
        let mut headers = Headers {
            class,
            moves,
            entry: header.e_entry(endian).into(),
            table: start,
            count,
            segments: Vec::new(),
            interpreter: None,
            stack: None,
        };
        let mut bytes = [0; size_of::<elf::ProgramHeader64<LittleEndian>>()];
        let bytes = &mut bytes[..size];
        for number in 0..u64::from(count) {
            let at = start
                .checked_add(number * size as u64)
                .filter(|at| i64::try_from(at.saturating_add(size as u64)).is_ok())
                .ok_or(Errno::ENOEXEC)?;
            if image.read_at(at, bytes)? < size {
                return Err(Errno::ENOEXEC);
            }
            let (entry, _) =
                pod::from_bytes::<H::ProgramHeader>(bytes).map_err(|()| Errno::ENOEXEC)?;
            headers.note(entry, endian)?;
        }
        Ok(headers)
    }

    fn note<P>(&mut self, entry: &P, endian: LittleEndian) -> Result<(), Errno>
    where
        P: ProgramHeader<Endian = LittleEndian>,
    {
        let flags = entry.p_flags(endian);
        let offset: u64 = entry.p_offset(endian).into();
        let in_file: u64 = entry.p_filesz(endian).into();
        match entry.p_type(endian) {
            elf::PT_LOAD => {
                let bit = |flag: u32, protection: u64| u64::from(flags & flag != 0) * protection;
                self.segments.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
                self.segments.push(Segment {
                    offset,
                    address: entry.p_vaddr(endian).into(),
                    in_file,
                    in_memory: entry.p_memsz(endian).into(),
                    protection: bit(elf::PF_R, 1) | bit(elf::PF_W, 2) | bit(elf::PF_X, 4),
                    align: entry.p_align(endian).into(),
                });
            }
            // The first one counts.
            elf::PT_INTERP if self.interpreter.is_none() => {
                self.interpreter = Some((offset, in_file));
            }
            // The last one counts.
            elf::PT_GNU_STACK => self.stack = Some(flags & elf::PF_X != 0),
            _ => {}
        }
        Ok(())
    }

    /// Reads the headers of a program's interpreter.
    ///
    /// # Errors
    /// `ELIBBAD` if it is no ELF file of the same class, `EIO` if it is shorter than a header, those of reading, and `ENOMEM`.
    pub(super) fn read_interpreter(
        &self,
        image: &(impl Image + ?Sized),
        kernel: KernelVersion,
        architecture: Architecture,
    ) -> Result<Self, Errno> {
        let shortest = match self.class {
            Class::Elf32 => size_of::<elf::FileHeader32<LittleEndian>>(),
            Class::Elf64 => size_of::<elf::FileHeader64<LittleEndian>>(),
        };
        if image.len() < shortest as u64 {
            return Err(Errno::EIO);
        }
        match Self::read(image, kernel, architecture) {
            Ok(headers) if headers.class == self.class => Ok(headers),
            Err(Errno::ENOMEM) => Err(Errno::ENOMEM),
            _ => Err(Errno::ELIBBAD),
        }
    }

    /// Returns the address of the program headers in memory if a segment has them, otherwise that
    /// of the file's address 0.
    pub(super) fn address(&self, bias: u64) -> u64 {
        let holds = |segment: &&Segment| {
            segment.offset <= self.table && self.table - segment.offset < segment.in_file
        };
        let holder = self.segments.iter().rfind(holds);
        let within = holder.map_or(0, |segment| {
            (self.table - segment.offset).wrapping_add(segment.address)
        });
        self.class.wrap(within.wrapping_add(bias))
    }

    /// Returns the path of the interpreter, without its zero byte.
    ///
    /// # Errors
    /// `ENOEXEC` for a path that is empty, too long or without a zero byte at its end, `EIO` if it lies beyond the end of the file, `ENOMEM`.
    pub(super) fn interpreter_path(
        &self,
        image: &(impl Image + ?Sized),
    ) -> Result<Option<Vec<u8>>, Errno> {
        let Some((offset, len)) = self.interpreter else {
            return Ok(None);
        };
        if !(2..=PATH_LIMIT).contains(&len) {
            return Err(Errno::ENOEXEC);
        }
        let mut path = Vec::new();
        path.try_reserve_exact(len as usize)
            .map_err(|_| Errno::ENOMEM)?;
        path.resize(len as usize, 0);
        if i64::try_from(offset).is_err() {
            return Err(Errno::EINVAL);
        }
        if image.read_at(offset, &mut path)? < path.len() {
            return Err(Errno::EIO);
        }
        if path.pop() != Some(0) {
            return Err(Errno::ENOEXEC);
        }
        // What is behind an earlier zero byte is not looked at.
        let end = path.iter().position(|&byte| byte == 0);
        path.truncate(end.unwrap_or(path.len()));
        Ok(Some(path))
    }

    /// Returns the bytes from the first page of the lowest segment to the end of the highest one; 0
    /// if there is none.
    pub(super) fn extent(&self) -> u64 {
        let starts = self.segments.iter().map(|segment| segment.address);
        let ends = self.segments.iter();
        let ends = ends.map(|segment| segment.address.wrapping_add(segment.in_memory));
        match (starts.min(), ends.max()) {
            (Some(start), Some(end)) => end.wrapping_sub(start & !(PAGE_SIZE - 1)),
            _ => 0,
        }
    }

    /// Returns the largest alignment that a segment asks for, a page at least; 1 if none does so
    /// with a power of two.
    pub(super) fn alignment(&self) -> u64 {
        let asked = self.segments.iter().map(|segment| segment.align);
        let most = asked.filter(|align| align.is_power_of_two()).max();
        most.map_or(1, |align| align.max(PAGE_SIZE))
    }
}

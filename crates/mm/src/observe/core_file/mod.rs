//! Core dumps: ELF64 core files (`core(5)`, `elf(5)`), written as a stream.
//!
//! The writer goes once from the lowest address to the highest, and holds one page. The caller,
//! which knows the threads, makes the notes. [`dumped`] decides which VMAs go into the file. The
//! bytes come from a [`Source`] and go to a [`Sink`], which may leave holes for zeroes.
//!
//! ```
//! use samara_mm::observe::core_file::{self, Segment, Source, EM_X86_64};
//!
//! /// Ones in the first page, zeroes in the others.
//! struct Ones;
//!
//! impl Source for Ones {
//!     fn next(&mut self, addr: u64, end: u64) -> Option<u64> {
//!         (addr < 0x2000 && addr < end).then_some(addr)
//!     }
//!     fn page(&mut self, _: u64, into: &mut [u8; 4096]) -> bool {
//!         into.fill(1);
//!         true
//!     }
//! }
//!
//! let mut file = Vec::new();
//! let segments = [Segment { start: 0x1000, end: 0x9000, flags: 6, dumped: 0x8000 }];
//! core_file::write(&mut file, EM_X86_64, &[], segments.iter().copied(), &mut Ones)?;
//! assert_eq!(&file[..4], b"\x7fELF");
//! assert!(file.ends_with(&[0; 0x7000]) && file[file.len() - 0x7001] == 1);
//! # Ok::<(), core::convert::Infallible>(())
//! ```

mod areas;
mod fields;
mod notes;

use core::convert::Infallible;

use alloc::vec::Vec;

pub use areas::{Filter, dumped, segment};
use fields::Fields;
pub use notes::{
    CORE, Ids, LINUX, NT_AUXV, NT_FILE, NT_PRFPREG, NT_PRPSINFO, NT_PRSTATUS, NT_SIGINFO,
    NT_X86_XSTATE, Note, ProcessInfo, ThreadStatus, files,
};

/// The size of a page in bytes.
const PAGE: usize = 4096;
const EHDR: u64 = 64;
const PHDR: u64 = 56;
const SHDR: u64 = 64;
const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
/// From this number on, the section header holds the number of program headers.
const PN_XNUM: u64 = 0xffff;
/// Zeroes, for padding.
static ZEROES: [u8; PAGE] = [0; PAGE];

/// The machine number of x86-64, for [`write()`].
pub const EM_X86_64: u16 = 62;

/// The destination of a core file.
pub trait Sink {
    /// The error of a failed write.
    type Error;

    /// Appends bytes.
    ///
    /// # Errors
    /// The sink's.
    fn write(&mut self, bytes: &[u8]) -> Result<(), Self::Error>;

    /// Appends zeroes, which need not be stored.
    ///
    /// # Errors
    /// The sink's.
    fn skip(&mut self, zeroes: u64) -> Result<(), Self::Error> {
        let mut left = zeroes;
        while left > 0 {
            let piece = left.min(PAGE as u64);
            self.write(&ZEROES[..piece as usize])?;
            left -= piece;
        }
        Ok(())
    }
}

/// A file in memory, for tests and small files. It allocates as vectors do.
impl Sink for Vec<u8> {
    type Error = Infallible;

    fn write(&mut self, bytes: &[u8]) -> Result<(), Infallible> {
        self.extend_from_slice(bytes);
        Ok(())
    }
}

/// The source of the bytes of pages.
pub trait Source {
    /// Returns the address, a multiple of 4,096, of the first page in `addr .. end` that may hold
    /// something. The pages before it are zeroes.
    fn next(&mut self, addr: u64, end: u64) -> Option<u64>;

    /// Reads the page at `addr`, which [`next`](Self::next) returned. Returns `false` if it cannot
    /// be read: it counts as zeroes.
    fn page(&mut self, addr: u64, into: &mut [u8; PAGE]) -> bool;
}

/// A part of the address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// The first address.
    pub start: u64,
    /// The first address beyond.
    pub end: u64,
    /// Permissions: 1 execute, 2 write, 4 read.
    pub flags: u32,
    /// The number of bytes from the start that are in the file; a multiple of 4,096, at most all.
    pub dumped: u64,
}

impl Segment {
    fn len(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    fn dumped(&self) -> u64 {
        self.dumped.min(self.len()) & !(PAGE as u64 - 1)
    }
}

/// Writes a core file: the headers, the notes, and the bytes of all segments. The segments come in
/// ascending order, and are iterated three times.
///
/// # Errors
/// The sink's.
pub fn write<S: Sink>(
    to: &mut S,
    machine: u16,
    notes: &[Note<'_>],
    segments: impl Iterator<Item = Segment> + Clone,
    from: &mut dyn Source,
) -> Result<(), S::Error> {
    let count = segments.clone().count() as u64 + 1;
    let many = count >= PN_XNUM;
    let notes_at = EHDR + count * PHDR;
    let notes_len: u64 = notes.iter().map(Note::len).sum();
    let data_at = (notes_at + notes_len).next_multiple_of(PAGE as u64);
    let data_len: u64 = segments.clone().map(|segment| segment.dumped()).sum();
    let sections_at = if many { data_at + data_len } else { 0 };

    // 64-bit, little-endian, version 1; a core file.
    let header = Fields::<{ EHDR as usize }>::new()
        .put(b"\x7fELF\x02\x01\x01")
        .to(16)
        .half(4)
        .half(machine)
        .word(1)
        .long(0)
        .long(EHDR)
        .long(sections_at)
        .word(0)
        .half(EHDR as u16)
        .half(PHDR as u16)
        .half(count.min(PN_XNUM) as u16)
        .half(if many { SHDR as u16 } else { 0 })
        .half(u16::from(many))
        .half(0);
    to.write(&header.bytes)?;
    let program_header =
        |kind: u32, flags: u32, offset: u64, addr: u64, sizes: (u64, u64), align| {
            Fields::<{ PHDR as usize }>::new()
                .word(kind)
                .word(flags)
                .long(offset)
                .long(addr)
                .long(0)
                .long(sizes.0)
                .long(sizes.1)
                .long(align)
                .bytes
        };
    to.write(&program_header(PT_NOTE, 0, notes_at, 0, (notes_len, 0), 4))?;
    let mut offset = data_at;
    for segment in segments.clone() {
        let sizes = (segment.dumped(), segment.len());
        let align = PAGE as u64;
        to.write(&program_header(
            PT_LOAD,
            segment.flags,
            offset,
            segment.start,
            sizes,
            align,
        ))?;
        offset += sizes.0;
    }
    for note in notes {
        note.write(to)?;
    }
    to.skip(data_at - notes_at - notes_len)?;
    for segment in segments {
        bytes(to, &segment, from)?;
    }
    if many {
        // The field `sh_info` of the first section holds the number of program headers.
        let section = Fields::<{ SHDR as usize }>::new()
            .to(44)
            .word(u32::try_from(count).unwrap_or(u32::MAX));
        to.write(&section.bytes)?;
    }
    Ok(())
}

/// Writes the bytes of a segment in the file.
fn bytes<S: Sink>(to: &mut S, segment: &Segment, from: &mut dyn Source) -> Result<(), S::Error> {
    let end = segment.start + segment.dumped();
    let mut page = [0; PAGE];
    // The start of zeroes that were found and not written yet.
    let mut at = segment.start;
    let mut written = at;
    // A source is not trusted.
    let whole = |at: u64, next: u64| next >= at && next < end && end - next >= PAGE as u64;
    while let Some(next) = from.next(at, end).filter(|&next| whole(at, next)) {
        at = next + PAGE as u64;
        if !from.page(next, &mut page) || page == ZEROES {
            continue;
        }
        to.skip(next - written)?;
        to.write(&page)?;
        written = at;
    }
    to.skip(end - written)
}

//! Core dumps: ELF64 core files (`core(5)`, `elf(5)`), written as a stream.
//!
//! The writer takes what it is given once, from the lowest address to the highest, and holds one page. Who knows the threads makes the notes; which areas go into the file
//! is [`dumped`]'s to say; the bytes come from a [`Source`] and go to a [`Sink`], which leaves holes where there are only zeroes.
//!
//! ```
//! use samara_mm::observe::core_file::{self, Segment, Source, EM_X86_64};
//!
//! /// Ones in the first page, nothing in the others.
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

use core::convert::Infallible;

use alloc::vec::Vec;
use bitflags::bitflags;

use crate::errno::Errno;
use crate::file::{File, FileKind};
use crate::flags::VmFlags;
use crate::heap::Counted;
use crate::space::AddressSpace;
use crate::space::vma::{Area, Backing};

/// Bytes of a page.
const PAGE: usize = 4096;
const EHDR: u64 = 64;
const PHDR: u64 = 56;
const SHDR: u64 = 64;
const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
/// So many program headers are told in the section header instead.
const PN_XNUM: u64 = 0xffff;
/// Zeroes, for padding.
static ZEROES: [u8; PAGE] = [0; PAGE];

/// The machine of x86-64, for [`write()`].
pub const EM_X86_64: u16 = 62;

/// The name of notes that Linux and the System V interface have.
pub const CORE: &[u8] = b"CORE";
/// The name of Linux's own notes.
pub const LINUX: &[u8] = b"LINUX";
/// State and registers of a thread.
pub const NT_PRSTATUS: u32 = 1;
/// Floating-point registers of a thread.
pub const NT_PRFPREG: u32 = 2;
/// What the process is.
pub const NT_PRPSINFO: u32 = 3;
/// The auxiliary vector.
pub const NT_AUXV: u32 = 6;
/// The signal that a thread got.
pub const NT_SIGINFO: u32 = 0x5349_4749;
/// The files that are mapped.
pub const NT_FILE: u32 = 0x4649_4c45;
/// All other registers of a thread.
pub const NT_X86_XSTATE: u32 = 0x202;

/// Where a core file goes.
pub trait Sink {
    /// Why it does not go there.
    type Error;

    /// Appends bytes.
    ///
    /// # Errors
    /// The sink's.
    fn write(&mut self, bytes: &[u8]) -> Result<(), Self::Error>;

    /// Appends so many zeroes, which need not be stored.
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

/// A file in memory, for tests and small ones: it allocates as vectors do.
impl Sink for Vec<u8> {
    type Error = Infallible;

    fn write(&mut self, bytes: &[u8]) -> Result<(), Infallible> {
        self.extend_from_slice(bytes);
        Ok(())
    }
}

/// Where the bytes of pages come from.
pub trait Source {
    /// The first page from `addr` on, and below `end`, that may hold something: its address, a multiple of 4,096. Those before it are zeroes.
    fn next(&mut self, addr: u64, end: u64) -> Option<u64>;

    /// The page at `addr`, which [`next`](Self::next) has named. False if it cannot be read: it counts as zeroes.
    fn page(&mut self, addr: u64, into: &mut [u8; PAGE]) -> bool;
}

/// A piece of the address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// First address.
    pub start: u64,
    /// First address beyond.
    pub end: u64,
    /// Permissions: 1 execute, 2 write, 4 read.
    pub flags: u32,
    /// Bytes from the start on that are in the file; a multiple of 4,096, at most all.
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

/// A note: what a reader is told beside the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Note<'a> {
    /// Whose kind it is, [`CORE`] or [`LINUX`]; without the zero at its end.
    pub name: &'a [u8],
    /// Its kind.
    pub kind: u32,
    /// What it says.
    pub bytes: &'a [u8],
}

impl Note<'_> {
    /// Bytes that it takes, with what fills it up.
    fn len(&self) -> u64 {
        let name = (self.name.len() as u64 + 1).next_multiple_of(4);
        12 + name + (self.bytes.len() as u64).next_multiple_of(4)
    }

    fn write<S: Sink>(&self, to: &mut S) -> Result<(), S::Error> {
        let mut head = [0; 12];
        head[..4].copy_from_slice(&(self.name.len() as u32 + 1).to_le_bytes());
        head[4..8].copy_from_slice(&(self.bytes.len() as u32).to_le_bytes());
        head[8..].copy_from_slice(&self.kind.to_le_bytes());
        to.write(&head)?;
        to.write(self.name)?;
        // A zero at least.
        to.skip((self.name.len() as u64 + 1).next_multiple_of(4) - self.name.len() as u64)?;
        to.write(self.bytes)?;
        let length = self.bytes.len() as u64;
        to.skip(length.next_multiple_of(4) - length)
    }
}

/// Fields one after the other, little-endian.
struct Fields<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

impl<const N: usize> Fields<N> {
    fn new() -> Self {
        Fields {
            bytes: [0; N],
            at: 0,
        }
    }

    /// What does not fit is left out: each structure here has its length.
    fn put(mut self, field: &[u8]) -> Self {
        if let Some(place) = self.bytes.get_mut(self.at..self.at + field.len()) {
            place.copy_from_slice(field);
        }
        self.at += field.len();
        self
    }

    fn half(self, number: u16) -> Self {
        self.put(&number.to_le_bytes())
    }

    fn word(self, number: u32) -> Self {
        self.put(&number.to_le_bytes())
    }

    fn long(self, number: u64) -> Self {
        self.put(&number.to_le_bytes())
    }

    /// Goes on at a place of the structure.
    fn to(mut self, at: usize) -> Self {
        self.at = at;
        self
    }
}

/// Writes a core file: the headers, the notes, and the bytes of all segments, which come in ascending order and are gone through three times.
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
        // The first section has the number of program headers for its information.
        let section = Fields::<{ SHDR as usize }>::new()
            .to(44)
            .word(u32::try_from(count).unwrap_or(u32::MAX));
        to.write(&section.bytes)?;
    }
    Ok(())
}

/// Writes what a segment has in the file.
fn bytes<S: Sink>(to: &mut S, segment: &Segment, from: &mut dyn Source) -> Result<(), S::Error> {
    let end = segment.start + segment.dumped();
    let mut page = [0; PAGE];
    // Zeroes that were found and not written yet.
    let mut at = segment.start;
    let mut written = at;
    // A source may answer what it likes.
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

bitflags! {
    /// What goes into a core dump: `/proc/PID/coredump_filter` (`core(5)`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct Filter: u32 {
        /// Private memory.
        const ANON_PRIVATE = 1;
        /// Shared anonymous memory.
        const ANON_SHARED = 2;
        /// Private mappings of files.
        const FILE_PRIVATE = 4;
        /// Shared mappings of files.
        const FILE_SHARED = 8;
        /// The first page of a mapped ELF file.
        const ELF_HEADERS = 0x10;
        /// Private huge pages of hugetlbfs.
        const HUGE_PRIVATE = 0x20;
        /// Shared huge pages of hugetlbfs.
        const HUGE_SHARED = 0x40;
        /// Private mappings of memory that is a file system.
        const DAX_PRIVATE = 0x80;
        /// Shared ones.
        const DAX_SHARED = 0x100;
    }
}

impl Default for Filter {
    fn default() -> Self {
        Self::ANON_PRIVATE | Self::ANON_SHARED | Self::ELF_HEADERS | Self::HUGE_PRIVATE
    }
}

/// How many bytes from its start on an area has in a core dump. `is_elf` is asked whether a mapping of a file's beginning begins as an ELF file does.
///
/// What the kernel installs is always dumped, areas with `MADV_DONTDUMP` and of devices never. Private mappings of files are dumped as private memory once the program has
/// written to them. O(1).
///
/// ```
/// use samara_mm::observe::core_file::{dumped, Filter};
/// use samara_mm::{AddressSpace, Advice, Config, Layout, Limits, MmapOptions};
///
/// let mut space = AddressSpace::new(Config::default(), Limits::default(), Layout::default())?;
/// let start = space.mmap(&MmapOptions::anonymous(0x3000))?;
/// let length = |space: &AddressSpace| {
///     dumped(&space.lookup(start).unwrap(), Filter::default(), || false)
/// };
/// assert_eq!(length(&space), 0x3000);
/// space.madvise(start, 0x3000, Advice::DONTDUMP)?;
/// assert_eq!(length(&space), 0);
/// # Ok::<(), samara_mm::Errno>(())
/// ```
pub fn dumped(area: &Area<'_>, filter: Filter, is_elf: impl FnOnce() -> bool) -> u64 {
    let vma = area.vma;
    if matches!(vma.backing, Backing::Special(_)) {
        return area.len();
    }
    if vma.flags.intersects(VmFlags::DONTDUMP | VmFlags::IO) {
        return 0;
    }
    let shared = vma.flags.contains(VmFlags::MAYSHARE);
    let has = |private, public| filter.contains(if shared { public } else { private });
    let whole = if vma.flags.contains(VmFlags::HUGETLB) {
        return if has(Filter::HUGE_PRIVATE, Filter::HUGE_SHARED) {
            area.len()
        } else {
            0
        };
    } else if shared {
        let nameless = matches!(
            vma.backing,
            Backing::SharedAnonymous(_) | Backing::Shm { .. }
        ) || vma
            .file()
            .is_some_and(|file| file.name.ends_with(" (deleted)"));
        filter.contains(if nameless {
            Filter::ANON_SHARED
        } else {
            Filter::FILE_SHARED
        })
    } else {
        let own = vma.is_anonymous() || vma.anon().is_some();
        own && filter.contains(Filter::ANON_PRIVATE)
            || !vma.is_anonymous() && filter.contains(Filter::FILE_PRIVATE)
    };
    if whole {
        return area.len();
    }
    let begins = vma.file().is_some() && !shared && area.page_offset() == 0;
    let readable = vma.flags.contains(VmFlags::READ);
    if begins && readable && filter.contains(Filter::ELF_HEADERS) && is_elf() {
        return area.len().min(PAGE as u64);
    }
    0
}

/// A segment of an area, of which so many bytes are in the file.
pub fn segment(area: &Area<'_>, dumped: u64) -> Segment {
    let mut flags = 0;
    for (flag, bit) in [(VmFlags::EXEC, 1), (VmFlags::WRITE, 2), (VmFlags::READ, 4)] {
        if area.vma.flags.contains(flag) {
            flags |= bit;
        }
    }
    Segment {
        start: area.start,
        end: area.end,
        flags,
        dumped,
    }
}

/// Who a process or a thread is, in the kernel's numbers.
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

/// A thread on x86-64: what [`NT_PRSTATUS`] says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadStatus {
    /// The signal that it got, or 0.
    pub signal: u16,
    /// Signals that wait, bit by bit.
    pub pending: u64,
    /// Signals that are blocked.
    pub blocked: u64,
    /// Who it is.
    pub ids: Ids,
    /// The 27 general registers as `struct user_regs_struct` has them.
    pub registers: [u64; 27],
    /// Whether there is a note with floating-point registers.
    pub has_fp: bool,
}

impl ThreadStatus {
    /// The note's bytes: `struct elf_prstatus`.
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
            // Four times, which nobody reads.
            .to(112);
        for register in self.registers {
            fields = fields.long(register);
        }
        fields.word(u32::from(self.has_fp)).bytes
    }
}

/// A process: what [`NT_PRPSINFO`] says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessInfo<'a> {
    /// The letter of its state, as `/proc/PID/stat` has it.
    pub state: u8,
    /// The nice value.
    pub nice: i8,
    /// The kernel's flags.
    pub flags: u64,
    /// User and group.
    pub user: (u32, u32),
    /// Who it is.
    pub ids: Ids,
    /// The file's name; the first 15 bytes are kept.
    pub name: &'a [u8],
    /// Its arguments with spaces between; the first 79 bytes are kept.
    pub arguments: &'a [u8],
}

impl ProcessInfo<'_> {
    /// The note's bytes: `struct elf_prpsinfo`.
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

/// The bytes of [`NT_FILE`]: the files that areas map, in ascending order. Memory that is a file in name only (`/dev/zero (deleted)`, segments) is left out, since no reader
/// finds such a file. O(n).
///
/// # Errors
/// `ENOMEM`.
pub fn files(space: &AddressSpace) -> Result<Vec<u8>, Errno> {
    let mapped = || {
        let areas = space.areas.iter();
        let has_name = |file: &&Counted<File>| {
            file.kind != FileKind::Shmem || !file.name.ends_with(" (deleted)")
        };
        areas.filter_map(move |area| Some((area, area.vma.file().filter(has_name)?)))
    };
    let names: usize = mapped().map(|(_, file)| file.name.len() + 1).sum();
    let count = mapped().count();
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(16 + count * 24 + names)
        .map_err(|_| Errno::ENOMEM)?;
    let mut long = |number: u64| bytes.extend_from_slice(&number.to_le_bytes());
    long(count as u64);
    long(PAGE as u64);
    for (area, _) in mapped() {
        long(area.start);
        long(area.end);
        long(area.page_offset());
    }
    for (_, file) in mapped() {
        bytes.extend_from_slice(file.name.as_bytes());
        bytes.push(0);
    }
    Ok(bytes)
}

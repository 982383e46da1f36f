//! Mappings as `perf` records them (`PERF_RECORD_MMAP2` of perf_event_open(2)): all present ones,
//! or each when it is made.

use alloc::vec::Vec;

use crate::abi::SyncFlags;
use crate::call::Call;
use crate::config::Layout;
use crate::errno::Errno;
use crate::file::FileId;
use crate::flags::{PAGE_SIZE, VmFlags};
use crate::object::Object;
use crate::pages::{PageAdvice, Pages};
use crate::space::AddressSpace;
use crate::space::maps::{MapsLine, line};
use crate::vma::{Area, Vma};

/// One record, field by field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MmapRecord<'a> {
    /// The first address.
    pub addr: u64,
    /// The length in bytes.
    pub len: u64,
    /// The offset in the file, in bytes. Without a file: 0 for present mappings, as in `maps`, and
    /// the page offset for events.
    pub pgoff: u64,
    /// Device and inode; 0 without a file.
    pub id: FileId,
    /// The argument `prot` of `mmap`.
    pub prot: u32,
    /// The argument `flags` of `mmap`.
    pub flags: u32,
    /// The file, `[heap]`, `[stack]`, `[vdso]`, or `//anon`.
    pub filename: &'a str,
}

/// The name of a mapping without a name.
const ANONYMOUS: &str = "//anon";
/// `PERF_RECORD_MMAP2`.
const MMAP2: u32 = 10;
/// `PERF_RECORD_MISC_USER`, and `PERF_RECORD_MISC_MMAP_DATA`.
const MISC_USER: u16 = 2;
const MISC_DATA: u16 = 1 << 13;

impl<'a> MmapRecord<'a> {
    /// Creates the record of a line of a map.
    pub fn of(map: &MapsLine<'a>) -> Self {
        let has = |flag, bit: u32| if map.flags.contains(flag) { bit } else { 0 };
        MmapRecord {
            addr: map.start,
            len: map.end - map.start,
            pgoff: map.offset,
            id: map.id,
            prot: has(VmFlags::READ, 1) | has(VmFlags::WRITE, 2) | has(VmFlags::EXEC, 4),
            flags: match map.flags.contains(VmFlags::MAYSHARE) {
                true => 1,
                false => 2,
            } | has(VmFlags::LOCKED, 0x2000)
                | has(VmFlags::HUGETLB, 0x4_0000),
            filename: if map.name.is_empty() {
                ANONYMOUS
            } else {
                map.name
            },
        }
    }

    /// Returns `true` for a record that `perf` requests as `mmap`, and not as `mmap_data`.
    pub fn is_code(&self) -> bool {
        self.prot & 4 != 0
    }

    /// Appends the record's bytes, as in a ring without `sample_id_all`. `pid` and `tid` are those
    /// of the mapping thread.
    ///
    /// # Errors
    /// `ENOMEM`: nothing was appended. `ENAMETOOLONG`: no record holds such a long name.
    ///
    /// ```
    /// # use samara_mm::{AddressSpace, Config, Layout, Limits, MmapOptions};
    /// let mut space = AddressSpace::new(Config::default(), Limits::default(), Layout::default())?;
    /// space.mmap(&MmapOptions::anonymous(0x1000).fixed(0x10000))?;
    /// let mut bytes = Vec::new();
    /// for record in space.mmap_records() {
    ///     record.encode(7, 8, &mut bytes)?;
    /// }
    /// assert_eq!(bytes[..8], [10, 0, 0, 0, 2, 0x20, 80, 0]); // MMAP2, a user's data, 80 bytes
    /// assert_eq!(&bytes[72..], b"//anon\0\0");
    /// # Ok::<(), samara_mm::Errno>(())
    /// ```
    pub fn encode(&self, pid: u32, tid: u32, out: &mut Vec<u8>) -> Result<(), Errno> {
        let name = (self.filename.len() + 1).next_multiple_of(8);
        let size = 8 + 8 + 3 * 8 + 2 * 4 + 2 * 8 + 2 * 4 + name;
        let short = u16::try_from(size).map_err(|_| Errno(36))?;
        out.try_reserve(size).map_err(|_| Errno::ENOMEM)?;
        let end = out.len() + size;
        let misc = MISC_USER | if self.is_code() { 0 } else { MISC_DATA };
        out.extend_from_slice(&MMAP2.to_le_bytes());
        out.extend_from_slice(&misc.to_le_bytes());
        out.extend_from_slice(&short.to_le_bytes());
        for word in [pid, tid] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        for word in [self.addr, self.len, self.pgoff] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        for word in [self.id.major, self.id.minor] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        // The inode's generation is not known here.
        for word in [self.id.inode, 0] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        for word in [self.prot, self.flags] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(self.filename.as_bytes());
        out.resize(end, 0);
        Ok(())
    }
}

impl AddressSpace {
    /// Returns a record for each VMA, ascending: what `perf` synthesises for a running process.
    /// O(n).
    pub fn mmap_records(&self) -> impl Iterator<Item = MmapRecord<'_>> {
        self.maps().map(|map| MmapRecord::of(&map))
    }
}

/// The records of one call. It takes part in the call as the owner of the pages, and returns the
/// records afterwards.
///
/// Linux records each VMA that `mmap`, `brk`, `shmat` and `remap_file_pages` make, and each part
/// whose protection `mprotect` changes. The record shows the whole VMA, with the neighbours that it
/// has merged with by then. `mremap` is not recorded. A stack that grows by a fault is recorded as
/// a whole ([`of_fault`](Self::of_fault)). The first growth of the heap has no name yet.
///
/// ```
/// use samara_mm::observe::MmapEvents;
/// # use samara_mm::{AddressSpace, Call, Config, FileArg, Layout, Limits};
/// let mut space = AddressSpace::new(Config::default(), Limits::default(), Layout::default())?;
/// let call = Call::Mmap { addr: 0, len: 0x3000, prot: 5, flags: 0x22, file: FileArg::None, offset: 0 };
/// let mut events = MmapEvents::new(&space, &call);
/// space.perform_with(&call, &mut events)?;
/// let records: Vec<_> = events.records(&space).collect();
/// assert_eq!((records[0].len, records[0].is_code()), (0x3000, true));
/// # Ok::<(), samara_mm::Errno>(())
/// ```
#[derive(Debug)]
pub struct MmapEvents {
    layout: Layout,
    records: bool,
    told: Vec<(u64, u64)>,
}

impl MmapEvents {
    /// Prepares for the call. The name of the heap depends on its end before the call.
    pub fn new(space: &AddressSpace, call: &Call) -> Self {
        MmapEvents {
            layout: space.shown_layout(),
            records: !matches!(call, Call::Mremap { .. }),
            told: Vec::new(),
        }
    }

    /// Prepares for a fault. The growth of a stack is recorded as a mapping
    /// ([`AddressSpace::fault_with`], `Process::fault_with`).
    ///
    /// ```
    /// # use samara_mm::observe::MmapEvents;
    /// # use samara_mm::{AddressSpace, Config, Layout, Limits, MapFlags, MmapOptions, Prot};
    /// let mut space = AddressSpace::new(Config::default(), Limits::default(), Layout::default())?;
    /// let stack = MmapOptions::anonymous(0x3000).prot(Prot::READ | Prot::WRITE).flags(MapFlags::GROWSDOWN);
    /// space.mmap(&stack.fixed(0x1000_0000))?;
    /// let mut events = MmapEvents::of_fault(&space);
    /// space.fault_with(0xfff_f123, true, &mut events)?;
    /// let records: Vec<_> = events.records(&space).map(|record| (record.addr, record.len)).collect();
    /// assert_eq!(records, [(0xfff_f000, 0x4000)]);
    /// # Ok::<(), samara_mm::Errno>(())
    /// ```
    pub fn of_fault(space: &AddressSpace) -> Self {
        MmapEvents {
            layout: space.shown_layout(),
            records: true,
            told: Vec::new(),
        }
    }

    /// Returns the records in Linux's order, after the call, also if it failed half-way. O(log n)
    /// for each.
    pub fn records<'a>(
        &'a self,
        space: &'a AddressSpace,
    ) -> impl Iterator<Item = MmapRecord<'a>> + 'a {
        let next = self.told.iter().skip(1).map(|&(start, _)| start);
        let next = next.chain(core::iter::once(u64::MAX));
        let both = self.told.iter().zip(next);
        both.filter_map(|(&(start, _), next)| {
            let area = space.areas.at(start)?;
            // The part of this VMA before the next part was changed in the same way, and merged at
            // once.
            let end = if next > start {
                area.end.min(next)
            } else {
                area.end
            };
            let map = line(Area { end, ..area }, &self.layout);
            let mut record = MmapRecord::of(&map);
            record.pgoff = area.vma.page_offset(area.start) * PAGE_SIZE;
            if record.filename.starts_with("[anon") {
                record.filename = ANONYMOUS;
            }
            Some(record)
        })
    }

    fn note(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        if self.records {
            self.told.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
            self.told.push((start, end));
        }
        Ok(())
    }
}

impl Pages for MmapEvents {
    /// Refuses for lack of memory.
    fn refuses(&self) -> bool {
        true
    }

    fn map(&mut self, start: u64, end: u64, _: &Vma) -> Result<(), Errno> {
        self.note(start, end)
    }

    fn protect(&mut self, start: u64, end: u64, _: &Vma) -> Result<(), Errno> {
        self.note(start, end)
    }

    // Nothing else is recorded.

    fn unmap(&mut self, _: u64, _: u64) -> Result<(), Errno> {
        Ok(())
    }

    fn relocate(&mut self, _: u64, _: u64, _: u64) -> Result<(), Errno> {
        Ok(())
    }

    fn advise(&mut self, _: u64, _: u64, _: &Vma, _: PageAdvice) -> Result<(), Errno> {
        Ok(())
    }

    fn populate(&mut self, _: u64, _: u64, _: &Area<'_>, _: bool) -> Result<(), Errno> {
        Ok(())
    }

    fn sync(&mut self, _: u64, _: u64, _: &Vma, _: SyncFlags) -> Result<(), Errno> {
        Ok(())
    }

    fn object(&mut self, _: u64) -> Result<Object, Errno> {
        Ok(Object::none())
    }

    fn undoing(&mut self) {
        self.records = false;
        self.told.clear();
    }
}

//! A machine on the heap, and processes with few mappings.

use std::sync::{Arc, Mutex};

use samara_mm::abi::{MAP_ANONYMOUS, MAP_FIXED, MAP_PRIVATE};
use samara_mm::process::{Inode, Machine, PAGE_BYTES, PageSource, Process};
use samara_mm::{Call, Config, Counted, Errno, File, FileArg, FileId, FileKind, Layout, Limits};
use samara_paging::{Arena, Attrs, Grace, HeapBytes, PageSize, Physical};

use crate::countdown::spared;

pub(crate) const PAGE: u64 = 4096;
/// The place of mappings: a boundary of last-level tables.
pub(crate) const BASE: u64 = 0x1_0000_0000;

pub(crate) use samara_mm::process::Hosted;

pub(crate) fn machine(frames: usize) -> Machine<Hosted> {
    Machine::over(Arena::on_heap(frames).unwrap()).unwrap()
}

/// The ranges that tests' kernels may map.
pub(crate) const KERNEL: [std::ops::Range<u64>; 2] = [
    0xffff_8000_0000_0000..0xffff_8000_4000_0000,
    0xffff_ffff_8000_0000..u64::MAX,
];

/// The same with a kernel's half in all processes, where a page is mapped.
pub(crate) fn machine_with_kernel(frames: usize) -> Machine<Hosted> {
    let arena = Arena::on_heap(frames).unwrap();
    let base = Arena::<HeapBytes>::BASE;
    let physical = Physical::new(arena, Grace::new(), base, frames as u64).unwrap();
    let machine = Machine::with_kernel(physical, (), &KERNEL).unwrap();
    let zero = samara_paging::Source::Special(machine.physical().zero_page());
    let attrs = Attrs::READ | Attrs::GLOBAL;
    let kernel = machine.kernel().unwrap();
    kernel
        .map(KERNEL[1].start, PageSize::Small, zero, attrs, &())
        .unwrap();
    machine
}

pub(crate) fn process(machine: &Machine<Hosted>) -> Process<Hosted> {
    let (config, limits, layout) = (Config::default(), Limits::default(), Layout::default());
    Process::new(machine, config, limits, layout).unwrap()
}

/// Private memory at a fixed place.
pub(crate) fn anonymous(addr: u64, pages: u64, prot: u64) -> Call {
    Call::Mmap {
        addr,
        len: pages * PAGE,
        prot,
        flags: MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
        file: FileArg::None,
        offset: 0,
    }
}

pub(crate) fn free_frames(machine: &Machine<Hosted>) -> u64 {
    machine.physical().backing().free_frames()
}

/// The byte at an address, or `None` where a load fails.
pub(crate) fn byte(process: &Process<Hosted>, addr: u64) -> Option<u8> {
    let mut byte = [0];
    (process.copy_out(addr, &mut byte) == 1).then_some(byte[0])
}

/// A file in memory, of a given length.
pub(crate) struct Disk {
    pub(crate) bytes: Mutex<Vec<u8>>,
    pub(crate) memory: bool,
    /// Pages read and written.
    pub(crate) reads: Mutex<Vec<u64>>,
    pub(crate) writes: Mutex<Vec<u64>>,
}

impl Disk {
    /// Byte `i` of page `n` is `n + 1`.
    pub(crate) fn new(size: usize, memory: bool) -> Arc<Self> {
        Arc::new(Disk {
            bytes: Mutex::new((0..size).map(|i| (i / 4096 + 1) as u8).collect()),
            memory,
            reads: Mutex::default(),
            writes: Mutex::default(),
        })
    }

    pub(crate) fn resize(&self, size: usize) {
        self.bytes.lock().unwrap().resize(size, 0);
    }
}

/// The machine's view of it.
pub(crate) struct Source(pub(crate) Arc<Disk>);

impl PageSource for Source {
    fn read_page(&self, page: u64, into: &mut [u8; PAGE_BYTES]) -> Result<(), Errno> {
        spared(|| self.0.reads.lock().unwrap().push(page));
        let bytes = self.0.bytes.lock().unwrap();
        // It may have been truncated concurrently.
        let start = bytes.len().min((page * PAGE) as usize);
        let end = bytes.len().min(start + PAGE_BYTES);
        into[..end - start].copy_from_slice(&bytes[start..end]);
        Ok(())
    }

    fn write_page(&self, page: u64, from: &[u8; PAGE_BYTES]) -> Result<(), Errno> {
        spared(|| self.0.writes.lock().unwrap().push(page));
        let mut bytes = self.0.bytes.lock().unwrap();
        // It may have been truncated concurrently.
        let start = bytes.len().min((page * PAGE) as usize);
        let end = bytes.len().min(start + PAGE_BYTES);
        bytes[start..end].copy_from_slice(&from[..end - start]);
        Ok(())
    }

    fn punch(&self, start: u64, end: u64) -> Result<(), Errno> {
        let mut bytes = self.0.bytes.lock().unwrap();
        let end = bytes.len().min(end as usize);
        bytes[start as usize..end].fill(0);
        Ok(())
    }

    fn size(&self) -> u64 {
        self.0.bytes.lock().unwrap().len() as u64
    }

    fn is_memory(&self) -> bool {
        self.0.memory
    }
}

/// A file, open for reading and writing.
pub(crate) fn open(disk: &Arc<Disk>) -> Counted<File> {
    let (major, minor, inode) = (1, 2, 3);
    let id = FileId {
        major,
        minor,
        inode,
    };
    let kind = if disk.memory {
        FileKind::Shmem
    } else {
        FileKind::Unaligned
    };
    Counted::try_new(File {
        kind,
        object: Inode::object(Source(disk.clone())).unwrap(),
        ..File::new(id, "/file".into())
    })
    .unwrap()
}

/// Pages of a file at a fixed place.
pub(crate) fn mapping(
    file: &Counted<File>,
    addr: u64,
    page: u64,
    pages: u64,
    prot: u64,
    flags: u64,
) -> Call {
    Call::Mmap {
        addr,
        len: pages * PAGE,
        prot,
        flags: flags | MAP_FIXED,
        file: FileArg::File(file.clone()),
        offset: page * PAGE,
    }
}

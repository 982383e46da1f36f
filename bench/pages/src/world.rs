//! A machine over memory of the host, and who takes calls: a process of ours, or the kernel.

use std::time::Instant;

use parking_lot::RwLock;
use samara_mm::process::{Access, ForkMode, Inode, Machine, PAGE_BYTES, PageSource, Process};
use samara_mm::{
    Advice, Config, Counted, DriverFlags, Errno, File, FileId, FileKind, Layout, Limits,
    MmapOptions, Prot,
};
use samara_paging::{Arena, HostMemory};

pub(crate) const PAGE: u64 = 4096;
/// The first of many areas, upwards.
pub(crate) const OTHERS: u64 = 0x2_0000_0000;
/// The address of the measured pages.
pub(crate) const BASE: u64 = 0x10_0000_0000;

pub(crate) type Hosted = samara_mm::process::Hosted<HostMemory>;

pub(crate) fn machine(frames: u64) -> Machine<Hosted> {
    let arena = Arena::hosted(frames as usize).expect("address space");
    Machine::over(arena).expect("memory")
}

pub(crate) fn read_write() -> Prot {
    Prot::READ | Prot::WRITE
}

/// Returns a process with `areas` areas of four pages, every second one read-only.
pub(crate) fn process(machine: &Machine<Hosted>, areas: u64) -> Process<Hosted> {
    let (config, limits, layout) = (Config::default(), Limits::default(), Layout::default());
    let process = Process::new(machine, config, limits, layout).expect("memory");
    for i in 0..areas {
        let prot = if i % 2 == 0 { read_write() } else { Prot::READ };
        let area = MmapOptions::anonymous(4 * PAGE).prot(prot);
        let _ = process.mmap(&area.fixed(OTHERS + 6 * PAGE * i));
    }
    process
}

/// Maps an area of `pages` pages at an address, with its `anon_vma`.
pub(crate) fn map_at(process: &Process<Hosted>, addr: u64, pages: u64) {
    let area = MmapOptions::anonymous(pages * PAGE).prot(read_write());
    process.mmap(&area.fixed(addr)).expect("room");
    write(process, addr);
}

#[inline]
pub(crate) fn write(process: &Process<Hosted>, addr: u64) {
    process.fault(addr, Access::WRITE).expect("a page");
}

/// Nanoseconds that `work` takes.
pub(crate) fn time(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos() as f64
}

/// Zeroes, to which programs may write.
struct Zeroes;

impl PageSource for Zeroes {
    fn read_page(&self, _: u64, into: &mut [u8; PAGE_BYTES]) -> Result<(), Errno> {
        into.fill(0);
        Ok(())
    }

    fn write_page(&self, _: u64, _: &[u8; PAGE_BYTES]) -> Result<(), Errno> {
        Ok(())
    }

    fn punch(&self, _: u64, _: u64) -> Result<(), Errno> {
        Ok(())
    }

    fn size(&self) -> u64 {
        1 << 40
    }
}

fn file(inode: u64) -> Counted<File> {
    Counted::try_new(File {
        id: FileId {
            major: 1,
            minor: 2,
            inode,
        },
        description: None,
        name: format!("/file{inode}").into(),
        readable: true,
        writable: true,
        noexec: false,
        kind: FileKind::Unaligned,
        seals: 0,
        driver: DriverFlags::default(),
        object: Inode::object(Zeroes).expect("memory"),
    })
    .expect("memory")
}

/// The kind of a mapping. Files are chosen by the thread's number.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum What {
    Anonymous,
    PrivateFile(u64),
    SharedFile(u64),
}

/// Files that there are.
pub(crate) const FILES: u64 = 2;

/// The subject that takes calls and faults. Several threads use it at once.
pub(crate) trait System: Sync {
    fn map(&self, what: What, len: u64) -> u64;
    fn unmap(&self, addr: u64, len: u64);
    /// Gives the pages of anonymous memory back, and keeps the mapping.
    fn discard(&self, addr: u64, len: u64);
    /// Moves the end of the heap to `pages` pages above its initial place.
    fn brk(&self, pages: u64);
    /// Writes to a page.
    fn touch(&self, addr: u64);
    /// A child, which exits at once.
    fn fork(&self);
}

pub(crate) struct Engine {
    pub(crate) process: Process<Hosted>,
    files: [Counted<File>; FILES as usize],
    heap: u64,
}

impl Engine {
    pub(crate) fn new(machine: &Machine<Hosted>, areas: u64) -> Self {
        let process = process(machine, areas);
        let heap = process.brk(0);
        // What every program has: pages at the top, where new mappings go.
        let area = MmapOptions::anonymous(16 * PAGE).prot(Prot::READ | Prot::WRITE | Prot::EXEC);
        let top = process.mmap(&area).expect("room");
        write(&process, top);
        Engine {
            process,
            files: std::array::from_fn(|i| file(i as u64)),
            heap,
        }
    }

    fn file(&self, i: u64) -> Counted<File> {
        self.files[(i % FILES) as usize].clone()
    }

    fn options(&self, what: What, len: u64) -> MmapOptions {
        let options = match what {
            What::Anonymous => MmapOptions::anonymous(len),
            What::PrivateFile(i) => MmapOptions::file(self.file(i), 0, len),
            What::SharedFile(i) => MmapOptions::file(self.file(i), 0, len).shared(),
        };
        options.prot(read_write())
    }
}

impl System for Engine {
    fn map(&self, what: What, len: u64) -> u64 {
        self.process.mmap(&self.options(what, len)).expect("room")
    }

    fn unmap(&self, addr: u64, len: u64) {
        self.process.munmap(addr, len).expect("mapped");
    }

    fn discard(&self, addr: u64, len: u64) {
        self.process
            .madvise(addr, len, Advice::DONTNEED)
            .expect("mapped");
    }

    fn brk(&self, pages: u64) {
        self.process.brk(self.heap + pages * PAGE);
    }

    fn touch(&self, addr: u64) {
        write(&self.process, addr);
    }

    fn fork(&self) {
        drop(self.process.fork(ForkMode::Copy).expect("memory"));
    }
}

/// The same engine behind one lock: faults read, calls write.
pub(crate) struct Behind(pub(crate) RwLock<Engine>);

impl System for Behind {
    fn map(&self, what: What, len: u64) -> u64 {
        self.0.write().map(what, len)
    }

    fn unmap(&self, addr: u64, len: u64) {
        self.0.write().unmap(addr, len);
    }

    fn discard(&self, addr: u64, len: u64) {
        // It changes no area: Linux reads, too.
        self.0.read().discard(addr, len);
    }

    fn brk(&self, pages: u64) {
        self.0.write().brk(pages);
    }

    fn touch(&self, addr: u64) {
        self.0.read().touch(addr);
    }

    fn fork(&self) {
        self.0.write().fork();
    }
}

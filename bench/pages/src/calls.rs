//! `mmap` and `munmap` of a page with page tables, and ranges compared with `page_table_multiarch`
//! and `memory_set`.

use std::cell::RefCell;
use std::hint::black_box;
use std::sync::OnceLock;

use memory_addr::{PhysAddr, VirtAddr};
use memory_set::{MappingBackend, MemoryArea, MemorySet};
use page_table_multiarch::x86_64::X64PageTable;
use page_table_multiarch::{MappingFlags, PageSize, PagingHandler};
use samara_mm::abi::MapFlags;
use samara_mm::{MmapOptions, Prot};
use samara_pages::Row;
use samara_paging::{Arena, FrameAllocator, HostMemory, PhysMem};

use crate::kernel::{self, Kernel};
use crate::world::{BASE, Engine, PAGE, System, What, machine, process, read_write, time};
use crate::{Cli, collect};

pub(crate) fn pairs(cli: &Cli) -> Vec<Row> {
    let mut rows = Vec::new();
    for (count, limit) in [(24, 300.0), (60_000, 450.0)] {
        let machine = machine(1 << 12);
        let engine = Engine::new(&machine, count);
        let kernel = Kernel::new(PAGE);
        // The program itself has some.
        let (addr, len) = kernel::areas(if count > 1_000 { count } else { 2 });
        let mut figures = vec![vec![Vec::new(); 2]; 2];
        for run in 0..=cli.runs {
            for (figures, touch) in figures.iter_mut().zip([false, true]) {
                collect(run, figures, [pair(&engine, touch), pair(&kernel, touch)]);
            }
        }
        kernel::unmap(addr, len);
        for (figures, what) in figures
            .iter()
            .zip(["mmap + munmap of a page", "mmap + write + munmap of a page"])
        {
            let row = Row::new(
                &format!("{what}, {count} areas"),
                "ns",
                &["samara", "kernel"],
                figures,
            );
            rows.push(if what.contains("write") {
                row
            } else {
                row.limit(limit)
            });
        }
    }
    rows
}

fn pair(system: &impl System, touch: bool) -> f64 {
    const PAIRS: u32 = 5_000;
    let all = time(|| {
        for _ in 0..PAIRS {
            let addr = system.map(What::Anonymous, PAGE);
            if touch {
                system.touch(addr);
            }
            system.unmap(addr, PAGE);
        }
    });
    all / f64::from(PAIRS)
}

// ---- compared with other crates ----

struct Frames;

fn arena() -> &'static Arena<HostMemory> {
    static ARENA: OnceLock<Arena<HostMemory>> = OnceLock::new();
    ARENA.get_or_init(|| Arena::hosted(1 << 15).expect("address space"))
}

impl PagingHandler for Frames {
    fn alloc_frames(count: usize, _align: usize) -> Option<PhysAddr> {
        (count == 1)
            .then(|| arena().alloc(0))
            .flatten()
            .map(|phys| (phys as usize).into())
    }

    fn dealloc_frames(phys: PhysAddr, _count: usize) {
        // SAFETY: the rival gives back what it was given.
        unsafe { arena().free(phys.as_usize() as u64, 0) };
    }

    fn phys_to_virt(phys: PhysAddr) -> VirtAddr {
        (arena().to_virt(phys.as_usize() as u64).as_ptr() as usize).into()
    }
}

/// Pages that are there from the start, zeroed.
#[derive(Clone)]
struct Populated;

type Table = X64PageTable<Frames>;

fn pages(start: VirtAddr, size: usize) -> impl Iterator<Item = VirtAddr> {
    (0..size / 4096).map(move |i| start + i * 4096)
}

impl MappingBackend for Populated {
    type Addr = VirtAddr;
    type Flags = MappingFlags;
    type PageTable = Table;

    fn map(&self, start: VirtAddr, size: usize, flags: MappingFlags, table: &mut Table) -> bool {
        let mut cursor = table.cursor();
        pages(start, size).all(|page| {
            let Some(frame) = Frames::alloc_frames(1, 4096) else {
                return false;
            };
            // SAFETY: a new frame.
            unsafe {
                Frames::phys_to_virt(frame)
                    .as_mut_ptr()
                    .write_bytes(0, 4096)
            };
            cursor.map(page, frame, PageSize::Size4K, flags).is_ok()
        })
    }

    fn unmap(&self, start: VirtAddr, size: usize, table: &mut Table) -> bool {
        let mut cursor = table.cursor();
        pages(start, size).all(|page| {
            let unmapped = cursor
                .unmap(page)
                .map(|(frame, ..)| Frames::dealloc_frames(frame, 1));
            unmapped.is_ok()
        })
    }

    fn protect(
        &self,
        start: VirtAddr,
        size: usize,
        flags: MappingFlags,
        table: &mut Table,
    ) -> bool {
        table.cursor().protect_region(start, size, flags).is_ok()
    }
}

/// Most of the time of mapping goes into clearing the pages. Where 32 MiB are mapped, the frames come from memory. Where one range is mapped and unmapped in turns,
/// they are in the cache: there clearing is the same work for both, is measured on the frames that each has mapped, and taken off once more.
const STEPS: [&str; 6] = [
    "map",
    "map one in turns",
    "map one in turns, beyond clearing",
    "walk",
    "protect",
    "unmap",
];
/// Pages of a range, and how many ranges.
const RANGE: u64 = 64;
const RANGES: u64 = 128;

/// The same ranges in both: mapped with zeroed pages, looked at page by page (by one way down for each range where the library has such a thing), protected,
/// unmapped.
pub(crate) fn rivals(cli: &Cli) -> Vec<Row> {
    let machine = machine(1 << 15);
    let mut figures = vec![vec![Vec::new(); 2]; STEPS.len()];
    for run in 0..=cli.runs {
        let both = [ours(&machine), theirs()];
        for (step, figures) in figures.iter_mut().enumerate() {
            let both = [both[0][step], both[1][step]];
            // On a busy machine clearing alone may take longer than mapping did: such a run says nothing.
            if both.iter().all(|&figure| figure > 0.0) {
                collect(run, figures, both);
            }
        }
    }
    let subjects = ["samara", "page_table_multiarch + memory_set"];
    let rows = STEPS.iter().zip(&figures).map(|(step, figures)| {
        let name = format!("{step}: {RANGES} ranges of {RANGE} pages, a page");
        let row = Row::new(&name, "ns", &subjects, figures);
        if *step == "map one in turns" {
            row
        } else {
            row.beside(subjects[1], 0.7)
        }
    });
    rows.collect()
}

/// Nanoseconds a page.
fn step(mut work: impl FnMut(u64)) -> f64 {
    let addr = |i| BASE + i * 2 * RANGE * PAGE;
    time(|| (0..RANGES).for_each(|i| work(addr(i)))) / (RANGE * RANGES) as f64
}

/// The same, of all frames that were mapped: their bytes are cleared as when they were mapped, and in that order.
fn clear(frames: &[*mut u8]) -> f64 {
    let all = time(|| {
        for &frame in frames {
            // SAFETY: a frame of page tables that no processor uses.
            unsafe { black_box(frame).write_bytes(0, 4096) };
        }
    });
    all / frames.len() as f64
}

/// One range mapped and unmapped again: nanoseconds a page of mapping alone, and how many of these are beyond those of clearing its frames once more.
fn in_turns(map: impl Fn(), frames: impl Fn() -> Vec<*mut u8>, unmap: impl Fn()) -> [f64; 2] {
    let (mut all, mut beyond) = (0.0, 0.0);
    for _ in 0..RANGES {
        let mapped = time(&map) / RANGE as f64;
        all += mapped;
        beyond += mapped - clear(&frames());
        unmap();
    }
    [all, beyond].map(|sum| sum / RANGES as f64)
}

fn ours(machine: &samara_mm::process::Machine<crate::world::Hosted>) -> [f64; STEPS.len()] {
    let process = process(machine, 0);
    let len = RANGE * PAGE;
    let area = MmapOptions::anonymous(len)
        .prot(read_write())
        .flags(MapFlags::POPULATE);
    let map = step(|addr| _ = process.mmap(&area.clone().fixed(addr)));
    let mut sum = 0;
    let apart = BASE - 2 * len;
    let in_turns = in_turns(
        || _ = process.mmap(&area.clone().fixed(apart)),
        || {
            let found = (apart..apart + len).step_by(PAGE as usize);
            let found = found.filter_map(|page| process.translate(page));
            let frame = |(phys, _)| machine.physical().to_virt(phys).as_ptr();
            found.map(frame).collect()
        },
        || _ = process.munmap(apart, len),
    );
    [
        map,
        in_turns[0],
        in_turns[1],
        step(|addr| {
            let mut view = process.view(addr);
            for page in (addr..addr + len).step_by(PAGE as usize) {
                sum += black_box(view.translate(page)).map_or(0, |(phys, _)| phys);
            }
        }),
        step(|addr| _ = process.mprotect(addr, len, Prot::READ)),
        step(|addr| _ = process.munmap(addr, len)),
    ]
}

fn theirs() -> [f64; STEPS.len()] {
    let mut table = Table::try_new().expect("a frame");
    let mut set = MemorySet::new();
    let len = (RANGE * PAGE) as usize;
    let read = MappingFlags::READ | MappingFlags::USER;
    let flags = read | MappingFlags::WRITE;
    let at = |addr: u64| VirtAddr::from(addr as usize);
    let map = step(|addr| {
        let area = MemoryArea::new(at(addr), len, flags, Populated);
        set.map(area, &mut table, true).expect("room");
    });
    let mut sum = 0;
    let (apart, set_and_table) = (at(BASE) - 2 * len, RefCell::new((&mut set, &mut table)));
    let in_turns = in_turns(
        || {
            let (set, table) = &mut *set_and_table.borrow_mut();
            let area = MemoryArea::new(apart, len, flags, Populated);
            set.map(area, table, true).expect("room");
        },
        || {
            let table = &set_and_table.borrow().1;
            let found = pages(apart, len).filter_map(|page| table.query(page).ok());
            let frame = |phys| Frames::phys_to_virt(phys).as_mut_ptr();
            found.map(|(phys, ..)| frame(phys)).collect()
        },
        || {
            let (set, table) = &mut *set_and_table.borrow_mut();
            set.unmap(apart, len, table).expect("mapped");
        },
    );
    [
        map,
        in_turns[0],
        in_turns[1],
        step(|addr| {
            for page in pages(at(addr), len) {
                sum += black_box(table.query(page)).map_or(0, |(phys, ..)| phys.as_usize());
            }
        }),
        step(|addr| {
            set.protect(at(addr), len, |_| Some(read), &mut table)
                .expect("mapped")
        }),
        step(|addr| set.unmap(at(addr), len, &mut table).expect("mapped")),
    ]
}

//! Page tables compared with `page_table_multiarch`, and forks of a process that touched 4 GiB in
//! pages of 4 KiB.
//!
//! Both map the same pages on the same frames in x86-64's format, in memory of the host. Ours is measured counting frames (`counted`) and not
//! (`special`), which is what the rival does.

use std::ops::Range;
use std::sync::OnceLock;
use std::time::Instant;

use clap::Parser;
use page_table_multiarch::x86_64::X64PageTable;
use page_table_multiarch::{MappingFlags, PagingHandler};
use samara_bench::{Options, Report};
use samara_paging::format::X86_64;
use samara_paging::{
    Arena, Attrs, Change, Entry, ForkFilter, FrameAllocator, Grace, HostMemory, Kind, Mapping,
    PageSize, PageTables, PhysMem, Physical, Source, WritePolicy,
};

#[derive(Parser)]
#[command(about = "Page tables: ranges beside a rival, and forks")]
struct Cli {
    #[command(flatten)]
    options: Options,
    /// Pages of the process that forks.
    #[arg(long, default_value_t = 1 << 20)]
    pages: usize,
    /// Pages of a range.
    #[arg(long, default_value_t = 1 << 15)]
    range: usize,
}

type Memory = Physical<Arena<HostMemory>, Grace>;
type Space<'a> = PageTables<X86_64, &'a Memory>;

const BASE: u64 = 1 << 30;
const START: u64 = 0x10_0000_0000;
const RW: Attrs = Attrs::READ
    .union(Attrs::WRITE)
    .union(Attrs::USER)
    .union(Attrs::ACCESSED)
    .union(Attrs::DIRTY);

fn memory(frames: usize) -> Memory {
    let arena = Arena::hosted(frames).expect("address space");
    Physical::new(arena, Grace::new(), BASE, frames as u64).expect("memory for counts")
}

fn main() {
    let cli = Cli::parse();
    cli.options.apply();
    ranges(&cli).print(cli.options.json);
    forks(&cli).print(cli.options.json);
}

/// Nanoseconds that `work` takes, divided by `by`.
fn time(by: usize, work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos() as f64 / by as f64
}

// ---- ranges ----

/// The rival asks for frames by functions without a receiver.
struct Frames;

fn arena() -> &'static Arena<HostMemory> {
    static ARENA: OnceLock<Arena<HostMemory>> = OnceLock::new();
    ARENA.get_or_init(|| Arena::hosted(1 << 16).expect("address space"))
}

impl PagingHandler for Frames {
    fn alloc_frames(count: usize, _align: usize) -> Option<memory_addr::PhysAddr> {
        (count == 1)
            .then(|| arena().alloc(0))
            .flatten()
            .map(|phys| (phys as usize).into())
    }

    fn dealloc_frames(phys: memory_addr::PhysAddr, _count: usize) {
        // SAFETY: the rival gives back what it was given.
        unsafe { arena().free(phys.as_usize() as u64, 0) };
    }

    fn phys_to_virt(phys: memory_addr::PhysAddr) -> memory_addr::VirtAddr {
        (arena().to_virt(phys.as_usize() as u64).as_ptr() as usize).into()
    }
}

/// Of the look-ups, the first are those of one view, which each enter no section; our second ones enter one each.
const STEPS: [&str; 6] = [
    "map",
    "walk",
    "look up",
    "look up, one by one",
    "protect",
    "unmap",
];

fn ranges(cli: &Cli) -> Report {
    let mut report = Report::new(&format!("a range of {} pages", cli.range), "ns a page");
    let mut figures = vec![vec![Vec::new(); 3]; STEPS.len()];
    let memory = memory(4 * cli.range + (1 << 12));
    for run in 0..=cli.options.runs {
        let all = [
            ours(&memory, cli.range, true),
            ours(&memory, cli.range, false),
            rival(cli.range),
        ];
        for (subject, steps) in all.iter().enumerate() {
            for (step, &figure) in steps.iter().enumerate() {
                if run > 0 {
                    figures[step][subject].push(figure);
                }
            }
        }
    }
    for (step, figures) in STEPS.iter().zip(&figures) {
        if cli.options.wants(step) {
            let subjects = [
                "samara-paging, counted",
                "samara-paging, special",
                "page_table_multiarch",
            ];
            report.add(step, &subjects, figures);
        }
    }
    report
}

fn ours(memory: &Memory, pages: usize, counted: bool) -> [f64; 6] {
    let space = Space::new(memory, 1).expect("a frame");
    let range = START..START + pages as u64 * 4096;
    let sources: Vec<_> = (0..pages as u64)
        .map(|i| {
            if counted {
                Source::Owned(memory.alloc_page(Kind::Anon).expect("a frame"))
            } else {
                Source::Special(BASE + i * 4096)
            }
        })
        .collect();
    let mut sum = 0;
    let map = time(pages, || {
        space.map_pages(START, &sources, RW, &()).expect("frames");
    });
    let walk = time(pages, || {
        space.walk(range.clone(), |_, entry| {
            if let Entry::Page { phys, .. } = entry {
                sum += phys;
            }
        });
    });
    let look = time(pages, || {
        let mut view = space.view(START);
        for addr in range.clone().step_by(4096) {
            sum += view.translate(addr).map_or(0, |(phys, _)| phys);
        }
    });
    let alone = time(pages, || {
        for addr in range.clone().step_by(4096) {
            sum += space.translate(addr).map_or(0, |(phys, _)| phys);
        }
    });
    let protect = time(pages, || {
        let change = Change::access(Attrs::READ, WritePolicy::Never);
        space.protect(range.clone(), change, &()).expect("frames");
    });
    let unmap = time(pages, || space.unmap(range.clone(), &()).expect("frames"));
    std::hint::black_box(sum);
    [map, walk, look, alone, protect, unmap]
}

fn rival(pages: usize) -> [f64; 6] {
    let mut table = X64PageTable::<Frames>::try_new().expect("a frame");
    let size = pages * 4096;
    let start = START as usize;
    let flags = MappingFlags::READ | MappingFlags::WRITE | MappingFlags::USER;
    let map = time(pages, || {
        table
            .cursor()
            .map_region(
                start.into(),
                |addr: memory_addr::VirtAddr| (addr.as_usize() - start + BASE as usize).into(),
                size,
                flags,
                false,
            )
            .expect("frames");
    });
    let sum = std::cell::Cell::new(0);
    let walk = time(pages, || {
        let seen = |level: usize,
                    _: usize,
                    _: memory_addr::VirtAddr,
                    entry: &page_table_entry::x86_64::X64PTE| {
            if level == 3 {
                use page_table_entry::GenericPTE;
                sum.set(sum.get() + entry.paddr().as_usize());
            }
        };
        table.walk(usize::MAX, Some(&seen), None);
    });
    let look = time(pages, || {
        for addr in (start..start + size).step_by(4096) {
            let (phys, ..) = table.query(addr.into()).expect("mapped");
            sum.set(sum.get() + phys.as_usize());
        }
    });
    let protect = time(pages, || {
        let flags = MappingFlags::READ | MappingFlags::USER;
        table
            .cursor()
            .protect_region(start.into(), size, flags)
            .expect("mapped");
    });
    let unmap = time(pages, || {
        table
            .cursor()
            .unmap_region(start.into(), size)
            .expect("mapped");
    });
    std::hint::black_box(sum.get());
    [map, walk, look, look, protect, unmap]
}

// ---- forks ----

fn forks(cli: &Cli) -> Report {
    let pages = cli.pages;
    let mut report = Report::new(
        &format!("fork of {pages} pages, each of which was written"),
        "µs",
    );
    let memory = memory(pages + 4 * (pages / 512) + 4096);
    let parent = Space::new(&memory, 1).expect("a frame");
    for i in 0..pages as u64 {
        let phys = memory.alloc_page(Kind::Anon).expect("a frame");
        let addr = START + i * 4096;
        parent
            .map(addr, PageSize::Small, Source::Owned(phys), RW, &())
            .expect("frames");
    }
    let range = START..START + pages as u64 * 4096;
    let names = [
        "fork, copying",
        "exit, copied",
        "fork, sharing",
        "exit, shared",
        "first write to a shared stretch",
    ];
    let mut figures = vec![Vec::new(); names.len()];
    for run in 0..=cli.options.runs {
        let mut all = Vec::new();
        for share in [false, true] {
            let child = Space::new(&memory, 2).expect("a frame");
            all.push(time(1000, || fork(&parent, &child, range.clone(), share)));
            if share {
                // What comes on top of an ordinary copy-on-write fault: one table is copied.
                let other = Space::new(&memory, 3).expect("a frame");
                fork(&parent, &other, range.clone(), true);
                let stretches = (pages / 512).min(256) as u64;
                let first = time(1000 * stretches as usize, || {
                    for i in 0..stretches {
                        let addr = START + (i << 21);
                        let Entry::Page { phys, .. } = other.entry(addr) else {
                            unreachable!()
                        };
                        assert!(!other.pte(addr, &()).reuse_exclusive(phys).expect("a frame"));
                    }
                });
                drop(other);
                all.push(time(1000, || drop(child)));
                all.push(first);
            } else {
                all.push(time(1000, || drop(child)));
            }
            // As it was: the parent has all of it alone, and may write.
            let change = Change::access(Attrs::READ | Attrs::WRITE, WritePolicy::Exclusive);
            parent
                .protect(range.clone(), change, &())
                .expect("no frames");
        }
        if run > 0 {
            for (figures, figure) in figures.iter_mut().zip(all) {
                figures.push(figure);
            }
        }
    }
    for (name, figures) in names.iter().zip(figures) {
        if cli.options.wants(name) {
            report.add(name, &["samara-paging"], &[figures]);
        }
    }
    report
}

fn fork(parent: &Space<'_>, child: &Space<'_>, range: Range<u64>, share: bool) {
    if share {
        parent.share_range(child, range, &()).expect("frames");
    } else {
        parent
            .copy_range(child, range, Mapping::Private, ForkFilter::All, &())
            .expect("frames");
    }
}

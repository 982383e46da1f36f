//! Faults of one thread, without the time to clear and copy bytes.

use std::hint::black_box;

use samara_mm::process::{ForkMode, Machine, Process};
use samara_mm::{AddressSpace, Advice, Config, Layout, Limits, MmapOptions};
use samara_pages::Row;

use crate::kernel::{self, Child};
use crate::world::{BASE, Hosted, OTHERS, PAGE, machine, map_at, process, read_write, time, write};
use crate::{Cli, collect};

const AREAS: u64 = 1_000;
/// Pages of a round: their bytes fit the second-level cache.
const PAGES: u64 = 64;
const ROUNDS: u32 = 50;

pub(crate) fn rows(cli: &Cli) -> Vec<Row> {
    let mut rows = vec![look_ups(cli)];
    for threads in [false, true] {
        rows.extend(faults(cli, threads));
    }
    rows
}

/// Finding an area among many, holding its lock, and letting it go.
fn look_ups(cli: &Cli) -> Row {
    let (config, limits, layout) = (Config::default(), Limits::default(), Layout::default());
    let mut space = AddressSpace::new(config, limits, layout).expect("memory");
    for i in 0..AREAS {
        let prot = if i % 2 == 0 {
            read_write()
        } else {
            samara_mm::Prot::READ
        };
        let area = MmapOptions::anonymous(4 * PAGE).prot(prot);
        let _ = space.mmap(&area.fixed(OTHERS + 6 * PAGE * i));
    }
    let map = space.share();
    let mut figures = vec![Vec::new(); 2];
    let addrs: Vec<u64> = (0..AREAS)
        .map(|i| OTHERS + 6 * PAGE * (i * 617 % AREAS))
        .collect();
    for run in 0..=cli.runs {
        let each = |work: &dyn Fn(u64)| {
            let all = time(|| (0..20).for_each(|_| addrs.iter().for_each(|&addr| work(addr))));
            all / (20 * AREAS) as f64
        };
        let held = each(&|addr| drop(black_box(map.hold(addr))));
        let locked = each(&|addr| _ = black_box(space.lookup(addr).map(|area| area.start)));
        collect(run, &mut figures, [held, locked]);
    }
    let subjects = ["samara", "look-up alone"];
    Row::new(
        "look-up and area lock, 1,000 areas",
        "ns",
        &subjects,
        &figures,
    )
    .limit(60.0)
}

/// Nanoseconds of each of the pages.
fn each(work: impl FnMut(u64)) -> f64 {
    time(|| (0..PAGES).for_each(work)) / PAGES as f64
}

/// Returns means over the rounds of a run, after an uncounted one. The kernel's forks of the
/// previous run made all memory of this program read-only, so the next write
/// to each page faults in the host.
fn means<const N: usize>(mut round: impl FnMut() -> [f64; N]) -> [f64; N] {
    let mut sums = [0.0; N];
    round();
    for _ in 0..ROUNDS {
        for (sum, figure) in sums.iter_mut().zip(round()) {
            *sum += figure;
        }
    }
    sums.map(|sum| sum / f64::from(ROUNDS))
}

/// The bytes of the frames of the pages.
fn bytes(machine: &Machine<Hosted>, process: &Process<Hosted>) -> Vec<*mut u8> {
    let physical = machine.physical();
    let frame = |page| process.translate(BASE + page * PAGE).map(|(phys, _)| phys);
    (0..PAGES)
        .filter_map(frame)
        .map(|phys| physical.to_virt(phys).as_ptr())
        .collect()
}

/// Faults on pages whose bytes are in the cache, as those of frames are that were freed last; the bytes' share, measured on the same frames, is taken off.
fn faults(cli: &Cli, threads: bool) -> Vec<Row> {
    let machine = machine(4 * PAGES + 4096);
    let process = process(&machine, AREAS);
    if threads {
        process.expect_threads();
    }
    let page = |page| BASE + page * PAGE;
    let round = || {
        // The area has its owner of private pages, and its table is there.
        map_at(&process, BASE, PAGES + 1);
        write(&process, page(PAGES));
        process
            .madvise(BASE, PAGE, Advice::DONTNEED)
            .expect("mapped");
        let first = each(|i| write(&process, page(i)));
        let frames = bytes(&machine, &process);
        // SAFETY: frames of a process that does not run.
        let clear = each(|i| unsafe { black_box(frames[i as usize]).write_bytes(0, 4096) });
        let there = each(|i| write(&process, page(i)));
        // With a child that has the pages, too; then it has gone.
        let child = process.fork(ForkMode::Copy).expect("memory");
        let copied = each(|i| write(&process, page(i)));
        let copies = bytes(&machine, &process);
        let copy = each(|i| {
            let (from, to) = (frames[i as usize], copies[i as usize]);
            // SAFETY: as above; two frames.
            unsafe { black_box(from).copy_to_nonoverlapping(black_box(to), 4096) };
        });
        drop(child);
        drop(process.fork(ForkMode::Copy).expect("memory"));
        let reused = each(|i| write(&process, page(i)));
        process.munmap(BASE, (PAGES + 1) * PAGE).expect("mapped");
        [first, first - clear, there, copied, copied - copy, reused]
    };
    let their_round = || {
        let addr = kernel::private(PAGES);
        let first = each(|page| kernel::write(addr + page * PAGE));
        let child = Child::waiting();
        let copied = each(|page| kernel::write(addr + page * PAGE));
        drop(child);
        drop(Child::waiting());
        let reused = each(|page| kernel::write(addr + page * PAGE));
        kernel::unmap(addr, PAGES * PAGE);
        [first, copied, reused]
    };
    let mut ours = vec![Vec::new(); 6];
    let mut theirs = vec![Vec::new(); 3];
    for run in 0..=cli.runs {
        collect(run, &mut ours, means(round));
        collect(run, &mut theirs, means(their_round));
    }
    let suffix = if threads { ", threads expected" } else { "" };
    let name = |what: &str| format!("{what}{suffix}");
    let alone = |what: &str, i: usize| Row::new(&name(what), "ns", &["samara"], &ours[i..=i]);
    let both = |what: &str, i: usize, j: usize| {
        Row::new(
            &name(what),
            "ns",
            &["samara", "kernel"],
            &[ours[i].clone(), theirs[j].clone()],
        )
    };
    vec![
        both("anonymous write fault, in all", 0, 0),
        alone("anonymous write fault, beyond clearing", 1).limit(150.0),
        alone("fault on a page that is there", 2),
        both("copy-on-write fault, in all", 3, 1),
        alone("copy-on-write fault, beyond copying", 4).limit(200.0),
        both("copy-on-write fault, page reused", 5, 2).limit(80.0),
    ]
}

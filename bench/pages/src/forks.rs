//! Forks: of pages, copying and sharing, and of areas.

use samara_mm::process::{ForkMode, Process};
use samara_mm::{AddressSpace, Config, Layout, Limits, SeedVma};
use samara_pages::Row;

use crate::kernel;
use crate::world::{BASE, Hosted, PAGE, machine, map_at, process, read_write, time, write};
use crate::{Cli, collect};

/// Measures fork and exit of a process that wrote `pages` pages.
pub(crate) fn pages(cli: &Cli) -> Vec<Row> {
    let pages = cli.pages;
    // The kernel's memory is given back before ours is taken.
    let theirs = {
        let addr = kernel::private(pages);
        let mut figures = vec![Vec::new(); 2];
        for run in 0..=cli.runs {
            // The pages of the parent may be written again, as at first.
            (0..pages).for_each(|page| kernel::write(addr + page * PAGE));
            let mut pid = 0;
            let fork = time(|| pid = kernel::fork()) / 1000.0;
            let all = fork + time(|| kernel::wait(pid)) / 1000.0;
            collect(run, &mut figures, [fork, all]);
        }
        kernel::unmap(addr, pages * PAGE);
        figures
    };
    let machine = machine(pages + 4 * (pages / 512) + 4096);
    let parent = process(&machine, 24);
    map_at(&parent, BASE, pages);
    (0..pages).for_each(|page| write(&parent, BASE + page * PAGE));
    let mut ours = vec![Vec::new(); 7];
    for run in 0..=cli.runs {
        let mut figures = Vec::new();
        for mode in [ForkMode::Copy, ForkMode::Share] {
            let mut child = None;
            let fork = time(|| child = parent.fork(mode).ok()) / 1000.0;
            let exit = time(|| child = None) / 1000.0;
            figures.extend([fork, fork + exit]);
            own(&parent, pages);
        }
        // What a first write costs, in stretches of which every one is shared or none.
        for mode in [ForkMode::Copy, ForkMode::Share] {
            let child = parent.fork(mode).ok();
            let stretches = (pages / 512).min(256);
            let first = time(|| {
                (0..stretches).for_each(|i| write(&parent, BASE + i * 512 * PAGE));
            });
            figures.push(first / stretches as f64);
            drop(child);
            own(&parent, pages);
        }
        let [copy, copy_all, share, share_all, ordinary, shared] = figures[..] else {
            unreachable!()
        };
        let above = shared - ordinary;
        collect(
            run,
            &mut ours,
            [copy, copy_all, share, share_all, ordinary, shared, above],
        );
    }
    let name = |what: &str| format!("{what}, {pages} pages");
    let row = |what: &str, i: usize, j: usize| {
        Row::new(
            &name(what),
            "µs",
            &["samara", "kernel"],
            &[ours[i].clone(), theirs[j].clone()],
        )
    };
    let scale = pages as f64 / (1 << 20) as f64;
    vec![
        row("fork, copying", 0, 0).limit(4_000.0 * scale),
        row("fork and exit, copying", 1, 1),
        row("fork, sharing", 2, 0).limit(40.0 * scale),
        row("fork and exit, sharing", 3, 1),
        Row::new(
            "first write to a stretch, copied",
            "ns",
            &["samara"],
            &ours[4..5],
        ),
        Row::new(
            "first write to a stretch, shared",
            "ns",
            &["samara"],
            &ours[5..6],
        ),
        Row::new(
            "first write to a shared stretch, above a copied one",
            "ns",
            &["samara"],
            &ours[6..7],
        )
        .limit(2_000.0),
    ]
}

/// Restores the state before a fork: all pages are writable and unshared.
fn own(parent: &Process<Hosted>, pages: u64) {
    for prot in [samara_mm::Prot::READ, read_write()] {
        parent.mprotect(BASE, pages * PAGE, prot).expect("mapped");
    }
}

/// Forks of processes without pages; before: each area inserted for itself.
pub(crate) fn areas(cli: &Cli) -> Vec<Row> {
    let mut rows = Vec::new();
    for count in [24, 222, 4_022, 60_000] {
        let machine = machine(1 << 10);
        let parent = process(&machine, count);
        let mut figures = vec![Vec::new(); 3];
        let repeats = if count > 10_000 { 1 } else { 10_000 / count };
        let each = |ns: f64| ns / (count * repeats) as f64;
        let ours = || several(repeats, || parent.fork(ForkMode::Copy).expect("memory"));
        let one_by_one = || several(repeats, || parent.with_space(inserted));
        for run in 0..=cli.runs {
            let theirs = (0..if count > 1_000 { 2 } else { 16 })
                .map(|_| with_areas(count))
                .fold(f64::INFINITY, f64::min);
            let theirs = theirs / count as f64;
            // The kernel's fork made all memory of this program read-only. The next write to each
            // page faults in the host, which would take
            // most of the time of our fork. So each of ours runs once first, and writes to the
            // memory that the second run gets.
            let second = |work: &dyn Fn() -> f64| {
                work();
                work()
            };
            let (ours, one_by_one) = (second(&ours), second(&one_by_one));
            collect(run, &mut figures, [each(ours), each(one_by_one), theirs]);
        }
        let subjects = ["samara", "one insertion an area", "kernel"];
        rows.push(
            Row::new(
                &format!("fork of {count} areas, an area"),
                "ns",
                &subjects,
                &figures,
            )
            .limit(80.0),
        );
    }
    rows
}

/// Returns nanoseconds of `count` calls, without dropping their results.
fn several<T>(times: u64, make: impl Fn() -> T) -> f64 {
    let mut made = Vec::with_capacity(times as usize);
    time(|| (0..times).for_each(|_| made.push(make())))
}

/// The same areas, one insertion each.
fn inserted(space: &AddressSpace) -> AddressSpace {
    let (config, limits, layout) = (Config::default(), Limits::default(), Layout::default());
    let mut copy = AddressSpace::new(config, limits, layout).expect("memory");
    for area in space.areas() {
        let seed = SeedVma {
            start: area.start,
            end: area.end,
            prot: 1,
            shared: false,
            offset: 0,
            file: None,
            flags: Some(area.vma.flags),
            name: None,
            touched: area.vma.anon().is_some(),
        };
        copy.seed(seed).expect("room");
    }
    copy
}

/// Returns nanoseconds of a fork by the kernel with `areas` more areas.
fn with_areas(count: u64) -> f64 {
    let (addr, len) = kernel::areas(count);
    let mut pid = 0;
    let fork = time(|| pid = kernel::fork());
    kernel::wait(pid);
    kernel::unmap(addr, len);
    fork
}

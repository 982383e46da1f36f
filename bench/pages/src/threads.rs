//! Several threads in one process: faults concurrent with faults and calls, and the operations of
//! will-it-scale.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use samara_pages::{Projection, Row};

use crate::kernel::Kernel;
use crate::world::{Behind, Engine, FILES, PAGE, System, What, machine, time};
use crate::{Cli, collect};

/// Pages that each thread faults in: for many times as long as one thread runs before another has its turn.
const PAGES: u64 = 1 << 16;
/// Pages that are faulted in and given back again and again: what is written to them, and what the engine notes of them, stays in the caches of one processor.
const STRETCH: u64 = 16;
/// The number of faults on these.
const TIMES: u64 = 1 << 18;
/// Too large for the holes between areas.
const SEPARATOR: u64 = 16 * PAGE;

/// Which pages a thread faults in.
#[derive(Clone, Copy, PartialEq)]
enum Pages {
    /// All of a large area, each once: their bytes come from memory.
    Far,
    /// A few, given back by `MADV_DONTNEED` after each round.
    Near,
}

/// Puts the calling thread on one of two processors.
fn pin(thread: usize) {
    // SAFETY: a set of processors in memory of its own.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(thread % 2, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}

/// Seconds for which the calling thread could have run and another one had the processor; 0 where the kernel does not tell.
fn kept_waiting() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let waited = text.split(' ').nth(1).and_then(|word| word.parse().ok());
    waited.unwrap_or(0.0) / 1e9
}

/// Returns millions of faults a second of `threads` threads, each in its own area, until the first
/// has finished, with another thread that maps and unmaps.
/// Each takes the system of its number, and the other one the last. And how many millions of times a second that one has mapped and unmapped.
///
/// Three threads have two processors. Of near pages, the time is taken off in which a thread waits for the other's turn to end, so that the figures are those of a
/// machine that has a processor for each. What it waits for a lock is not taken off.
fn faults<S: System>(systems: [&S; 3], threads: usize, beside: bool, pages: Pages) -> [f64; 2] {
    let (times, round) = match pages {
        Pages::Far => (PAGES, PAGES),
        Pages::Near => (TIMES, STRETCH),
    };
    // Something of a heap stays, and the page table with it.
    let first = u64::from(pages == Pages::Near);
    // With holes between them: neighbours would become one area. Each has tables of its own.
    let areas: Vec<(&S, u64)> = systems
        .into_iter()
        .take(threads)
        .map(|system| {
            let area = system.map(What::Anonymous, (PAGES + 1) * PAGE);
            system.unmap(area + PAGES * PAGE, PAGE);
            // Each has its owner of private pages.
            system.touch(area);
            (system, area)
        })
        .collect();
    // Below them, where the next mapping goes: it would join the last of them, which the calls of the third thread would change each time.
    let between = systems[2].map(What::SharedFile(0), SEPARATOR);
    let start = Barrier::new(threads + usize::from(beside));
    let stop = AtomicBool::new(false);
    let seconds = move |began: Instant, waited: f64| {
        let waited = match pages {
            Pages::Far => 0.0,
            Pages::Near => kept_waiting() - waited,
        };
        began.elapsed().as_secs_f64() - waited
    };
    let rates = thread::scope(|scope| {
        let (start, stop) = (&start, &stop);
        let work = |i: usize, system: &S, area: u64| {
            pin(i);
            start.wait();
            let (began, waited) = (Instant::now(), kept_waiting());
            let mut done = 1;
            while done < times && !stop.load(Ordering::Relaxed) {
                let page = done % round;
                if page == 0 {
                    system.discard(area + first * PAGE, round * PAGE);
                }
                system.touch(area + (first + page) * PAGE);
                done += 1;
            }
            let took = seconds(began, waited);
            // The others would have more of the processors from now on.
            stop.store(true, Ordering::Relaxed);
            (done - 1) as f64 / took / 1e6
        };
        let workers: Vec<_> = areas
            .iter()
            .enumerate()
            .map(|(i, &(system, area))| scope.spawn(move || work(i, system, area)))
            .collect();
        let other = beside.then(|| {
            let system = systems[2];
            scope.spawn(move || {
                start.wait();
                let (began, waited) = (Instant::now(), kept_waiting());
                let mut done = 0;
                while !stop.load(Ordering::Relaxed) {
                    let addr = system.map(What::Anonymous, 4 * PAGE);
                    system.touch(addr);
                    system.unmap(addr, 4 * PAGE);
                    done += 1;
                }
                f64::from(done) / seconds(began, waited) / 1e6
            })
        });
        let rates = workers
            .into_iter()
            .map(|worker| worker.join().expect("no panic"));
        let rate = rates.sum();
        let calls = other.map_or(0.0, |other| other.join().expect("no panic"));
        [rate, calls]
    });
    areas
        .iter()
        .for_each(|&(system, area)| system.unmap(area, PAGES * PAGE));
    systems[2].unmap(between, SEPARATOR);
    rates
}

pub(crate) fn beside_each_other(cli: &Cli) -> Vec<Row> {
    let machine_for = |threads| machine(threads * PAGES + 4096);
    let engine = |machine| {
        let engine = Engine::new(machine, 1_000);
        engine.process.expect_threads();
        engine
    };
    let machines = [
        machine_for(2),
        machine_for(1),
        machine_for(1),
        machine_for(2),
    ];
    let ours = engine(&machines[0]);
    // What can be had: each thread has a machine and a process of its own.
    let apart = [
        engine(&machines[0]),
        engine(&machines[1]),
        engine(&machines[2]),
    ];
    let behind = Behind(RwLock::new(Engine::new(&machines[3], 1_000)));
    let kernel = Kernel::new(PAGE);
    let subjects = [
        "samara",
        "samara, one thread",
        "behind one RwLock",
        "a process and a machine for each",
        "kernel",
        "kernel, one thread",
    ];
    let measured = |pages| {
        let mut figures = vec![vec![Vec::new(); 6]; 2];
        let mut calls = vec![Vec::new(); 4];
        for run in 0..=cli.runs {
            let [one, _] = faults([&ours; 3], 1, false, pages);
            let [one_kernel, _] = faults([&kernel; 3], 1, false, pages);
            for (figures, beside) in figures.iter_mut().zip([false, true]) {
                let [two, calls_ours] = faults([&ours; 3], 2, beside, pages);
                let [two_apart, calls_apart] = faults(apart.each_ref(), 2, beside, pages);
                let [two_behind, calls_behind] = faults([&behind; 3], 2, beside, pages);
                let [two_kernel, calls_kernel] = faults([&kernel; 3], 2, beside, pages);
                if beside {
                    let all = [calls_ours, calls_behind, calls_apart, calls_kernel];
                    collect(run, &mut calls, all);
                }
                collect(
                    run,
                    figures,
                    [two, one, two_behind, two_apart, two_kernel, one_kernel],
                );
            }
        }
        (figures, calls)
    };
    let row = |name: &str, figures: &[Vec<f64>]| {
        let subjects = match figures.len() {
            4 => &[subjects[0], subjects[2], subjects[3], subjects[4]][..],
            _ => &subjects[..],
        };
        Row::new(name, "M/s", subjects, figures).more(figures)
    };
    let beside = " beside a third that maps and unmaps";
    let (far, far_calls) = measured(Pages::Far);
    let (near, near_calls) = measured(Pages::Near);
    let three = row(
        &format!("faults of two threads in their caches{beside}"),
        &near[1],
    );
    vec![
        row("faults of two threads in their caches", &near[0]).beside(subjects[1], 1.8),
        three.clone().beside(subjects[1], 1.5),
        Row {
            name: format!("{}, and a lock", three.name),
            ..three
        }
        .beside(subjects[2], 2.0),
        row("mappings of that third thread", &near_calls),
        row("faults of two threads in all of memory", &far[0]),
        row(
            &format!("faults of two threads in all of memory{beside}"),
            &far[1],
        ),
        row(
            "mappings of that third thread beside all of memory",
            &far_calls,
        ),
    ]
}

// ---- will-it-scale ----

/// Bytes of most mappings.
const LARGE: u64 = 128 << 20;
/// Bytes of mappings that are touched.
const TOUCHED: u64 = 8 << 20;

/// An operation of thread `i`; how many that was.
struct Operation<S> {
    name: &'static str,
    run: fn(&S, u64) -> u64,
    /// Returns `true` if the whole operation holds the lock of the address space.
    call: bool,
}

fn map_and_unmap<S: System>(system: &S, what: What) -> u64 {
    let addr = system.map(what, LARGE);
    system.unmap(addr, LARGE);
    1
}

fn faulted<S: System>(system: &S, what: What) -> u64 {
    let addr = system.map(what, TOUCHED);
    (0..TOUCHED / PAGE).for_each(|page| system.touch(addr + page * PAGE));
    system.unmap(addr, TOUCHED);
    TOUCHED / PAGE
}

/// By the names that will-it-scale has for them; written anew from what they are said to do.
fn operations<S: System>() -> [Operation<S>; 8] {
    let of = |name, run, call| Operation { name, run, call };
    [
        of(
            "brk1",
            |system: &S, i| {
                system.brk(1 + i);
                system.brk(0);
                1
            },
            true,
        ),
        of(
            "malloc1",
            |system, _| {
                let addr = system.map(What::Anonymous, LARGE);
                system.touch(addr);
                system.unmap(addr, LARGE);
                1
            },
            true,
        ),
        of(
            "mmap1",
            |system, _| map_and_unmap(system, What::Anonymous),
            true,
        ),
        of(
            "mmap2",
            |system, i| map_and_unmap(system, What::SharedFile(i)),
            true,
        ),
        of(
            "page_fault1",
            |system, _| faulted(system, What::Anonymous),
            false,
        ),
        of(
            "page_fault2",
            |system, i| faulted(system, What::PrivateFile(i)),
            false,
        ),
        of(
            "page_fault3",
            |system, i| faulted(system, What::SharedFile(i)),
            false,
        ),
        of(
            "fork1",
            |system, _| {
                system.fork();
                1
            },
            true,
        ),
    ]
}

/// Returns millions of operations a second of `threads` threads.
fn rate<S: System>(system: &S, threads: usize, run: fn(&S, u64) -> u64) -> f64 {
    const LONG: Duration = Duration::from_millis(60);
    let (start, total) = (Barrier::new(threads), AtomicU64::new(0));
    thread::scope(|scope| {
        for i in 0..threads {
            let (start, total) = (&start, &total);
            scope.spawn(move || {
                pin(i);
                start.wait();
                let began = Instant::now();
                let mut done = 0;
                while began.elapsed() < LONG {
                    done += run(system, i as u64);
                }
                let each = done as f64 / began.elapsed().as_secs_f64();
                total.fetch_add(each as u64, Ordering::Relaxed);
            });
        }
    });
    total.into_inner() as f64 / 1e6
}

/// A row for one thread and one for two of each; the projections.
pub(crate) fn will_it_scale(cli: &Cli) -> (Vec<Row>, Vec<Projection>) {
    // As many as both threads of `faults` fill, in addition to the pages of their files.
    let machine = machine(2 * PAGES + FILES * TOUCHED / PAGE + 4096);
    let ours = Engine::new(&machine, 24);
    ours.process.expect_threads();
    let kernel = Kernel::new(LARGE);
    let (mut rows, mut projections) = (Vec::new(), Vec::new());
    let alloc = allocation(&machine);
    let subjects = ["samara", "kernel"];
    for (mine, theirs) in operations::<Engine>().iter().zip(&operations::<Kernel>()) {
        let mut rates = Vec::new();
        for threads in [1, 2] {
            let mut figures = vec![Vec::new(); 2];
            for run in 0..=cli.runs {
                let both = [
                    rate(&ours, threads, mine.run),
                    rate(&kernel, threads, theirs.run),
                ];
                collect(run, &mut figures, both);
            }
            let name = format!(
                "{}, {threads} thread{}",
                mine.name,
                if threads == 1 { "" } else { "s" }
            );
            let row = Row::new(&name, "M/s", &subjects, &figures).more(&figures);
            // What was not disturbed.
            rates.push((threads as u32, row.samples[0].best));
            rows.push(row);
        }
        projections.push(project(mine.name, (!mine.call).then_some(alloc), rates));
    }
    let mut rates = Vec::new();
    for threads in [1, 2] {
        let mut figures = vec![Vec::new(); 2];
        for run in 0..=cli.runs {
            collect(
                run,
                &mut figures,
                [
                    faults([&ours; 3], threads, false, Pages::Far)[0],
                    faults([&kernel; 3], threads, false, Pages::Far)[0],
                ],
            );
        }
        let name = format!(
            "pft, {threads} thread{}",
            if threads == 1 { "" } else { "s" }
        );
        let row = Row::new(&name, "M/s", &subjects, &figures).more(&figures);
        // What was not disturbed.
        rates.push((threads as u32, row.samples[0].best));
        rows.push(row);
    }
    projections.push(project("pft", Some(alloc), rates));
    (rows, projections)
}

/// Nanoseconds that the allocator of frames is locked for one page: as long as a batch takes that is set aside for a processor, and a little more.
fn allocation(machine: &samara_mm::process::Machine<crate::world::Hosted>) -> f64 {
    const TIMES: usize = 1_000;
    let physical = machine.physical();
    let mut batch = [0; 32];
    let mut all = 0.0;
    for _ in 0..TIMES {
        let mut count = 0;
        all += time(|| count = physical.alloc_pages(samara_paging::Kind::Anon, &mut batch));
        assert_eq!(count, batch.len(), "frames");
        batch.iter().for_each(|&page| physical.put(page));
    }
    all / (TIMES * batch.len()) as f64
}

/// The model. An operation takes `alone` on one processor. With others that do the same, it takes
/// `shared` more, as measured here with two threads. Of `alone`,
/// `serial` is spent under a lock that all need: `locked` of a fault, all of a call. `shared` is taken for time that goes by on one thing that all want, and in which no
/// other processor gets on. So `n` processors together do `n` operations in `alone + shared`, and no more than one in `serial + shared`.
fn project(name: &str, locked: Option<f64>, measured: Vec<(u32, f64)>) -> Projection {
    let [alone, beside] = [measured[0].1, measured[1].1].map(|rate| 1e3 / rate);
    let serial = locked.unwrap_or(alone);
    // A call has the lock to itself: the time of one, by all threads, is what it takes.
    let threads = if locked.is_some() { 2.0 } else { 1.0 };
    let shared = (threads * beside - alone).max(0.0);
    let points = [1, 2, 4, 8, 16, 32, 64, 144].map(|n: u32| {
        let all = if n == 1 {
            alone
        } else {
            ((alone + shared) / f64::from(n)).max(serial + shared)
        };
        (n, 1e3 / all)
    });
    Projection {
        name: name.to_owned(),
        alone,
        serial,
        shared,
        points: points.to_vec(),
        measured,
    }
}

//! A guest's loads and stores by the ways that an emulator has, all over the same mapped pages.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use samara_mm::process::{HostLock, Machine, Process, SoftTlb, Stop, Vcpus};
use samara_mm::{Config, Layout, Limits, MmapOptions, Prot};
use samara_pages::Row;
use samara_paging::{Arena, HostMemory};

use crate::world::{BASE, PAGE, time};
use crate::{Cli, collect};

type Emulator = samara_mm::process::Hosted<HostMemory, Vcpus<HostLock>>;

/// Pages of the guest: their bytes fit the second-level cache.
const PAGES: u64 = 32;
/// Accesses of a run.
const ACCESSES: u64 = 1 << 20;

/// The way on from word to word: through all of them, and from page to page.
fn words() -> impl Iterator<Item = u64> {
    let words = PAGES * PAGE / 8;
    (0..ACCESSES).map(move |i| BASE + i.wrapping_mul(521) % words * 8)
}

/// Nanoseconds of each of the accesses.
fn each(mut access: impl FnMut(u64)) -> f64 {
    time(|| words().for_each(|addr| access(black_box(addr)))) / ACCESSES as f64
}

/// A table of an emulator's own that is never told anything: the least that a look-up takes.
struct Own(Vec<(u64, *mut u8)>);

impl Own {
    fn new(machine: &Machine<Emulator>, process: &Process<Emulator>) -> Self {
        let mut table = vec![(u64::MAX, std::ptr::null_mut()); 1024];
        for addr in (0..PAGES).map(|page| BASE + page * PAGE) {
            let (phys, _) = process.translate(addr).expect("there");
            let page = machine.physical().to_virt(phys).as_ptr();
            table[(addr / PAGE % 1024) as usize] = (addr, page);
        }
        Own(table)
    }

    fn word(&self, addr: u64) -> &AtomicU64 {
        let (page, at) = self.0[(addr / PAGE % 1024) as usize];
        assert!(page == addr & !(PAGE - 8), "there");
        // SAFETY: the page stays mapped as long as this program measures.
        unsafe { &*at.add((addr % PAGE) as usize).cast() }
    }
}

pub(crate) fn rows(cli: &Cli) -> Vec<Row> {
    let arena = Arena::hosted(4096).expect("address space");
    let vcpus = Vcpus::new(8).expect("memory");
    let machine = Machine::<Emulator>::over_with(arena, vcpus).expect("memory");
    let (config, limits, layout) = (Config::default(), Limits::default(), Layout::default());
    let process = Process::new(&machine, config, limits, layout).expect("memory");
    let prot = Prot::READ | Prot::WRITE | Prot::EXEC;
    let area = MmapOptions::anonymous(PAGES * PAGE).prot(prot);
    process.mmap(&area.fixed(BASE)).expect("room");
    for page in 0..PAGES {
        process.copy_in(BASE + page * PAGE, &[1]);
    }
    let own = Own::new(&machine, &process);
    let physical = machine.physical();
    let word = |phys: u64| {
        let page = physical.to_virt(phys & !(PAGE - 1)).as_ptr();
        // SAFETY: the page stays mapped as long as this program measures.
        unsafe { &*page.add((phys % PAGE) as usize).cast::<AtomicU64>() }
    };
    let mut vcpu = SoftTlb::new(&process).expect("a place");
    let mut loads = vec![Vec::new(); 5];
    let mut stores = vec![Vec::new(); 3];
    let mut others = vec![vec![Vec::new()]; 3];
    for run in 0..=cli.runs {
        let soft = vcpu.run(|memory| each(|addr| _ = black_box(memory.load::<u64>(addr))));
        let table = each(|addr| _ = black_box(own.word(addr).load(Ordering::Relaxed)));
        let mut view = process.view(BASE);
        let viewed = each(|addr| {
            let found = view.translate(addr);
            black_box(found.map(|(phys, _)| word(phys).load(Ordering::Relaxed)));
        });
        drop(view);
        let translated = each(|addr| {
            let found = process.translate(addr);
            black_box(found.map(|(phys, _)| word(phys).load(Ordering::Relaxed)));
        });
        let copied = each(|addr| {
            let mut bytes = [0; 8];
            process.copy_out(addr, &mut bytes);
            black_box(u64::from_le_bytes(bytes));
        });
        collect(run, &mut loads, [soft, table, viewed, translated, copied]);

        let soft = vcpu.run(|memory| each(|addr| _ = black_box(memory.store(addr, addr))));
        let table = each(|addr| own.word(addr).store(addr, Ordering::Relaxed));
        let copied = each(|addr| _ = black_box(process.copy_in(addr, &addr.to_le_bytes())));
        collect(run, &mut stores, [soft, table, copied]);

        let fetched = vcpu.run(|memory| each(|addr| _ = black_box(memory.fetch::<u32>(addr))));
        collect(run, &mut others[0], [fetched]);
        let entered = each(|addr| _ = black_box(vcpu.run(|memory| memory.load::<u64>(addr))));
        collect(run, &mut others[1], [entered]);
        // Each word has the address of the next: a load waits for the one before.
        words().zip(words().skip(1)).for_each(|(addr, next)| {
            process.copy_in(addr, &next.to_le_bytes());
        });
        let chained = vcpu.run(|memory| {
            let mut addr = BASE;
            let mut follow = || -> Result<(), Stop> {
                for _ in 0..ACCESSES {
                    addr = memory.load(addr)?;
                }
                Ok(())
            };
            let all = time(|| follow().expect("there"));
            black_box(addr);
            all / ACCESSES as f64
        });
        collect(run, &mut others[2], [chained]);
    }
    let subjects = [
        "samara",
        "a table that is told nothing",
        "PageView::translate",
        "translate",
        "copy_out",
    ];
    let load = Row::new("guest load, a hit of the soft TLB", "ns", &subjects, &loads);
    let subjects = ["samara", "a table that is told nothing", "copy_in"];
    let store = Row::new("guest store, a hit", "ns", &subjects, &stores);
    let alone = |name, figures| Row::new(name, "ns", &["samara"], figures);
    vec![
        load.limit(4.0),
        store.limit(4.0),
        alone("guest fetch, a hit", &others[0]).limit(4.0),
        alone("guest load, a run for each", &others[1]),
        alone("guest load, each waits for the one before", &others[2]),
    ]
}

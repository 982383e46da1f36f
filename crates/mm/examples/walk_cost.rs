//! The cost of a walk without the work at each area: 60,000 areas, without and with a page in each.

use std::hint::black_box;
use std::ops::ControlFlow;
use std::time::Instant;

use samara_mm::observe::Seen;
use samara_mm::process::{Machine, Process};
use samara_mm::{Config, Errno, Layout, Limits, MmapOptions, Prot};
use samara_paging::Arena;

const AREAS: u64 = 60_000;

fn main() -> Result<(), Errno> {
    let arena = Arena::on_heap(80_000).map_err(|_| Errno::ENOMEM)?;
    let machine = Machine::over(arena)?;
    let (config, limits, layout) = (Config::default(), Limits::default(), Layout::default());
    let process = Process::new(&machine, config, limits, layout)?;
    let start = 0x10_0000_0000;
    for i in 0..AREAS {
        let prot = if i % 2 == 0 {
            Prot::READ | Prot::WRITE
        } else {
            Prot::READ
        };
        process.mmap(
            &MmapOptions::anonymous(0x1000)
                .prot(prot)
                .fixed(start + i * 0x1000),
        )?;
    }
    let end = start + AREAS * 0x1000;
    let time = |name: &str, work: &dyn Fn() -> u64| {
        let mut best = f64::MAX;
        for _ in 0..20 {
            let begin = Instant::now();
            assert_eq!(black_box(work()), AREAS);
            best = best.min(begin.elapsed().as_nanos() as f64 / AREAS as f64);
        }
        println!("{name}: {best:.1} ns an area");
    };
    let walk = || {
        let mut areas = 0;
        let _ = process.walk(start..end, |seen| {
            areas += u64::from(matches!(black_box(&seen), Seen::Area(..)));
            ControlFlow::Continue(())
        });
        areas
    };
    let iterate = || {
        let mut areas = 0;
        process.with_space(|space| {
            for area in space.areas() {
                areas += u64::from(black_box(area).start >= start);
            }
        });
        areas
    };
    time("iterator over areas", &iterate);
    time("walk, no page", &walk);
    for i in (0..AREAS).step_by(2) {
        process.copy_in(start + i * 0x1000, &[1]);
    }
    time("walk, a page in every second", &walk);
    Ok(())
}

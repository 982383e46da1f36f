//! The highest numbers: an address space that ends a page below 2^64, beyond what any table reaches, with areas in its last 2 MiB, whose end is no number.

use samara_mm::process::{Access, ForkMode, Process};
use samara_mm::walkers::{Khugepaged, NumaScan};
use samara_mm::{Call, Config, Layout, Limits};

use crate::world::{PAGE, anonymous, machine};

const TOP: u64 = !(PAGE - 1);
/// The last 2 MiB that have an end.
const LAST: u64 = TOP & !((2 << 20) - 1);

/// All advice that there is, and some that is none.
const ADVICE: std::ops::Range<i32> = 0..110;

#[test]
fn nothing_overflows_in_the_last_2_mib() {
    let machine = machine(2048);
    let config = Config {
        task_size: TOP,
        ..Config::default()
    };
    for start in [LAST - (2 << 20), LAST - PAGE, LAST, LAST + PAGE, TOP - PAGE] {
        let process = Process::new(
            &machine,
            config.clone(),
            Limits::default(),
            Layout::default(),
        )
        .unwrap();
        let pages = (TOP - start) / PAGE;
        process.perform(&anonymous(start, pages, 3)).unwrap();
        for at in [start, TOP - PAGE] {
            let _ = process.fault(at, Access::WRITE);
            let _ = process.copy_in(at, b"w");
        }
        for advice in ADVICE {
            for (from, to) in [(start, TOP), (TOP - PAGE, TOP)] {
                let len = to - from;
                let _ = process.perform(&Call::Madvise {
                    addr: from,
                    len,
                    advice,
                });
                process.check().unwrap();
            }
            let mut text = String::new();
            process.write_smaps(&mut text).unwrap();
            assert!(process.rollup().is_some());
            for mode in [ForkMode::Copy, ForkMode::Share] {
                let child = process.fork(mode).unwrap();
                child.check().unwrap();
            }
            NumaScan::default().scan(&process, 1 << 20).unwrap();
            let _ = Khugepaged::default().scan(&machine, 100);
        }
    }
    machine.check().unwrap();
}

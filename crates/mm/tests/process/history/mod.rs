//! Histories read from bytes: calls, accesses, forks and exits of three processes, compared with
//! plain bytes. The tests and the fuzz target `mm_process` share them.
//!
//! The model knows neither frames nor tables. A page of a process is nothing, or a protection and where its byte is: its own, a shared object's, or a
//! file's, of which it may have a copy. Memory is refused by countdown, frames and heap; what was refused has changed nothing that a program can tell, and
//! succeeds when it is tried again. At the end all frames are free.
//!
//! [`Walkers`] may run with the processes: they merge and pin pages, and move them to swap, and no
//! program sees any of it.

mod model;
mod op;
mod perform;

use std::sync::Arc;

use samara_mm::abi::{PROT_READ, PROT_WRITE};
use samara_mm::process::{Machine, Process};
use samara_mm::{Call, Counted, File};

use crate::beyond::{Walkers, is_swapped};
use crate::countdown::LEFT;
use crate::world::{
    BASE, Disk, Hosted, PAGE, free_frames, machine, machine_with_kernel, open, process,
};
use model::{Pages, What};
use op::{Bytes, Op, Step, Steps};

const SLOTS: usize = 3;
/// Half of them below a boundary of tables.
const PAGES: usize = 16;
const FRAMES: usize = 512;
/// Of the file, at most.
const FILE_PAGES: usize = 12;

/// The result of a step: a byte, a failure for another reason than memory, or no memory.
type Answer = Result<u8, Failure>;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Failure {
    Other,
    Memory,
}

struct World {
    machine: Machine<Hosted>,
    processes: [Option<Process<Hosted>>; SLOTS],
    model: [Option<Pages>; SLOTS],
    disk: Arc<Disk>,
    file: Counted<File>,
    /// Bytes of objects. The first is the file, at its full length.
    objects: Vec<Vec<u8>>,
    beside: bool,
    walkers: Option<Walkers>,
}

/// Performs a history. Panics where the engine differs from the model.
pub(crate) fn play(bytes: &[u8]) {
    play_with(machine(FRAMES), bytes, |_| None);
}

/// The same under a kernel.
pub(crate) fn play_under_kernel(bytes: &[u8]) {
    play_with(machine_with_kernel(FRAMES), bytes, |_| None);
}

/// The same with walkers.
pub(crate) fn play_beside_walkers(bytes: &[u8]) {
    let walkers = |machine: &_| Some(Walkers::new(machine));
    play_with(machine(FRAMES), bytes, walkers);
}

fn play_with(
    machine: Machine<Hosted>,
    bytes: &[u8],
    walkers: impl FnOnce(&Machine<Hosted>) -> Option<Walkers>,
) {
    let mut bytes = Bytes(bytes.iter());
    let free = free_frames(&machine);
    let kind = bytes.below(4);
    let disk = Disk::new(FILE_PAGES / 2 * PAGE as usize, kind & 1 == 1);
    let mut world = World {
        processes: [Some(process(&machine)), None, None],
        machine: machine.clone(),
        model: [Some([None; PAGES]), None, None],
        file: open(&disk),
        disk,
        // Memory is empty at first.
        objects: vec![
            (1..=FILE_PAGES as u8 / 2)
                .map(|byte| if kind & 1 == 1 { 0 } else { byte })
                .collect(),
        ],
        beside: kind & 2 == 2,
        walkers: walkers(&machine),
    };
    if world.beside {
        world
            .processes
            .iter()
            .flatten()
            .for_each(Process::expect_threads);
    }
    let mut steps = Steps(Vec::new());
    if world.walkers.is_some() {
        // All memory may be merged, and at first there is much.
        let process = process_of(&world.processes, 0);
        process.perform(&Call::SetMemoryMerge { on: 1 }).unwrap();
        let op = Op::Map {
            kind: 0,
            file_page: 0,
            prot: PROT_READ | PROT_WRITE,
            populate: true,
        };
        let (who, from, to) = (0, 0, PAGES);
        world.step(Step { who, from, to, op }, usize::MAX);
    }
    while bytes.0.len() > 0 {
        let step = world.any_step(&mut bytes);
        let refuse = bytes.below(64);
        if world.is_possible(step) {
            steps.0.push((step, refuse));
            world.step(step, refuse);
        }
    }
    for who in 0..SLOTS {
        for from in 0..PAGES {
            let (to, op) = (from + 1, Op::Read);
            let step = Step { who, from, to, op };
            if world.is_possible(step) {
                world.step(step, usize::MAX);
            }
        }
    }
    drop(world);
    machine.physical().reclaim();
    assert_eq!(free_frames(&machine), free, "frames are lost");
}

impl World {
    fn addr(page: usize) -> u64 {
        BASE + page as u64 * PAGE - PAGES as u64 / 2 * PAGE
    }

    /// Performs a step. After a number of allocations, those of frames (even) or of the heap (odd)
    /// are refused, and the step is then performed again.
    fn step(&mut self, step: Step, refuse: usize) {
        let expected = self.expected(step);
        // What cannot be undone when memory runs out says so.
        let refuse = match step.op {
            Op::Exit | Op::Truncate(_) | Op::Punch(_) => usize::MAX,
            _ => refuse,
        };
        let mut found = self.refusing(step, refuse);
        if found == Err(Failure::Memory) && refuse < 16 {
            // Of several areas, some may have been changed.
            if !matches!(step.op, Op::Protect(_) | Op::Advise(_) | Op::Sync) {
                self.check();
            }
            found = self.refusing(step, usize::MAX);
        }
        assert_eq!(found, expected, "{step:?}");
        self.change(step);
        self.check();
    }

    fn refusing(&mut self, step: Step, refuse: usize) -> Answer {
        let machine = self.machine.clone();
        let arena = machine.physical().backing();
        if refuse < 16 {
            match refuse % 2 {
                0 => arena.refuse_after(Some(refuse as u64 / 2)),
                _ => LEFT.set(Some(refuse as u32 / 2)),
            }
        }
        let answer = self.perform(step);
        arena.refuse_after(None);
        LEFT.set(None);
        answer
    }

    /// Compares what can be seen without changing it, and counts everything.
    fn check(&self) {
        self.machine.check().unwrap();
        for (process, pages) in self.processes.iter().zip(&self.model) {
            assert_eq!(process.is_some(), pages.is_some());
            let (Some(process), Some(pages)) = (process, pages) else {
                continue;
            };
            for (number, page) in pages.iter().enumerate() {
                let addr = Self::addr(number);
                let mapped = process.with_space(|space| space.lookup(addr).is_some());
                assert_eq!(mapped, page.is_some(), "page {number}");
                let Some(page) = page else {
                    assert!(process.page(addr).is_empty(), "page {number}");
                    continue;
                };
                let gone = is_gone(process, addr);
                if let Some((phys, prot)) = process.translate(addr) {
                    // SAFETY: one thread; the page is mapped.
                    let byte = unsafe { self.machine.physical().to_virt(phys).read() };
                    assert_eq!(Some(byte), self.byte(page), "page {number}: {page:?}");
                    assert_eq!(prot.bits() & !page.prot, 0, "page {number}");
                } else if gone && let What::Own(value, _) = page.what {
                    assert_eq!(value, 0, "page {number} has gone");
                } else if gone {
                    assert!(
                        !matches!(page.what, What::Private(_, Some(_))),
                        "page {number}"
                    );
                }
            }
        }
    }
}

fn process_of(processes: &[Option<Process<Hosted>>], who: usize) -> &Process<Hosted> {
    processes[who].as_ref().unwrap()
}

/// Returns `true` if a page is nowhere, not even in swap.
fn is_gone(process: &Process<Hosted>, addr: u64) -> bool {
    process.page(addr).is_empty() && !is_swapped(process, addr)
}

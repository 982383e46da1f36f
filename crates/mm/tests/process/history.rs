//! Histories read from bytes: calls, accesses, forks and exits of three processes, beside plain bytes. The tests and the fuzz target `mm_process` share them.
//!
//! The model knows neither frames nor tables. A page of a process is nothing, or a protection and where its byte is: its own, a shared object's, or a
//! file's, of which it may have a copy. Memory is refused by countdown, frames and heap; what was refused has changed nothing that a program can tell, and
//! succeeds when it is tried again. At the end all frames are free.
//!
//! Beside the processes there may be [`Walkers`]: pages are merged, pinned, and go to swap, of which no program sees anything.

use std::sync::Arc;

use samara_mm::abi::{
    MADV_COLD, MADV_DONTNEED, MADV_FREE, MADV_MERGEABLE, MADV_PAGEOUT, MADV_UNMERGEABLE,
    MAP_ANONYMOUS, MAP_FIXED, MAP_POPULATE, MAP_PRIVATE, MAP_SHARED, MREMAP_FIXED, MREMAP_MAYMOVE,
    MS_SYNC, PROT_NONE, PROT_READ, PROT_WRITE,
};
use samara_mm::process::{Access, Fault, ForkMode, Machine, PageStatus, Process};
use samara_mm::{Call, Counted, Errno, File, FileArg};

use crate::beyond::{Walkers, is_swapped};
use crate::countdown::LEFT;
use crate::world::{BASE, Disk, Hosted, PAGE, free_frames, machine, open, process};

const SLOTS: usize = 3;
/// Half of them below a boundary of tables.
const PAGES: usize = 16;
const FRAMES: usize = 512;
/// Of the file, at most.
const FILE_PAGES: usize = 12;

struct Bytes<'a>(std::slice::Iter<'a, u8>);

impl Bytes<'_> {
    fn below(&mut self, n: usize) -> usize {
        usize::from(self.0.next().copied().unwrap_or(0)) % n
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    /// Whether it may be dropped.
    Own(u8, bool),
    /// Of an object, which page.
    Shared(usize, usize),
    /// Of the file, which page; and the copy.
    Private(usize, Option<u8>),
}

#[derive(Clone, Copy, Debug)]
struct Page {
    prot: u64,
    what: What,
}

type Pages = [Option<Page>; PAGES];

#[derive(Clone, Copy, Debug)]
enum Op {
    /// `kind`: private memory, shared memory, the file shared, the file private.
    Map {
        kind: usize,
        file_page: usize,
        prot: u64,
        populate: bool,
    },
    Unmap,
    Protect(u64),
    Advise(i32),
    /// The first page, to there.
    Move(usize),
    Sync,
    Read,
    Write(u8),
    Fork(usize, ForkMode),
    Exit,
    Truncate(usize),
    Punch(usize),
    /// Of KSM, over so many pages.
    Scan(usize),
    Pin {
        write: bool,
        long: bool,
    },
    /// The oldest pins, so many of them.
    Unpin(usize),
}

/// Who does it, and pages from and to.
#[derive(Clone, Copy, Debug)]
struct Step {
    who: usize,
    from: usize,
    to: usize,
    op: Op,
}

/// What was done, and what was refused: shown when something is wrong.
struct Steps(Vec<(Step, usize)>);

impl Drop for Steps {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for (step, refuse) in &self.0 {
                eprintln!("{step:?}, refusing {refuse}");
            }
        }
    }
}

/// What a step gave: a byte, a failure that memory has nothing to do with, or no memory.
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
    /// Bytes of objects; the first is the file, as long as it is.
    objects: Vec<Vec<u8>>,
    beside: bool,
    walkers: Option<Walkers>,
}

/// Performs a history. Panics where the engine differs from the model.
pub(crate) fn play(bytes: &[u8]) {
    play_with(bytes, |_| None);
}

/// The same with walkers beside it.
pub(crate) fn play_beside_walkers(bytes: &[u8]) {
    play_with(bytes, |machine| Some(Walkers::new(machine)));
}

fn play_with(bytes: &[u8], walkers: impl FnOnce(&Machine<Hosted>) -> Option<Walkers>) {
    let mut bytes = Bytes(bytes.iter());
    let machine = machine(FRAMES);
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
    fn any_step(&self, bytes: &mut Bytes<'_>) -> Step {
        let who = bytes.below(SLOTS);
        let kind = bytes.below(if self.walkers.is_some() { 32 } else { 24 });
        let from = bytes.below(PAGES);
        let to = from + 1 + bytes.below(PAGES - from);
        let prot = |n: usize| [PROT_READ | PROT_WRITE, PROT_READ, PROT_NONE][n];
        let op = match kind {
            0..4 => {
                let more = bytes.below(16);
                Op::Map {
                    kind: kind % 4,
                    file_page: bytes.below(FILE_PAGES),
                    prot: prot((more % 8).saturating_sub(5)),
                    populate: more >= 12,
                }
            }
            4 => Op::Unmap,
            5 | 6 => Op::Protect(prot(bytes.below(3))),
            7 => Op::Advise(MADV_DONTNEED),
            8 => Op::Advise(MADV_FREE),
            9 => Op::Advise([MADV_PAGEOUT, MADV_COLD][bytes.below(2)]),
            10 | 11 => Op::Move(bytes.below(PAGES)),
            12 => Op::Sync,
            13 => {
                let mode = [ForkMode::Copy, ForkMode::Share][bytes.below(2)];
                Op::Fork(bytes.below(SLOTS), mode)
            }
            14 => {
                let mode = [ForkMode::Share, ForkMode::Copy][bytes.below(2)];
                Op::Fork(bytes.below(SLOTS), mode)
            }
            15 => Op::Exit,
            16 => Op::Truncate(bytes.below(FILE_PAGES + 1)),
            17 => Op::Punch(bytes.below(FILE_PAGES)),
            18..20 => Op::Read,
            24 | 25 => Op::Scan(bytes.below(SLOTS * PAGES)),
            26 => {
                let [write, long] = [bytes.below(2) == 1, bytes.below(2) == 1];
                Op::Pin { write, long }
            }
            27 => Op::Unpin(bytes.below(3)),
            28 | 29 => Op::Advise(MADV_MERGEABLE),
            30 => Op::Advise(MADV_UNMERGEABLE),
            31 => Op::Advise(MADV_PAGEOUT),
            // Few contents, so that some are alike.
            _ if self.walkers.is_some() => Op::Write(1 + bytes.below(3) as u8),
            _ => Op::Write(1 + bytes.below(255) as u8),
        };
        Step { who, from, to, op }
    }

    fn is_possible(&self, Step { who, from, to, op }: Step) -> bool {
        let Some(pages) = &self.model[who] else {
            return false;
        };
        let all = |test: fn(&Page) -> bool| {
            (pages[from..to].iter()).all(|page| page.as_ref().is_some_and(test))
        };
        match op {
            // Of a range with a hole, a part is done: `oracle` has that.
            Op::Protect(_) | Op::Sync => all(|_| true),
            Op::Advise(advice) => {
                all(|_| true)
                    && (advice != MADV_FREE || all(|page| matches!(page.what, What::Own(..))))
            }
            Op::Move(there) => from != there && pages[from].is_some(),
            Op::Fork(child, _) => self.model[child].is_none(),
            _ => true,
        }
    }

    fn addr(page: usize) -> u64 {
        BASE + page as u64 * PAGE - PAGES as u64 / 2 * PAGE
    }

    /// Performs a step, with memory refused after so many allocations of frames (even) or of the heap (odd), and again if that was the end of it.
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

    /// The byte behind a page; none beyond the end of the file.
    fn byte(&self, page: &Page) -> Option<u8> {
        match page.what {
            What::Own(value, _) | What::Private(_, Some(value)) => Some(value),
            What::Shared(object, index) => self.objects[object].get(index).copied(),
            What::Private(index, None) => self.objects[0].get(index).copied(),
        }
    }

    fn expected(&self, Step { who, from, op, .. }: Step) -> Answer {
        let page = self.model[who].as_ref().unwrap()[from];
        let byte = |needed: u64| {
            let page = page.as_ref().filter(|page| page.prot & needed != 0);
            page.and_then(|page| self.byte(page)).ok_or(Failure::Other)
        };
        match op {
            Op::Read => byte(PROT_READ),
            Op::Write(_) => byte(PROT_WRITE).map(|_| 0),
            _ => Ok(0),
        }
    }

    fn change(&mut self, Step { who, from, to, op }: Step) {
        match op {
            Op::Fork(child, _) => {
                self.model[child] = self.model[who];
                return;
            }
            Op::Exit => {
                self.model[who] = None;
                return;
            }
            Op::Truncate(pages) => {
                self.objects[0].resize(pages, 0);
                for page in self.model.iter_mut().flatten().flatten().flatten() {
                    if let What::Private(index, copy) = &mut page.what
                        && *index >= pages
                    {
                        *copy = None;
                    }
                }
                return;
            }
            Op::Punch(first) => {
                if let Some(rest) = self.objects[0].get_mut(first..) {
                    rest.fill(0);
                }
                return;
            }
            _ => {}
        }
        let pages = self.model[who].as_mut().unwrap();
        match op {
            Op::Map {
                kind,
                file_page,
                prot,
                ..
            } => {
                if kind == 1 {
                    self.objects.push(vec![0; to - from]);
                }
                for (i, page) in pages[from..to].iter_mut().enumerate() {
                    let what = match kind {
                        0 => What::Own(0, false),
                        1 => What::Shared(self.objects.len() - 1, i),
                        2 => What::Shared(0, file_page + i),
                        _ => {
                            // Pages may be filled in, as writes would; or not, for want of memory.
                            let index = file_page + i;
                            let process = self.processes[who].as_ref().unwrap();
                            let status = process.page(Self::addr(from + i));
                            let own = !status.is_empty() && !status.contains(PageStatus::FILE);
                            let copy = self.objects[0].get(index).filter(|_| own);
                            What::Private(index, copy.copied())
                        }
                    };
                    *page = Some(Page { prot, what });
                }
            }
            Op::Unmap => pages[from..to].fill(None),
            Op::Protect(prot) => {
                let pages = pages[from..to].iter_mut().flatten();
                pages.for_each(|page| page.prot = prot);
            }
            Op::Advise(advice) => {
                let process = self.processes[who].as_ref().unwrap();
                for (number, page) in pages.iter_mut().enumerate().take(to).skip(from) {
                    let gone = || is_gone(process, Self::addr(number));
                    match &mut page.as_mut().unwrap().what {
                        What::Own(value, free) => match advice {
                            MADV_DONTNEED => (*value, *free) = (0, false),
                            MADV_FREE => {
                                *free = true;
                                // What is in swap goes at once.
                                if gone() {
                                    *value = 0;
                                }
                            }
                            // It may be dropped, and need not.
                            MADV_PAGEOUT if *free && gone() => *value = 0,
                            _ => {}
                        },
                        What::Private(_, copy) if advice == MADV_DONTNEED => *copy = None,
                        _ => {}
                    }
                }
            }
            Op::Move(there) => pages[there] = pages[from].take(),
            Op::Pin { .. } => {
                for (number, page) in pages.iter_mut().enumerate() {
                    let status = process_of(&self.processes, who).page(Self::addr(number));
                    let own = !status.is_empty() && !status.contains(PageStatus::FILE);
                    if let Some(Page {
                        what: What::Private(index, copy @ None),
                        ..
                    }) = page
                        && own
                    {
                        *copy = self.objects[0].get(*index).copied();
                    }
                }
            }
            Op::Write(value) => {
                let size = self.objects[0].len();
                let writable = |page: &&mut Page| page.prot & PROT_WRITE != 0;
                if let Some(page) = pages[from].as_mut().filter(writable) {
                    match &mut page.what {
                        What::Own(byte, free) => (*byte, *free) = (value, false),
                        What::Shared(object, index) => {
                            if let Some(byte) = self.objects[*object].get_mut(*index) {
                                *byte = value;
                            }
                        }
                        What::Private(index, copy) if *index < size => *copy = Some(value),
                        What::Private(..) => {}
                    }
                }
            }
            _ => {}
        }
    }

    fn perform(&mut self, Step { who, from, to, op }: Step) -> Answer {
        let (addr, len) = (Self::addr(from), (to - from) as u64 * PAGE);
        let process = process_of(&self.processes, who);
        let why = |access| match process.fault(addr, access) {
            Err(Fault::Signal { .. }) => Err(Failure::Other),
            // Memory that was refused is there again.
            Err(Fault::NoMemory) | Ok(()) => Err(Failure::Memory),
        };
        let call = match op {
            Op::Map {
                kind,
                file_page,
                prot,
                populate,
            } => {
                let shared = if kind == 1 || kind == 2 {
                    MAP_SHARED
                } else {
                    MAP_PRIVATE
                };
                let anonymous = if kind < 2 { MAP_ANONYMOUS } else { 0 };
                let populate = if populate { MAP_POPULATE } else { 0 };
                Call::Mmap {
                    addr,
                    len,
                    prot,
                    flags: shared | anonymous | populate | MAP_FIXED,
                    file: match kind {
                        0 | 1 => FileArg::None,
                        _ => FileArg::File(self.file.clone()),
                    },
                    offset: if kind < 2 { 0 } else { file_page as u64 * PAGE },
                }
            }
            Op::Unmap => Call::Munmap { addr, len },
            Op::Protect(prot) => Call::Mprotect {
                addr,
                len,
                prot,
                pkey: -1,
            },
            Op::Advise(advice) => Call::Madvise { addr, len, advice },
            Op::Move(there) => Call::Mremap {
                old_addr: addr,
                old_len: PAGE,
                new_len: PAGE,
                flags: MREMAP_MAYMOVE | MREMAP_FIXED,
                new_addr: Self::addr(there),
            },
            Op::Sync => Call::Msync {
                addr,
                len,
                flags: MS_SYNC,
            },
            Op::Read => {
                let mut byte = [0];
                return match process.copy_out(addr, &mut byte) {
                    1 => Ok(byte[0]),
                    _ => why(Access::READ),
                };
            }
            Op::Write(value) => {
                return match process.copy_in(addr, &[value]) {
                    1 => Ok(0),
                    _ => why(Access::WRITE),
                };
            }
            Op::Fork(child, mode) => {
                let made = process.fork(mode).map_err(|_| Failure::Memory)?;
                if self.beside {
                    made.expect_threads();
                }
                self.processes[child] = Some(made);
                return Ok(0);
            }
            Op::Exit => {
                self.processes[who] = None;
                return Ok(0);
            }
            Op::Truncate(pages) => {
                self.disk.resize(pages * PAGE as usize);
                let size = pages as u64 * PAGE;
                self.machine.truncate(&self.file.object, size).unwrap();
                return Ok(0);
            }
            Op::Punch(first) => {
                let size = self.objects[0].len();
                if first < size {
                    let mut bytes = self.disk.bytes.lock().unwrap();
                    bytes[first * PAGE as usize..].fill(0);
                }
                let (start, end) = (first as u64 * PAGE, FILE_PAGES as u64 * PAGE);
                self.machine.punch(&self.file.object, start, end).unwrap();
                return Ok(0);
            }
            Op::Scan(pages) => {
                let walkers = self.walkers.as_mut().unwrap();
                return walkers.scan(pages as u64).map_err(|_| Failure::Memory);
            }
            Op::Pin { write, long } => {
                let walkers = self.walkers.as_mut().unwrap();
                let pinned = walkers.pin(process, addr, to - from, write, long);
                return pinned.map_err(|_| Failure::Memory);
            }
            Op::Unpin(pins) => {
                self.walkers.as_mut().unwrap().unpin(pins);
                return Ok(0);
            }
        };
        match process.perform(&call) {
            Ok(_) => Ok(0),
            Err(Errno::ENOMEM) => Err(Failure::Memory),
            Err(_) => Err(Failure::Other),
        }
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

/// Whether a page is nowhere, not even in swap.
fn is_gone(process: &Process<Hosted>, addr: u64) -> bool {
    process.page(addr).is_empty() && !is_swapped(process, addr)
}

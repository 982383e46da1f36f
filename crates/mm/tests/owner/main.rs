//! Notifications of the owner of the pages, over the random histories of the comparison with the
//! kernel.
//!
//! * A mirror that applies it to a flat array agrees with the areas after every step.
//! * Each notification that can be refused is refused once. Then everything is as before the call,
//!   and so is the mirror. All allocations fail during the undoing.
//! * Each allocation fails once: the mirror agrees still.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test"
)]

mod again;
#[path = "../oracle/generate/mod.rs"]
#[allow(dead_code, reason = "the suites that ask are for the kernel")]
mod generate;
mod held;
mod mirror;
mod notified;
#[path = "../oracle/op.rs"]
mod op;
mod panics;
mod world;

use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::cell::Cell;

use generate::{ARENA, PAGE, history, suites};
use mirror::{Mirror, REFUSED};
use op::Op;
use samara_mm::{AddressSpace, Call, Errno, MmapOptions, MremapOptions, Prot};
use world::{objects, space, step};

/// Fails one allocation of this thread when its countdown reaches 0, or all while it is starved.
struct Scarce;

thread_local! {
    static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
    static STARVED: Cell<bool> = const { Cell::new(false) };
    static FAILED: Cell<bool> = const { Cell::new(false) };
}

// SAFETY: everything is passed on to the system's allocator, or refused.
unsafe impl GlobalAlloc for Scarce {
    unsafe fn alloc(&self, memory: Memory) -> *mut u8 {
        if STARVED.get() {
            return std::ptr::null_mut();
        }
        match LEFT.get() {
            Some(0) => {
                LEFT.set(None);
                FAILED.set(true);
                return std::ptr::null_mut();
            }
            Some(left) => LEFT.set(Some(left - 1)),
            None => {}
        }
        // SAFETY: the caller's duties are the system allocator's.
        unsafe { System.alloc(memory) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, memory: Memory) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, memory) }
    }
}

#[global_allocator]
static ALLOCATOR: Scarce = Scarce;

const LENGTH: usize = if cfg!(miri) { 30 } else { 250 };

/// Calls `each` with the histories of each suite, with and without concurrent readers.
fn each_history(seeds: u64, mut each: impl FnMut(&str, u64, &[Op])) {
    for (name, mix) in suites::told() {
        for seed in 0..seeds {
            each(name, seed, &history(seed + 1, &mix, None, LENGTH));
        }
    }
}

/// All that there is to know of an address space.
fn state(space: &AddressSpace) -> String {
    format!("{space:?} {:?}", space.page_counts())
}

#[test]
fn a_mirror_of_what_is_told_agrees_with_the_areas() {
    let mut told = Mirror::default();
    each_history(if cfg!(miri) { 1 } else { 20 }, |suite, seed, ops| {
        let mut space = space();
        let objects = objects(space.layout().start_brk);
        let mut mirror = Mirror::default();
        for (number, op) in ops.iter().enumerate() {
            let _shared = (seed % 2 == 1).then(|| space.share());
            step(&mut space, &mut mirror, &objects, op);
            space.check().unwrap();
            if let Some(what) = mirror.differs(&space) {
                panic!("suite {suite}, seed {seed}, step {number}, {op:x?}: {what}");
            }
        }
        told.told += mirror.told;
        told.populated += mirror.populated;
        told.synced += mirror.synced;
        told.objects += mirror.objects;
    });
    if !cfg!(miri) {
        assert!(told.told > 50_000 && told.populated > 1_000, "{told:?}");
        assert!(told.synced > 20 && told.objects > 500, "{told:?}");
    }
}

#[test]
fn a_refusal_undoes_the_whole_call() {
    let mut refusals = 0;
    each_history(if cfg!(miri) { 1 } else { 3 }, |suite, seed, ops| {
        let mut space = space();
        let objects = objects(space.layout().start_brk);
        let mut mirror = Mirror::default();
        for (number, op) in ops.iter().take(100).enumerate() {
            let what = || format!("suite {suite}, seed {seed}, step {number}, {op:x?}");
            let before = space.try_clone().unwrap();
            let unchanged = state(&before);
            let pages = mirror.pages.clone();
            mirror.told = 0;
            let result = step(&mut space, &mut mirror, &objects, op);
            let Some(result) = result else { continue };
            let told = mirror.told;
            for refuse in 0..=told {
                let mut victim = before.try_clone().unwrap();
                // A reader that stays, or no memory: without memory, undoing waits for the reader.
                let shared = (seed % 3 > 0).then(|| victim.share());
                let reader = shared.as_ref().filter(|_| seed % 3 == 2);
                let reader = reader.map(|shared| shared.read());
                let mut owner = Mirror {
                    pages: pages.clone(),
                    refuses: true,
                    refuse: Some(refuse),
                    starve: reader.is_none().then_some(|on| STARVED.set(on)),
                    ..Mirror::default()
                };
                let answer = step(&mut victim, &mut owner, &objects, op).unwrap();
                STARVED.set(false);
                victim
                    .check()
                    .unwrap_or_else(|broken| panic!("{}: {broken}", what()));
                if refuse == told {
                    // Nothing was refused: the journal has changed nothing.
                    assert_eq!((answer, owner.undone), (result, 0), "{}", what());
                    if !matches!(op, Op::Mmap { .. } | Op::Shmat { .. }) {
                        // Objects are numbered throughout the program.
                        assert_eq!(state(&victim), state(&space), "{}", what());
                    }
                    assert_eq!(owner.differs(&victim), None, "{}", what());
                    continue;
                }
                refusals += 1;
                assert_eq!(owner.undone, 1, "{}", what());
                match op {
                    Op::Brk { .. } => assert_eq!(answer, Ok(before.layout().brk)),
                    // Growth that is not possible is a signal.
                    Op::Write { .. } | Op::Read { .. } => assert_eq!(answer, Err(Errno::EFAULT)),
                    _ => assert_eq!(answer, Err(REFUSED), "{}", what()),
                }
                assert_eq!(state(&victim), unchanged, "{}, refusal {refuse}", what());
                assert_eq!(owner.pages, pages, "{}, refusal {refuse}", what());
            }
        }
    });
    assert!(cfg!(miri) || refusals > 5_000, "only {refusals} refusals");
}

/// Areas enough for a tree of several levels, from the arena on: two pages each, by turns to be read and to be written; every seventh is left out.
fn many_areas(space: &mut AddressSpace, mirror: &mut Mirror, count: u64) {
    for number in (0..count).filter(|number| number % 7 != 6) {
        let prot = [Prot::READ, Prot::READ | Prot::WRITE][number as usize % 2];
        let pages = MmapOptions::anonymous(2 * PAGE).prot(prot);
        let pages = pages.fixed(ARENA + number * 2 * PAGE);
        space.with(mirror).mmap(&pages).unwrap();
    }
}

#[test]
fn a_refusal_of_a_call_over_many_areas_takes_no_memory_to_undo() {
    let count = if cfg!(miri) { 60 } else { 3_000 };
    let (addr, len) = (ARENA + PAGE, (2 * count - 2) * PAGE);
    let calls = [
        Call::Munmap { addr, len },
        Call::Mprotect {
            addr: ARENA + PAGE,
            len: 11 * PAGE,
            prot: 1,
            pkey: -1,
        },
        // One area in the place of all, and many changes one after the other.
        (&MmapOptions::anonymous(len).fixed(addr)).into(),
        (&MremapOptions::new(addr, len, len).to(addr + (1 << 32))).into(),
        Call::Madvise {
            addr,
            len: 11 * PAGE,
            advice: 102,
        },
    ];
    for (call, shared) in calls.iter().flat_map(|call| [(call, false), (call, true)]) {
        let (mut space, mut mirror) = (space(), Mirror::default());
        many_areas(&mut space, &mut mirror, count);
        let (before, pages) = (state(&space), mirror.pages.clone());
        mirror.told = 0;
        let mut counter = mirror.clone();
        space
            .try_clone()
            .unwrap()
            .perform_with(call, &mut counter)
            .unwrap();
        let told = counter.told;
        // The first, the last, and some between.
        for refuse in (0..told).step_by(told as usize / 5 + 1).chain([told - 1]) {
            let _handle = shared.then(|| space.share());
            let mut owner = Mirror {
                pages: pages.clone(),
                refuses: true,
                refuse: Some(refuse),
                starve: Some(|on| STARVED.set(on)),
                ..Mirror::default()
            };
            let answer = space.perform_with(call, &mut owner);
            STARVED.set(false);
            assert_eq!((answer, owner.undone), (Err(REFUSED), 1), "{call:?}");
            space.check().unwrap();
            assert_eq!(owner.differs(&space), None, "{call:?}, refusal {refuse}");
        }
        assert!(state(&space) == before, "{call:?}");
    }
}

#[test]
fn a_mirror_agrees_when_an_allocation_fails() {
    let mut failures = 0;
    each_history(if cfg!(miri) { 1 } else { 2 }, |suite, seed, ops| {
        let mut space = space();
        let objects = objects(space.layout().start_brk);
        let mut mirror = Mirror::default();
        for (number, op) in ops.iter().take(80).enumerate() {
            let what = || format!("suite {suite}, seed {seed}, step {number}, {op:x?}");
            let before = space.try_clone().unwrap();
            let pages = mirror.pages.clone();
            if step(&mut space, &mut mirror, &objects, op).is_none() {
                continue;
            }
            for countdown in 0.. {
                let mut victim = before.try_clone().unwrap();
                let mut owner = Patient(Mirror {
                    pages: pages.clone(),
                    refuses: seed % 2 == 1,
                    ..Mirror::default()
                });
                let call = op.call(&objects);
                FAILED.set(false);
                LEFT.set(Some(countdown));
                let _ = match (&call, *op) {
                    (Some(call), _) => victim.perform_with(call, &mut owner).map(|_| ()),
                    (None, Op::Write { addr }) => victim.fault_with(addr, true, &mut owner),
                    (None, Op::Read { addr }) => victim.fault_with(addr, false, &mut owner),
                    _ => Ok(()),
                };
                LEFT.set(None);
                victim.check().unwrap();
                if let Some(difference) = owner.0.differs(&victim) {
                    panic!("{}, allocation {countdown}: {difference}", what());
                }
                if !FAILED.get() {
                    break;
                }
                failures += 1;
            }
        }
    });
    assert!(cfg!(miri) || failures > 3_000, "only {failures} failures");
}

/// A mirror whose own allocations succeed.
struct Patient(Mirror);

impl Patient {
    fn while_fed<T>(&mut self, act: impl FnOnce(&mut Mirror) -> T) -> T {
        let left = LEFT.take();
        let done = act(&mut self.0);
        LEFT.set(left);
        done
    }
}

impl samara_mm::Pages for Patient {
    fn refuses(&self) -> bool {
        self.0.refuses
    }

    fn prepare(&mut self, op: samara_mm::PrepareOp) -> Result<(), Errno> {
        self.while_fed(|mirror| mirror.prepare(op))
    }

    fn map(&mut self, start: u64, end: u64, vma: &samara_mm::Vma) -> Result<(), Errno> {
        self.while_fed(|mirror| mirror.map(start, end, vma))
    }

    fn unmap(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        self.while_fed(|mirror| mirror.unmap(start, end))
    }

    fn protect(&mut self, start: u64, end: u64, vma: &samara_mm::Vma) -> Result<(), Errno> {
        self.while_fed(|mirror| mirror.protect(start, end, vma))
    }

    fn relocate(&mut self, from: u64, to: u64, len: u64) -> Result<(), Errno> {
        self.while_fed(|mirror| mirror.relocate(from, to, len))
    }

    fn advise(
        &mut self,
        start: u64,
        end: u64,
        vma: &samara_mm::Vma,
        advice: samara_mm::PageAdvice,
    ) -> Result<(), Errno> {
        self.while_fed(|mirror| mirror.advise(start, end, vma, advice))
    }

    fn populate(
        &mut self,
        start: u64,
        end: u64,
        area: &samara_mm::Area<'_>,
        write: bool,
    ) -> Result<(), Errno> {
        self.while_fed(|mirror| mirror.populate(start, end, area, write))
    }

    fn sync(
        &mut self,
        start: u64,
        end: u64,
        vma: &samara_mm::Vma,
        flags: samara_mm::abi::SyncFlags,
    ) -> Result<(), Errno> {
        self.while_fed(|mirror| mirror.sync(start, end, vma, flags))
    }

    fn object(&mut self, pages: u64) -> Result<samara_mm::Object, Errno> {
        self.while_fed(|mirror| mirror.object(pages))
    }
}

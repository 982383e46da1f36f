//! Faults concurrent with calls: none is lost, no page stays where no area is, and none allows an
//! access that its area forbids.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use samara_mm::abi::{
    MADV_DONTNEED, MADV_GUARD_INSTALL, MADV_GUARD_REMOVE, MADV_HUGEPAGE, MAP_PRIVATE, MAP_SHARED,
    MREMAP_FIXED, MREMAP_MAYMOVE, SyncFlags,
};
use samara_mm::process::{Access, Fault, ForkMode};
use samara_mm::{Area, Call, Counted, Errno, File, Object, PageAdvice, Pages, Vma};

use crate::world::{
    BASE, Disk, Hosted, PAGE, anonymous, byte, free_frames, machine, mapping, open, process,
};

type Process = samara_mm::process::Process<Hosted>;

/// The caller leaves these alone: what is written there must stay.
const KEPT: u64 = BASE;
const KEPT_PAGES: u64 = 8;
/// Everything happens to these, close below: they are neighbours and join.
const CHANGED: u64 = BASE + KEPT_PAGES * PAGE;
const PAGES: u64 = 24;
const ROUNDS: u64 = if cfg!(miri) { 1 } else { 12 };
const CALLS: u64 = if cfg!(miri) { 12 } else { 1_000 };

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n
    }
}

/// Takes faults until all is over: in the pages that stay, where each store must be found again, and in the others.
fn take_faults(process: &Process, seed: u64, over: &AtomicBool) {
    let mut random = Random(seed);
    let mine = seed % 2;
    let mut last = [None; KEPT_PAGES as usize];
    while !over.load(Ordering::Relaxed) {
        let page = random.below(KEPT_PAGES);
        let at = KEPT + page * PAGE + mine;
        if let Some(expected) = last[page as usize] {
            assert_eq!(byte(process, at), Some(expected), "a store is lost");
        }
        let value = random.below(256) as u8;
        assert_eq!(process.copy_in(at, &[value]), 1);
        last[page as usize] = Some(value);
        for _ in 0..4 {
            let at = CHANGED + random.below(2 * PAGES) * PAGE;
            let access = [Access::READ, Access::WRITE][random.below(2) as usize];
            match process.fault(at, access) {
                Ok(()) | Err(Fault::MAPERR | Fault::ACCERR | Fault::ADRERR) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
    }
}

fn any_call(random: &mut Random, file: &Counted<File>) -> Call {
    let first = random.below(PAGES);
    let pages = 1 + random.below(PAGES - first);
    let (addr, len) = (CHANGED + first * PAGE, pages * PAGE);
    let advice = |advice| Call::Madvise { addr, len, advice };
    match random.below(11) {
        0 | 1 => anonymous(addr, pages, 3),
        2 => mapping(file, addr, first, pages, 3, MAP_SHARED),
        3 => mapping(file, addr, first, pages, 3, MAP_PRIVATE),
        4 => Call::Munmap { addr, len },
        5 | 6 => Call::Mprotect {
            addr,
            len,
            prot: random.below(2) * 2 + 1,
            pkey: -1,
        },
        7 => advice(MADV_DONTNEED),
        8 => advice(if random.below(2) == 0 {
            MADV_GUARD_INSTALL
        } else {
            MADV_GUARD_REMOVE
        }),
        9 => advice(MADV_HUGEPAGE),
        _ => Call::Mremap {
            old_addr: addr,
            old_len: len,
            new_len: len,
            flags: MREMAP_MAYMOVE | MREMAP_FIXED,
            new_addr: addr + PAGES * PAGE,
        },
    }
}

#[test]
fn calls_and_forks_beside_faults() {
    let machine = machine(512);
    let free = free_frames(&machine);
    let file = open(&Disk::new(PAGES as usize * 4096, false));
    let parent = process(&machine);
    parent.perform(&anonymous(KEPT, KEPT_PAGES, 3)).unwrap();
    parent.expect_threads();
    let mut random = Random(0x5eed);
    for round in 0..ROUNDS {
        let over = AtomicBool::new(false);
        thread::scope(|s| {
            let (parent, over) = (&parent, &over);
            for n in 0..2 {
                s.spawn(move || take_faults(parent, round * 2 + n + 0x1000, over));
            }
            for _ in 0..CALLS {
                let _ = parent.perform(&any_call(&mut random, &file));
                if random.below(16) == 0 {
                    let mode = [ForkMode::Copy, ForkMode::Share][random.below(2) as usize];
                    drop(parent.fork(mode).unwrap());
                }
            }
            over.store(true, Ordering::Relaxed);
        });
        machine.check().unwrap();
    }
    drop((parent, file));
    machine.check().unwrap();
    assert_eq!(free_frames(&machine), free);
}

/// Refuses every third thing that it is told.
struct Moody(u64);

impl Moody {
    fn answer(&mut self) -> Result<(), Errno> {
        self.0 += 1;
        if self.0.is_multiple_of(3) {
            Err(Errno::EBUSY)
        } else {
            Ok(())
        }
    }
}

impl Pages for Moody {
    fn refuses(&self) -> bool {
        true
    }

    fn map(&mut self, _: u64, _: u64, _: &Vma) -> Result<(), Errno> {
        self.answer()
    }

    fn unmap(&mut self, _: u64, _: u64) -> Result<(), Errno> {
        self.answer()
    }

    fn protect(&mut self, _: u64, _: u64, _: &Vma) -> Result<(), Errno> {
        self.answer()
    }

    fn relocate(&mut self, _: u64, _: u64, _: u64) -> Result<(), Errno> {
        self.answer()
    }

    fn advise(&mut self, _: u64, _: u64, _: &Vma, _: PageAdvice) -> Result<(), Errno> {
        Ok(())
    }

    fn populate(&mut self, _: u64, _: u64, _: &Area<'_>, _: bool) -> Result<(), Errno> {
        Ok(())
    }

    fn sync(&mut self, _: u64, _: u64, _: &Vma, _: SyncFlags) -> Result<(), Errno> {
        Ok(())
    }

    fn object(&mut self, _: u64) -> Result<Object, Errno> {
        Ok(Object::none())
    }
}

/// Faults find an area only when its call can no longer be undone, and when its pages are what the call has made of them.
#[test]
fn calls_that_are_undone_beside_faults() {
    let machine = machine(512);
    let free = free_frames(&machine);
    let file = open(&Disk::new(PAGES as usize * 4096, false));
    let process = process(&machine);
    process.perform(&anonymous(KEPT, KEPT_PAGES, 3)).unwrap();
    process.expect_threads();
    let mut random = Random(0xdead);
    let mut moody = Moody(0);
    for round in 0..ROUNDS {
        let over = AtomicBool::new(false);
        thread::scope(|s| {
            let (process, over) = (&process, &over);
            for n in 0..2 {
                s.spawn(move || take_faults(process, round * 2 + n + 0x2000, over));
            }
            for _ in 0..CALLS {
                let call = any_call(&mut random, &file);
                match process.perform_with(&call, &mut moody) {
                    Err(Errno::ENOMEM)
                        if !matches!(call, Call::Mprotect { .. } | Call::Madvise { .. }) =>
                    {
                        panic!("{call:?}: there is memory")
                    }
                    _ => {}
                }
            }
            over.store(true, Ordering::Relaxed);
        });
        machine.check().unwrap();
    }
    drop((process, file));
    machine.check().unwrap();
    assert_eq!(free_frames(&machine), free);
}

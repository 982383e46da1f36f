//! Faults and calls exclude each other by area. While the owner is notified of a range, no thread
//! can hold an area there, refused calls included. Areas elsewhere can be held. A call notifies of
//! no area before its holder has released it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use samara_mm::abi::SyncFlags;
use samara_mm::{
    AddressSpace, Area, Errno, MmapOptions, MremapOptions, Object, PageAdvice, Pages, PrepareOp,
    Prot, SharedMap, Vma, Watch,
};

use crate::world::space;

const PAGE: u64 = 4096;
const BASE: u64 = 0x1_0000_0000;
/// No call comes here.
const QUIET: u64 = BASE + 1000 * PAGE;

fn at(page: u64) -> u64 {
    BASE + page * PAGE
}

/// Looks, at each thing that it is told, who can be held.
struct Guard {
    map: SharedMap,
    /// The number of notifications before one is refused.
    left: usize,
    told: usize,
    undoing: bool,
}

impl Guard {
    fn look(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        for addr in (start..end).step_by(PAGE as usize) {
            assert!(self.map.hold(addr).is_none(), "{addr:#x} can be held");
        }
        assert!(self.map.hold(QUIET).is_some());
        self.told += 1;
        if !self.undoing && self.told > self.left {
            return Err(Errno::EBUSY);
        }
        Ok(())
    }
}

impl Pages for Guard {
    fn refuses(&self) -> bool {
        true
    }

    /// A huge page that is divided now must not be put together by a fault before its notification.
    fn prepare(&mut self, op: PrepareOp) -> Result<(), Errno> {
        let (start, end) = match op {
            PrepareOp::Unmap { start, end } | PrepareOp::Protect { start, end } => (start, end),
            PrepareOp::Move { from, len, .. } => (from, from + len),
            _ => return Ok(()),
        };
        self.look(start, end)
    }

    fn map(&mut self, start: u64, end: u64, _: &Vma) -> Result<(), Errno> {
        self.look(start, end)
    }

    fn unmap(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        self.look(start, end)
    }

    fn protect(&mut self, start: u64, end: u64, _: &Vma) -> Result<(), Errno> {
        self.look(start, end)
    }

    fn relocate(&mut self, from: u64, to: u64, len: u64) -> Result<(), Errno> {
        self.look(from, from + len)?;
        self.look(to, to + len)
    }

    fn undoing(&mut self) {
        self.undoing = true;
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

fn memory(page: u64, pages: u64) -> MmapOptions {
    MmapOptions::anonymous(pages * PAGE)
        .prot(Prot::READ | Prot::WRITE)
        .fixed(at(page))
}

/// Three neighbouring areas that differ, and a hole behind them.
fn scene() -> AddressSpace {
    let mut space = space();
    space.mmap(&memory(0, 4)).unwrap();
    space.mmap(&memory(4, 4).prot(Prot::READ)).unwrap();
    space.mmap(&memory(8, 4)).unwrap();
    space.mmap(&memory(1000, 1)).unwrap();
    for page in [0, 8] {
        space.fault(at(page), true).unwrap();
    }
    space
}

type Run<'a> = &'a (dyn Fn(&mut AddressSpace, &mut dyn Pages) -> Result<(), Errno> + Sync);

fn calls() -> Vec<(&'static str, Run<'static>)> {
    vec![
        ("mmap", &|s, p| s.with(p).mmap(&memory(12, 2)).map(drop)),
        ("mmap over", &|s, p| s.with(p).mmap(&memory(2, 8)).map(drop)),
        ("munmap", &|s, p| s.with(p).munmap(at(1), 9 * PAGE)),
        ("munmap inside", &|s, p| s.with(p).munmap(at(1), PAGE)),
        ("mprotect", &|s, p| {
            s.with(p).mprotect(at(1), 9 * PAGE, Prot::READ)
        }),
        ("joined", &|s, p| {
            s.with(p)
                .mprotect(at(4), 4 * PAGE, Prot::READ | Prot::WRITE)
        }),
        ("longer", &|s, p| {
            let options = MremapOptions::new(at(8), 4 * PAGE, 6 * PAGE);
            s.with(p).mremap(&options).map(drop)
        }),
        ("moved", &|s, p| {
            let options = MremapOptions::new(at(1), 2 * PAGE, 2 * PAGE).to(at(20));
            s.with(p).mremap(&options).map(drop)
        }),
        ("moved over", &|s, p| {
            let options = MremapOptions::new(at(1), 2 * PAGE, 2 * PAGE).to(at(6));
            s.with(p).mremap(&options).map(drop)
        }),
        ("several moved", &|s, p| {
            let options = MremapOptions::new(at(0), 12 * PAGE, 12 * PAGE).to(at(20));
            s.with(p).mremap(&options).map(drop)
        }),
        ("source kept", &|s, p| {
            let options = MremapOptions::new(at(0), 4 * PAGE, 4 * PAGE)
                .to(at(20))
                .keep_source();
            s.with(p).mremap(&options).map(drop)
        }),
    ]
}

/// Has the area that begins there remembered: with the second page that is held.
fn remember(map: &SharedMap, page: u64) {
    for page in [page, page + 1] {
        assert!(map.hold(at(page)).is_some());
    }
}

#[test]
fn nobody_holds_what_a_call_changes() {
    each_call_beside(None);
}

/// All three areas have one place.
#[test]
fn nobody_holds_what_a_call_changes_and_was_remembered() {
    for page in [0, 4, 8] {
        each_call_beside(Some(page));
    }
}

fn each_call_beside(remembered: Option<u64>) {
    for (name, call) in calls() {
        for left in 0.. {
            let mut space = scene();
            let map = space.share();
            if let Some(page) = remembered {
                remember(&map, page);
            }
            let mut guard = Guard {
                map: map.clone(),
                left,
                told: 0,
                undoing: false,
            };
            let done = call(&mut space, &mut guard);
            // All locks are open when the call has ended.
            for page in (0..40).map(at) {
                let mapped = space.lookup(page).is_some();
                assert_eq!(map.hold(page).is_some(), mapped, "{name}, {left}");
            }
            if done.is_ok() {
                assert!(left > 0, "{name} tells nothing");
                break;
            }
        }
    }
}

/// Fails if it is told anything while the area is held.
struct Witness<'a> {
    held: &'a AtomicBool,
    told: &'a AtomicBool,
}

impl Witness<'_> {
    fn look(&self) {
        self.told.store(true, Ordering::SeqCst);
        assert!(!self.held.load(Ordering::SeqCst), "told while it is held");
    }
}

impl Watch for Witness<'_> {
    fn unmap(&mut self, _: u64, _: u64) {
        self.look();
    }

    fn protect(&mut self, _: u64, _: u64, _: &Vma) {
        self.look();
    }

    fn relocate(&mut self, _: u64, _: u64, _: u64) {
        self.look();
    }
}

#[test]
fn calls_wait_for_who_holds_what_they_change() {
    let calls: [Run<'static>; 5] = [
        &|s, p| s.with(p).munmap(at(8), 4 * PAGE),
        &|s, p| s.with(p).munmap(at(9), PAGE),
        &|s, p| s.with(p).mprotect(at(8), 2 * PAGE, Prot::READ),
        &|s, p| s.with(p).mmap(&memory(8, 4)).map(drop),
        &|s, p| {
            let options = MremapOptions::new(at(8), 4 * PAGE, 4 * PAGE).to(at(20));
            s.with(p).mremap(&options).map(drop)
        },
    ];
    for call in calls {
        for remembered in [false, true] {
            let mut space = scene();
            let map = space.share();
            if remembered {
                remember(&map, 8);
            }
            beside_a_holder(&mut space, &map, at(9), at(8), call);
        }
    }
}

/// A call is told nothing while an address is held; another one in its area cannot be held any more once the call has begun, although its holder is waited for.
fn beside_a_holder(
    space: &mut AddressSpace,
    map: &SharedMap,
    address: u64,
    another: u64,
    call: Run<'_>,
) {
    let (held, told) = (AtomicBool::new(true), AtomicBool::new(false));
    thread::scope(|s| {
        let (held, told) = (&held, &told);
        let area = map.hold(address).unwrap();
        s.spawn(move || {
            let mut witness = Witness { held, told };
            call(space, &mut witness).unwrap();
        });
        // Until the call has closed the lock, or has gone on without.
        while map.hold(another).is_some() && !told.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        for _ in 0..100 {
            thread::yield_now();
            assert!(map.hold(another).is_none() || told.load(Ordering::SeqCst));
        }
        held.store(false, Ordering::SeqCst);
        drop(area);
    });
}

/// Each stretch of 2 MiB remembers for itself, and some of them share a place.
#[test]
fn calls_wait_for_who_holds_what_is_remembered_elsewhere_in_the_area() {
    const STRETCH: u64 = 512;
    for stretches in [3, 70] {
        let last = stretches - 1;
        for held in [0, 1, last] {
            let mut space = space();
            space.mmap(&memory(0, stretches * STRETCH)).unwrap();
            space.fault(at(0), true).unwrap();
            let map = space.share();
            for stretch in [0, 1, last] {
                remember(&map, stretch * STRETCH);
            }
            let address = at(held * STRETCH);
            let call: Run<'_> = &|s, p| s.with(p).munmap(at(last * STRETCH + 2), PAGE);
            beside_a_holder(&mut space, &map, address, at(STRETCH + 1), call);
            assert!(map.hold(at(last * STRETCH + 2)).is_none());
            assert!(map.hold(at(last * STRETCH + 3)).is_some());
        }
    }
}

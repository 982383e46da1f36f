//! A hostile guest of a range: every kind of call, with random and extreme arguments, and all privileges. No call is answered by an address outside, and the
//! owner of the pages is told of none. `SAMARA_CONFINED_CALLS` chooses how many calls each history has, `SAMARA_CONFINED_SEED` where they begin.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod guest;
#[cfg(feature = "exec")]
mod program;
#[path = "../common/repeat.rs"]
mod repeat;
#[path = "../common/rng.rs"]
mod rng;

use std::collections::HashSet;
use std::mem::{self, Discriminant};
use std::ops::Range;

use guest::Guest;
use rng::Rng;
use samara_mm::abi::{self, SyncFlags};
use samara_mm::{
    AddressSpace, Area, Call, Calls, Capabilities, Config, Errno, FileArg, HugePool, Layout,
    Limits, Moving, Object, PageAdvice, Pages, PrepareOp, SeedVma, VmFlags, Vma,
};

const PAGE: u64 = 4096;

/// Owns the pages of a range, and may refuse. It reads everything that it is told.
struct Owner<'a> {
    range: &'a Range<u64>,
    random: &'a mut Rng,
    undoing: bool,
    told: u64,
}

impl Owner<'_> {
    fn look(&mut self, start: u64, end: u64) {
        let inside = self.range.start <= start && start < end && end <= self.range.end;
        assert!(inside, "{start:#x}-{end:#x} is not in {:#x?}", self.range);
        self.told += 1;
    }

    fn answer(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        self.look(start, end);
        match !self.undoing && self.random.once_in(50) {
            true => Err(Errno::EBUSY),
            false => Ok(()),
        }
    }
}

impl Pages for Owner<'_> {
    fn informed(&self) -> bool {
        true
    }

    fn written(&mut self, start: u64, end: u64) -> bool {
        self.look(start, end);
        self.random.once_in(2)
    }

    fn strays(&mut self, start: u64, end: u64, _: u64, _: Moving) -> bool {
        self.look(start, end);
        self.random.once_in(2)
    }

    fn refuses(&self) -> bool {
        true
    }

    fn asks_what_is_left(&self) -> bool {
        true
    }

    fn left_around(&mut self, start: u64, end: u64, _: u64, _: u64) {
        self.look(start, end);
    }

    fn prepare(&mut self, op: PrepareOp) -> Result<(), Errno> {
        match op {
            PrepareOp::Map { start, end }
            | PrepareOp::Unmap { start, end }
            | PrepareOp::Protect { start, end } => self.answer(start, end),
            PrepareOp::Split { at } => self.answer(at, at + PAGE),
            PrepareOp::Move { from, to, len } => {
                self.look(from, from + len);
                self.answer(to, to + len)
            }
            _ => panic!("{op:?}"),
        }
    }

    fn map(&mut self, start: u64, end: u64, _: &Vma) -> Result<(), Errno> {
        self.answer(start, end)
    }

    fn unmap(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        self.answer(start, end)
    }

    fn vacate(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        self.answer(start, end)
    }

    fn protect(&mut self, start: u64, end: u64, _: &Vma) -> Result<(), Errno> {
        self.answer(start, end)
    }

    fn relocate(&mut self, from: u64, to: u64, len: u64) -> Result<(), Errno> {
        self.look(from, from + len);
        self.answer(to, to + len)
    }

    fn advise(&mut self, start: u64, end: u64, _: &Vma, _: PageAdvice) -> Result<(), Errno> {
        self.answer(start, end)
    }

    fn is_owned_by_reading(&mut self, start: u64, end: u64, _: &Area<'_>) -> bool {
        self.look(start, end);
        self.random.once_in(2)
    }

    fn populate(&mut self, start: u64, end: u64, _: &Area<'_>, _: bool) -> Result<(), Errno> {
        self.answer(start, end)
    }

    fn sync(&mut self, start: u64, end: u64, _: &Vma, _: SyncFlags) -> Result<(), Errno> {
        self.answer(start, end)
    }

    fn object(&mut self, _: u64) -> Result<Object, Errno> {
        Ok(Object::none())
    }

    fn undoing(&mut self) {
        self.undoing = true;
    }
}

/// All that a call may have given the guest lies in the range.
fn check_answer(call: &Call, answer: Result<u64, Errno>, range: &Range<u64>) {
    let (at, len) = match (call, answer) {
        (Call::Mmap { len, .. }, Ok(at)) => (at, *len),
        // Of a length that does not grow, Linux does not look whether all of it is mapped.
        (Call::Mremap { .. }, Ok(at)) => (at, PAGE),
        (Call::Shmat { segment, .. }, Ok(at)) => (at, segment.as_ref().map_or(0, |s| s.size)),
        // 0: there is no heap.
        (Call::Brk { .. }, Ok(at)) if at > 0 => (at, 0),
        _ => return,
    };
    let end = at.checked_add(len.next_multiple_of(PAGE)).unwrap();
    assert!(
        range.start <= at && end <= range.end,
        "{call:x?}: {at:#x}, {len:#x}"
    );
}

/// The privileges and settings that a guest may have.
fn settings(seed: u64) -> Config {
    let capabilities = Capabilities {
        ipc_lock: true,
        sys_admin: true,
        sys_nice: true,
        sys_rawio: !seed.is_multiple_of(3),
        sys_resource: true,
    };
    Config {
        anon_vma_names: true,
        pkeys: true,
        numa_nodes: 2,
        shmem_huge: seed.is_multiple_of(2),
        read_implies_exec: seed.is_multiple_of(5),
        task_size: 0xff_ffff_ffff_f000,
        huge_pool: seed.is_multiple_of(4).then(|| HugePool::new(8).unwrap()),
        capabilities,
        ..Config::default()
    }
}

/// Counts: the notifications of the owner, and the kinds of calls that have succeeded.
#[derive(Default)]
struct Seen {
    told: u64,
    succeeded: HashSet<Discriminant<Call>>,
}

fn play(range: Range<u64>, seed: u64, calls: u64, seen: &mut Seen) {
    let (config, layout) = settings(seed).within(range.clone()).unwrap();
    let config = match seed % 7 {
        // Calls of the other table, with unbounded bases.
        6 => Config {
            calls: Calls::Other {
                mmap_base: 0xf7ff_e000,
                legacy_base: 0x5555_5000,
                end: 0xffff_e000,
            },
            ..config
        },
        _ => config,
    };
    let layout = Layout {
        bottom_up: seed % 5 == 4,
        ..layout
    };
    let layout = match seed % 3 {
        2 => Layout {
            start_brk: 0,
            brk: 0,
            ..layout
        },
        _ => layout,
    };
    let mut guest = Guest::new(range.clone(), seed);
    let mut space = AddressSpace::new(config, Limits::UNLIMITED, layout).unwrap();
    for number in 0..calls {
        let call = guest.call();
        let mut random = Rng::new(guest.random.next());
        let mut owner = Owner {
            range: &range,
            random: &mut random,
            undoing: false,
            told: 0,
        };
        if number % 8 == 7 {
            // An access: stacks grow.
            let (address, write) = (guest.address(), guest.random.once_in(2));
            let _ = space.fault_with(address, write, &mut owner);
            let _ = space.grow_stack_with(address, &mut owner);
        } else {
            let answer = match number % 8 {
                6 => space.perform(&call),
                _ => space.perform_with(&call, &mut owner),
            };
            check_answer(&call, answer, &range);
            if answer.is_ok() {
                seen.succeeded.insert(mem::discriminant(&call));
            }
        }
        seen.told += owner.told;
        let low = space.areas().next().map_or(range.start, |area| area.start);
        let high = space.areas().next_back().map_or(range.end, |area| area.end);
        assert!(range.start <= low && high <= range.end, "{call:x?}");
        if number % 1024 == 0 {
            space
                .check()
                .unwrap_or_else(|broken| panic!("{call:x?}: {broken}"));
        }
        // What is sealed, and who may no longer write and execute, is so for good: another guest then.
        if number % 4096 == 4095 {
            space = AddressSpace::new(space.config().clone(), Limits::UNLIMITED, layout).unwrap();
        }
    }
}

fn variable(name: &str, otherwise: u64) -> u64 {
    let set = std::env::var(name).ok();
    set.map_or(otherwise, |text| text.parse().unwrap())
}

#[test]
fn a_hostile_guest_reaches_nothing_outside_its_range() {
    let calls = variable("SAMARA_CONFINED_CALLS", if cfg!(miri) { 60 } else { 1_500 });
    let seed = variable("SAMARA_CONFINED_SEED", 1);
    let ranges = [
        // The region of the guide for library systems.
        0x7f00_0000_0000..0x7f00_0004_0000,
        0x7f00_0000_0000..0x7f00_0100_0000,
        0x5555_5555_9000..0x5555_5555_a000,
        0x3fff_f000..0x4000_4000,
        0x7fff_0000..0x8001_0000,
        0xffff_0000..0x1_0001_0000,
        0x1000..0x9000,
        0x7fff_fff0_0000..0x8000_0010_0000,
        0x80_0000_0000_0000..0x80_0000_0040_0000,
        0..0x10_0000,
    ];
    let mut seen = Seen::default();
    for (range, number) in ranges.iter().zip(0..) {
        for seed in seed..seed + 7 {
            let _repeat = repeat::Repeat(format!(
                "SAMARA_CONFINED_SEED={seed} SAMARA_CONFINED_CALLS={calls} cargo test -p samara-mm --all-features --test confined"
            ));
            play(range.clone(), seed * 16 + number, calls, &mut seen);
        }
    }
    if !cfg!(miri) {
        assert!(seen.told > calls * 20, "told {} times only", seen.told);
        let kinds = seen.succeeded.len();
        assert_eq!(kinds, 28, "of so many kinds of calls one succeeded");
    }
}

/// The guide's region, and what a host's owner was once told to map: its own program.
#[test]
fn what_was_once_mapped_outside_is_not() {
    let range = 0x7f00_0000_0000..0x7f00_0004_0000;
    let (config, layout) = Config::default().within(range.clone()).unwrap();
    let mut space = AddressSpace::new(config, Limits::default(), layout).unwrap();
    assert_eq!(space.brk(0x5555_5555_a000), range.start);
    let mmap = |addr, flags| Call::Mmap {
        addr,
        len: PAGE,
        prot: 3,
        flags: flags | abi::MAP_PRIVATE | abi::MAP_ANONYMOUS,
        file: FileArg::None,
        offset: 0,
    };
    let low = mmap(0, abi::MAP_32BIT);
    assert_eq!(space.perform(&low), Err(Errno::ENOMEM));
    let fixed = mmap(0x5555_0000_0000, abi::MAP_FIXED);
    assert_eq!(space.perform(&fixed), Err(Errno::EPERM));
    let above = mmap(range.end, abi::MAP_FIXED);
    assert_eq!(space.perform(&above), Err(Errno::ENOMEM));
    let page = space.perform(&mmap(0, 0)).unwrap();
    let mremap = |new_addr| Call::Mremap {
        old_addr: page,
        old_len: PAGE,
        new_len: PAGE,
        flags: abi::MREMAP_MAYMOVE | abi::MREMAP_FIXED,
        new_addr,
    };
    assert_eq!(space.perform(&mremap(0x5555_0000_0000)), Err(Errno::EPERM));
    assert_eq!(space.perform(&mremap(range.end)), Err(Errno::EINVAL));
    assert_eq!(space.perform(&mremap(range.start)), Ok(range.start));
    assert_eq!(space.perform(&mmap(0, 0)), Ok(range.end - PAGE));
}

#[test]
fn impossible_ranges_are_refused() {
    let within = |range| Config::default().within(range).map(|_| ());
    let pages = [(1, 1), (2, 1)].map(|(start, end)| (start * PAGE, end * PAGE));
    let odd = [(0x1000, 0x2001), (0x1001, 0x3000), (0x1000, 0x1800)];
    for (start, end) in pages.into_iter().chain(odd) {
        assert_eq!(within(start..end), Err(Errno::EINVAL), "{start:x}-{end:x}");
    }
    for end in [0x8000_0000_0000, u64::MAX - 4095] {
        assert_eq!(within(0x1000..end), Err(Errno::ENOMEM), "{end:#x}");
    }
    assert_eq!(within(0x7fff_ffff_e000..0x7fff_ffff_f000), Ok(()));
    assert_eq!(within(0..0x1000), Ok(()));
}

/// Settings may change while a guest runs; what confines it stays, and privileges give it nothing below.
#[test]
fn privileges_that_come_later_reach_nothing_below() {
    let range = 0x4000_0000..0x4010_0000u64;
    let (config, layout) = Config::default().within(range.clone()).unwrap();
    let mut space = AddressSpace::new(config, Limits::default(), layout).unwrap();
    let mut config = space.config().clone();
    config.capabilities.sys_rawio = true;
    (config.mmap_min_addr, config.fixed_min_addr) = (0, 0);
    space.set_config(config);
    for addr in [0, 0x1000, range.start - PAGE] {
        let page = samara_mm::MmapOptions::anonymous(PAGE).fixed(addr);
        assert_eq!(space.mmap(&page), Err(Errno::EPERM));
        let hint = samara_mm::MmapOptions::anonymous(PAGE).hint(addr);
        let placed = space.mmap(&hint).unwrap();
        assert!(range.contains(&placed));
        space.munmap(placed, PAGE).unwrap();
    }
    let stack = SeedVma {
        start: range.start + 2 * PAGE,
        end: range.start + 3 * PAGE,
        prot: 3,
        shared: false,
        offset: 0,
        file: None,
        flags: Some(VmFlags::READ | VmFlags::WRITE | VmFlags::MAY_ALL | VmFlags::GROWSDOWN),
        name: None,
        touched: false,
    };
    space.seed(stack).unwrap();
    assert_eq!(space.grow_stack(range.start - PAGE), Err(Errno::EPERM));
    assert_eq!(space.grow_stack(range.start), Ok(()));
}

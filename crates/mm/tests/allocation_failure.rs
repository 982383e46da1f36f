//! Every allocation that a call makes fails once: the call must say `ENOMEM`, and every page must be as before the
//! call or as after it.

use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::cell::Cell;

use samara_mm::{AddressSpace, Call, Config, Errno, FileArg, Layout, Limits};

/// Fails one allocation of this thread when its countdown reaches 0, or all from then on.
struct Countdown;

thread_local! {
    static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
    static FAILED: Cell<bool> = const { Cell::new(false) };
    static FOR_GOOD: Cell<bool> = const { Cell::new(false) };
}

// SAFETY: everything is passed on to the system's allocator, or refused.
unsafe impl GlobalAlloc for Countdown {
    unsafe fn alloc(&self, memory: Memory) -> *mut u8 {
        match LEFT.get() {
            Some(0) => {
                if !FOR_GOOD.get() {
                    LEFT.set(None);
                }
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
static ALLOCATOR: Countdown = Countdown;

const BASE: u64 = 0x1_0000_0000;
const PAGES: u64 = if cfg!(miri) { 16 } else { 64 };

fn random(state: &mut u64, n: u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n
}

fn call(state: &mut u64) -> Call {
    let page = random(state, PAGES);
    let addr = BASE + page * 4096;
    let len = (1 + random(state, (PAGES - page).min(12))) * 4096;
    match random(state, 10) {
        0..3 => Call::Mmap {
            addr,
            len,
            prot: random(state, 8),
            flags: 0x30 + 1 + random(state, 2),
            file: FileArg::None,
            offset: 0,
        },
        3..5 => Call::Munmap { addr, len },
        5..7 => Call::Mprotect {
            addr,
            len,
            prot: random(state, 4),
            pkey: -1,
        },
        7 => Call::Madvise {
            addr,
            len,
            advice: [1, 2, 4, 10, 16, 102, 103][random(state, 7) as usize],
        },
        8 => Call::SetVmaName {
            addr,
            len,
            name: Some("named".into()),
        },
        _ => Call::Mremap {
            old_addr: addr,
            old_len: len,
            new_len: len,
            flags: 3,
            new_addr: BASE + random(state, PAGES - 12) * 4096,
        },
    }
}

/// A call, or what an address space is told.
#[derive(Debug)]
enum Step {
    Call(Call),
    Poison(u64, u64),
    Brought(u64, u64),
}

impl Step {
    fn draw(state: &mut u64) -> Self {
        let page = random(state, PAGES);
        let (start, pages) = (BASE + page * 4096, 1 + random(state, PAGES - page));
        match random(state, 12) {
            0 => Step::Poison(start, start + pages * 4096),
            1 => Step::Brought(start, start + pages.min(4) * 4096),
            _ => Step::Call(call(state)),
        }
    }

    /// The first address that it is about, and the one beyond.
    fn range(&self) -> (u64, u64) {
        match *self {
            Step::Call(Call::Mmap { addr, len, .. }) => (addr, addr + len),
            Step::Call(ref call) => {
                let (addr, len) = call.range().unwrap_or((0, 0));
                (addr, addr + len)
            }
            Step::Poison(start, end) | Step::Brought(start, end) => (start, end),
        }
    }

    fn perform(&self, space: &mut AddressSpace) -> Result<u64, Errno> {
        match *self {
            Step::Call(ref call) => space.perform(call),
            Step::Poison(start, end) => space.poison(start, end).map(|()| 0),
            Step::Brought(start, end) => space.note_brought(start, end).map(|()| 0),
        }
    }
}

/// A page of the arena, without the ends of VMAs: its VMA's flags and name, and, if there is a
/// marker, the result of an access.
type Page = Option<(u64, String, Option<Result<(), Errno>>)>;

#[allow(clippy::unwrap_used, reason = "a helper of tests")]
fn pages(space: &AddressSpace) -> Vec<Page> {
    let mut looked_at = space.try_clone().unwrap();
    (0..PAGES)
        .map(|page| BASE + page * 4096)
        .map(|addr| {
            let line = space.area_at(addr)?;
            let marked = space.has_markers(addr, addr + 4096);
            let found = marked.then(|| looked_at.fault(addr, false));
            Some((line.flags.bits(), line.name.to_string(), found))
        })
        .collect()
}

#[allow(clippy::unwrap_used, reason = "a helper of tests")]
fn space() -> AddressSpace {
    let config = Config {
        anon_vma_names: true,
        ..Config::default()
    };
    AddressSpace::new(config, Limits::default(), Layout::default()).unwrap()
}

#[test]
fn a_failed_allocation_is_enomem_and_leaves_no_page_in_between() {
    let mut state = 7;
    let mut space = space();
    let mut failures = 0;
    let (calls, least) = if cfg!(miri) { (25, 5) } else { (1_500, 500) };
    for _ in 0..calls {
        let step = Step::draw(&mut state);
        let before = pages(&space);
        let mut after = space.try_clone().unwrap();
        let expected = step.perform(&mut after);
        let done = pages(&after);
        for countdown in 0.. {
            let mut victim = space.try_clone().unwrap();
            FAILED.set(false);
            LEFT.set(Some(countdown));
            let result = step.perform(&mut victim);
            LEFT.set(None);
            victim.check().unwrap();
            if !FAILED.get() {
                assert_eq!(result, expected, "{step:?}");
                break;
            }
            failures += 1;
            // Nodes that are refused together may still come one by one: in a move, and where marks are copied.
            let moves = matches!(step, Step::Call(Call::Mremap { .. }));
            let (start, end) = step.range();
            let copies = result.is_ok() && space.has_markers(start, end);
            if result == expected && (moves || copies) {
                assert_eq!(pages(&victim), done, "{step:?}");
                continue;
            }
            assert_eq!(
                result,
                Err(Errno::ENOMEM),
                "{step:?}, allocation {countdown}"
            );
            if moves {
                assert_eq!(pages(&victim), before, "{step:?}");
            }
            for (page, now) in pages(&victim).into_iter().enumerate() {
                assert!(
                    now == before[page] || now == done[page],
                    "{step:?}, page {page}: {:?}, {now:?}, {:?}",
                    before[page],
                    done[page]
                );
            }
        }
        space = after;
        if random(&mut state, 2) == 0 {
            let _ = space.fault(BASE + random(&mut state, PAGES) * 4096, true);
        }
    }
    assert!(failures > least, "only {failures} allocations failed");
}

#[test]
fn a_fork_that_finds_no_memory_leaves_the_parent_alone() {
    let mut state = 3;
    let mut space = space();
    for _ in 0..if cfg!(miri) { 6 } else { 200 } {
        let _ = Step::draw(&mut state).perform(&mut space);
    }
    let before = pages(&space);
    let expected = pages(&space.fork().unwrap());
    for for_good in [false, true] {
        FOR_GOOD.set(for_good);
        for countdown in 0.. {
            FAILED.set(false);
            LEFT.set(Some(countdown));
            let child = space.fork();
            LEFT.set(None);
            space.check().unwrap();
            assert_eq!(pages(&space), before);
            // Nodes that are refused together may still come one by one.
            match child {
                Ok(child) => {
                    assert!(!FAILED.get() || !for_good);
                    child.check().unwrap();
                    assert_eq!(pages(&child), expected);
                }
                Err(errno) => assert_eq!(errno, Errno::ENOMEM),
            }
            if !FAILED.get() {
                break;
            }
        }
    }
}

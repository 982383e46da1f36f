//! Calls that fail half-way, compared with the running kernel: they may split areas, and huge pages
//! with them, before they fail.
//!
//! The kernel's side is in children: what is sealed stays, and limits are a whole process's.

use std::fs;
use std::io::{BufRead, BufReader};

use samara_mm::abi::{
    MADV_DONTFORK, MADV_DONTNEED, MADV_GUARD_INSTALL, MADV_HUGEPAGE, MAP_ANONYMOUS, MAP_FIXED,
    MAP_PRIVATE, MREMAP_DONTUNMAP, MREMAP_FIXED, MREMAP_MAYMOVE,
};
use samara_mm::process::Process;
use samara_mm::{Call, Config, FileArg, Layout, Limits, PMD_SIZE};

use crate::memory::{Host, machine};
use crate::world::{PAGE, STRETCH as TABLE};

#[path = "../common/running.rs"]
mod running;

/// Two huge pages, a gap of as many, and two more.
const PAGES: u64 = 6 * TABLE;

/// The reason why a call is refused.
#[derive(Clone, Copy, Debug)]
enum Limit {
    None,
    AddressSpace,
    Data,
    /// The number of areas that splits may still add.
    Areas(u32),
}

/// The state before a call.
struct State {
    calls: Vec<Call>,
    written: Vec<u64>,
    /// Performed when the pages are there.
    last: Vec<Call>,
}

/// Returns `true` if this kernel has transparent huge pages.
fn possible() -> bool {
    let enabled = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    let possible = enabled.is_ok_and(|text| !text.contains("[never]"));
    if !possible {
        println!("skipped: this kernel has no transparent huge pages");
    }
    possible
}

/// Private memory at a fixed place.
fn anonymous(addr: u64, pages: u64, prot: u64) -> Call {
    Call::Mmap {
        addr,
        len: pages * PAGE,
        prot,
        flags: MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
        file: FileArg::None,
        offset: 0,
    }
}

/// Two pairs of huge pages, and what happens to them.
fn state(start: u64, last: &[Call]) -> State {
    let mut calls = Vec::new();
    for addr in [start, start + 4 * PMD_SIZE] {
        calls.push(anonymous(addr, 2 * TABLE, 3));
        calls.push(Call::Madvise {
            addr,
            len: 2 * PMD_SIZE,
            advice: MADV_HUGEPAGE,
        });
    }
    State {
        calls,
        written: [0, 1, 4, 5].map(|n| start + n * PMD_SIZE).to_vec(),
        last: last.to_vec(),
    }
}

/// Reserves memory below what the kernel maps by itself, for each test in another place: what lies above need not be read.
fn reserve(test: u64) -> u64 {
    let len = (PAGES * PAGE + 2 * PMD_SIZE) as usize;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: new memory.
    unsafe {
        let start = libc::mmap((test << 40) as *mut _, len, 0, flags, -1, 0);
        assert_ne!(start, libc::MAP_FAILED);
        (start as u64 + PAGE).next_multiple_of(PMD_SIZE)
    }
}

/// Performs a call of the kernel. Returns its result, or its error below zero.
fn perform(call: &Call) -> i64 {
    let (number, six) = match *call {
        Call::Mmap {
            addr,
            len,
            prot,
            flags,
            ..
        } => (libc::SYS_mmap, [addr, len, prot, flags, u64::MAX, 0]),
        Call::Munmap { addr, len } => (libc::SYS_munmap, [addr, len, 0, 0, 0, 0]),
        Call::Mprotect {
            addr, len, prot, ..
        } => (libc::SYS_mprotect, [addr, len, prot, 0, 0, 0]),
        Call::Madvise { addr, len, advice } => {
            (libc::SYS_madvise, [addr, len, advice as u64, 0, 0, 0])
        }
        Call::Mlock { addr, len, .. } => (libc::SYS_mlock, [addr, len, 0, 0, 0, 0]),
        Call::Mseal { addr, len, flags } => (libc::SYS_mseal, [addr, len, flags, 0, 0, 0]),
        Call::Mremap {
            old_addr,
            old_len,
            new_len,
            flags,
            new_addr,
        } => (
            libc::SYS_mremap,
            [old_addr, old_len, new_len, flags, new_addr, 0],
        ),
        _ => return -i64::from(libc::ENOSYS),
    };
    let [a, b, c, d, e, f] = six;
    // SAFETY: calls on memory of this test.
    match unsafe { libc::syscall(number, a, b, c, d, e, f) } {
        // SAFETY: a number of this thread's.
        -1 => -i64::from(unsafe { *libc::__errno_location() }),
        result => result,
    }
}

/// In a child: makes areas until no other can be divided. Returns where, to be unmapped one by one.
fn fill_areas(most: u64) -> u64 {
    let flags = libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let map = |pages: u64, more: i32| {
        let len = (pages * PAGE) as usize;
        // SAFETY: new memory.
        unsafe { libc::mmap(std::ptr::null_mut(), len, 0, flags | more, -1, 0) }
    };
    let many = map(2 * most, libc::MAP_PRIVATE) as u64;
    let protect = |i: u64| {
        perform(&Call::Mprotect {
            addr: many + 2 * i * PAGE,
            len: PAGE,
            prot: 1,
            pkey: -1,
        })
    };
    let _ = (0..most).take_while(|i| protect(*i) == 0).count();
    // One more may be mapped than areas may be divided into; these join nothing.
    while map(1, libc::MAP_SHARED) != libc::MAP_FAILED {}
    free_area(many);
    many + 2 * PAGE
}

fn free_area(addr: u64) {
    perform(&Call::Munmap { addr, len: PAGE });
}

/// The kernel's side of calls that are performed one after the other, each on the state anew.
struct Child {
    pid: i32,
    results: i32,
    go: i32,
}

impl Child {
    /// Without what is sealed, which could not be made anew, there may be several calls; with each, the limit.
    fn start(start: u64, state: &State, calls: &[(Limit, Call)]) -> Self {
        let most = fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
        let most: u64 = most.trim().parse().unwrap();
        let (mut results, mut go) = ([0; 2], [0; 2]);
        // SAFETY: the child of a process with threads only makes system calls, and writes to memory that it has just mapped.
        unsafe {
            assert_eq!(libc::pipe(results.as_mut_ptr()), 0);
            assert_eq!(libc::pipe(go.as_mut_ptr()), 0);
            let pid = libc::fork();
            if pid == 0 {
                libc::close(go[1]);
                Self::work(start, state, calls, most, results[1], go[0]);
            }
            assert!(pid > 0);
            libc::close(results[1]);
            libc::close(go[0]);
            let (results, go) = (results[0], go[1]);
            Child { pid, results, go }
        }
    }

    /// # Safety
    /// In a child, to which the two descriptors belong.
    unsafe fn work(
        start: u64,
        state: &State,
        calls: &[(Limit, Call)],
        most: u64,
        results: i32,
        go: i32,
    ) -> ! {
        let (mut many, mut left) = (0, 0);
        for (limit, call) in calls {
            let len = PAGES * PAGE;
            perform(&Call::Munmap { addr: start, len });
            if state.calls.iter().any(|call| perform(call) < 0) {
                break;
            }
            for at in &state.written {
                // SAFETY: it has just been mapped.
                unsafe { (*at as *mut u8).write_volatile(1) };
            }
            if state.last.iter().any(|call| perform(call) < 0) {
                break;
            }
            let resource = match limit {
                Limit::None => None,
                Limit::AddressSpace => Some(libc::RLIMIT_AS),
                Limit::Data => Some(libc::RLIMIT_DATA),
                Limit::Areas(number) => {
                    if many == 0 {
                        many = fill_areas(most);
                    }
                    while left < *number {
                        free_area(many);
                        many += 2 * PAGE;
                        left += 1;
                    }
                    None
                }
            };
            if let Some(resource) = resource {
                let small = libc::rlimit {
                    rlim_cur: PMD_SIZE,
                    rlim_max: PMD_SIZE,
                };
                // SAFETY: a limit of this process.
                unsafe { libc::setrlimit(resource, &raw const small) };
            }
            // Before the call, and behind it.
            for call in [None, Some(call)] {
                let result = call.map_or(0, perform);
                // SAFETY: descriptors of this process, and room for a byte.
                unsafe {
                    libc::write(results, (&raw const result).cast(), 8);
                    libc::read(go, [0u8].as_mut_ptr().cast(), 1);
                }
            }
        }
        // SAFETY: the end.
        unsafe { libc::_exit(0) }
    }

    /// The next answer, or 0 before each call, and the areas then. `None` if this kernel may not do what makes the state.
    fn next(&self, start: u64) -> Option<(i64, Vec<String>)> {
        let mut result = 0i64;
        // SAFETY: descriptors of this test, and room for the number.
        let got = unsafe { libc::read(self.results, (&raw mut result).cast(), 8) };
        let smaps = fs::File::open(format!("/proc/{}/smaps", self.pid)).unwrap();
        let found = areas(BufReader::new(smaps), start);
        // SAFETY: as above.
        unsafe { libc::write(self.go, [0u8].as_ptr().cast(), 1) };
        (got == 8).then_some((result, found))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: descriptors and the child of this test.
        unsafe {
            libc::close(self.go);
            libc::close(self.results);
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
        }
    }
}

/// Each area with what it has of pages, huge ones among them.
fn areas(smaps: impl BufRead, start: u64) -> Vec<String> {
    let end = start + PAGES * PAGE;
    let (mut found, mut inside) = (Vec::<String>::new(), false);
    for line in smaps.lines().map(Result::unwrap) {
        let first = line.split(' ').next().unwrap();
        if let Some((from, _)) = first.split_once('-')
            && let Ok(from) = u64::from_str_radix(from, 16)
        {
            if from >= end {
                break;
            }
            inside = from >= start;
            if inside {
                found.extend(line.split(" 00000000 ").next().map(str::to_owned));
            }
        } else if inside && ["Rss:", "AnonHugePages:"].contains(&first) {
            let last = found.last_mut().unwrap();
            last.extend(line.split_whitespace().flat_map(|word| [" ", word]));
        }
    }
    found
}

/// The engine's answer, and its areas; at the end what is wrong with them.
fn of_engine(start: u64, state: &State, limit: Limit, call: &Call) -> (i64, Vec<String>) {
    let machine = machine(16 << 10);
    let begin = |config: Config, limits: Limits| -> Process<Host> {
        let process = Process::new(&machine, config, limits, Layout::default()).unwrap();
        for call in &state.calls {
            process.perform(call).unwrap();
        }
        for at in &state.written {
            assert_eq!(process.copy_in(*at, &[1]), 1);
        }
        for call in &state.last {
            process.perform(call).unwrap();
        }
        process
    };
    let (mut config, mut limits) = (Config::default(), Limits::default());
    config.kernel = running::running();
    // The kernel's side is root's.
    limits.memlock = u64::MAX;
    let (count, bytes) = begin(config.clone(), limits).with_space(|space| {
        let bytes = space.areas().map(|area| area.end - area.start).sum();
        (space.area_count() as u32, bytes)
    });
    match limit {
        Limit::None => {}
        Limit::AddressSpace => limits.address_space = bytes,
        Limit::Data => limits.data = bytes,
        Limit::Areas(left) => config.max_map_count = count + left,
    }
    let process = begin(config, limits);
    let result = process.perform(call);
    let result = result.map_or_else(|error| -i64::from(error.0), |value| value as i64);
    let mut text = String::new();
    process.write_smaps(&mut text).unwrap();
    let mut areas = areas(text.as_bytes(), start);
    areas.extend(machine.check().err());
    (result, areas)
}

/// Compares these calls in one child.
fn compare(start: u64, state: &State, calls: &[(Limit, Call)]) {
    let child = Child::start(start, state, calls);
    for (limit, call) in calls {
        let Some(((_, before), kernel)) = child.next(start).zip(child.next(start)) else {
            println!("skipped: this kernel does not do {:?}", state.last);
            return;
        };
        let huge = before
            .iter()
            .flat_map(|area| area.split_once("AnonHugePages: "));
        let huge = huge.map(|(_, kib)| kib.trim_end_matches(" kB").parse::<u64>().unwrap());
        if huge.sum::<u64>() << 10 != 4 * PMD_SIZE {
            println!("skipped: the kernel has no huge page now");
            continue;
        }
        let engine = of_engine(start, state, *limit, call);
        assert_eq!(engine, kernel, "{limit:?}, {call:x?} from {start:#x}");
    }
}

fn unmap(start: u64, end: u64) -> Call {
    let (addr, len) = (start, end - start);
    Call::Munmap { addr, len }
}

fn protect(start: u64, end: u64) -> Call {
    Call::Mprotect {
        addr: start,
        len: end - start,
        prot: 1,
        pkey: -1,
    }
}

fn advise(start: u64, end: u64, advice: i32) -> Call {
    let (addr, len) = (start, end - start);
    Call::Madvise { addr, len, advice }
}

fn lock(start: u64, end: u64) -> Call {
    let (addr, len) = (start, end - start);
    Call::Mlock {
        addr,
        len,
        flags: 0,
    }
}

fn remap(from: u64, old: u64, new: u64, flags: u64, to: u64) -> Call {
    Call::Mremap {
        old_addr: from,
        old_len: old * PAGE,
        new_len: new * PAGE,
        flags,
        new_addr: to,
    }
}

const FIXED: u64 = MREMAP_MAYMOVE | MREMAP_FIXED;

/// Returns an address: this many tables and pages from the start on.
fn at(start: u64, tables: u64, pages: u64) -> u64 {
    start + tables * PMD_SIZE + pages * PAGE
}

#[test]
fn what_reaches_into_sealed_memory_is_cut_where_it_begins() {
    if !possible() {
        return;
    }
    let start = reserve(1);
    let at = |tables, pages| at(start, tables, pages);
    let seal = |tables| Call::Mseal {
        addr: at(tables, 0),
        len: PMD_SIZE,
        flags: 0,
    };
    let low = state(start, &[seal(1)]);
    let high = state(start, &[seal(5)]);
    let unreadable = state(start, &[protect(at(1, 0), at(2, 0)), seal(1)]);
    let none = Limit::None;
    for (state, limit, call) in [
        (&low, none, unmap(at(0, 7), at(2, 0))),
        (&low, none, unmap(at(0, 7), at(1, 9))),
        (&low, none, unmap(at(0, 0), at(2, 0))),
        (&low, none, unmap(at(1, 7), at(2, 0))),
        (&low, Limit::Areas(0), unmap(at(0, 7), at(2, 0))),
        (&low, none, anonymous(at(0, 7), 2 * TABLE - 7, 1)),
        (&low, none, anonymous(at(0, 7), 4 * TABLE, 1)),
        (&low, Limit::Data, anonymous(at(0, 7), 3 * TABLE, 3)),
        (&low, none, protect(at(0, 7), at(2, 0))),
        (&low, none, remap(at(0, 7), 1000, TABLE, 0, 0)),
        (&low, none, remap(at(1, 7), 9, 9, FIXED, at(3, 0))),
        (&high, none, remap(at(0, 0), 519, 519, FIXED, at(4, 5))),
        (&high, none, remap(at(0, 3), 512, 510, FIXED, at(4, 5))),
        (&high, none, remap(at(0, 3), 9, 9, FIXED, at(4, 508))),
        (&unreadable, none, advise(at(0, 7), at(2, 0), MADV_DONTNEED)),
        (&unreadable, none, advise(at(0, 7), at(2, 0), MADV_DONTFORK)),
    ] {
        compare(start, state, &[(limit, call)]);
    }
}

#[test]
fn what_a_limit_forbids_is_cut_where_it_would_have_replaced() {
    if !possible() {
        return;
    }
    let start = reserve(2);
    let at = |tables, pages| at(start, tables, pages);
    let state = state(start, &[]);
    for limit in [Limit::AddressSpace, Limit::Data] {
        for call in [
            anonymous(at(0, 7), 3 * TABLE, 3),
            anonymous(at(1, 7), 3 * TABLE, 3),
            anonymous(at(3, 7), TABLE, 3),
            remap(at(0, 7), 100, 700, FIXED, at(4, 5)),
            remap(at(0, 7), 100, 2000, FIXED, at(4, 5)),
            remap(at(0, 7), 100, 100, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0),
        ] {
            compare(start, &state, &[(limit, call)]);
        }
    }
}

#[test]
fn at_the_limit_on_areas_nothing_is_cut_that_is_not_divided() {
    if !possible() {
        return;
    }
    let start = reserve(3);
    let at = |tables, pages| at(start, tables, pages);
    let state = state(start, &[]);
    let mut calls = Vec::new();
    for limit in [0, 1, 2].map(Limit::Areas) {
        for call in [
            anonymous(at(0, 7), 100, 1),
            anonymous(at(0, 7), 4 * TABLE, 1),
            unmap(at(0, 7), at(0, 107)),
            unmap(at(0, 7), at(4, 9)),
            protect(at(0, 7), at(0, 107)),
            protect(at(0, 0), at(0, 107)),
            protect(at(0, 7), at(3, 0)),
            advise(at(0, 7), at(0, 107), MADV_DONTFORK),
            advise(at(0, 7), at(5, 7), MADV_DONTFORK),
            lock(at(0, 7), at(0, 107)),
            lock(at(0, 7), at(5, 7)),
            remap(at(0, 7), 100, 50, 0, 0),
            remap(at(0, 7), 100, 100, FIXED, at(4, 5)),
            remap(at(0, 7), 100, 50, FIXED, at(4, 5)),
        ] {
            calls.push((limit, call));
        }
    }
    compare(start, &state, &calls);
}

#[test]
fn advice_that_fails_on_the_way_has_done_what_lies_before() {
    if !possible() {
        return;
    }
    let start = reserve(4);
    let at = |tables, pages| at(start, tables, pages);
    let plain = state(start, &[]);
    let locked = state(start, &[lock(at(1, 0), at(2, 0))]);
    let mut calls = Vec::new();
    for end in [at(2, 0), at(3, 0), at(4, 9)] {
        let advices = [MADV_DONTNEED, MADV_GUARD_INSTALL, MADV_DONTFORK];
        calls.extend(advices.map(|advice| (Limit::None, advise(at(0, 7), end, advice))));
        calls.push((Limit::None, protect(at(0, 7), end)));
    }
    for state in [&plain, &locked] {
        compare(start, state, &calls);
    }
    let hole = remap(at(0, 7), 1100, 1100, FIXED, at(4, 5));
    compare(start, &plain, &[(Limit::None, hole)]);
}

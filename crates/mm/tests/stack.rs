//! The stack depth of calls and faults, of which a kernel has little: measured by the bytes of a
//! pattern below them that they overwrite.
//!
//! The limits hold for optimised builds: `cargo test --release -p samara-mm --all-features --test stack`. Others only print. Measured are a machine of a program and a heap that
//! takes no stack: what a kernel's own locks, heap and sources take comes on top.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
#![cfg(all(feature = "hosted", feature = "exec", target_arch = "x86_64"))]

use std::alloc::{GlobalAlloc, Layout as Bytes};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicUsize, Ordering};

use samara_mm::abi::{
    MADV_COLLAPSE, MADV_DONTNEED, MADV_FREE, MADV_GUARD_INSTALL, MADV_GUARD_REMOVE, MADV_HUGEPAGE,
    MADV_PAGEOUT, MADV_REMOVE, MAP_ANONYMOUS, MAP_FIXED, MAP_POPULATE, MAP_PRIVATE, MAP_SHARED,
    MREMAP_DONTUNMAP, MREMAP_FIXED, MREMAP_MAYMOVE, MS_SYNC, PROT_NONE, PROT_READ, PROT_WRITE,
};
use samara_mm::exec::{Auxiliary, Choice, Exec, Personality, Program, SetId, Settings};
use samara_mm::process::{
    Access, ForkMode, Hosted, Inode, Machine, PAGE_BYTES, PageSource, Process,
};
use samara_mm::{Call, Config, Counted, Errno, File, FileArg, FileId, FileKind, Layout, Limits};
use samara_paging::Arena;

/// The most that anything takes in an optimised build, in bytes.
const MOST: usize = 4096;

/// The most that each may take, at most [`MOST`].
const LIMITS: [(&str, usize); 20] = [
    ("brk", 3584),
    ("copy", 2560),
    ("exec", MOST),
    ("exit", 1792),
    ("fault, copy-on-write", 1024),
    ("fault, file", 2688),
    ("fault, huge", 2176),
    ("fault, shared table", 2176),
    ("fault, write", 960),
    ("fault, zero page", 1664),
    ("fork", 3328),
    ("madvise", MOST),
    ("mlock", 3328),
    ("mmap", MOST),
    ("mmap, populated", 3456),
    ("mprotect", 3712),
    ("mremap", MOST),
    ("msync", 3840),
    ("munlock", 3072),
    ("munmap", 3584),
];

/// A heap that takes no stack to speak of, and gives nothing back.
struct Heap(UnsafeCell<[u8; SIZE]>, AtomicUsize);

const SIZE: usize = 256 << 20;

// SAFETY: each byte is given out once.
unsafe impl Sync for Heap {}

// SAFETY: as above.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, bytes: Bytes) -> *mut u8 {
        let size = bytes.size() + bytes.align();
        let at = self.1.fetch_add(size, Ordering::Relaxed);
        if at + size > SIZE {
            return std::ptr::null_mut();
        }
        let start = self.0.get().addr() + at;
        let skipped = start.next_multiple_of(bytes.align()) - start;
        // SAFETY: within the bytes.
        unsafe { self.0.get().cast::<u8>().add(at + skipped) }
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Bytes) {}
}

#[global_allocator]
static HEAP: Heap = Heap(UnsafeCell::new([0; SIZE]), AtomicUsize::new(0));

const PATTERN: u64 = 0x5aa5_c33c_7117_e00e;
/// Words that are painted: more than any call takes.
const WORDS: usize = 32 << 10;

/// Returns the end of the caller's frame, within some words.
#[inline(never)]
fn here() -> *mut u64 {
    let word = 0u64;
    std::hint::black_box(&raw const word).cast_mut()
}

/// Fills the words below an address, but for some, which this function itself may be using.
#[inline(never)]
fn paint(top: *mut u64) {
    for i in SPARED..WORDS {
        // SAFETY: the stack of this thread is longer, and nothing lies below the frame of this function.
        unsafe { top.sub(i).write_volatile(PATTERN) };
    }
}

const SPARED: usize = 64;

/// Returns the number of bytes below an address that differ from the pattern.
#[inline(never)]
fn depth(top: *mut u64) -> usize {
    let touched = |&i: &usize| {
        // SAFETY: as above.
        unsafe { top.sub(i).read_volatile() != PATTERN }
    };
    (SPARED..WORDS).rev().find(touched).map_or(SPARED, |i| i) * size_of::<u64>()
}

#[inline(never)]
fn measure(call: &mut dyn FnMut()) -> usize {
    let top = here();
    paint(top);
    call();
    depth(top)
}

const PAGE: u64 = 4096;
const HUGE: u64 = 2 << 20;
/// More pages than a processor has set aside for it at a time.
const MANY: u64 = 80;
const BASE: u64 = 0x1_0000_0000;
const RW: u64 = PROT_READ | PROT_WRITE;

/// Pages of ones, which are never written.
struct Ones;

impl PageSource for Ones {
    fn read_page(&self, _: u64, into: &mut [u8; PAGE_BYTES]) -> Result<(), Errno> {
        into.fill(1);
        Ok(())
    }

    fn write_page(&self, _: u64, _: &[u8; PAGE_BYTES]) -> Result<(), Errno> {
        Ok(())
    }

    fn punch(&self, _: u64, _: u64) -> Result<(), Errno> {
        Ok(())
    }

    fn size(&self) -> u64 {
        64 * PAGE
    }
}

fn file() -> Counted<File> {
    let (major, minor, inode) = (1, 2, 3);
    let id = FileId {
        major,
        minor,
        inode,
    };
    let file = File {
        kind: FileKind::Unaligned,
        object: Inode::object(Ones).unwrap(),
        ..File::new(id, "/file".into())
    };
    Counted::try_new(file).unwrap()
}

/// A program of one segment.
fn program() -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
    put(0, b"\x7fELF\x02\x01\x01\0");
    put(16, &[2, 0, 62, 0, 1]);
    put(24, &0x40_0100u64.to_le_bytes());
    put(32, &64u64.to_le_bytes());
    put(54, &[56, 0, 1]);
    put(64, &[1, 0, 0, 0, 6]);
    for (i, word) in [0, 0x40_0000, 0, PAGE, 3 * PAGE].into_iter().enumerate() {
        put(72 + 8 * i, &word.to_le_bytes());
    }
    bytes
}

/// Measures an exec, but for what its caller has: the arguments, and the program that comes back.
fn exec(table: &mut Table, machine: &Machine<Hosted>, file: &Counted<File>, image: &[u8]) {
    let exec = Exec {
        path: b"/program",
        arguments: &[b"program", b"argument"],
        environment: &[b"A=B"],
        config: &Config::default(),
        limits: Limits::default(),
        personality: Personality::empty(),
        settings: &Settings::default(),
    };
    let mut files = |_: &[u8]| {
        Ok(Program {
            file: file.clone(),
            image,
            set_id: SetId::No,
        })
    };
    let mut random = |choice: &Choice| choice.count / 2;
    let auxiliary = Auxiliary::default();
    let mut started = None;
    table.add("exec", || {
        let done = Process::exec(machine, &exec, &auxiliary, &mut files, &mut random);
        started = Some(done.unwrap());
    });
}

fn mmap(addr: u64, len: u64, prot: u64, flags: u64, file: FileArg) -> Call {
    Call::Mmap {
        addr,
        len,
        prot,
        flags: flags | MAP_FIXED,
        file,
        offset: 0,
    }
}

fn anonymous(addr: u64, len: u64, prot: u64, more: u64) -> Call {
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | more;
    mmap(addr, len, prot, flags, FileArg::None)
}

fn madvise(addr: u64, len: u64, advice: i32) -> Call {
    Call::Madvise { addr, len, advice }
}

/// Everything that is measured, with how deep it went.
struct Table(Vec<(&'static str, usize)>);

impl Table {
    fn add(&mut self, name: &'static str, mut call: impl FnMut()) {
        let depth = measure(&mut call);
        match self.0.iter_mut().find(|line| line.0 == name) {
            Some(line) => line.1 = line.1.max(depth),
            None => self.0.push((name, depth)),
        }
    }

    fn call(&mut self, name: &'static str, process: &Process<Hosted>, call: &Call) {
        self.add(name, || {
            process.perform(call).unwrap();
        });
    }

    fn fault(&mut self, name: &'static str, process: &Process<Hosted>, addr: u64, access: Access) {
        self.add(name, || process.fault(addr, access).unwrap());
    }
}

fn faults(table: &mut Table, process: &Process<Hosted>, file: &Counted<File>) {
    let (read, write) = (Access::READ, Access::WRITE);
    table.fault("fault, zero page", process, BASE, read);
    table.fault("fault, write", process, BASE, write);
    // As many as frames are set aside for a processor: some fault sets others aside.
    for page in 1..MANY {
        table.fault("fault, write", process, BASE + page * PAGE, write);
        let at = BASE + (256 + page) * HUGE;
        process.perform(&anonymous(at, PAGE, RW, 0)).unwrap();
        table.fault("fault, zero page", process, at, read);
    }
    let child = process.fork(ForkMode::Share).unwrap();
    table.fault("fault, shared table", &child, BASE, write);
    let child = process.fork(ForkMode::Copy).unwrap();
    for page in 0..MANY {
        table.fault("fault, copy-on-write", &child, BASE + page * PAGE, write);
    }
    let at = BASE + 4 * HUGE;
    for (flags, at) in [(MAP_PRIVATE, at), (MAP_SHARED, at + HUGE)] {
        let arg = FileArg::File(file.clone());
        let call = mmap(at, 16 * PAGE, RW, flags, arg);
        table.call("mmap", process, &call);
        table.fault("fault, file", process, at, read);
        table.fault("fault, file", process, at, write);
        table.fault("fault, file", process, at + PAGE, write);
    }
    let at = BASE + 8 * HUGE;
    process.perform(&anonymous(at, 4 * HUGE, RW, 0)).unwrap();
    table.call("madvise", process, &madvise(at, 4 * HUGE, MADV_HUGEPAGE));
    table.fault("fault, huge", process, at, read);
    table.fault("fault, huge", process, at, write);
    table.fault("fault, huge", process, at + HUGE, write);
    let child = process.fork(ForkMode::Copy).unwrap();
    table.fault("fault, huge", &child, at + HUGE, write);
}

fn calls(table: &mut Table, process: &Process<Hosted>, file: &Counted<File>) {
    let at = BASE + 32 * HUGE;
    let protect = |addr, len, prot| Call::Mprotect {
        addr,
        len,
        prot,
        pkey: -1,
    };
    let populated = anonymous(at, 4 * HUGE, RW, MAP_POPULATE);
    table.call("mmap, populated", process, &populated);
    for page in (0..256).step_by(2) {
        let prot = if page % 4 == 0 { PROT_READ } else { PROT_NONE };
        table.call("mprotect", process, &protect(at + page * PAGE, PAGE, prot));
    }
    table.call("mprotect", process, &protect(at, 256 * PAGE, RW));
    for page in (0..256).step_by(2) {
        let (addr, len) = (at + page * PAGE, PAGE);
        table.call("munmap", process, &Call::Munmap { addr, len });
    }
    table.call("mmap", process, &anonymous(at, 256 * PAGE, RW, 0));
    let child = process.fork(ForkMode::Share).unwrap();
    table.call(
        "mprotect",
        &child,
        &protect(at + PAGE, 512 * PAGE, PROT_READ),
    );
    let (addr, len) = (at + 3 * PAGE, 600 * PAGE);
    table.call("munmap", &child, &Call::Munmap { addr, len });
    let mut child = Some(child);
    table.add("exit", || {
        child.take().map_or(Ok(()), Process::exit).unwrap();
    });
    for (flags, len) in [
        (MREMAP_MAYMOVE, 300 * PAGE),
        (MREMAP_MAYMOVE | MREMAP_FIXED, 16 * PAGE),
        (MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, 16 * PAGE),
    ] {
        let from = at + 64 * HUGE;
        process
            .perform(&anonymous(from, 16 * PAGE, RW, MAP_POPULATE))
            .unwrap();
        let call = Call::Mremap {
            old_addr: from,
            old_len: 16 * PAGE,
            new_len: len,
            flags,
            new_addr: at + 128 * HUGE,
        };
        table.call("mremap", process, &call);
    }
    for addr in [0x1000_0000 + 64 * PAGE, 0x1000_0000 + PAGE] {
        table.add("brk", || {
            std::hint::black_box(process.perform(&Call::Brk { addr })).unwrap();
        });
    }
    let (addr, len) = (at + PAGE, 64 * PAGE);
    table.call(
        "mlock",
        process,
        &Call::Mlock {
            addr,
            len,
            flags: 0,
        },
    );
    table.call("munlock", process, &Call::Munlock { addr, len });
    for advice in [
        MADV_DONTNEED,
        MADV_FREE,
        MADV_PAGEOUT,
        MADV_GUARD_INSTALL,
        MADV_GUARD_REMOVE,
        MADV_COLLAPSE,
    ] {
        let (addr, len) = match advice {
            MADV_COLLAPSE => (at + HUGE, HUGE),
            _ => (at + PAGE, 64 * PAGE),
        };
        table.add("madvise", || {
            // A guard, once it is there, forbids nothing of this.
            let _ = process.perform(&madvise(addr, len, advice));
        });
    }
    let (addr, len) = (BASE + 5 * HUGE, 16 * PAGE);
    let arg = FileArg::File(file.clone());
    process
        .perform(&mmap(addr, len, RW, MAP_SHARED, arg))
        .unwrap();
    assert_eq!(process.copy_in(addr, b"written"), 7);
    let flags = MS_SYNC;
    table.call("msync", process, &Call::Msync { addr, len, flags });
    table.call("madvise", process, &madvise(addr, len, MADV_REMOVE));
    let mut bytes = [0; 16];
    table.add("copy", || {
        process.copy_in(at + 2 * HUGE, b"sixteen bytes ..");
        process.copy_out(at + 2 * HUGE, &mut bytes);
    });
}

fn all() -> Vec<(&'static str, usize)> {
    let mut table = Table(Vec::new());
    let machine = Machine::over(Arena::on_heap(16 << 10).unwrap()).unwrap();
    let (file, image) = (file(), program());
    for _ in 0..2 {
        exec(&mut table, &machine, &file, &image);
    }
    // At first without, then with concurrent readers.
    for threads in [false, true] {
        let layout = Layout {
            start_brk: 0x1000_0000,
            brk: 0x1000_0000,
            ..Layout::default()
        };
        let (config, limits) = (Config::default(), Limits::default());
        let process = Process::new(&machine, config, limits, layout).unwrap();
        if threads {
            process.expect_threads();
        }
        table.call("mmap", &process, &anonymous(BASE, 4 * HUGE, RW, 0));
        faults(&mut table, &process, &file);
        calls(&mut table, &process, &file);
        for mode in [ForkMode::Copy, ForkMode::Share] {
            let mut child = None;
            table.add("fork", || child = Some(process.fork(mode).unwrap()));
            let mut child = child;
            table.add("exit", || drop(child.take()));
        }
        let mut process = Some(process);
        table.add("exit", || drop(process.take()));
    }
    machine.check().unwrap();
    table.0
}

#[test]
fn calls_and_faults_keep_to_their_stack() {
    let table = std::thread::Builder::new()
        .stack_size(4 << 20)
        .spawn(all)
        .unwrap()
        .join()
        .unwrap();
    let mut text = String::new();
    let mut exceeded = false;
    for (name, depth) in &table {
        let limit = LIMITS.iter().find(|line| line.0 == *name);
        let limit = limit.map_or(0, |line| line.1);
        exceeded |= *depth > limit;
        text.push_str(&format!("{depth:6} of {limit:5}  {name}\n"));
    }
    println!("{text}");
    assert_eq!(table.len(), LIMITS.len());
    assert!(LIMITS.iter().all(|line| line.1 <= MOST));
    assert!(cfg!(debug_assertions) || !exceeded, "too deep:\n{text}");
}

//! The kernel's side: a process made for this, in which histories are executed, and which records every result and its whole map.
//!
//! A *zygote* is forked once and then never changes; for each history it forks a child. The child allocates nothing: it
//! reads operations from shared memory and writes results and areas there, which it asks of the kernel by
//! `ioctl(PROCMAP_QUERY)` on its own maps.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::process::exit;

use crate::generate::{ARENA, PAGE};
use crate::op::{NAMES, Objects, Op};

/// Most operations in one history.
pub(crate) const MAX_OPS: usize = 4096;
const LOG_BYTES: usize = 256 << 20;

/// One area as the kernel reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct KArea {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Read 1, write 2, execute 4, shared 8.
    pub(crate) perms: u64,
    pub(crate) offset: u64,
    pub(crate) inode: u64,
    pub(crate) dev: (u32, u32),
}

/// What one operation did.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// As the raw system call: an address, 0 or the negative error number.
    pub(crate) result: i64,
    pub(crate) areas: Vec<KArea>,
    /// Bit n: page n of the arena holds a private anonymous page afterwards.
    pub(crate) written: u64,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Shared {
    count: usize,
    ops: [Op; MAX_OPS],
    /// Bytes of the log in use.
    used: usize,
    /// Operations finished.
    done: usize,
    /// Read smaps at the end into the log, after `used`; its length.
    smaps: usize,
    /// Look at the pages too.
    facts: bool,
    /// The kernel is older than `PROCMAP_QUERY` (6.11): its maps are read as text.
    text: bool,
    /// The kernel is older than `PAGEMAP_SCAN` (6.7): words are read. The frame of the zero page, or 0.
    zero: u64,
    /// What operations refer to by number: here, because the heap may go.
    start_brk: u64,
    files: [i32; 16],
    segments: [i32; 4],
    names: [[u8; 16]; NAMES.len()],
}

/// Argument of `ioctl(PAGEMAP_SCAN)`.
#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

const PAGEMAP_SCAN: u64 = 0xc060_6610;
const IS_FILE: u64 = 4;
const IS_PRESENT: u64 = 8;
const IS_SWAPPED: u64 = 16;
const IS_PFNZERO: u64 = 32;

#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    start: u64,
    end: u64,
    flags: u64,
    page_size: u64,
    offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    name_size: u32,
    build_id_size: u32,
    name_addr: u64,
    build_id_addr: u64,
}

const PROCMAP_QUERY: u64 = 0xc068_6611;
const COVERING_OR_NEXT: u64 = 0x10;

pub(crate) struct Kernel {
    shared: *mut Shared,
    log: *mut u8,
    pub(crate) zygote: i32,
    to: fs::File,
    from: fs::File,
}

fn map_shared(bytes: usize) -> *mut u8 {
    map_shared_or_private(libc::MAP_SHARED, bytes)
}

fn map_shared_or_private(kind: i32, bytes: usize) -> *mut u8 {
    // SAFETY: a new mapping at a place of the kernel's choice.
    let p = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            kind | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    assert_ne!(p, libc::MAP_FAILED);
    p.cast()
}

impl Kernel {
    /// Starts the zygote.
    pub(crate) fn start(objects: &Objects) -> Kernel {
        let shared = map_shared(size_of::<Shared>()).cast::<Shared>();
        let log = map_shared(LOG_BYTES);
        // SAFETY: nobody else uses the new mapping yet; zeroes are valid for all its fields but `ops`, which is
        // written before it is read.
        unsafe {
            (*shared).start_brk = objects.start_brk;
            let (maps, pages) = (open_maps(), open_pagemap());
            let mut query = Query {
                size: size_of::<Query>() as u64,
                query_flags: COVERING_OR_NEXT,
                ..Query::default()
            };
            let ask = |file: i32, request: u64, argument: u64| {
                raw(libc::SYS_ioctl, [file as u64, request, argument, 0, 0, 0])
            };
            (*shared).text = ask(maps, PROCMAP_QUERY, (&raw mut query) as u64) != 0;
            let argument = Scan {
                size: size_of::<Scan>() as u64,
                ..Scan::default()
            };
            (*shared).zero = match ask(pages, PAGEMAP_SCAN, (&raw const argument) as u64) {
                0 => 0,
                _ => zero_frame(pages),
            };
            libc::close(maps);
            libc::close(pages);
            (*shared).files = [-1; 16];
            for (n, file) in objects.files.iter().enumerate() {
                (*shared).files[n] = file.0;
            }
            for (n, segment) in objects.segments.iter().enumerate() {
                (*shared).segments[n] = segment.0;
            }
            for (n, name) in NAMES.iter().enumerate() {
                let name = name.unwrap_or("").as_bytes();
                (&mut (*shared).names)[n][..name.len()].copy_from_slice(name);
            }
        }
        let mut down = [0; 2];
        let mut up = [0; 2];
        // SAFETY: two arrays of two descriptors; fork of a process with one thread.
        let zygote = unsafe {
            assert_eq!(libc::pipe(down.as_mut_ptr()), 0);
            assert_eq!(libc::pipe(up.as_mut_ptr()), 0);
            libc::fork()
        };
        assert!(zygote >= 0);
        if zygote == 0 {
            // SAFETY: descriptors of our own.
            unsafe {
                libc::close(down[1]);
                libc::close(up[0]);
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                // The heap may move once; afterwards nothing here allocates.
                zygote_loop(shared, log, down[0], up[1])
            }
        }
        // SAFETY: the pipe's ends are ours alone.
        let (to, from) = unsafe {
            libc::close(down[0]);
            libc::close(up[1]);
            (fs::File::from_raw_fd(down[1]), fs::File::from_raw_fd(up[0]))
        };
        let mut kernel = Kernel {
            shared,
            log,
            zygote,
            to,
            from,
        };
        // A first, empty history: the zygote's stack is as deep as it will be.
        kernel.run(&[], false, false);
        kernel
    }

    /// Executes a history in a new child; the steps that were finished, and the text of smaps at its end.
    pub(crate) fn run(&mut self, ops: &[Op], smaps: bool, facts: bool) -> (Vec<Step>, String) {
        assert!(ops.len() <= MAX_OPS);
        // SAFETY: no child runs at this time, so the shared memory is ours.
        unsafe {
            let shared = &mut *self.shared;
            shared.count = ops.len();
            shared.ops[..ops.len()].copy_from_slice(ops);
            shared.used = 0;
            shared.done = 0;
            shared.smaps = usize::from(smaps);
            shared.facts = facts;
        }
        self.to.write_all(&[1]).unwrap();
        let mut answer = [0];
        self.from.read_exact(&mut answer).unwrap();
        // SAFETY: the child has exited.
        let shared = unsafe { &*self.shared };
        let mut steps = Vec::new();
        let mut at = 0;
        for _ in 0..shared.done {
            // SAFETY: the child wrote records in this form, one after the other.
            unsafe {
                let result = self.log.add(at).cast::<i64>().read();
                let count = self.log.add(at + 8).cast::<u64>().read() as usize;
                let written = self.log.add(at + 16).cast::<u64>().read();
                let areas =
                    std::slice::from_raw_parts(self.log.add(at + 24).cast::<KArea>(), count);
                steps.push(Step {
                    result,
                    areas: areas.to_vec(),
                    written,
                });
                at += 24 + count * size_of::<KArea>();
            }
        }
        let text = if smaps && shared.done == ops.len() {
            // SAFETY: the child wrote this many bytes of text there.
            let bytes = unsafe { std::slice::from_raw_parts(self.log.add(at), shared.smaps) };
            String::from_utf8_lossy(bytes).into_owned()
        } else {
            String::new()
        };
        (steps, text)
    }
}

/// # Safety
/// The pointers are the shared mappings, the descriptors are pipes.
unsafe fn zygote_loop(shared: *mut Shared, log: *mut u8, from: i32, to: i32) -> ! {
    loop {
        let mut byte = 0u8;
        // SAFETY: plain system calls on our own descriptors and memory.
        unsafe {
            if libc::read(from, (&raw mut byte).cast(), 1) != 1 {
                libc::_exit(0);
            }
            let child = libc::fork();
            if child == 0 {
                libc::close(from);
                libc::close(to);
                child_main(&mut *shared, log);
                libc::_exit(0);
            }
            let mut status = 0;
            libc::waitpid(child, &raw mut status, 0);
            byte = status as u8;
            libc::write(to, (&raw const byte).cast(), 1);
        }
    }
}

fn raw(number: i64, a: [u64; 6]) -> i64 {
    // SAFETY: the generator keeps the operations away from the memory that this process lives in.
    unsafe {
        let result: i64;
        std::arch::asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
            in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _,
        );
        result
    }
}

fn open_pagemap() -> i32 {
    // SAFETY: a constant path.
    unsafe { libc::open(c"/proc/self/pagemap".as_ptr(), libc::O_RDONLY) }
}

/// Which pages of the arena hold private anonymous memory.
fn scan(pagemap: i32) -> u64 {
    let mut found = [[0u64; 3]; 64];
    let scan = Scan {
        size: size_of::<Scan>() as u64,
        start: ARENA,
        end: ARENA + 64 * PAGE,
        vec: found.as_mut_ptr() as u64,
        vec_len: found.len() as u64,
        category_inverted: IS_FILE | IS_PFNZERO,
        category_mask: IS_FILE | IS_PFNZERO,
        category_anyof_mask: IS_PRESENT | IS_SWAPPED,
        return_mask: IS_PRESENT,
        ..Scan::default()
    };
    let count = raw(
        libc::SYS_ioctl,
        [
            pagemap as u64,
            PAGEMAP_SCAN,
            (&raw const scan) as u64,
            0,
            0,
            0,
        ],
    );
    let mut bits = 0;
    for region in &found[..usize::try_from(count).unwrap_or(0)] {
        for page in (region[0] - ARENA) / PAGE..(region[1] - ARENA) / PAGE {
            bits |= 1 << page;
        }
    }
    bits
}

const FRAME: u64 = (1 << 55) - 1;

/// The frame number of the page that reads of untouched memory find.
fn zero_frame(pagemap: i32) -> u64 {
    let page = map_shared_or_private(libc::MAP_PRIVATE, PAGE as usize);
    let mut word = 0u64;
    // SAFETY: the page is new and readable; the word is ours.
    unsafe {
        page.read_volatile();
        let at = page as i64 / PAGE as i64 * 8;
        assert_eq!(
            libc::pread(pagemap, (&raw mut word).cast(), 8, at),
            8,
            "pagemap cannot be read"
        );
        libc::munmap(page.cast(), PAGE as usize);
    }
    assert_ne!(
        word & FRAME,
        0,
        "on kernels before 6.7 only root can tell what was written"
    );
    word & FRAME
}

/// As [`scan`], from one word for each page: bit 63 present, 62 swapped, 61 file or shared.
fn scan_words(pagemap: i32, zero: u64) -> u64 {
    let mut words = [0u64; 64];
    let at = ARENA / PAGE * 8;
    raw(
        libc::SYS_pread64,
        [
            pagemap as u64,
            (&raw mut words) as u64,
            size_of_val(&words) as u64,
            at,
            0,
            0,
        ],
    );
    let mut bits = 0;
    for (page, word) in words.iter().enumerate() {
        let own = word >> 62 != 0 && word >> 61 & 1 == 0;
        if own && (word >> 63 == 0 || word & FRAME != zero) {
            bits |= 1 << page;
        }
    }
    bits
}

/// Reads `/proc/self/maps` as text, without allocating, and writes its areas; how many there are.
///
/// # Safety
/// `log` is the shared log, of which `areas` is a part with room for all areas before its last megabytes.
unsafe fn read_text(maps: i32, log: *mut u8, areas: *mut KArea) -> u64 {
    const ROOM: usize = 4 << 20;
    // SAFETY: the end of the log is kept free for this.
    let text = unsafe { log.add(LOG_BYTES - ROOM) };
    let mut length = 0;
    loop {
        let place = (text as usize + length) as u64;
        let room = (ROOM - length) as u64;
        let read = raw(
            libc::SYS_pread64,
            [maps as u64, place, room, length as u64, 0, 0],
        );
        match usize::try_from(read) {
            Ok(read) if read > 0 => length += read,
            _ => break,
        }
    }
    // SAFETY: so many bytes were read into it.
    let text = unsafe { std::slice::from_raw_parts(text, length) };
    let mut count = 0;
    for line in text.split(|byte| *byte == b'\n') {
        let Some(blank) = line.iter().position(|byte| *byte == b' ') else {
            continue;
        };
        // Four letters, of which some may be dashes, part the two addresses from the rest.
        let (range, letters, rest) = (
            &line[..blank],
            &line[blank + 1..blank + 5],
            &line[blank + 6..],
        );
        let mut fields = range
            .split(|byte| *byte == b'-')
            .chain(rest.split(|byte| matches!(byte, b' ' | b':')));
        let mut number = |base| {
            let digits = fields.next().unwrap_or_default().iter();
            digits.fold(0u64, |number, digit| {
                number * u64::from(base) + u64::from((*digit as char).to_digit(base).unwrap_or(0))
            })
        };
        let (start, end, offset) = (number(16), number(16), number(16));
        let (major, minor, inode) = (number(16), number(16), number(10));
        // [vsyscall] is no area.
        if start >> 47 != 0 {
            continue;
        }
        let bit = |at: usize, letter: u8, value: u64| {
            if letters[at] == letter { value } else { 0 }
        };
        // SAFETY: there is room, as the caller says.
        unsafe {
            areas.add(count as usize).write(KArea {
                start,
                end,
                perms: bit(0, b'r', 1) | bit(1, b'w', 2) | bit(2, b'x', 4) | bit(3, b's', 8),
                offset,
                inode,
                dev: (major as u32, minor as u32),
            });
        }
        count += 1;
    }
    count
}

fn open_maps() -> i32 {
    // SAFETY: a constant path.
    unsafe { libc::open(c"/proc/self/maps".as_ptr(), libc::O_RDONLY) }
}

/// # Safety
/// `log` is the shared log.
unsafe fn child_main(shared: &mut Shared, log: *mut u8) {
    let mut maps = open_maps();
    let mut pages = open_pagemap();
    // SAFETY: descriptors are ours; buffers are on our stack or in the log.
    unsafe {
        let mut scratch = [0; 2];
        libc::pipe(scratch.as_mut_ptr());
        let mut hold = [0; 2];
        libc::pipe(hold.as_mut_ptr());
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        for index in 0..shared.count {
            let op = shared.ops[index];
            let result = match op {
                Op::Mmap {
                    addr,
                    len,
                    prot,
                    flags,
                    file,
                    offset,
                } => {
                    let fd = if file == 0 {
                        u64::MAX
                    } else {
                        shared.files[file - 1] as u64
                    };
                    raw(libc::SYS_mmap, [addr, len, prot, flags, fd, offset])
                }
                Op::Munmap { addr, len } => raw(libc::SYS_munmap, [addr, len, 0, 0, 0, 0]),
                Op::Mprotect { addr, len, prot } => {
                    raw(libc::SYS_mprotect, [addr, len, prot, 0, 0, 0])
                }
                Op::Mremap {
                    old,
                    old_len,
                    new_len,
                    flags,
                    new,
                } => raw(libc::SYS_mremap, [old, old_len, new_len, flags, new, 0]),
                Op::Brk { delta } => raw(
                    libc::SYS_brk,
                    [shared.start_brk.wrapping_add_signed(delta), 0, 0, 0, 0, 0],
                ),
                Op::Madvise { addr, len, advice } => {
                    raw(libc::SYS_madvise, [addr, len, advice as u64, 0, 0, 0])
                }
                Op::Mlock { addr, len, flags } => {
                    raw(libc::SYS_mlock2, [addr, len, flags, 0, 0, 0])
                }
                Op::Munlock { addr, len } => raw(libc::SYS_munlock, [addr, len, 0, 0, 0, 0]),
                Op::Mlockall { flags } => raw(libc::SYS_mlockall, [flags, 0, 0, 0, 0, 0]),
                Op::Munlockall => raw(libc::SYS_munlockall, [0; 6]),
                Op::Msync { addr, len, flags } => raw(libc::SYS_msync, [addr, len, flags, 0, 0, 0]),
                Op::Mincore { addr, len } => raw(
                    libc::SYS_mincore,
                    [
                        addr,
                        len,
                        log as u64 + LOG_BYTES as u64 - (1 << 20),
                        0,
                        0,
                        0,
                    ],
                ),
                Op::Mseal { addr, len, flags } => raw(462, [addr, len, flags, 0, 0, 0]),
                Op::RemapFilePages {
                    addr,
                    len,
                    prot,
                    pgoff,
                    flags,
                } => raw(
                    libc::SYS_remap_file_pages,
                    [addr, len, prot, pgoff, flags, 0],
                ),
                Op::Shmat {
                    segment,
                    addr,
                    flags,
                } => {
                    let id = segment.checked_sub(1).map_or(-1, |n| shared.segments[n]);
                    raw(libc::SYS_shmat, [id as u64, addr, flags, 0, 0, 0])
                }
                Op::Shmdt { addr } => raw(libc::SYS_shmdt, [addr, 0, 0, 0, 0, 0]),
                Op::SetName { addr, len, name } => {
                    let name = match name {
                        0 => 0,
                        n => shared.names[n].as_ptr() as u64,
                    };
                    raw(libc::SYS_prctl, [0x5356_4d41, 0, addr, len, name, 0])
                }
                Op::Mbind {
                    addr,
                    len,
                    mode,
                    nodes,
                    flags,
                } => {
                    let nodes = [nodes];
                    raw(
                        libc::SYS_mbind,
                        [addr, len, mode, nodes.as_ptr() as u64, 65, flags],
                    )
                }
                Op::Write { addr } => {
                    libc::write(scratch[1], b"x".as_ptr().cast(), 1);
                    let result = raw(libc::SYS_read, [scratch[0] as u64, addr, 1, 0, 0, 0]);
                    if result < 0 {
                        let mut byte = 0u8;
                        libc::read(scratch[0], (&raw mut byte).cast(), 1);
                        result
                    } else {
                        0
                    }
                }
                Op::Read { addr } => {
                    let result = raw(libc::SYS_write, [scratch[1] as u64, addr, 1, 0, 0, 0]);
                    if result < 0 {
                        result
                    } else {
                        let mut byte = 0u8;
                        libc::read(scratch[0], (&raw mut byte).cast(), 1);
                        0
                    }
                }
                Op::ForkInto => {
                    let child = raw(libc::SYS_fork, [0; 6]);
                    if child > 0 {
                        raw(libc::SYS_wait4, [child as u64, 0, 0, 0, 0, 0]);
                        libc::_exit(0);
                    }
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                    libc::close(maps);
                    maps = open_maps();
                    libc::close(pages);
                    pages = open_pagemap();
                    child
                }
                Op::ForkAside => {
                    let child = raw(libc::SYS_fork, [0; 6]);
                    if child == 0 {
                        libc::_exit(0);
                    }
                    if child > 0 {
                        raw(libc::SYS_wait4, [child as u64, 0, 0, 0, 0, 0]);
                    }
                    child.min(0)
                }
                Op::ForkKeep => {
                    let child = raw(libc::SYS_fork, [0; 6]);
                    if child == 0 {
                        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                        libc::close(hold[1]);
                        let mut byte = 0u8;
                        libc::read(hold[0], (&raw mut byte).cast(), 1);
                        libc::_exit(0);
                    }
                    child.min(0)
                }
                Op::Limit { which, value } => {
                    let mut limit = libc::rlimit {
                        rlim_cur: 0,
                        rlim_max: 0,
                    };
                    libc::getrlimit(which as u32, &raw mut limit);
                    limit.rlim_cur = value;
                    raw(
                        libc::SYS_setrlimit,
                        [which as u64, (&raw const limit) as u64, 0, 0, 0, 0],
                    )
                }
                Op::DropCaps => {
                    let header = [0x2008_0522u32, 0];
                    let data = [0u32; 6];
                    raw(
                        libc::SYS_capset,
                        [header.as_ptr() as u64, data.as_ptr() as u64, 0, 0, 0, 0],
                    )
                }
            };
            record(shared, log, maps, pages, result);
        }
        if shared.smaps != 0 {
            let fd = libc::open(c"/proc/self/smaps".as_ptr(), libc::O_RDONLY);
            let mut length = 0;
            loop {
                let got = libc::read(fd, log.add(shared.used + length).cast(), 1 << 20);
                if got <= 0 {
                    break;
                }
                length += got as usize;
            }
            shared.smaps = length;
        }
    }
}

/// # Safety
/// `log` is the shared log.
unsafe fn record(shared: &mut Shared, log: *mut u8, maps: i32, pages: i32, result: i64) {
    // SAFETY: the log is much larger than all records together; checked below.
    unsafe {
        let head = log.add(shared.used);
        head.cast::<i64>().write(result);
        let mut count = 0u64;
        let mut query = Query::default();
        if shared.text {
            count = read_text(maps, log, head.add(24).cast());
        } else {
            loop {
                query.size = size_of::<Query>() as u64;
                query.query_flags = COVERING_OR_NEXT;
                query.name_size = 0;
                query.build_id_size = 0;
                if raw(
                    libc::SYS_ioctl,
                    [maps as u64, PROCMAP_QUERY, (&raw mut query) as u64, 0, 0, 0],
                ) != 0
                {
                    break;
                }
                head.add(24)
                    .cast::<KArea>()
                    .add(count as usize)
                    .write(KArea {
                        start: query.start,
                        end: query.end,
                        perms: query.flags & 15,
                        offset: query.offset,
                        inode: query.inode,
                        dev: (query.dev_major, query.dev_minor),
                    });
                count += 1;
                query.query_addr = query.end;
            }
        }
        head.add(8).cast::<u64>().write(count);
        let written = match (shared.facts, shared.zero) {
            (false, _) => 0,
            (true, 0) => scan(pages),
            (true, zero) => scan_words(pages, zero),
        };
        head.add(16).cast::<u64>().write(written);
        shared.used += 24 + count as usize * size_of::<KArea>();
        if shared.used > LOG_BYTES - (8 << 20) {
            libc::_exit(9);
        }
        shared.done += 1;
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // SAFETY: the zygote is our child.
        unsafe {
            libc::kill(self.zygote, libc::SIGKILL);
            libc::waitpid(self.zygote, std::ptr::null_mut(), 0);
        }
    }
}

/// Ends the test run with a message.
pub(crate) fn fail(message: &str) -> ! {
    eprintln!("{message}");
    exit(101)
}

//! Real processes: each waits for an operation on its pipe, performs it, and answers.
//!
//! Between operations nothing of theirs runs, and their own memory lies elsewhere, so that what `/proc` says of the arena is what the
//! operations did. They allocate nothing.

use std::fs::File;
use std::io::{Read, Write};
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;

use crate::op::{BITS, FILE_PAGES, Op, PAGE, SLOTS, base, pages};

/// The result of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub(crate) struct Answer {
    /// The call's return value, or the byte that was read.
    pub(crate) value: i64,
    /// The signal that an access raised, and its code.
    pub(crate) signal: i32,
    pub(crate) code: i32,
    /// `mincore`'s, a bit a page.
    pub(crate) bits: u64,
}

/// A page as `/proc/PID/pagemap` tells it: present 1, file 2, exclusive 4, zero 16.
pub(crate) type Pages = Vec<u8>;

/// Returns the facts in a word of the page map. It does not say if a page is the page of zeroes.
pub(crate) fn told_by(word: u64, zero: bool) -> u8 {
    let bit = |n: u32| (word >> n & 1) as u8;
    if bit(62) != 0 {
        // A guard marker, or swapped out.
        return if bit(58) != 0 { 0 } else { 0x80 };
    }
    bit(63) | bit(61) << 1 | bit(56) << 2 | u8::from(bit(63) == 1 && zero) << 4
}

struct Pipe {
    read: File,
    write: File,
}

fn pipe() -> Pipe {
    let mut ends = [0; 2];
    // SAFETY: an array of two descriptors, which are new.
    unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        Pipe {
            read: File::from_raw_fd(ends[0]),
            write: File::from_raw_fd(ends[1]),
        }
    }
}

/// A page that no code uses.
#[repr(align(4096))]
struct Nothing(#[expect(dead_code, reason = "as large as it is")] [u8; PAGE as usize]);

static NOTHING: Nothing = Nothing([0; PAGE as usize]);

/// All that follows happens on one processor, the first or the last: the kernel keeps lists for each.
pub(crate) fn stay(last: bool) {
    // SAFETY: a set of processors that is written before it is used.
    unsafe {
        let mut all: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of_val(&all), &raw mut all);
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        let mut all = (0..libc::CPU_SETSIZE as usize).filter(|&cpu| libc::CPU_ISSET(cpu, &all));
        if let Some(chosen) = if last { all.next_back() } else { all.next() } {
            libc::CPU_SET(chosen, &mut one);
            libc::sched_setaffinity(0, size_of_val(&one), &raw const one);
        }
    }
}

/// The real side.
pub(crate) struct Real {
    down: Vec<Pipe>,
    up: Vec<Pipe>,
    pub(crate) files: [Option<File>; 3],
    pids: [Option<i32>; SLOTS],
    zeroes: [Range<u64>; 2],
}

static mut SIGNAL: (i32, i32) = (0, 0);

extern "C" fn on_fault(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel gives both; the instructions that fault are those of `touch`: three bytes each, or a call.
    unsafe {
        SIGNAL = (signal, (*info).si_code);
        let context = &mut *context.cast::<libc::ucontext_t>();
        let regs = &mut context.uc_mcontext.gregs;
        let ip = regs[libc::REG_RIP as usize] as u64;
        if in_range(ip) {
            let stack = regs[libc::REG_RSP as usize];
            regs[libc::REG_RIP as usize] = *(stack as *const i64);
            regs[libc::REG_RSP as usize] = stack + 8;
        } else {
            regs[libc::REG_RIP as usize] += 3;
        }
    }
}

fn touch(op: Op) -> Answer {
    let mut value: u64 = 0;
    // SAFETY: the addresses lie in the arena, where no other code has anything. Signals are caught.
    unsafe {
        SIGNAL = (0, 0);
        match op {
            Op::Read { addr } => std::arch::asm!(
                ".byte 0x0f, 0xb6, 0x07", // movzx eax, byte ptr [rdi]
                inout("rax") value, in("rdi") addr,
            ),
            Op::Write { addr, value } => std::arch::asm!(
                ".byte 0x40, 0x88, 0x37", // mov byte ptr [rdi], sil
                in("rsi") u64::from(value), in("rdi") addr,
            ),
            Op::Exec { addr } => std::arch::asm!("call rdi", in("rdi") addr, clobber_abi("C")),
            _ => {}
        }
        let (signal, code) = SIGNAL;
        Answer {
            value: if signal == 0 { value as i64 } else { 0 },
            signal,
            code,
            bits: 0,
        }
    }
}

/// `MADV_COLLAPSE`: musl's headers do not have it.
const COLLAPSE: i32 = 25;

/// Has the kernel make huge pages free, where it can; Documentation/admin-guide/sysctl/vm.rst.
fn compact_memory() {
    // SAFETY: a path and a byte of ours; the descriptor is closed again.
    unsafe {
        let file = libc::open(c"/proc/sys/vm/compact_memory".as_ptr(), libc::O_WRONLY);
        if file >= 0 {
            libc::write(file, c"1".as_ptr().cast(), 1);
            libc::close(file);
        }
    }
}

/// Returns `true` if all of a range is mapped: `mincore` fails at holes, as other calls do.
fn is_mapped(addr: u64, len: u64) -> bool {
    const AT_ONCE: u64 = 512;
    let mut told = [0u8; AT_ONCE as usize];
    let end = addr + len;
    (addr..end).step_by((AT_ONCE * PAGE) as usize).all(|from| {
        let len = (end - from).min(AT_ONCE * PAGE);
        raw(
            libc::SYS_mincore,
            [from, len, told.as_mut_ptr() as u64, 0, 0, 0],
        ) == 0
    })
}

fn raw(number: i64, a: [u64; 6]) -> i64 {
    let result: i64;
    // SAFETY: histories keep to the arena.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
            in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _,
        );
    }
    result
}

impl Real {
    /// Starts the first process.
    pub(crate) fn start() -> Real {
        // SAFETY: constant names, new descriptors, structures of ours.
        let (memfd, disk) = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_fault as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
            libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut());
            libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
            // A process that exits is reaped at once, grandchildren included.
            libc::signal(libc::SIGCHLD, libc::SIG_IGN);
            libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
            let memfd = File::from_raw_fd(libc::memfd_create(c"pages".as_ptr(), 0));
            let dir = std::env::temp_dir();
            let path = dir.join(format!("samara-pages-{}", std::process::id()));
            let disk = File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .open(&path)
                .unwrap();
            std::fs::remove_file(path).unwrap();
            (memfd, disk)
        };
        memfd.set_len(FILE_PAGES * PAGE).unwrap();
        let bytes: Vec<u8> = (0..FILE_PAGES * PAGE)
            .map(|i| (i / PAGE + 1) as u8)
            .collect();
        disk.write_all_at(&bytes, 0).unwrap();
        let mut real = Real {
            down: (0..SLOTS).map(|_| pipe()).collect(),
            up: (0..SLOTS).map(|_| pipe()).collect(),
            files: [None, Some(memfd), Some(disk)],
            pids: [None; SLOTS],
            zeroes: zero_pages(),
        };
        // SAFETY: one thread; the child runs `work` only.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            real.work(0);
        }
        real.pids[0] = Some(pid);
        real
    }

    pub(crate) fn lives(&self, who: usize) -> bool {
        self.pids[who].is_some()
    }

    /// Has `who` perform the operation.
    pub(crate) fn perform(&mut self, who: usize, op: Op) -> Answer {
        match op {
            Op::Truncate { file, size } => {
                self.file(file).set_len(size).unwrap();
                return Answer::default();
            }
            Op::Punch { file, start, end } => {
                let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                let fd = self.file(file).as_raw_fd();
                // SAFETY: a descriptor of ours.
                let done = unsafe { libc::fallocate(fd, mode, start as i64, (end - start) as i64) };
                assert_eq!(done, 0);
                return Answer::default();
            }
            _ => {}
        }
        // SAFETY: plain data, all of which is written.
        let bytes =
            unsafe { std::slice::from_raw_parts((&raw const op).cast::<u8>(), size_of::<Op>()) };
        self.down[who].write.write_all(bytes).unwrap();
        if op == Op::Exit {
            let pid = self.pids[who].take().unwrap();
            while std::path::Path::new(&format!("/proc/{pid}")).exists() {
                std::thread::yield_now();
            }
            return Answer::default();
        }
        let mut answer = self.answer(who);
        if let Op::Fork { child } = op {
            assert!(answer.value > 0, "fork: {answer:?}");
            self.pids[child] = Some(answer.value as i32);
            answer.value = 0;
        }
        answer
    }

    fn file(&self, file: usize) -> &File {
        self.files[file].as_ref().unwrap()
    }

    fn answer(&mut self, who: usize) -> Answer {
        let mut poll = libc::pollfd {
            fd: self.up[who].read.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // Pages that are paged out may wait long for a disk that others keep busy: only who hangs does not answer for a minute.
        // SAFETY: one structure of ours.
        let ready = unsafe { libc::poll(&raw mut poll, 1, 60_000) };
        assert_eq!(ready, 1, "process {who} does not answer");
        let mut answer = Answer::default();
        // SAFETY: plain data.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut((&raw mut answer).cast::<u8>(), size_of::<Answer>())
        };
        self.up[who].read.read_exact(bytes).unwrap();
        answer
    }

    /// Returns pagemap's view of the arena.
    pub(crate) fn pages(&self, who: usize) -> Pages {
        let map = File::open(format!("/proc/{}/pagemap", self.pids[who].unwrap())).unwrap();
        let mut bytes = vec![0; pages() as usize * 8];
        map.read_exact_at(&mut bytes, base() / PAGE * 8).unwrap();
        let mut pages = vec![0; pages() as usize];
        for (page, word) in pages.iter_mut().zip(bytes.chunks_exact(8)) {
            let word = u64::from_ne_bytes(word.try_into().unwrap());
            let zero = self
                .zeroes
                .iter()
                .any(|zero| zero.contains(&(word & ((1 << 55) - 1))));
            *page = told_by(word, zero);
        }
        pages
    }

    /// The lines of maps in the arena: without what only names files.
    pub(crate) fn maps(&self, who: usize) -> Vec<String> {
        let text = std::fs::read_to_string(format!("/proc/{}/maps", self.pids[who].unwrap()));
        text.unwrap().lines().filter_map(in_arena).collect()
    }

    /// The areas of smaps in the arena, each with what it is compared in.
    pub(crate) fn smaps(&self, who: usize) -> Vec<Sums> {
        let text = std::fs::read_to_string(format!("/proc/{}/smaps", self.pids[who].unwrap()));
        sums_in_arena(&text.unwrap())
    }

    fn work(&mut self, mut who: usize) -> ! {
        // SAFETY: system calls on memory and descriptors of ours; operations come from our parent.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            let fds = [-1, self.file(1).as_raw_fd(), self.file(2).as_raw_fd()];
            loop {
                let mut op = Op::Exit;
                let fd = self.down[who].read.as_raw_fd();
                if libc::read(fd, (&raw mut op).cast(), size_of::<Op>()) <= 0 {
                    libc::_exit(1);
                }
                let mut answer = Answer::default();
                let call = |number, a: &[u64]| {
                    let mut six = [0; 6];
                    six[..a.len()].copy_from_slice(a);
                    raw(number, six)
                };
                answer.value = match op {
                    Op::Mmap {
                        addr,
                        len,
                        prot,
                        flags,
                        file,
                        offset,
                    } => call(
                        libc::SYS_mmap,
                        &[addr, len, prot, flags, fds[file] as u64, offset],
                    ),
                    Op::Munmap { addr, len } => call(libc::SYS_munmap, &[addr, len]),
                    Op::Mprotect { addr, len, prot } => {
                        call(libc::SYS_mprotect, &[addr, len, prot])
                    }
                    Op::Mremap {
                        old,
                        old_len,
                        new_len,
                        flags,
                        new,
                    } => call(libc::SYS_mremap, &[old, old_len, new_len, flags, new]),
                    Op::Madvise { addr, len, advice } => {
                        // Other advice has the kernel finish first what it puts off for each processor: which pages may go.
                        let aside = &raw const NOTHING as u64;
                        call(libc::SYS_madvise, &[aside, PAGE, libc::MADV_COLD as u64]);
                        let advise = || call(libc::SYS_madvise, &[addr, len, advice as u64]);
                        let mut result = advise();
                        // For want of a huge page, perhaps, which is no property of the process.
                        let collapse = advice == COLLAPSE;
                        if collapse && result == -i64::from(libc::ENOMEM) && is_mapped(addr, len) {
                            compact_memory();
                            result = advise();
                        }
                        call(libc::SYS_madvise, &[aside, PAGE, libc::MADV_COLD as u64]);
                        result
                    }
                    Op::Mlock { addr, len, flags } => call(libc::SYS_mlock2, &[addr, len, flags]),
                    Op::Munlock { addr, len } => call(libc::SYS_munlock, &[addr, len]),
                    Op::Msync { addr, len, flags } => call(libc::SYS_msync, &[addr, len, flags]),
                    Op::Mbind {
                        addr,
                        len,
                        mode,
                        nodes,
                        flags,
                    } => {
                        let mask = &raw const nodes as u64;
                        call(libc::SYS_mbind, &[addr, len, mode, mask, 65, flags])
                    }
                    Op::Mlockall { flags } => call(libc::SYS_mlockall, &[flags]),
                    Op::Munlockall => call(libc::SYS_munlockall, &[]),
                    Op::RemapFilePages {
                        addr,
                        len,
                        prot,
                        pgoff,
                        flags,
                    } => call(libc::SYS_remap_file_pages, &[addr, len, prot, pgoff, flags]),
                    Op::ProcessMadvise {
                        addr,
                        len,
                        advice,
                        flags,
                    } => {
                        let own = call(libc::SYS_pidfd_open, &[libc::getpid() as u64, 0]);
                        let ranges = [addr, len];
                        let at = ranges.as_ptr() as u64;
                        let result = call(
                            libc::SYS_process_madvise,
                            &[own as u64, at, 1, advice as u64, flags],
                        );
                        call(libc::SYS_close, &[own as u64]);
                        result
                    }
                    Op::Mincore { addr, len } => {
                        let mut vec = [0u8; BITS as usize];
                        let result = call(libc::SYS_mincore, &[addr, len, vec.as_mut_ptr() as u64]);
                        for (i, byte) in vec.iter().enumerate() {
                            answer.bits |= u64::from(byte & 1) << i;
                        }
                        result
                    }
                    Op::Read { .. } | Op::Write { .. } | Op::Exec { .. } => {
                        answer = touch(op);
                        answer.value
                    }
                    Op::Fork { child } => {
                        let pid = call(libc::SYS_fork, &[]);
                        if pid == 0 {
                            libc::prctl(libc::PR_SET_PDEATHSIG, 0);
                            who = child;
                            continue;
                        }
                        pid
                    }
                    Op::Exit => libc::_exit(0),
                    Op::Truncate { .. } | Op::Punch { .. } => 0,
                };
                let fd = self.up[who].write.as_raw_fd();
                libc::write(fd, (&raw const answer).cast(), size_of::<Answer>());
            }
        }
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        for pid in self.pids.into_iter().flatten() {
            // SAFETY: a process of ours.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            while std::path::Path::new(&format!("/proc/{pid}")).exists() {
                std::thread::yield_now();
            }
        }
    }
}

/// A line of maps, if it lies in the arena: range, permissions, offset.
pub(crate) fn in_arena(line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    let (range, perms, offset) = (words.next()?, words.next()?, words.next()?);
    let start = u64::from_str_radix(range.split('-').next()?, 16).ok()?;
    in_range(start).then(|| format!("{range} {perms} {offset}"))
}

/// An area of smaps.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sums {
    text: String,
    /// Figures that are divided among the sharers of a page: `Pss:`, `Locked:`, and `Pss_Dirty:` if
    /// it is compared.
    parts: [u64; 3],
    /// Of areas with files' or shared pages: what is dirty, shared and private, and `Pss_Dirty:`.
    dirty: [u64; 3],
}

impl Sums {
    /// Returns `true` if the engine's figures are right. Several sharers of a page through one
    /// shared table count as one, so the parts may be larger, up to all resident memory.
    pub(crate) fn agree(&self, engine: &Self, shared_tables: bool) -> bool {
        let mut parts = self.parts.iter().zip(&engine.parts);
        let most = engine.resident();
        let mut dirty = self.dirty.iter().zip(&engine.dirty);
        self.text == engine.text
            && dirty.all(|(kernel, engine)| kernel <= engine)
            && parts.all(|(&kernel, &engine)| {
                engine == kernel || shared_tables && (kernel..=most).contains(&engine)
            })
    }

    /// Kilobytes in memory.
    pub(crate) fn resident(&self) -> u64 {
        let rss = self.text.split(" Rss: ").nth(1).unwrap();
        rss.split(' ').next().unwrap().parse().unwrap()
    }
}

/// The areas of a text like smaps, if they lie in the arena: the line of maps, and what is summed up. What is referenced is left out: the kernel forgets it at
/// its leisure. Of files' and shared pages the kernel learns that they were written when the entry goes that says so, unless that began with the write; the engine
/// knows at once. So there clean and dirty ones are added up, and what is dirty to the kernel must be so to the engine.
pub(crate) fn sums_in_arena(smaps: &str) -> Vec<Sums> {
    let lines: Vec<&str> = smaps.lines().collect();
    let starts = |line: &&str| !line.split(' ').next().unwrap_or("").ends_with(':');
    let areas = lines.chunk_by(|_, next| !starts(next));
    areas.filter_map(sums).collect()
}

fn sums(lines: &[&str]) -> Option<Sums> {
    let mut area = in_arena(lines[0])?;
    let number = |label: &str| -> u64 {
        let line = lines.iter().find(|line| line.starts_with(label)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let mut divided = ["Pss:", "Locked:", "Pss_Dirty:"].map(number);
    for label in ["Rss:", "Anonymous:", "LazyFree:", "AnonHugePages:"] {
        area += &format!(" {label} {}", number(label));
    }
    let parts = [
        "Shared_Clean:",
        "Shared_Dirty:",
        "Private_Clean:",
        "Private_Dirty:",
    ];
    let [sc, sd, pc, pd] = parts.map(number);
    let mut dirty = [0; 3];
    if number("Anonymous:") == number("Rss:") {
        area += &format!(" shared {sc}+{sd} private {pc}+{pd}");
    } else {
        dirty = [sd, pd, divided[2]];
        divided[2] = 0;
        area += &format!(" shared {} private {}", sc + sd, pc + pd);
    }
    let flags = lines.iter().find(|line| line.starts_with("VmFlags:"))?;
    Some(Sums {
        text: area + " " + flags.trim_end(),
        parts: divided,
        dirty,
    })
}

fn in_range(addr: u64) -> bool {
    (base()..base() + pages() * PAGE).contains(&addr)
}

/// The numbers of the frames of zeroes: the small one's, and the huge one's.
fn zero_pages() -> [Range<u64>; 2] {
    const HUGE: u64 = 2 << 20;
    // SAFETY: a new mapping, read in two places.
    let (small, huge) = unsafe {
        let memory = libc::mmap(
            std::ptr::null_mut(),
            3 * HUGE as usize,
            libc::PROT_READ,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        ) as u64;
        let huge = memory.next_multiple_of(HUGE);
        libc::madvise(
            huge as *mut libc::c_void,
            HUGE as usize,
            libc::MADV_HUGEPAGE,
        );
        (huge as *const u8).read_volatile();
        let small = huge + HUGE;
        (small as *const u8).read_volatile();
        (small, huge)
    };
    let map = File::open("/proc/self/pagemap").unwrap();
    let frame = |addr: u64| {
        let mut word = [0; 8];
        map.read_exact_at(&mut word, addr / PAGE * 8).unwrap();
        u64::from_ne_bytes(word) & ((1 << 55) - 1)
    };
    let (small, huge) = (frame(small), frame(huge));
    [small..small + 1, huge..huge + HUGE / PAGE]
}

//! The engine's side, and the comparison.

use std::fmt::Write;
use std::sync::{Arc, Mutex};

use samara_mm::process::{
    Access, Fault, ForkMode, Hosted, Inode, Machine, PAGE_BYTES, PageSource, PageStatus, Process,
};
use samara_mm::{
    Call, Capabilities, Config, Counted, DriverFlags, Errno, File, FileArg, FileId, FileKind,
    Layout, Limits, VmFlags,
};
use samara_paging::Arena;

use crate::op::{FILE_PAGES, Op, PAGE, SLOTS, Step, base, pages};
use crate::real::{Answer, Pages, Real, Sums, in_arena, sums_in_arena, told_by};

pub(crate) const MODES: [ForkMode; 2] = [ForkMode::Copy, ForkMode::Share];

/// A file in memory.
struct Disk {
    bytes: Mutex<Vec<u8>>,
    memory: bool,
}

struct Source(Arc<Disk>);

impl PageSource for Source {
    fn read_page(&self, page: u64, into: &mut [u8; PAGE_BYTES]) -> Result<(), Errno> {
        let bytes = self.0.bytes.lock().unwrap();
        let start = bytes.len().min((page * PAGE) as usize);
        let end = bytes.len().min(start + PAGE_BYTES);
        into[..end - start].copy_from_slice(&bytes[start..end]);
        Ok(())
    }

    fn write_page(&self, page: u64, from: &[u8; PAGE_BYTES]) -> Result<(), Errno> {
        let mut bytes = self.0.bytes.lock().unwrap();
        let start = bytes.len().min((page * PAGE) as usize);
        let end = bytes.len().min(start + PAGE_BYTES);
        bytes[start..end].copy_from_slice(&from[..end - start]);
        Ok(())
    }

    fn punch(&self, start: u64, end: u64) -> Result<(), Errno> {
        let mut bytes = self.0.bytes.lock().unwrap();
        let end = bytes.len().min(end as usize);
        let start = end.min(start as usize);
        bytes[start..end].fill(0);
        Ok(())
    }

    fn size(&self) -> u64 {
        self.0.bytes.lock().unwrap().len() as u64
    }

    fn is_memory(&self) -> bool {
        self.0.memory
    }
}

struct Engine {
    machine: Machine<Hosted>,
    mode: ForkMode,
    processes: [Option<Process<Hosted>>; SLOTS],
    disks: [Arc<Disk>; 2],
    files: [Counted<File>; 2],
}

fn new_process(machine: &Machine<Hosted>) -> Process<Hosted> {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    let config = Config {
        pkeys: cpu.contains(" ospke"),
        capabilities: Capabilities {
            ipc_lock: true,
            sys_admin: true,
            sys_nice: true,
            sys_rawio: true,
            sys_resource: true,
        },
        ..Config::default()
    };
    let limits = Limits {
        stack: stack_limit(),
        ..Limits::UNLIMITED
    };
    Process::new(machine, config, limits, Layout::default()).unwrap()
}

/// Returns the limit on the growth of stacks here.
fn stack_limit() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: asks only.
    unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) };
    limit.rlim_cur
}

impl Engine {
    fn start(mode: ForkMode) -> Engine {
        const FRAMES: usize = 1 << 13;
        let machine = Machine::over(Arena::on_heap(FRAMES).unwrap()).unwrap();
        let disk = |memory| {
            let bytes = (0..FILE_PAGES * PAGE).map(|i| (i / PAGE + 1) as u8);
            Arc::new(Disk {
                bytes: Mutex::new(bytes.collect()),
                memory,
            })
        };
        let disks = [disk(true), disk(false)];
        let open = |disk: &Arc<Disk>| {
            Counted::try_new(File {
                id: FileId {
                    major: 0,
                    minor: 1,
                    inode: 1 + u64::from(disk.memory),
                },
                description: None,
                name: "file".into(),
                readable: true,
                writable: true,
                noexec: false,
                kind: if disk.memory {
                    FileKind::Shmem
                } else {
                    FileKind::Unaligned
                },
                seals: 0,
                driver: DriverFlags::default(),
                object: Inode::object(Source(disk.clone())).unwrap(),
            })
            .unwrap()
        };
        let files = [open(&disks[0]), open(&disks[1])];
        // All of the file on disk is in memory, as it has just been written.
        let reader = new_process(&machine);
        let call = Call::Mmap {
            addr: base(),
            len: FILE_PAGES * PAGE,
            prot: 1,
            flags: 0x8011,
            file: FileArg::File(files[1].clone()),
            offset: 0,
        };
        reader.perform(&call).unwrap();
        drop(reader);
        let processes = [Some(new_process(&machine)), None, None];
        Engine {
            machine,
            mode,
            processes,
            disks,
            files,
        }
    }

    fn process(&self, who: usize) -> &Process<Hosted> {
        self.processes[who].as_ref().unwrap()
    }

    fn perform(&mut self, who: usize, op: Op) -> Answer {
        let call = match op {
            Op::Mmap {
                addr,
                len,
                prot,
                flags,
                file,
                offset,
            } => Call::Mmap {
                addr,
                len,
                prot,
                flags,
                file: match file {
                    0 => FileArg::None,
                    n => FileArg::File(self.files[n - 1].clone()),
                },
                offset,
            },
            Op::Munmap { addr, len } => Call::Munmap { addr, len },
            Op::Mprotect { addr, len, prot } => Call::Mprotect {
                addr,
                len,
                prot,
                pkey: -1,
            },
            Op::Mremap {
                old,
                old_len,
                new_len,
                flags,
                new,
            } => Call::Mremap {
                old_addr: old,
                old_len,
                new_len,
                flags,
                new_addr: new,
            },
            Op::Madvise { addr, len, advice } => Call::Madvise { addr, len, advice },
            Op::Mlock { addr, len, flags } => Call::Mlock { addr, len, flags },
            Op::Munlock { addr, len } => Call::Munlock { addr, len },
            Op::Msync { addr, len, flags } => Call::Msync { addr, len, flags },
            Op::Mbind {
                addr,
                len,
                mode,
                nodes,
                flags,
            } => Call::Mbind {
                addr,
                len,
                mode,
                nodes,
                flags,
            },
            Op::Mlockall { flags } => Call::Mlockall { flags },
            Op::Munlockall => Call::Munlockall,
            Op::RemapFilePages {
                addr,
                len,
                prot,
                pgoff,
                flags,
            } => Call::RemapFilePages {
                addr,
                len,
                prot,
                pgoff,
                flags,
            },
            Op::ProcessMadvise {
                addr,
                len,
                advice,
                flags,
            } => Call::ProcessMadvise {
                ranges: [(addr, len)].into(),
                advice,
                flags,
            },
            Op::Mincore { addr, len } => {
                let mut vec = vec![0; (len / PAGE) as usize];
                let mut answer = result(self.process(who).mincore(addr, len, &mut vec).map(|()| 0));
                for (i, byte) in vec.iter().enumerate() {
                    answer.bits |= u64::from(*byte) << i;
                }
                return answer;
            }
            Op::Read { addr } => return self.touch(who, addr, Access::READ, 0),
            Op::Write { addr, value } => return self.touch(who, addr, Access::WRITE, value),
            Op::Exec { addr } => return self.touch(who, addr, Access::EXEC, 0),
            Op::Fork { child } => {
                self.processes[child] = Some(self.process(who).fork(self.mode).unwrap());
                return Answer::default();
            }
            Op::Exit => {
                self.processes[who] = None;
                return Answer::default();
            }
            Op::Truncate { file, size } => {
                let mut bytes = self.disks[file - 1].bytes.lock().unwrap();
                let before = bytes.len() as u64;
                bytes.resize(size as usize, 0);
                drop(bytes);
                let object = &self.files[file - 1].object;
                if size > before {
                    self.machine.extend(object, before).unwrap();
                } else {
                    self.machine.truncate(object, size).unwrap();
                }
                return Answer::default();
            }
            Op::Punch { file, start, end } => {
                let disk = &self.disks[file - 1];
                Source(disk.clone()).punch(start, end).unwrap();
                let object = &self.files[file - 1].object;
                self.machine.punch(object, start, end).unwrap();
                return Answer::default();
            }
        };
        result(self.process(who).perform(&call))
    }

    fn touch(&self, who: usize, addr: u64, access: Access, value: u8) -> Answer {
        let process = self.process(who);
        let mut byte = [value];
        let done = match access {
            Access::READ => process.copy_out(addr, &mut byte),
            Access::WRITE => process.copy_in(addr, &byte),
            _ => 0,
        };
        if done == 1 {
            return Answer {
                value: if access == Access::READ {
                    i64::from(byte[0])
                } else {
                    0
                },
                ..Answer::default()
            };
        }
        match process.fault(addr, access) {
            Err(Fault::Signal { signal, code }) => Answer {
                signal: signal.number(),
                code,
                ..Answer::default()
            },
            other => panic!("{access:?} at {addr:#x}: {other:?}"),
        }
    }

    /// From the words of the page map, and, one by one, from what is told of each page.
    fn pages(&self, who: usize) -> Pages {
        let process = self.process(who);
        let told =
            PageStatus::PRESENT | PageStatus::FILE | PageStatus::EXCLUSIVE | PageStatus::ZERO;
        let mut words = vec![0; pages() as usize];
        process.pagemap(base(), &mut words).unwrap();
        let zero = |i: usize| {
            let page = process.page(base() + i as u64 * PAGE);
            page.contains(PageStatus::ZERO)
        };
        let found: Pages = (words.iter().enumerate())
            .map(|(i, &word)| told_by(word, zero(i)))
            .collect();
        let one_by_one: Pages = (0..pages())
            .map(|i| (process.page(base() + i * PAGE) & told).bits() as u8)
            .collect();
        assert_eq!(found, one_by_one);
        found
    }

    /// Returns the resident memory of all areas, in KiB, as three observers report it.
    fn resident(&self, who: usize) -> u64 {
        let process = self.process(who);
        let text = process.rollup().map(|rollup| rollup.to_string());
        let rollup = text.map_or(0, |text| {
            let line = text.lines().find(|line| line.starts_with("Rss:")).unwrap();
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        });
        let memory = process.memory();
        assert_eq!(memory.resident() * 4, rollup);
        let statm = memory.statm(0).to_string();
        assert_eq!(statm.split(' ').nth(1).unwrap(), (rollup / 4).to_string());
        rollup
    }

    fn maps(&self, who: usize) -> Vec<String> {
        self.process(who).with_space(|space| {
            let lines = space.maps().map(|line| line.to_string());
            lines.filter_map(|line| in_arena(&line)).collect()
        })
    }

    fn smaps(&self, who: usize) -> Vec<Sums> {
        let mut text = String::new();
        self.process(who).write_smaps(&mut text).unwrap();
        sums_in_arena(&text)
    }

    fn may_execute(&self, who: usize, addr: u64) -> bool {
        self.process(who).with_space(|space| {
            // What is there, or may grow down to it.
            let area = space.find(addr);
            area.is_some_and(|area| area.vma.flags.contains(VmFlags::EXEC))
        })
    }
}

fn result(result: Result<u64, Errno>) -> Answer {
    Answer {
        value: match result {
            Ok(value) => value as i64,
            Err(errno) => -i64::from(errno.0),
        },
        ..Answer::default()
    }
}

/// Performs a history on both sides. Returns what each step came to in the real processes, a line a step.
///
/// # Errors
/// The number of the first step after which they differ, and how.
pub(crate) fn compare(history: &[Step], mode: ForkMode) -> Result<String, (usize, String)> {
    let mut log = String::new();
    let mut real = Real::start();
    let mut engine = Engine::start(mode);
    let reads = (0..SLOTS).flat_map(|who| {
        (0..pages()).map(move |page| Step {
            who,
            op: Op::Read {
                addr: base() + page * PAGE + page * 50 % PAGE,
            },
        })
    });
    // Which pages of such a file are in memory is the kernel's secret.
    let disk = history
        .iter()
        .any(|step| matches!(step.op, Op::Mmap { file: 2, .. }));
    let files = history
        .iter()
        .any(|step| matches!(step.op, Op::Mmap { flags, file, .. } if file != 0 || flags & 1 != 0));
    for (number, step) in history.iter().copied().chain(reads).enumerate() {
        let Step { who, op } = step;
        let alive = (0..SLOTS).filter(|&who| real.lives(who)).count();
        let possible = real.lives(who)
            && match op {
                Op::Fork { child } => !real.lives(child),
                Op::Exit => alive > 1,
                Op::Exec { addr } => !engine.may_execute(who, addr),
                _ => true,
            };
        if !possible {
            continue;
        }
        let differs = |what: String| Err((number, format!("after {step:x?}: {what}")));
        let (mut expected, mut found) = (real.perform(who, op), engine.perform(who, op));
        if disk {
            (expected.bits, found.bits) = (0, 0);
        }
        if expected != found {
            return differs(format!("kernel {expected:x?}, engine {found:x?}"));
        }
        let _ = writeln!(log, "{number} {step:x?} {expected:x?}");
        // In the larger arena, what is read at the end is looked at alone.
        if number >= history.len() && pages() > 64 {
            continue;
        }
        for other in (0..SLOTS).filter(|&other| real.lives(other)) {
            let (expected, found) = (real.maps(other), engine.maps(other));
            let _ = writeln!(log, "  {other} {}", expected.join(", "));
            if expected != found {
                return differs(format!(
                    "maps of {other}:\nkernel {expected:#?}\nengine {found:#?}"
                ));
            }
            // Where pages may be present on one side only, so are sums.
            if !disk && (mode == ForkMode::Copy || !files) {
                let (expected, found) = (real.smaps(other), engine.smaps(other));
                for (expected, found) in expected.iter().zip(&found) {
                    if !expected.agree(found, mode == ForkMode::Share) {
                        return differs(format!(
                            "smaps of {other}:\nkernel {expected:?}\nengine {found:?}"
                        ));
                    }
                }
                let kernel: u64 = expected.iter().map(Sums::resident).sum();
                let engine = engine.resident(other);
                if kernel != engine {
                    return differs(format!(
                        "rollup of {other}: kernel {kernel}, engine {engine}"
                    ));
                }
            }
            let (expected, found) = (real.pages(other), engine.pages(other));
            // The pages of shared mappings may be in a child that shares tables from the start, and so count as had by two; and where no fault is
            // taken, nothing comes around it.
            for (i, (&expected, &found)) in expected.iter().zip(&found).enumerate() {
                let file = (expected | found) & 2 != 0;
                let private = [expected, found].map(|page| page & 3 == 1);
                let lenient =
                    (disk || mode == ForkMode::Share) && file && private == [false, false];
                if expected != found && !lenient {
                    let addr = base() + i as u64 * PAGE;
                    return differs(format!(
                        "page {addr:#x} of {other}: kernel {expected:#x}, engine {found:#x}"
                    ));
                }
            }
        }
        if let Err(what) = engine.machine.check() {
            return differs(what);
        }
    }
    Ok(log)
}

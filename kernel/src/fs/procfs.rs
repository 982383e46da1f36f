//! `/proc`: the reports of samara-mm about each process, and those of the process table.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::fmt::{self, Write};
use core::sync::atomic::Ordering;

use samara_mm::{Errno, observe};

use super::inode::{Directory, Entries, Inode, Kind};
use super::path::Dentry;
use crate::arch::{Arch, Machine};
use crate::memory;
use crate::process::{self, Process, State};

/// Creates the directory `/proc`.
pub(super) fn root() -> Arc<Inode> {
    computed(ProcRoot)
}

/// Creates the directory of a process. A file descriptor of it is a pidfd.
pub fn pid_dir(process: &Arc<Process>) -> Arc<Inode> {
    computed(PidDir(Arc::downgrade(process)))
}

fn computed(entries: impl Entries + 'static) -> Arc<Inode> {
    Inode::new(Kind::Directory(Directory::Computed(Box::new(entries))), 0o555)
}

/// The root: a directory for each process, and files about the machine.
struct ProcRoot;

type MakeText = fn() -> String;

const SYSTEM_FILES: [(&str, MakeText); 7] = [
    ("meminfo", meminfo),
    ("uptime", uptime),
    ("vmstat", || format!("nr_free_pages {}\n", memory::free_frames())),
    ("cpuinfo", || format!("processor\t: 0\nmodel name\t: {}\n", Arch::NAME)),
    ("version", || "Linux version 6.18.0-samara (Samara)\n".to_string()),
    ("mounts", || "rootfs / rootfs rw 0 0\nproc /proc proc rw 0 0\n".to_string()),
    ("filesystems", || "nodev\ttmpfs\nnodev\tproc\nnodev\tdevtmpfs\n".to_string()),
];

impl Entries for ProcRoot {
    fn find(&self, name: &[u8]) -> Option<Arc<Inode>> {
        let name = core::str::from_utf8(name).ok()?;
        if name == "self" || name == "thread-self" {
            return Some(Inode::symlink(process::current().process.pid.to_string().into_bytes()));
        }
        if let Some((_, make)) = SYSTEM_FILES.iter().find(|(other, _)| *other == name) {
            return Some(Inode::text(0o444, || Ok(make().into_bytes())));
        }
        Some(pid_dir(&process::find(name.parse().ok()?)?))
    }

    fn names(&self) -> Vec<Vec<u8>> {
        let numbers =
            process::processes().into_iter().map(|process| process.pid.to_string().into_bytes());
        let others = SYSTEM_FILES.iter().map(|(name, _)| name.as_bytes().to_vec());
        numbers.chain(others).chain([b"self".to_vec()]).collect()
    }
}

fn meminfo() -> String {
    let (free, total) = (memory::free_frames(), memory::managed_frames());
    format!(
        "MemTotal:       {:8} kB\nMemFree:        {:8} kB\nMemAvailable:   {:8} kB\n",
        total * 4,
        free * 4,
        free * 4
    )
}

fn uptime() -> String {
    let now = Arch::now() / 10_000_000;
    format!("{}.{:02} 0.00\n", now / 100, now % 100)
}

/// The directory of a process.
struct PidDir(Weak<Process>);

type Make = fn(&Process) -> Result<Vec<u8>, Errno>;

const PID_FILES: [(&str, Make); 11] = [
    ("maps", |process| {
        render(process, |memory, out| memory.with_space(|space| space.write_maps(out)))
    }),
    ("smaps", |process| render(process, |memory, out| memory.write_smaps(out))),
    ("smaps_rollup", |process| {
        render(process, |memory, out| match memory.rollup() {
            Some(rollup) => write!(out, "{rollup}"),
            None => Ok(()),
        })
    }),
    ("stat", stat),
    ("statm", |process| {
        memory_of(process).map(|memory| format!("{}\n", memory.memory().statm(0)).into_bytes())
    }),
    ("status", status),
    ("cmdline", |process| Ok(process.command_line.lock().clone())),
    ("comm", |process| Ok(format!("{}\n", name(process)).into_bytes())),
    ("environ", |_| Ok(Vec::new())),
    ("wchan", |_| Ok(b"0".to_vec())),
    ("oom_score", oom_score),
];

impl Entries for PidDir {
    fn find(&self, name: &[u8]) -> Option<Arc<Inode>> {
        let process = self.0.upgrade()?;
        let name = core::str::from_utf8(name).ok()?;
        match name {
            "exe" => {
                let dentry = process.executable.lock().clone()?;
                return Some(Inode::new(Kind::MagicLink(dentry.path(), dentry), 0o777));
            }
            "cwd" => {
                let dentry = process.cwd.lock().clone();
                return Some(Inode::new(Kind::MagicLink(dentry.path(), dentry), 0o777));
            }
            "root" => return Some(Inode::symlink(b"/".to_vec())),
            "fd" => return Some(computed(FdDir(self.0.clone()))),
            "task" => return Some(computed(TaskDir(self.0.clone()))),
            "pagemap" => {
                let process = self.0.clone();
                let read = move |offset, into: &mut [u8]| pagemap(&process, offset, into);
                return Some(Inode::new(Kind::Computed(Box::new(read)), 0o400));
            }
            _ => {}
        }
        let (_, make) = *PID_FILES.iter().find(|(other, _)| *other == name)?;
        let process = self.0.clone();
        Some(Inode::text(0o444, move || make(&*process.upgrade().ok_or(Errno::ESRCH)?)))
    }

    fn names(&self) -> Vec<Vec<u8>> {
        let links = ["cwd", "exe", "fd", "pagemap", "root", "task"];
        let files = PID_FILES.iter().map(|(name, _)| *name);
        files.chain(links).map(|name| name.as_bytes().to_vec()).collect()
    }

    fn process(&self) -> Option<Arc<Process>> {
        self.0.upgrade()
    }
}

/// Reads `pagemap`: one word for each page (`proc_pid_pagemap(5)`).
fn pagemap(process: &Weak<Process>, offset: u64, into: &mut [u8]) -> Result<usize, Errno> {
    const AT_ONCE: usize = 256;
    if !offset.is_multiple_of(8) || !into.len().is_multiple_of(8) {
        return Err(Errno::EINVAL);
    }
    let Ok(memory) = memory_of(&*process.upgrade().ok_or(Errno::ESRCH)?) else {
        return Ok(0);
    };
    let pages = (Arch::TASK_SIZE / 4096).saturating_sub(offset / 8).min(into.len() as u64 / 8);
    let mut page = offset / 8;
    for piece in into[..pages as usize * 8].chunks_mut(AT_ONCE * 8) {
        let mut words = [0; AT_ONCE];
        memory.pagemap(page * 4096, &mut words[..piece.len() / 8])?;
        for (bytes, word) in piece.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        page += AT_ONCE as u64;
    }
    Ok(pages as usize * 8)
}

/// The directory of a process's file descriptors, as links.
struct FdDir(Weak<Process>);

impl FdDir {
    fn all(&self) -> Vec<(usize, Arc<super::OpenFile>)> {
        self.0.upgrade().map_or(Vec::new(), |process| process.files.lock().all())
    }
}

impl Entries for FdDir {
    fn find(&self, name: &[u8]) -> Option<Arc<Inode>> {
        let number: usize = core::str::from_utf8(name).ok()?.parse().ok()?;
        let (_, open) = self.all().into_iter().find(|(other, _)| *other == number)?;
        let dentry: Arc<Dentry> = open.dentry.clone();
        Some(Inode::new(Kind::MagicLink(dentry.path(), dentry), 0o777))
    }

    fn names(&self) -> Vec<Vec<u8>> {
        self.all().into_iter().map(|(number, _)| number.to_string().into_bytes()).collect()
    }
}

/// The directory of a process's threads. Each shows the files of the process.
struct TaskDir(Weak<Process>);

impl Entries for TaskDir {
    fn find(&self, name: &[u8]) -> Option<Arc<Inode>> {
        self.names().iter().any(|other| other == name).then(|| computed(PidDir(self.0.clone())))
    }

    fn names(&self) -> Vec<Vec<u8>> {
        let Some(process) = self.0.upgrade() else {
            return Vec::new();
        };
        let threads = process.threads.lock();
        threads.iter().map(|thread| thread.tid.to_string().into_bytes()).collect()
    }
}

fn memory_of(process: &Process) -> Result<Arc<memory::Memory>, Errno> {
    process.memory.lock().clone().ok_or(Errno::ESRCH)
}

/// Returns the text that `write` writes, or an empty text for a process without memory.
fn render(
    process: &Process,
    write: impl FnOnce(&memory::Memory, &mut Text) -> core::fmt::Result,
) -> Result<Vec<u8>, Errno> {
    let Ok(memory) = memory_of(process) else {
        return Ok(Vec::new());
    };
    let mut out = Text(Vec::new());
    write(&memory, &mut out).map_err(|_| Errno::ENOMEM)?;
    Ok(out.0)
}

/// Text whose allocations may fail.
struct Text(Vec<u8>);

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.try_reserve(text.len()).map_err(|_| fmt::Error)?;
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

fn name(process: &Process) -> String {
    let threads = process.threads.lock();
    let name = threads.first().map_or([0; 16], |thread| *thread.name.lock());
    let len = name.iter().position(|&byte| byte == 0).unwrap_or(16);
    String::from_utf8_lossy(&name[..len]).into_owned()
}

fn state(process: &Process) -> (char, &'static str) {
    match *process.state.lock() {
        State::Ended(_) => ('Z', "zombie"),
        State::Stopped(..) => ('T', "stopped"),
        _ if process.threads.lock().iter().any(|thread| thread.is_runnable()) => ('R', "running"),
        _ => ('S', "sleeping"),
    }
}

fn parent(process: &Process) -> i32 {
    process.parent.lock().upgrade().map_or(0, |parent| parent.pid)
}

/// Returns the 52 fields of `proc_pid_stat(5)`. Fields that this kernel does not count are zero.
fn stat(process: &Process) -> Result<Vec<u8>, Errno> {
    let ticks = |nanoseconds: u64| nanoseconds / 10_000_000;
    let (size, resident) = memory_of(process).map_or((0, 0), |memory| {
        (memory.with_space(|space| space.stats().pages.total), memory.memory().resident())
    });
    let threads = process.threads.lock().len();
    let mut out = format!(
        "{} ({}) {} {} {} {} 0 -1 0 0 0 0 0 {} 0 {} 0 20 0 {threads} 0 {} {} {}",
        process.pid,
        name(process),
        state(process).0,
        parent(process),
        process.pgid.load(Ordering::Relaxed),
        process.sid.load(Ordering::Relaxed),
        ticks(process.time.load(Ordering::Relaxed)),
        ticks(process.children_time.load(Ordering::Relaxed)),
        ticks(process.start_time),
        size * 4096,
        resident,
    );
    (25..=52).for_each(|_| out.push_str(" 0"));
    out.push('\n');
    Ok(out.into_bytes())
}

fn oom_score(process: &Process) -> Result<Vec<u8>, Errno> {
    let used = memory_of(process).map_or(0, |memory| memory.memory().resident());
    Ok(format!("{}\n", observe::oom_score(used, 0, memory::managed_frames())).into_bytes())
}

fn status(process: &Process) -> Result<Vec<u8>, Errno> {
    let mut out = String::new();
    let (letter, word) = state(process);
    let pid = process.pid;
    let threads = process.threads.lock().len();
    let _ = write!(
        out,
        "Name:\t{}\nState:\t{letter} ({word})\nTgid:\t{pid}\nPid:\t{pid}\nPPid:\t{}\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\n",
        name(process),
        parent(process),
    );
    if let Ok(memory) = memory_of(process) {
        let _ = write!(out, "{}", memory.memory());
    }
    let _ = writeln!(out, "TaskDir:\t{threads}");
    Ok(out.into_bytes())
}

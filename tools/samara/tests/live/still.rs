//! Programs that are followed by `samara trace`, stopped where they wait, and what the kernel tells of them then.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::common::{fresh, samara};
use crate::programs::Program;

/// The number of times that a map must be unchanged before a program counts as waiting, and the
/// number of attempts.
const STILL: u32 = 8;
const LOOKS: u32 = 600;
const BETWEEN: Duration = Duration::from_millis(100);

/// A program that runs, followed from its exec.
pub(crate) struct Followed {
    tracer: Child,
    pub(crate) record: PathBuf,
    pub(crate) json: PathBuf,
    told: PathBuf,
}

/// The kernel's view of a stopped process.
#[derive(Clone)]
pub(crate) struct Told {
    pub(crate) pid: i32,
    pub(crate) name: String,
    pub(crate) threads: Vec<i32>,
    pub(crate) maps: String,
    pub(crate) smaps: String,
    /// `None` where the kernel cannot be asked.
    pub(crate) pages: Option<Vec<Run>>,
}

/// Neighbouring pages of one kind that are in memory or swapped out (`struct page_region`).
#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub(crate) start: u64,
    pub(crate) end: u64,
    kind: u64,
}

const FILE: u64 = 1 << 2;
const PRESENT: u64 = 1 << 3;
const SWAPPED: u64 = 1 << 4;
const ZERO: u64 = 1 << 5;
const GUARD: u64 = 1 << 8;

impl Run {
    /// Of a file or of shared memory.
    pub(crate) fn is_file(&self) -> bool {
        self.kind & FILE != 0
    }

    /// In memory; the page of zeroes does not count.
    pub(crate) fn is_resident(&self) -> bool {
        self.kind & PRESENT != 0 && self.kind & ZERO == 0
    }

    pub(crate) fn is_swapped(&self) -> bool {
        self.kind & (SWAPPED | GUARD) == SWAPPED
    }
}

impl Followed {
    pub(crate) fn start(program: &Program) -> Self {
        let (record, json, told) = (fresh("record"), fresh("json"), fresh("told"));
        let folder = fresh("folder");
        fs::create_dir(&folder).unwrap();
        let out = fs::File::create(&told).unwrap();
        let tracer = samara()
            .args(["trace", "--record"])
            .arg(&record)
            .arg("--json")
            .arg(&json)
            .arg("--")
            .args(&program.words)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(out.try_clone().unwrap())
            .stderr(out)
            .spawn()
            .unwrap();
        Followed {
            tracer,
            record,
            json,
            told,
        }
    }

    /// The processes that it follows.
    fn processes(&self) -> Vec<i32> {
        let mut found: Vec<i32> = fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|&pid| line(pid, "TracerPid:") == Some(self.tracer.id().to_string()))
            // Those that have ended have no map.
            .filter(|&pid| !text(pid, "maps").is_empty())
            .collect();
        found.sort_unstable();
        found
    }

    /// Waits until there are at least `at_least` processes whose maps do not change, or for a long
    /// time. Returns `false` if all have ended.
    fn wait(&mut self, at_least: usize) -> bool {
        let mut before = BTreeMap::new();
        let mut still = 0;
        for _ in 0..LOOKS {
            sleep(BETWEEN);
            if self.tracer.try_wait().unwrap().is_some() {
                return false;
            }
            let now: BTreeMap<i32, String> = (self.processes().into_iter())
                .map(|pid| (pid, text(pid, "maps")))
                .collect();
            still = if now == before { still + 1 } else { 0 };
            if still >= STILL && now.len() >= at_least {
                break;
            }
            before = now;
        }
        true
    }

    /// Returns its output so far.
    pub(crate) fn told(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.told).unwrap_or_default()).into_owned()
    }

    /// Returns the number of times that each thread and the tracer got the processor, or `None`
    /// unless all are stopped and the tracer waits for an event.
    fn stopped(&self, pids: &[i32]) -> Option<Vec<String>> {
        const WAITS: [&str; 2] = ["61 ", "247 "];
        let tracer = self.tracer.id() as i32;
        if !WAITS
            .iter()
            .any(|call| text(tracer, "syscall").starts_with(call))
        {
            return None;
        }
        let mut switches = Vec::new();
        for &pid in pids.iter().chain([&tracer]) {
            for tid in threads(pid) {
                let status = text(pid, &format!("task/{tid}/status"));
                let of = |label| status.lines().find(|line| line.starts_with(label));
                let state = of("State:")?.split_whitespace().nth(1)?;
                if pid != tracer && !matches!(state, "t" | "T" | "Z" | "X") {
                    return None;
                }
                switches.push(format!(
                    "{tid} {:?} {:?}",
                    of("voluntary"),
                    of("nonvoluntary")
                ));
            }
        }
        Some(switches)
    }

    /// Stops all processes where they wait, and tells what the kernel says of each; nothing if they have ended by themselves.
    pub(crate) fn look(&mut self, program: &Program) -> Vec<Told> {
        if !self.wait(program.processes) {
            return Vec::new();
        }
        let mut before = None;
        for _ in 0..LOOKS {
            let pids = self.processes();
            let now = self.stopped(&pids);
            if now.is_some() && now == before {
                return pids.into_iter().map(told).collect();
            }
            if now.is_none() {
                for pid in pids {
                    // SAFETY: a process that this test has started.
                    unsafe { libc::kill(pid, libc::SIGSTOP) };
                }
            }
            before = now;
            sleep(BETWEEN);
        }
        panic!("{}: its processes cannot be stopped", program.name);
    }

    /// Ends all processes as they are, and waits for the trace's end.
    pub(crate) fn end(&mut self) {
        loop {
            for pid in self.processes() {
                // SAFETY: a process that this test has started.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            }
            if self.tracer.try_wait().unwrap().is_some() {
                return;
            }
            sleep(BETWEEN / 10);
        }
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        // After a failure.
        if self.tracer.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.end();
        }
    }
}

/// A file of `/proc/PID`; empty if there is no such process.
fn text(pid: i32, name: &str) -> String {
    let bytes = fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A line of `/proc/PID/status`.
fn line(pid: i32, label: &str) -> Option<String> {
    let status = text(pid, "status");
    let line = status.lines().find_map(|line| line.strip_prefix(label));
    line.map(|line| line.trim().to_owned())
}

fn threads(pid: i32) -> Vec<i32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let tasks = tasks.into_iter().flatten().flatten();
    tasks
        .filter_map(|task| task.file_name().to_str()?.parse().ok())
        .collect()
}

/// Reads a stopped process. If the kernel changes pages by itself during the reading (reclaim,
/// DAMON), reads again.
fn told(pid: i32) -> Told {
    let mut pages = scan(pid);
    loop {
        let (maps, smaps) = (text(pid, "maps"), text(pid, "smaps"));
        let again = scan(pid);
        if again == pages {
            return Told {
                pid,
                name: text(pid, "comm").trim_end().to_owned(),
                threads: threads(pid),
                maps,
                smaps,
                pages,
            };
        }
        pages = again;
    }
}

/// `struct pm_scan_arg` (Documentation/admin-guide/mm/pagemap.rst).
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

/// The pages that are in memory or swapped out. `None` where the kernel is older than 6.15, or does not tell this user.
fn scan(pid: i32) -> Option<Vec<Run>> {
    const PAGEMAP_SCAN: libc::Ioctl = 0xc060_6610;
    let file = fs::File::open(format!("/proc/{pid}/pagemap")).ok()?;
    let mut all = Vec::new();
    let mut some = [Run::default(); 256];
    let mut start = 0;
    let end = 0x7fff_ffff_f000;
    while start < end {
        let mut scan = Scan {
            size: size_of::<Scan>() as u64,
            start,
            end,
            vec: some.as_mut_ptr() as u64,
            vec_len: some.len() as u64,
            category_anyof_mask: PRESENT | SWAPPED,
            return_mask: FILE | PRESENT | SWAPPED | ZERO | GUARD,
            ..Scan::default()
        };
        // SAFETY: the structure that this ioctl takes, and room for what it finds.
        let count = unsafe { libc::ioctl(file.as_raw_fd(), PAGEMAP_SCAN, &raw mut scan) };
        all.extend_from_slice(some.get(..usize::try_from(count).ok()?)?);
        start = scan.walk_end;
    }
    Some(all)
}

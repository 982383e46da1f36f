//! The known facts about all processes at one moment.
//!
//! Reading smaps takes the kernel microseconds for each area and each page. Of many processes, again and again, only maps and status are read:
//! counts of areas and gaps are exact, and a fork is estimated from the pages that status counts.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use samara_linux::living;
use samara_linux::maps::Map;
use samara_linux::proc;
use samara_mm::Config;

use crate::show::fork::Fork;
use crate::show::snapshot::{Gaps, gaps};

use super::users::Users;

/// The facts in a process's map.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Mapped {
    pub(super) areas: u64,
    pub(super) gaps: Gaps,
    pub(super) fork: Fork,
}

/// A process that has memory of its own.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Process {
    pub(super) pid: i32,
    pub(super) name: String,
    /// The name of the user as whom it acts, or that user's number.
    pub(super) user: Arc<str>,
    pub(super) threads: u64,
    /// Bytes: mapped, in memory, swapped out.
    pub(super) size: u64,
    pub(super) resident: u64,
    pub(super) swapped: u64,
    /// `None` if its map may not be read.
    pub(super) mapped: Option<Mapped>,
}

/// All processes at about one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Sample {
    /// Ascending numbers.
    pub(super) processes: Vec<Process>,
    /// `vm.max_map_count`.
    pub(super) limit: u64,
}

impl Sample {
    /// Returns the number of processes that may not be read.
    pub(super) fn closed(&self) -> usize {
        let closed = |process: &&Process| process.mapped.is_none();
        self.processes.iter().filter(closed).count()
    }
}

/// Looks at processes, again and again, in the same buffers.
#[derive(Debug, Default)]
pub(super) struct Sampler {
    status: Vec<u8>,
    map: Map,
    users: Users,
}

/// The facts in a process's status.
#[derive(Debug, Default)]
struct Status {
    name: String,
    user: u32,
    threads: u64,
    /// In KiB; `None` for threads of the kernel, and for those that have ended.
    size: Option<u64>,
    resident: u64,
    anonymous: u64,
    swapped: u64,
    tables: u64,
}

impl Sampler {
    /// Reads all processes of `/proc`, or of a folder like it. Those that end during the reading
    /// are left out, and so are those without memory.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(super) fn look(&mut self, folder: &Path) -> io::Result<Sample> {
        let mut pids: Vec<i32> = fs::read_dir(folder)?
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect();
        pids.sort_unstable();
        let processes = pids
            .into_iter()
            .filter_map(|pid| self.process(pid, &folder.join(pid.to_string())));
        Ok(Sample {
            processes: processes.collect(),
            limit: proc::sysctl("vm/max_map_count", 65_530),
        })
    }

    /// By its first thread, or by others where that has ended.
    fn process(&mut self, pid: i32, folder: &Path) -> Option<Process> {
        let status = self.status(&folder.join("status")).ok()?;
        let (name, threads) = (status.name.clone(), status.threads);
        let mut found = self.through(pid, folder, status);
        while found.is_none()
            && threads > 1
            && let Some(tid) = living::with_memory(folder)
        {
            let own = folder.join("task").join(tid.to_string());
            let status = self.status(&own.join("status")).ok();
            found = status.and_then(|status| self.through(pid, &own, status));
        }
        found.map(|process| Process { name, ..process })
    }

    /// By the thread that a folder shows.
    fn through(&mut self, pid: i32, folder: &Path, status: Status) -> Option<Process> {
        let size = status.size?;
        let mapped = match self.mapped(&folder.join("maps"), &status) {
            Ok(mapped) => Some(mapped?),
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => {
                return None;
            }
            Err(_) => None,
        };
        Some(Process {
            pid,
            name: status.name,
            user: self.users.name(status.user),
            threads: status.threads,
            size: size << 10,
            resident: status.resident << 10,
            swapped: status.swapped << 10,
            mapped,
        })
    }

    fn status(&mut self, file: &Path) -> io::Result<Status> {
        self.status.clear();
        fs::File::open(file)?.read_to_end(&mut self.status)?;
        let text = String::from_utf8_lossy(&self.status);
        let mut status = Status::default();
        for line in text.lines() {
            let Some((label, value)) = line.split_once(':') else {
                continue;
            };
            let number = || {
                let digits = value.split_ascii_whitespace().next();
                digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
            };
            match label {
                "Name" => status.name = of_status(value.strip_prefix('\t').unwrap_or(value)),
                // The real one, and then that as which it acts.
                "Uid" => {
                    let user = value.split_ascii_whitespace().nth(1);
                    status.user = user.and_then(|user| user.parse().ok()).unwrap_or(u32::MAX);
                }
                "Threads" => status.threads = number(),
                "VmSize" => status.size = Some(number()),
                "VmRSS" => status.resident = number(),
                "RssAnon" => status.anonymous = number(),
                "VmSwap" => status.swapped = number(),
                "VmPTE" => status.tables = number(),
                _ => {}
            }
        }
        Ok(status)
    }

    /// `Ok(None)` if there is nothing in the map: the process has ended.
    fn mapped(&mut self, file: &Path, status: &Status) -> io::Result<Option<Mapped>> {
        let mut file = fs::File::open(file)?;
        self.map.refill(|text| file.read_to_end(text).map(|_| ()))?;
        let areas = self.map.areas().len() as u64;
        let entries = status.anonymous.saturating_add(status.swapped) / 4;
        let tables = entries.min(status.tables / 4);
        let gaps = Gaps::of(gaps(&self.map, &Config::default()));
        Ok((areas > 0).then(|| Mapped {
            areas,
            gaps,
            fork: Fork::counted(areas, entries, tables),
        }))
    }
}

/// Returns a process's name from `/proc/PID/status`, where line feeds and backslashes are escaped,
/// without the escapes.
fn of_status(escaped: &str) -> String {
    let mut out = String::with_capacity(escaped.len());
    let mut rest = escaped.chars();
    while let Some(c) = rest.next() {
        let mut ahead = rest.clone();
        match (c, ahead.next()) {
            ('\\', Some('n')) => out.push('\n'),
            ('\\', Some('\\')) => out.push('\\'),
            _ => {
                out.push(c);
                continue;
            }
        }
        rest = ahead;
    }
    out
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const MAPS: &str = "\
10000-12000 r-xp 00000000 fe:00 1                          /bin/a
13000-14000 rw-p 00000000 00:00 0
7ffffffde000-7ffffffff000 rw-p 00000000 00:00 0                          [stack]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
";

    /// Writes a process as `/proc` shows it.
    pub(in crate::top) fn process(folder: &Path, pid: i32, name: &str, anonymous: u64) {
        let own = folder.join(pid.to_string());
        fs::create_dir(&own).unwrap();
        let status = format!(
            "Name:\t{name}\nState:\tS (sleeping)\nUid:\t1\t0\t0\t0\nThreads:\t2\nVmSize:\t    200 kB\nVmRSS:\t     80 kB\nRssAnon:\t    {anonymous} kB\nVmSwap:\t      4 kB\nVmPTE:\t     12 kB\n"
        );
        fs::write(own.join("status"), status).unwrap();
        fs::write(own.join("maps"), MAPS).unwrap();
    }

    #[test]
    fn a_process_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        process(folder.path(), 7, "a b", 40);
        let sample = Sampler::default().look(folder.path()).unwrap();
        let [found] = &sample.processes[..] else {
            panic!("one process: {sample:?}");
        };
        assert_eq!((found.pid, &found.name[..], found.threads), (7, "a b", 2));
        assert_eq!(&*found.user, "root");
        assert_eq!((found.size, found.resident), (200 << 10, 80 << 10));
        let mapped = found.mapped.unwrap();
        assert_eq!(mapped.areas, 3);
        let gaps = mapped.gaps;
        assert_eq!((gaps.fragments, gaps.fragment_bytes), (1, 0x1000));
        assert_eq!((mapped.fork.entries, mapped.fork.tables), (11, 3));
    }

    #[test]
    fn who_vanishes_is_left_out_and_who_is_closed_is_not() {
        let folder = tempfile::tempdir().unwrap();
        for pid in 1..=1000 {
            process(folder.path(), pid, "many", 40);
        }
        let of = |pid: i32| folder.path().join(pid.to_string());
        // It ends before its folder is looked into, before its map is opened, and before that is read.
        fs::remove_file(of(1).join("status")).unwrap();
        fs::remove_file(of(2).join("maps")).unwrap();
        fs::write(of(3).join("maps"), "").unwrap();
        // A thread of the kernel.
        fs::write(of(4).join("status"), "Name:\tkthreadd\nThreads:\t1\n").unwrap();
        // What cannot be read for another reason than that it is gone, and what makes no sense.
        fs::remove_file(of(5).join("maps")).unwrap();
        fs::create_dir(of(5).join("maps")).unwrap();
        fs::write(of(6).join("maps"), "nonsense\n").unwrap();
        let sample = Sampler::default().look(folder.path()).unwrap();
        assert_eq!(sample.processes.len(), 996);
        assert_eq!(sample.closed(), 2);
        let pids: Vec<i32> = sample.processes.iter().map(|process| process.pid).collect();
        assert!(pids.is_sorted() && pids[0] == 5);
    }

    #[test]
    fn the_own_process_is_among_those_that_live() {
        let sample = Sampler::default().look(Path::new("/proc")).unwrap();
        let own = std::process::id() as i32;
        let found = sample.processes.iter().find(|process| process.pid == own);
        assert!(found.unwrap().mapped.unwrap().areas > 10);
    }

    #[test]
    fn names_of_status_are_those_of_comm() {
        for (escaped, name) in [("a b", "a b"), (r"a\nb\\n", "a\nb\\n"), (r"a\", r"a\")] {
            assert_eq!(of_status(escaped), name);
        }
    }
}

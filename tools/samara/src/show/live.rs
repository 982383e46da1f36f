//! A live process, as `/proc` shows it.

use std::cell::OnceCell;
use std::fs::{self, File};
use std::io;

use samara_conformance::seed::Files;
use samara_linux::living::Living;
use samara_linux::maps::Map;
use samara_linux::proc;
use samara_linux::proc_file::{self, read_text};
use samara_linux::smaps::{Figures, Smaps, SmapsError};
use samara_mm::observe::Borders;
use samara_mm::{AddressSpace, Config, Errno, Layout, Limits, Obstacles, SeedVma, VmFlags};
use samara_tracer::kernel::Kernel;
use samara_tracer::vm_flags::of_smaps;

use super::ahead::Ahead;
use super::kinds::{self, Hints};
use super::snapshot::{Border, Snapshot};

/// The number of times that a map which changes during the reading is read again.
const TRIES: u32 = 5;
/// The most threads whose stack pointers are read.
const THREADS: usize = 10_000;

/// Looks at a process, which any of its threads may name.
///
/// # Errors
/// What is wrong, in a line.
pub(crate) fn look(named: i32) -> Result<Snapshot, String> {
    let living = Living::of(named);
    living.ask(|tid| look_through(living.process(), tid))
}

/// Looks at a process by one of its threads.
fn look_through(pid: i32, tid: i32) -> Result<Snapshot, String> {
    let name = name(pid)?;
    let smaps = smaps(pid, tid, &name)?;
    let status = read_text(format!("/proc/{tid}/status")).unwrap_or_default();
    let limits = proc::limits(tid).ok();
    let numbers = proc::layout(tid).unwrap_or_default();
    let hints = Hints {
        program: fs::read_link(format!("/proc/{tid}/exe"))
            .ok()
            .map(|path| std::os::unix::ffi::OsStringExt::into_vec(path.into_os_string())),
        start_brk: numbers.start_brk,
        stack_pointers: stack_pointers(pid),
        stack_size: limits
            .map(|limits| limits.stack)
            .filter(|&size| size != u64::MAX)
            .unwrap_or(8 << 20),
    };
    let kinds = kinds::kinds(&smaps.map, &smaps.told, &hints);
    let config = Config {
        kernel: Kernel::running().version,
        max_map_count: proc::sysctl("vm/max_map_count", 65_530) as u32,
        ..Config::default()
    };
    let layout = Layout {
        start_brk: numbers.start_brk,
        brk: heap_end(&smaps.map).unwrap_or(numbers.start_brk),
        stack_top: numbers.start_stack,
        ..Layout::default()
    };
    let threads = number(&status, "Threads:").unwrap_or(1);
    Ok(Snapshot {
        title: format!("{name} ({pid})"),
        threads: Some(threads),
        table_bytes: number(&status, "VmPTE:").map(|kib| kib << 10),
        borders: borders(&smaps)?,
        map: smaps.map,
        told: smaps.told,
        known: true,
        config,
        layout,
        engine: OnceCell::new(),
        kinds,
    })
}

/// Returns the name of a process.
///
/// # Errors
/// What is wrong, in a line.
pub(crate) fn name(pid: i32) -> Result<String, String> {
    let name = read_text(format!("/proc/{pid}/comm")).map_err(|error| refusal(pid, &error))?;
    Ok(name.strip_suffix('\n').unwrap_or(&name).to_owned())
}

/// A map with the flags and the sizes of its areas.
pub(crate) struct Areas {
    pub(crate) map: Map,
    pub(crate) told: Vec<(VmFlags, Figures)>,
}

/// Returns the map of a process with what is in memory of it, by one of its threads.
///
/// # Errors
/// What is wrong, in a line.
pub(crate) fn smaps(pid: i32, tid: i32, name: &str) -> Result<Areas, String> {
    let mut tries = 0;
    loop {
        let file =
            File::open(format!("/proc/{tid}/smaps")).map_err(|error| refusal(pid, &error))?;
        let text = Ahead::of(file).map_err(|error| refusal(pid, &error))?;
        match Smaps::read(text) {
            Ok(smaps) if smaps.told.is_empty() => return Err(without_memory(pid, name)),
            Ok(smaps) => {
                let told = of_smaps(&smaps);
                return Ok(Areas {
                    map: smaps.map,
                    told,
                });
            }
            Err(SmapsError::Line(..)) if tries < TRIES => tries += 1,
            Err(SmapsError::Reading(error)) => return Err(refusal(pid, &error)),
            Err(trouble) => {
                return Err(format!(
                    "the map of process {pid} cannot be read: {trouble}; stop the process first (kill -STOP {pid})"
                ));
            }
        }
    }
}

/// Returns the lines of a map as the engine takes them over.
fn seeds<'a>(
    map: &'a Map,
    told: &'a [(VmFlags, Figures)],
) -> impl Iterator<Item = SeedVma> + use<'a> {
    let mut files = Files::default();
    map.areas().iter().zip(told).map(move |(area, told)| {
        let (flags, figures) = told;
        let own_pages = || has_own_pages(figures);
        files.area(
            area,
            map.name(area),
            Some(*flags),
            || None,
            own_pages,
            || None,
        )
    })
}

fn refused(errno: Errno) -> String {
    format!("the engine refuses the map: {errno}")
}

/// Returns the engine's model of a map.
///
/// # Errors
/// What is wrong, in a line.
pub(crate) fn engine(
    map: &Map,
    told: &[(VmFlags, Figures)],
    config: Config,
    layout: Layout,
) -> Result<AddressSpace, String> {
    let mut space = AddressSpace::new(config, Limits::UNLIMITED, layout).map_err(refused)?;
    for seed in seeds(map, told) {
        space.seed(seed).map_err(refused)?;
    }
    Ok(space)
}

/// Returns the reasons why neighbours are two, by the engine's rule.
fn borders(smaps: &Areas) -> Result<Vec<Option<Border>>, String> {
    let mut borders = Borders::new();
    let mut below = VmFlags::empty();
    let mut all = Vec::with_capacity(smaps.told.len());
    for (seed, (flags, _)) in seeds(&smaps.map, &smaps.told).zip(&smaps.told) {
        let found = borders.next(seed).map_err(refused)?;
        let touching = found.filter(|found| !found.contains(Obstacles::APART));
        all.push(touching.map(|found| Border::of(found, below ^ *flags)));
        below = *flags;
    }
    Ok(all)
}

/// Private pages of an area's own, in memory or swapped out.
pub(crate) fn has_own_pages(figures: &Figures) -> bool {
    figures.anonymous != 0 || figures.swapped != 0
}

fn heap_end(map: &Map) -> Option<u64> {
    let heap = |area: &&samara_linux::maps::Area| map.name(area) == b"[heap]";
    map.areas().iter().rev().find(heap).map(|area| area.end)
}

/// Returns the stack pointers of threads that wait in the kernel. Those of running threads cannot
/// be known.
fn stack_pointers(pid: i32) -> Vec<u64> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let pointer = |text: String| {
        let text = text.split_ascii_whitespace().rev().nth(1)?;
        u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
    };
    tasks
        .flatten()
        .take(THREADS)
        .filter_map(|task| fs::read_to_string(task.path().join("syscall")).ok())
        .filter_map(pointer)
        .collect()
}

/// Returns a number of `/proc/PID/status`.
fn number(status: &str, label: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(label))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Returns the reason why a process cannot be read.
pub(crate) fn refusal(pid: i32, error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ESRCH) if !proc_file::ours() => proc_file::MISSING.to_owned(),
        Some(libc::ENOENT | libc::ESRCH) => {
            format!("there is no process {pid}: `ps -e` lists those that there are")
        }
        Some(libc::EACCES | libc::EPERM) => format!(
            "process {pid} may not be looked at: be its user, or root, and mind ptrace(2)'s other rules"
        ),
        _ => format!("process {pid} cannot be looked at: {error}"),
    }
}

/// Returns the reason why a process has no map.
fn without_memory(pid: i32, name: &str) -> String {
    const PF_KTHREAD: u64 = 0x0020_0000;
    let stat = read_text(format!("/proc/{pid}/stat")).unwrap_or_default();
    let mut fields = stat
        .rsplit_once(')')
        .map_or("", |(_, rest)| rest)
        .split_ascii_whitespace();
    let state = fields.next().unwrap_or("X");
    let flags: u64 = fields
        .nth(5)
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    if flags & PF_KTHREAD != 0 {
        format!("process {pid} ({name}) is a thread of the kernel: it has no memory of its own")
    } else if matches!(state, "Z" | "X") {
        format!("process {pid} ({name}) has ended: it has no memory any more")
    } else {
        format!("process {pid} ({name}) has no memory")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lines of the kernel's map, without the page of old system calls.
    fn kernels(pid: i32) -> Option<Vec<String>> {
        let text = fs::read(format!("/proc/{pid}/maps")).ok()?;
        let text = String::from_utf8_lossy(&text);
        let own = text.lines().filter(|line| !line.contains("[vsyscall]"));
        Some(own.map(str::to_owned).collect())
    }

    /// Compares the engine's map with the kernel's. Returns `None` if there is nothing to compare.
    fn compared(pid: i32) -> Option<Result<(), String>> {
        let before = kernels(pid)?;
        let snapshot = look(pid).ok()?;
        // Numbers of shared anonymous objects with names are the engine's own.
        if before.iter().any(|line| line.contains("[anon_shmem:")) {
            return None;
        }
        let mut text = String::new();
        snapshot.engine().unwrap().write_maps(&mut text).unwrap();
        let engine: Vec<&str> = text.lines().collect();
        if engine == before {
            return Some(Ok(()));
        }
        // It has made a call since.
        if kernels(pid)? != before {
            return None;
        }
        let differs = |(engine, kernel): &(&&str, &String)| **engine != kernel.as_str();
        let first = engine.iter().zip(&before).find(differs);
        Some(Err(format!("process {pid}: {first:?}")))
    }

    #[test]
    fn maps_of_live_processes_are_reproduced() {
        let pids = fs::read_dir("/proc").unwrap().flatten();
        let own = std::process::id() as i32;
        let pids = pids
            .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
            .filter(|&pid| pid != own);
        let mut agreed = 0;
        for pid in pids.take(300) {
            // A call and its reverse may come between two looks, but not each time.
            let mut tries = (0..10).filter_map(|_| compared(pid));
            match tries.by_ref().find(Result::is_ok) {
                Some(_) => agreed += 1,
                None => {
                    let again: Vec<_> = (0..10).filter_map(|_| compared(pid)).collect();
                    assert!(
                        again.len() < 5 || again.iter().any(Result::is_ok),
                        "{again:?}"
                    );
                }
            }
        }
        println!("{agreed} processes agree");
    }
}

//! The core of a live process, which is stopped during the dump.

use std::fs;
use std::path::Path;

use samara_linux::living::Living;
use samara_linux::proc_file::read_text;
use samara_mm::observe::core_file::{
    self, CORE, EM_X86_64, Filter, Ids, LINUX, NT_AUXV, NT_FILE, NT_PRFPREG, NT_PRPSINFO,
    NT_PRSTATUS, NT_SIGINFO, NT_X86_XSTATE, Note, ProcessInfo, Segment,
};
use samara_mm::{AddressSpace, Config, Layout, VmFlags};
use samara_tracer::quantity::bytes;
use samara_tracer::tell::say;
use samara_tracer::tell::unless_closed;

use super::memory::{Memory, Place};
use super::out::{Out, cannot_write};
use super::threads::Stopped;
use crate::show::live;

/// Writes the core of a process, which any of its threads may name.
///
/// # Errors
/// What is wrong, in a line.
pub(super) fn dump(named: i32, path: &Path) -> Result<(), String> {
    let living = Living::of(named);
    let pid = living.process();
    if pid == std::process::id() as i32 {
        return Err("a process cannot stop itself and go on: name another one".to_owned());
    }
    let name = live::name(pid)?;
    // Who has no memory cannot be stopped: that is told first.
    living.ask(|tid| live::smaps(pid, tid, &name))?;
    let stopped = living.ask(|tid| Stopped::all(pid, tid));
    let stopped = stopped.map_err(|error| live::refusal(pid, &error))?;
    // None of the stopped threads ends during the dump, unless all are killed.
    let tid = stopped.first();
    let smaps = live::smaps(pid, tid, &name)?;
    let space = live::engine(
        &smaps.map,
        &smaps.told,
        Config::default(),
        Layout::default(),
    )?;
    let places = space
        .areas()
        .map(|area| Place {
            start: area.start,
            end: area.end,
            offset: area.page_offset() << 12,
            anonymous: area.vma.is_anonymous(),
            shared: area.vma.flags.contains(VmFlags::MAYSHARE),
        })
        .collect();
    let mut memory = Memory::open(tid, places).map_err(|error| live::refusal(pid, &error))?;
    let mut segments = segments(tid, &space, &memory);
    let mut out = Out::create(path)?;
    fit(&mut segments, &mut memory, &out, path)?;
    let written = notes(pid, &space, &stopped, |notes| {
        core_file::write(
            &mut out,
            EM_X86_64,
            notes,
            segments.iter().copied(),
            &mut memory,
        )
    })?;
    unless_closed(written.and_then(|()| out.finish())).map_err(|error| cannot_write(path, &error))
}

/// Leaves out the zeroes at the ends of areas, if the file cannot have all bytes.
///
/// # Errors
///
/// The text of the error, if the output is a stream that would take too long.
fn fit(
    segments: &mut [Segment],
    memory: &mut Memory,
    out: &Out,
    path: &Path,
) -> Result<(), String> {
    let dumped = |segments: &[Segment]| segments.iter().map(|segment| segment.dumped).sum();
    let whole: u64 = dumped(segments);
    if out.holds(whole) {
        return Ok(());
    }
    for segment in &mut *segments {
        let end = segment.start + segment.dumped;
        segment.dumped = memory.written_end(segment.start, end) - segment.start;
    }
    let rest: u64 = dumped(segments);
    let holds = out.holds(rest);
    if out.is_stream() && !holds {
        return Err(format!(
            "`{}` would have to take {}, most of it zeroes: give --output a file, where these take no room",
            path.display(),
            bytes(rest)
        ));
    }
    // Otherwise the error is reported where the file ends.
    if holds {
        say(&format!(
            "samara: `{}` cannot be as long as the {} that it would have: the zeroes behind the last written page of each area are left out",
            path.display(),
            bytes(whole)
        ));
    }
    Ok(())
}

/// Returns the areas, and how much of each is in the file.
fn segments(tid: i32, space: &AddressSpace, memory: &Memory) -> Vec<Segment> {
    let filter = fs::read_to_string(format!("/proc/{tid}/coredump_filter"))
        .ok()
        .and_then(|text| u32::from_str_radix(text.trim(), 16).ok())
        .map_or_else(Filter::default, Filter::from_bits_truncate);
    space
        .areas()
        .map(|area| {
            let dumped = core_file::dumped(&area, filter, || memory.is_elf(area.start));
            core_file::segment(&area, dumped)
        })
        .collect()
}

/// Makes the notes and hands them on.
fn notes<R>(
    pid: i32,
    space: &AddressSpace,
    stopped: &Stopped,
    then: impl FnOnce(&[Note<'_>]) -> R,
) -> Result<R, String> {
    let tid = stopped.first();
    let stat = read_text(format!("/proc/{tid}/stat")).unwrap_or_default();
    let status = read_text(format!("/proc/{tid}/status")).unwrap_or_default();
    // Field 2, the name, may hold anything: fields are counted from behind it.
    let mut fields = stat
        .rsplit_once(')')
        .map_or("", |(_, rest)| rest)
        .split_ascii_whitespace();
    let state = fields.next().and_then(|text| text.bytes().next());
    let numbers: Vec<i64> = fields.map(|text| text.parse().unwrap_or(0)).collect();
    let number = |field: usize| numbers.get(field - 4).copied().unwrap_or(0);
    let ids = Ids {
        pid: pid as u32,
        parent: number(4) as u32,
        group: number(5) as u32,
        session: number(6) as u32,
    };
    let owner = |label: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(label));
        line.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok())
            .unwrap_or(0)
    };
    let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    let arguments: Vec<u8> = fs::read(format!("/proc/{tid}/cmdline"))
        .unwrap_or_default()
        .iter()
        .map(|&byte| if byte == 0 { b' ' } else { byte })
        .collect();
    let information = ProcessInfo {
        state: state.unwrap_or(b'R'),
        nice: number(19) as i8,
        flags: number(9) as u64,
        user: (owner("Uid:"), owner("Gid:")),
        ids,
        name: name.trim_ascii_end(),
        arguments: arguments.trim_ascii_end(),
    }
    .bytes();
    let auxiliary = fs::read(format!("/proc/{tid}/auxv")).unwrap_or_default();
    let files = core_file::files(space).map_err(|errno| errno.to_string())?;

    let threads = stopped.look(ids);
    let statuses: Vec<_> = threads.iter().map(|thread| thread.status.bytes()).collect();
    let mut notes = Vec::new();
    let note = |name, kind, bytes| Note { name, kind, bytes };
    for (number, (thread, status)) in threads.iter().zip(&statuses).enumerate() {
        notes.push(note(CORE, NT_PRSTATUS, &status[..]));
        if number == 0 {
            notes.push(note(CORE, NT_PRPSINFO, &information[..]));
        }
        notes.push(note(CORE, NT_SIGINFO, &thread.signal));
        if number == 0 {
            notes.push(note(CORE, NT_AUXV, &auxiliary));
            notes.push(note(CORE, NT_FILE, &files));
        }
        notes.extend(
            thread
                .floating
                .as_deref()
                .map(|b| note(CORE, NT_PRFPREG, b)),
        );
        notes.extend(
            thread
                .extended
                .as_deref()
                .map(|b| note(LINUX, NT_X86_XSTATE, b)),
        );
    }
    Ok(then(&notes))
}

//! `samara core`: a core file of a live process.
//!
//! | file | concept |
//! |---|---|
//! | `threads` | stopping a process, its registers |
//! | `memory` | its bytes, and where there are any |

mod memory;
mod threads;

use std::fs::{self, File};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use samara_mm::observe::core_file::{
    self, CORE, EM_X86_64, Filter, Ids, LINUX, NT_AUXV, NT_FILE, NT_PRFPREG, NT_PRPSINFO,
    NT_PRSTATUS, NT_SIGINFO, NT_X86_XSTATE, Note, ProcessInfo, Segment, Sink,
};
use samara_mm::{AddressSpace, Config, Layout, VmFlags};

use crate::outcome::complain;
use crate::show::live;
use memory::{Memory, Place};
use threads::Stopped;

#[derive(Debug, Args)]
pub(crate) struct CoreOptions {
    /// The process, by its number.
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    pid: i32,

    /// Write the core to this file. Pages of zeroes take no room in it.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

/// Runs the command; the value is the exit code.
pub(crate) fn run(options: &CoreOptions) -> i32 {
    match carry_out(options) {
        Ok(()) => 0,
        Err(text) => complain(&text),
    }
}

fn carry_out(options: &CoreOptions) -> Result<(), String> {
    let pid = options.pid;
    if pid == std::process::id() as i32 {
        return Err("a process cannot stop itself and go on: name another one".to_owned());
    }
    let name = fs::read_to_string(format!("/proc/{pid}/comm"))
        .map_err(|error| live::refusal(pid, &error))?;
    // Who has no memory cannot be stopped: that is told first.
    live::smaps(pid, name.trim_end())?;
    let stopped = Stopped::all(pid).map_err(|error| live::refusal(pid, &error))?;
    let smaps = live::smaps(pid, name.trim_end())?;
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
    let mut memory = Memory::open(pid, places).map_err(|error| live::refusal(pid, &error))?;
    let segments = segments(pid, &space, &memory);

    let path = &options.output;
    let failed = |error: io::Error| cannot_write(path, &error);
    let mut out = Out::create(path).map_err(failed)?;
    notes(pid, &space, &stopped, |notes| {
        core_file::write(
            &mut out,
            EM_X86_64,
            notes,
            segments.iter().copied(),
            &mut memory,
        )
    })?
    .and_then(|()| out.finish())
    .map_err(failed)
}

fn cannot_write(path: &Path, error: &io::Error) -> String {
    format!(
        "`{}` cannot be written: {error}; give --output another file",
        path.display()
    )
}

/// The areas, and how much of each is in the file.
fn segments(pid: i32, space: &AddressSpace, memory: &Memory) -> Vec<Segment> {
    let filter = fs::read_to_string(format!("/proc/{pid}/coredump_filter"))
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
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
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
    let arguments: Vec<u8> = fs::read(format!("/proc/{pid}/cmdline"))
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
    let auxiliary = fs::read(format!("/proc/{pid}/auxv")).unwrap_or_default();
    let files = core_file::files(space).map_err(|errno| errno.to_string())?;

    let threads = stopped.look(ids);
    let statuses: Vec<_> = threads.iter().map(|thread| thread.status.bytes()).collect();
    let mut notes = Vec::new();
    let note = |name, kind, bytes| Note { name, kind, bytes };
    for (number, (thread, status)) in threads.iter().zip(&statuses).enumerate() {
        notes.push(note(CORE, NT_PRSTATUS, &status[..]));
        if number == 0 {
            notes.push(note(CORE, NT_PRPSINFO, &information[..]));
            notes.extend(thread.signal.as_deref().map(|b| note(CORE, NT_SIGINFO, b)));
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

/// The file, with holes where it can have some.
#[derive(Debug)]
struct Out {
    to: BufWriter<File>,
    sparse: bool,
    length: u64,
}

impl Out {
    fn create(path: &Path) -> io::Result<Self> {
        // A core has whatever secrets the process had.
        let mut options = File::options();
        options.write(true).create(true).truncate(true);
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path)?;
        let sparse = file.metadata()?.is_file();
        Ok(Self {
            to: BufWriter::with_capacity(1 << 18, file),
            sparse,
            length: 0,
        })
    }

    fn finish(mut self) -> io::Result<()> {
        self.to.flush()?;
        if self.sparse {
            self.to.get_ref().set_len(self.length)?;
        }
        Ok(())
    }
}

impl Sink for Out {
    type Error = io::Error;

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.length += bytes.len() as u64;
        self.to.write_all(bytes)
    }

    fn skip(&mut self, zeroes: u64) -> io::Result<()> {
        const FEW: u64 = 4096;
        if self.sparse && zeroes >= FEW {
            self.length += zeroes;
            return self.to.seek(SeekFrom::Start(self.length)).map(|_| ());
        }
        let mut left = zeroes;
        while left > 0 {
            let piece = left.min(FEW);
            self.write(&[0; FEW as usize][..piece as usize])?;
            left -= piece;
        }
        Ok(())
    }
}

//! Performs a history on the kernel and on the engine, until they differ.

use std::collections::HashMap;
use std::fs::File as DiskFile;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;

use samara_conformance::checker::{Checker, Evidence, Verdict};
use samara_conformance::counted::counted;
use samara_conformance::seed::Seed;
use samara_linux::maps::Map;
use samara_mm::{Call, Config, Counted, DriverFlags, File, FileId, FileKind, NoPages, Object, abi};

use crate::trace;

use super::child::Child;
use super::history::{Action, Place, Step, addresses, mapped};

/// Stand-ins for the record's files, which this machine may lack. Each is as large as any mapping
/// needs.
#[derive(Default)]
pub(super) struct Files(HashMap<(FileId, Option<NonZeroU64>), (OwnedFd, Counted<File>)>);

/// The most descriptors that stand-ins use.
const MOST_FILES: usize = 512;
const FILE_SIZE: i64 = 1 << 40;

impl Files {
    /// Returns the stand-in for a file of the record, opened with the same access.
    pub(super) fn like(&mut self, file: &File) -> Option<Counted<File>> {
        let key = (file.id, file.description);
        if let Some((_, own)) = self.0.get(&key) {
            return Some(own.clone());
        }
        if self.0.len() >= MOST_FILES {
            return None;
        }
        // SAFETY: the name is a constant, and the descriptor is new.
        let fd = unsafe { libc::memfd_create(c"samara".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return None;
        }
        // SAFETY: the descriptor is new, and ours.
        let disk = unsafe { DiskFile::from_raw_fd(fd) };
        // SAFETY: the call takes a descriptor of ours and a number.
        unsafe { libc::ftruncate(fd, FILE_SIZE) };
        let disk = if file.readable && file.writable {
            disk
        } else {
            DiskFile::options()
                .read(file.readable)
                .write(file.writable)
                .open(format!("/proc/self/fd/{}", disk.as_raw_fd()))
                .ok()?
        };
        let meta = disk.metadata().ok()?;
        let own = counted(File {
            id: FileId {
                major: libc::major(meta.dev()),
                minor: libc::minor(meta.dev()),
                inode: meta.ino(),
            },
            description: NonZeroU64::new(self.0.len() as u64 + 1),
            name: "/memfd:samara (deleted)".into(),
            readable: file.readable,
            writable: file.writable,
            noexec: false,
            kind: FileKind::Shmem,
            seals: 0,
            driver: DriverFlags::default(),
            object: Object::none(),
        });
        self.0.insert(key, (disk.into(), own.clone()));
        Some(own)
    }

    pub(super) fn descriptor(&self, file: &File) -> Option<RawFd> {
        let own = self.0.values().find(|(_, own)| **own == *file)?;
        Some(own.0.as_raw_fd())
    }

    /// Returns the number of an open file among those that are used here.
    pub(super) fn number(&self, file: &File) -> u64 {
        file.description.map_or(0, NonZeroU64::get)
    }
}

/// An area as the kernel or the engine reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) perms: String,
}

/// The kind of a difference.
#[derive(Debug, Clone)]
pub(super) enum What {
    Answer {
        kernel: i64,
        engine: i64,
    },
    /// The areas in the ranges that the history has mapped.
    Map {
        kernel: Vec<Line>,
        engine: Vec<Line>,
    },
}

/// The first difference.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// The index of the step that shows the difference.
    pub(super) step: usize,
    pub(super) what: What,
    /// The kernel's answer to each step that was performed, by the step's number, and the step with
    /// the addresses that it had.
    pub(super) results: HashMap<usize, (i64, Action)>,
    pub(super) start_brk: u64,
    /// The address below which the history's mappings are placed.
    pub(super) fence: u64,
}

pub(super) struct Both {
    pub(super) files: Files,
    /// The settings of the record.
    pub(super) config: Option<Config>,
    machine: trace::Machine,
}

impl Both {
    pub(super) fn new() -> io::Result<Self> {
        trace::more_descriptors();
        Child::start()?;
        Ok(Self {
            files: Files::default(),
            config: None,
            machine: trace::Machine::look(Config::default().kernel),
        })
    }

    /// Performs the steps on the kernel and on the engine, each in a new process, and returns the
    /// first difference. Skips steps that refer to a missing step, and steps that would harm the
    /// process itself.
    pub(super) fn differs(&self, steps: &[Step]) -> Option<Found> {
        let mut child = Child::start().ok()?;
        let mut seed: Seed = trace::seed_of(child.process(), &self.machine).ok()?;
        if let Some(recorded) = &self.config {
            // The kernel's version belongs to the record. The permissions of this process do not.
            seed.config.kernel = recorded.kernel;
        }
        let start_brk = seed.layout.start_brk;
        let fence = child.fence;
        let own: Vec<(u64, u64)> = seed
            .areas
            .iter()
            .map(|area| (area.start, area.end))
            .collect();
        let engine = seed.build().and_then(|mut engine| engine.fork()).ok()?;
        let mut checker = Checker::new(engine, false);
        let mut results: HashMap<usize, (i64, Action)> = HashMap::new();
        let mut windows: Vec<(u64, u64)> = Vec::new();
        for (at, step) in steps.iter().enumerate() {
            let Some(action) = placed(step, &results, start_brk) else {
                continue;
            };
            if harms(&action, &own) {
                continue;
            }
            let Ok(answer) = child.perform(&action, &self.files) else {
                return None;
            };
            let Some(kernel) = answer else { continue };
            results.insert(step.id, (kernel, action.clone()));
            windows.extend(mapped(&action, kernel));
            let mut what = performed(&action, kernel, &mut checker)?;
            if what.is_none() {
                let mut map = Map::default();
                trace::read_map(child.process(), &mut map).ok()?;
                what = compared(&map, &mut checker, &windows)?;
            }
            if let Some(what) = what {
                return Some(Found {
                    step: at,
                    what,
                    results,
                    start_brk,
                    fence,
                });
            }
        }
        None
    }
}

/// Performs a step on the engine after the kernel. Returns the difference of the answers, if there
/// is one, and `None` if the engine cannot continue.
fn performed(action: &Action, kernel: i64, checker: &mut Checker) -> Option<Option<What>> {
    match action {
        Action::Touch(addr) => {
            if kernel == 0 {
                checker.touch(*addr);
            }
        }
        Action::ForkInto | Action::ForkAside => {
            let forked = checker.fork().ok()?;
            if matches!(action, Action::ForkInto) {
                *checker = forked;
            }
        }
        Action::Call(call) => {
            let nothing = Evidence {
                before: &[],
                after: None,
            };
            let (verdict, engine) = checker.perform(call, kernel, nothing, &mut NoPages);
            if verdict == Verdict::Differs {
                return Some(Some(What::Answer { kernel, engine }));
            }
        }
    }
    Some(None)
}

/// Compares the maps. Returns the difference within the windows, if there is one, and `None` if the
/// maps differ only elsewhere: then the difference has another cause.
fn compared(map: &Map, checker: &mut Checker, windows: &[(u64, u64)]) -> Option<Option<What>> {
    if checker.compare(map, &mut Vec::new(), &mut 0).is_ok() {
        return Some(None);
    }
    let theirs = map.areas().iter();
    let theirs = theirs.map(|area| (area.start, area.end, area.perms));
    let own = checker.engine().maps();
    let own = own.map(|area| (area.start, area.end, area.perms));
    let (kernel, engine) = (lines(theirs, windows), lines(own, windows));
    (kernel != engine).then_some(Some(What::Map { kernel, engine }))
}

/// Returns a step with the addresses that it has here. `None` if it refers to a step that was not
/// performed or that failed.
fn placed(step: &Step, results: &HashMap<usize, (i64, Action)>, start_brk: u64) -> Option<Action> {
    let mut action = step.action.clone();
    for (addr, place) in addresses(&mut action).into_iter().zip(step.places) {
        let Some(addr) = addr else { continue };
        match place {
            Place::Absolute => {}
            Place::Heap(offset) => *addr = start_brk.wrapping_add_signed(offset),
            Place::Behind { step, offset } => {
                let base = results.get(&step)?.0;
                if base <= 0 {
                    return None;
                }
                *addr = (base as u64).wrapping_add_signed(offset);
            }
        }
    }
    Some(action)
}

/// Returns `true` if the step would change memory that the process had from the start.
fn harms(action: &Action, own: &[(u64, u64)]) -> bool {
    let meets = |addr: u64, len: u64| {
        let end = addr.saturating_add(len);
        own.iter().any(|&(from, to)| addr < to && from < end)
    };
    match *action {
        Action::Touch(addr) => meets(addr, 1),
        Action::Call(ref call) => match *call {
            Call::Mmap {
                addr, len, flags, ..
            } => flags & abi::MAP_FIXED != 0 && meets(addr, len),
            Call::Munmap { addr, len }
            | Call::Mprotect { addr, len, .. }
            | Call::Mseal { addr, len, .. }
            | Call::RemapFilePages { addr, len, .. }
            | Call::Madvise { addr, len, .. } => meets(addr, len),
            Call::Mremap {
                old_addr,
                old_len,
                new_len,
                new_addr,
                flags,
            } => {
                meets(old_addr, old_len)
                    || flags & abi::MREMAP_FIXED != 0 && meets(new_addr, new_len)
            }
            _ => false,
        },
        _ => false,
    }
}

fn within(start: u64, end: u64, windows: &[(u64, u64)]) -> bool {
    windows.iter().any(|&(from, to)| start < to && from < end)
}

/// Returns the areas within the windows, of the kernel's map or of the engine's.
fn lines(areas: impl Iterator<Item = (u64, u64, [u8; 4])>, windows: &[(u64, u64)]) -> Vec<Line> {
    areas
        .filter(|&(start, end, _)| within(start, end, windows))
        .map(|(start, end, perms)| Line {
            start,
            end,
            perms: String::from_utf8_lossy(&perms).into_owned(),
        })
        .collect()
}

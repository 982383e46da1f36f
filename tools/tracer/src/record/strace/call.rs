//! The calls that bear on memory, from their text.

use std::collections::HashMap;
use std::num::NonZeroU64;

use samara_conformance::counted::counted;
use samara_conformance::describe;
use samara_mm::{Call, Counted, DriverFlags, Errno, File, FileArg, FileId, FileKind, Object};

use super::line::{self, Argument, Complaint, Text};

/// The meaning of a call for an address space.
#[derive(Debug)]
pub(super) enum Decoded {
    Call(Call),
    /// Its arguments, or what it works on, are not told.
    Unmodelled(&'static str),
    /// Makes a thread or a process.
    Makes,
    /// Starts a program, with these words.
    Exec(Vec<String>),
}

/// Files by what is told of them: the path, by `-y`, or else the descriptor.
#[derive(Default)]
pub(super) struct Files(HashMap<String, Counted<File>>);

impl Files {
    fn named(&mut self, name: &str) -> Counted<File> {
        let number = self.0.len() as u64 + 1;
        let made = || {
            counted(File {
                id: FileId {
                    major: 0,
                    minor: 0,
                    inode: number,
                },
                description: NonZeroU64::new(number),
                name: name.into(),
                readable: true,
                writable: true,
                noexec: false,
                kind: kind(name),
                seals: 0,
                driver: DriverFlags::default(),
                object: Object::none(),
            })
        };
        self.0.entry(name.to_owned()).or_insert_with(made).clone()
    }
}

fn kind(name: &str) -> FileKind {
    if name == "/dev/zero" {
        FileKind::DevZero
    } else if name.starts_with("/memfd:") || name.starts_with("/dev/shm/") {
        FileKind::Shmem
    } else if name.starts_with("/dev/") {
        FileKind::Device
    } else {
        FileKind::Regular
    }
}

/// Returns `true` if the call whose text begins so makes a thread or a process.
pub(super) fn makes(text: &str) -> bool {
    matches!(
        line::name(text),
        Some("clone" | "clone3" | "fork" | "vfork")
    )
}

/// Returns `true` if the call whose text begins so executes a program.
pub(super) fn starts(text: &str) -> bool {
    matches!(line::name(text), Some("execve" | "execveat"))
}

/// Returns `true` if the call whose text begins so may change the map.
pub(super) fn on_memory(text: &str) -> bool {
    let name = line::name(text).unwrap_or_default();
    NAMES.contains(&name) && !makes(text)
}

const VM: u64 = 0x100;
const VFORK: u64 = 0x4000;
const THREAD: u64 = 0x1_0000;

/// The flags of a call that makes a thread or a process. `None`: they are behind a pointer.
fn flags(text: &str) -> Option<u64> {
    let name = line::name(text)?;
    let word = match (name, text.split_once("flags=")) {
        ("fork", _) => return Some(0),
        ("vfork", _) => return Some(VM | VFORK),
        (_, Some((_, word))) => word,
        ("clone", None) => text.get(name.len() + 1..)?,
        _ => return None,
    };
    let word = word.split([',', '}', ')', ' ', '<']).next()?;
    let flag = |name| match name {
        "CLONE_VM" => VM,
        "CLONE_VFORK" => VFORK,
        "CLONE_THREAD" => THREAD,
        other => line::plain(other).unwrap_or(0),
    };
    Some(word.split('|').fold(0, |sum, name| sum | flag(name)))
}

/// Returns whether it shares the address space, and whether it makes a thread, or `None` if its
/// flags are behind a pointer.
pub(super) fn sharing(text: &str) -> Option<(bool, bool)> {
    let flags = flags(text)?;
    Some((flags & VM != 0, flags & THREAD != 0))
}

/// Returns `true` if the caller waits until the child ends or executes a program.
pub(super) fn waits(text: &str) -> bool {
    flags(text).is_some_and(|flags| flags & VFORK != 0)
}

fn errno(name: &str) -> Option<i32> {
    (1..=133).find(|number| Errno(*number).to_string() == name)
}

/// A call and what it returned; `None` for what is of no interest, or never returned.
pub(super) fn decode(text: &Text, files: &mut Files) -> Result<Option<(Decoded, i64)>, Complaint> {
    let Some(name) = line::name(&text.text) else {
        return Ok(None);
    };
    let Some(known) = NAMES.iter().find(|known| **known == name) else {
        return Ok(None);
    };
    let (arguments, close) = line::arguments(text, name.len())?;
    // Most operations have nothing to do with memory.
    let operation = arguments.first().map_or("", |argument| argument.0);
    if name == "prctl" && !PRCTL.contains(&operation) {
        return Ok(None);
    }
    let Some(returned) = line::result(text, close, errno)? else {
        return Ok(None);
    };
    let read = Reading {
        text,
        arguments: &arguments,
        close,
    };
    Ok(Some((read.call(known, files)?, returned)))
}

const NAMES: &[&str] = &[
    "mmap",
    "munmap",
    "mprotect",
    "pkey_mprotect",
    "mremap",
    "brk",
    "madvise",
    "mlock",
    "mlock2",
    "munlock",
    "mlockall",
    "munlockall",
    "msync",
    "mincore",
    "mseal",
    "remap_file_pages",
    "shmat",
    "shmdt",
    "mbind",
    "pkey_alloc",
    "pkey_free",
    "prctl",
    "io_setup",
    "io_destroy",
    "process_madvise",
    "map_shadow_stack",
    "clone",
    "clone3",
    "fork",
    "vfork",
    "execve",
    "execveat",
];

const PRCTL: &[&str] = &[
    "PR_SET_VMA",
    "PR_SET_MM",
    "PR_SET_MDWE",
    "PR_SET_MEMORY_MERGE",
];

struct Reading<'a> {
    text: &'a Text,
    arguments: &'a [Argument<'a>],
    close: usize,
}

fn nothing(_: &str) -> Option<u64> {
    None
}

fn protection(name: &str) -> Option<u64> {
    match name {
        "PROT_NONE" => Some(0),
        _ => describe::named(describe::PROT, name),
    }
}

fn mapping(name: &str) -> Option<u64> {
    match name {
        "MAP_FILE" => Some(0),
        "MAP_HUGE_SHIFT" => Some(26),
        "MAP_DROPPABLE" => Some(8),
        _ => describe::named(describe::MAP, name),
    }
}

impl Reading<'_> {
    fn argument(&self, index: usize) -> Result<Argument<'_>, Complaint> {
        match self.arguments.get(index) {
            Some(argument) => Ok(*argument),
            None => Err(self
                .text
                .wrong(self.close, format!("argument {} is missing", index + 1))),
        }
    }

    fn number(&self, index: usize) -> Result<u64, Complaint> {
        line::value(self.text, self.argument(index)?, &nothing)
    }

    fn named(&self, index: usize, names: &dyn Fn(&str) -> Option<u64>) -> Result<u64, Complaint> {
        line::value(self.text, self.argument(index)?, names)
    }

    fn file(&self, index: usize, flags: u64, files: &mut Files) -> Result<FileArg, Complaint> {
        const ANONYMOUS: u64 = 0x20;
        let (word, at) = self.argument(index)?;
        let (number, path) = match word.split_once('<') {
            Some((number, path)) => (number, path.strip_suffix('>')),
            None => (word, None),
        };
        let Some(descriptor) = line::plain(number) else {
            return Err(self.text.wrong(at, format!("`{word}` is no descriptor")));
        };
        if flags & ANONYMOUS != 0 {
            return Ok(FileArg::None);
        }
        if (descriptor as i32) < 0 {
            return Ok(FileArg::Bad);
        }
        Ok(FileArg::File(match path {
            Some(path) => files.named(path),
            None => files.named(&format!("descriptor {descriptor}")),
        }))
    }

    fn call(&self, name: &'static str, files: &mut Files) -> Result<Decoded, Complaint> {
        let one = |index| self.number(index);
        let bits = |index, table: &'static [(u64, &'static str)]| {
            self.named(index, &|name: &str| describe::named(table, name))
        };
        Ok(Decoded::Call(match name {
            "mmap" => {
                let flags = self.named(3, &mapping)?;
                Call::Mmap {
                    addr: one(0)?,
                    len: one(1)?,
                    prot: self.named(2, &protection)?,
                    flags,
                    file: self.file(4, flags, files)?,
                    offset: one(5)?,
                }
            }
            "munmap" => Call::Munmap {
                addr: one(0)?,
                len: one(1)?,
            },
            "mprotect" => Call::Mprotect {
                addr: one(0)?,
                len: one(1)?,
                prot: self.named(2, &protection)?,
                pkey: -1,
            },
            "pkey_mprotect" => Call::Mprotect {
                addr: one(0)?,
                len: one(1)?,
                prot: self.named(2, &protection)?,
                pkey: one(3)? as i32,
            },
            "mremap" => {
                let flags = bits(3, describe::REMAP)?;
                Call::Mremap {
                    old_addr: one(0)?,
                    old_len: one(1)?,
                    new_len: one(2)?,
                    flags,
                    new_addr: if self.arguments.len() > 4 { one(4)? } else { 0 },
                }
            }
            "brk" => Call::Brk { addr: one(0)? },
            "madvise" => Call::Madvise {
                addr: one(0)?,
                len: one(1)?,
                advice: self.named(2, &describe::advice_named)? as i32,
            },
            "mlock" => Call::Mlock {
                addr: one(0)?,
                len: one(1)?,
                flags: 0,
            },
            "mlock2" => Call::Mlock {
                addr: one(0)?,
                len: one(1)?,
                flags: self.named(2, &|name: &str| (name == "MLOCK_ONFAULT").then_some(1))?,
            },
            "munlock" => Call::Munlock {
                addr: one(0)?,
                len: one(1)?,
            },
            "mlockall" => Call::Mlockall {
                flags: bits(0, describe::LOCK_ALL)?,
            },
            "munlockall" => Call::Munlockall,
            "msync" => Call::Msync {
                addr: one(0)?,
                len: one(1)?,
                flags: bits(2, describe::SYNC)?,
            },
            "mincore" => Call::Mincore {
                addr: one(0)?,
                len: one(1)?,
            },
            "mseal" => Call::Mseal {
                addr: one(0)?,
                len: one(1)?,
                flags: one(2)?,
            },
            "remap_file_pages" => Call::RemapFilePages {
                addr: one(0)?,
                len: one(1)?,
                prot: self.named(2, &protection)?,
                pgoff: one(3)?,
                flags: self.named(4, &mapping)?,
            },
            "pkey_alloc" => Call::PkeyAlloc {
                flags: one(0)?,
                rights: self.named(1, &|name: &str| match name {
                    "PKEY_DISABLE_ACCESS" => Some(1),
                    "PKEY_DISABLE_WRITE" => Some(2),
                    _ => None,
                })?,
            },
            "pkey_free" => Call::PkeyFree {
                pkey: one(0)? as i32,
            },
            "prctl" => return Ok(Decoded::Unmodelled("prctl")),
            "clone" | "clone3" | "fork" | "vfork" => return Ok(Decoded::Makes),
            "execve" | "execveat" => return Ok(Decoded::Exec(self.words())),
            // The size of a segment, or the nodes of a mask, are not told as the engine needs them.
            other => return Ok(Decoded::Unmodelled(other)),
        }))
    }

    /// The words of a program, of which strace may have cut some.
    fn words(&self) -> Vec<String> {
        let list = self
            .arguments
            .iter()
            .find(|argument| argument.0.starts_with('['));
        let inner = list.map_or("", |list| list.0.trim_matches(['[', ']']));
        inner
            .split(", ")
            .map(|word| word.trim_matches('"').to_owned())
            .collect()
    }
}

//! Decodes the text of calls that concern memory.

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
    /// A call whose arguments, or whose subject, the text does not contain.
    Unmodelled(&'static str),
    /// A call that makes a thread or a process.
    Makes,
    /// A call that starts a program, with these words.
    Exec(Vec<String>),
}

/// Files by their identity in the text: the path with `-y`, the descriptor otherwise.
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

/// Returns `true` if a call whose text begins like this makes a thread or a process.
pub(super) fn makes(text: &str) -> bool {
    matches!(
        line::name(text),
        Some("clone" | "clone3" | "fork" | "vfork")
    )
}

/// Returns `true` if a call whose text begins like this starts a program.
pub(super) fn starts(text: &str) -> bool {
    matches!(line::name(text), Some("execve" | "execveat"))
}

/// Returns `true` if a call whose text begins like this may change the map.
pub(super) fn on_memory(text: &str) -> bool {
    let name = line::name(text).unwrap_or_default();
    NAMES.contains(&name) && !makes(text)
}

const VM: u64 = 0x100;
const VFORK: u64 = 0x4000;
const THREAD: u64 = 0x1_0000;

/// Returns the flags of a call that makes a thread or a process. `None` if they are behind a
/// pointer.
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

/// Returns two flags: the child shares the address space; the child is a thread. `None` if the
/// flags are behind a pointer.
pub(super) fn sharing(text: &str) -> Option<(bool, bool)> {
    let flags = flags(text)?;
    Some((flags & VM != 0, flags & THREAD != 0))
}

/// Returns `true` if the caller waits until the child ends or starts a program.
pub(super) fn waits(text: &str) -> bool {
    flags(text).is_some_and(|flags| flags & VFORK != 0)
}

fn errno(name: &str) -> Option<i32> {
    (1..=133).find(|number| Errno(*number).to_string() == name)
}

/// Returns a call and its result. `None` if the call does not concern memory or never returned.
pub(super) fn decode(text: &Text, files: &mut Files) -> Result<Option<(Decoded, i64)>, Complaint> {
    let Some(name) = line::name(&text.text) else {
        return Ok(None);
    };
    let Some(known) = NAMES.iter().find(|known| **known == name) else {
        return Ok(None);
    };
    let (arguments, close) = line::arguments(text, name.len())?;
    // Most operations do not concern memory.
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
            return Err(self.text.wrong(at, format!("`{word}` is not a descriptor")));
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
        match name {
            "mmap" => return Ok(Decoded::Call(self.mmap(files)?)),
            "prctl" => return Ok(Decoded::Unmodelled("prctl")),
            "clone" | "clone3" | "fork" | "vfork" => return Ok(Decoded::Makes),
            "execve" | "execveat" => return Ok(Decoded::Exec(self.words())),
            _ => {}
        }
        for family in [
            Self::on_areas,
            Self::on_pages,
            Self::on_locks,
            Self::on_keys,
        ] {
            if let Some(call) = family(self, name)? {
                return Ok(Decoded::Call(call));
            }
        }
        // The text does not contain a segment's size, or a mask's nodes, in the form that the engine
        // needs.
        Ok(Decoded::Unmodelled(name))
    }

    /// Reads a sum of numbers and of names from a table.
    fn bits(&self, index: usize, table: &'static [(u64, &'static str)]) -> Result<u64, Complaint> {
        self.named(index, &|name: &str| describe::named(table, name))
    }

    /// Reads an address and a length, the first two arguments.
    fn range(&self) -> Result<(u64, u64), Complaint> {
        Ok((self.number(0)?, self.number(1)?))
    }

    fn mmap(&self, files: &mut Files) -> Result<Call, Complaint> {
        let flags = self.named(3, &mapping)?;
        let (addr, len) = self.range()?;
        Ok(Call::Mmap {
            addr,
            len,
            prot: self.named(2, &protection)?,
            flags,
            file: self.file(4, flags, files)?,
            offset: self.number(5)?,
        })
    }

    /// Reads calls that make, change or remove areas. `None` for other calls.
    fn on_areas(&self, name: &str) -> Result<Option<Call>, Complaint> {
        Ok(Some(match name {
            "munmap" => {
                let (addr, len) = self.range()?;
                Call::Munmap { addr, len }
            }
            "mprotect" | "pkey_mprotect" => {
                let (addr, len) = self.range()?;
                Call::Mprotect {
                    addr,
                    len,
                    prot: self.named(2, &protection)?,
                    pkey: match name {
                        "mprotect" => -1,
                        _ => self.number(3)? as i32,
                    },
                }
            }
            "mremap" => {
                let flags = self.bits(3, describe::REMAP)?;
                Call::Mremap {
                    old_addr: self.number(0)?,
                    old_len: self.number(1)?,
                    new_len: self.number(2)?,
                    flags,
                    new_addr: match self.arguments.len() {
                        0..=4 => 0,
                        _ => self.number(4)?,
                    },
                }
            }
            "brk" => Call::Brk {
                addr: self.number(0)?,
            },
            "mseal" => {
                let (addr, len) = self.range()?;
                Call::Mseal {
                    addr,
                    len,
                    flags: self.number(2)?,
                }
            }
            "remap_file_pages" => {
                let (addr, len) = self.range()?;
                Call::RemapFilePages {
                    addr,
                    len,
                    prot: self.named(2, &protection)?,
                    pgoff: self.number(3)?,
                    flags: self.named(4, &mapping)?,
                }
            }
            _ => return Ok(None),
        }))
    }

    /// Reads calls about the pages of areas. `None` for other calls.
    fn on_pages(&self, name: &str) -> Result<Option<Call>, Complaint> {
        Ok(Some(match name {
            "madvise" => {
                let (addr, len) = self.range()?;
                Call::Madvise {
                    addr,
                    len,
                    advice: self.named(2, &describe::advice_named)? as i32,
                }
            }
            "msync" => {
                let (addr, len) = self.range()?;
                Call::Msync {
                    addr,
                    len,
                    flags: self.bits(2, describe::SYNC)?,
                }
            }
            "mincore" => {
                let (addr, len) = self.range()?;
                Call::Mincore { addr, len }
            }
            _ => return Ok(None),
        }))
    }

    /// Reads calls that lock and unlock memory. `None` for other calls.
    fn on_locks(&self, name: &str) -> Result<Option<Call>, Complaint> {
        Ok(Some(match name {
            "mlock" | "mlock2" => {
                let (addr, len) = self.range()?;
                let on_fault = |name: &str| (name == "MLOCK_ONFAULT").then_some(1);
                let flags = match name {
                    "mlock" => 0,
                    _ => self.named(2, &on_fault)?,
                };
                Call::Mlock { addr, len, flags }
            }
            "munlock" => {
                let (addr, len) = self.range()?;
                Call::Munlock { addr, len }
            }
            "mlockall" => Call::Mlockall {
                flags: self.bits(0, describe::LOCK_ALL)?,
            },
            "munlockall" => Call::Munlockall,
            _ => return Ok(None),
        }))
    }

    /// Reads calls about protection keys. `None` for other calls.
    fn on_keys(&self, name: &str) -> Result<Option<Call>, Complaint> {
        let right = |name: &str| match name {
            "PKEY_DISABLE_ACCESS" => Some(1),
            "PKEY_DISABLE_WRITE" => Some(2),
            _ => None,
        };
        Ok(Some(match name {
            "pkey_alloc" => Call::PkeyAlloc {
                flags: self.number(0)?,
                rights: self.named(1, &right)?,
            },
            "pkey_free" => Call::PkeyFree {
                pkey: self.number(0)? as i32,
            },
            _ => return Ok(None),
        }))
    }

    /// Returns the words of a program. Strace may have shortened some of them.
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

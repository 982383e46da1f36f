//! The kind of an area in a person's terms: a part of the program, of a library, a stack …
//!
//! A line of a map tells most of it. `show` looks at whole maps and at threads, and knows more.

use samara_mm::{MapsLine, VmFlags};
use serde::Serialize;

/// The kind of an area.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// The file that was executed, with its zeroed data.
    Program,
    /// Files of which a part is executable, the dynamic loader among them.
    Library,
    /// The area of the program break.
    Heap,
    /// The first thread's, and those of others with what guards them.
    Stack,
    /// Executable memory that is no file's.
    Jit,
    /// Other files.
    File,
    /// Memory that others may map, too.
    Shared,
    /// A device's.
    Device,
    /// The rest of what is private.
    Anonymous,
    /// Without any access, and with nothing in it: room that is kept, and guards.
    Reserved,
    /// An area that the kernel installs.
    Special,
}

impl Kind {
    pub(crate) const ALL: [Kind; 11] = [
        Kind::Program,
        Kind::Library,
        Kind::Heap,
        Kind::Stack,
        Kind::Jit,
        Kind::File,
        Kind::Shared,
        Kind::Device,
        Kind::Anonymous,
        Kind::Reserved,
        Kind::Special,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Program => "program",
            Kind::Library => "libraries",
            Kind::Heap => "heap",
            Kind::Stack => "stacks",
            Kind::Jit => "JIT",
            Kind::File => "files",
            Kind::Shared => "shared memory",
            Kind::Device => "devices",
            Kind::Anonymous => "anonymous",
            Kind::Reserved => "reserved",
            Kind::Special => "special",
        }
    }

    /// Returns the kind that a line shows by itself, given the path of the program's file.
    pub(crate) fn of(line: &MapsLine<'_>, program: &str) -> Self {
        let name = line.name;
        let executable = line.flags.contains(VmFlags::EXEC);
        // Memory of the pool of huge pages is a file only to the kernel.
        let pooled = name == "/anon_hugepage (deleted)";
        let given = name.starts_with("[anon:") || pooled && line.perms[3] == b'p';
        match name {
            "[heap]" => return Kind::Heap,
            "[stack]" => return Kind::Stack,
            _ if name.is_empty() || given => {
                return if line.flags.contains(VmFlags::GROWSDOWN) {
                    Kind::Stack
                } else if executable {
                    Kind::Jit
                } else if line.flags.intersects(VmFlags::ACCESS) {
                    Kind::Anonymous
                } else {
                    Kind::Reserved
                };
            }
            _ => {}
        }
        let shared = ["/dev/zero", "/SYSV", "/memfd:", "/dev/shm/", "[anon_shmem:"];
        if pooled || shared.iter().any(|prefix| name.starts_with(prefix)) {
            Kind::Shared
        } else if name.starts_with('[') {
            Kind::Special
        } else if name.starts_with("/dev/") {
            Kind::Device
        } else if name == program {
            Kind::Program
        } else if is_library(name.as_bytes()) || executable {
            Kind::Library
        } else {
            Kind::File
        }
    }
}

/// `libc.so.6`, `x.cpython-312.so`.
pub(crate) fn is_library(path: &[u8]) -> bool {
    let file = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    let file = file.strip_suffix(b" (deleted)").unwrap_or(file);
    let numbered = |part: &[u8]| part.starts_with(b".so.") && part[4].is_ascii_digit();
    file.ends_with(b".so") || file.windows(5).any(numbered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use samara_mm::FileId;

    #[test]
    fn names_tell_kinds() {
        let nothing = FileId {
            major: 0,
            minor: 0,
            inode: 0,
        };
        let readable = VmFlags::READ;
        let shown = |name, flags, perms| {
            let line = MapsLine {
                start: 0x1000,
                end: 0x2000,
                perms,
                offset: 0,
                id: nothing,
                name,
                flags,
            };
            Kind::of(&line, "/usr/bin/a.so.d")
        };
        let kind = |name, flags| shown(name, flags, *b"r--p");
        let none = VmFlags::empty();
        assert_eq!(kind("/usr/bin/a.so.d", none), Kind::Program);
        assert_eq!(kind("/lib/libc.so.6", none), Kind::Library);
        assert_eq!(kind("/lib/x.so.d/data", none), Kind::File);
        assert_eq!(kind("/etc/ld.so.cache", none), Kind::File);
        assert_eq!(kind("/lib/plugin.so", none), Kind::Library);
        assert_eq!(kind("/tmp/code", VmFlags::EXEC), Kind::Library);
        assert_eq!(kind("", VmFlags::GROWSDOWN), Kind::Stack);
        assert_eq!(kind("", readable), Kind::Anonymous);
        assert_eq!(kind("", none), Kind::Reserved);
        assert_eq!(kind("", readable | VmFlags::EXEC), Kind::Jit);
        assert_eq!(kind("/dev/dri/card0", readable), Kind::Device);
        assert_eq!(kind("[anon:arena]", readable), Kind::Anonymous);
        assert_eq!(kind("[vdso]", VmFlags::EXEC), Kind::Special);
        assert_eq!(kind("/memfd:x (deleted)", none), Kind::Shared);
        assert_eq!(kind("[heap]", none), Kind::Heap);
        assert_eq!(kind("[stack]", none), Kind::Stack);
        let pooled = "/anon_hugepage (deleted)";
        assert_eq!(kind(pooled, readable), Kind::Anonymous);
        assert_eq!(shown(pooled, readable, *b"r--s"), Kind::Shared);
    }

    #[test]
    fn libraries_by_name() {
        for yes in ["/a/libc.so.6", "/x.cpython-312.so", "/l.so (deleted)"] {
            assert!(is_library(yes.as_bytes()), "{yes}");
        }
        for no in ["/a.so/b", "/also", "/x.socket", "/etc/ld.so.cache"] {
            assert!(!is_library(no.as_bytes()), "{no}");
        }
    }
}

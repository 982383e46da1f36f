//! What an area is, as a person would say.

use samara_mm::{MapsLine, VmFlags};

/// Kinds of areas. The page has a colour for each number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Of the program's own file.
    Program,
    Library,
    Heap,
    Stack,
    Anonymous,
    /// Any other file.
    File,
    /// Memory without a file of its own that processes share.
    Shared,
    /// The kernel's: vdso, vvar.
    Special,
}

impl Kind {
    /// In the order of their numbers.
    pub(crate) const NAMES: [&str; 8] = [
        "program",
        "library",
        "heap",
        "stack",
        "anonymous",
        "file",
        "shared",
        "special",
    ];

    /// The kind of an area, given the path of the program's file.
    pub(crate) fn of(line: &MapsLine<'_>, program: &str) -> Self {
        let name = line.name;
        match name {
            "[heap]" => return Kind::Heap,
            "[stack]" => return Kind::Stack,
            "" => {
                return if line.flags.contains(VmFlags::GROWSDOWN) {
                    Kind::Stack
                } else {
                    Kind::Anonymous
                };
            }
            _ => {}
        }
        let shared = ["/dev/zero", "/SYSV", "/memfd:", "/dev/shm/", "[anon_shmem:"];
        if name.starts_with("[anon:") {
            Kind::Anonymous
        } else if shared.iter().any(|prefix| name.starts_with(prefix)) {
            Kind::Shared
        } else if name.starts_with('[') {
            Kind::Special
        } else if name == program {
            Kind::Program
        } else if is_library(name) || line.flags.contains(VmFlags::EXEC) {
            Kind::Library
        } else {
            Kind::File
        }
    }
}

/// `libc.so.6`, `plugin.so`.
fn is_library(path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split(".so").skip(1).any(|behind| {
        behind.is_empty()
            || behind
                .strip_prefix('.')
                .is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
    })
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
        let kind = |name, flags| {
            let line = MapsLine {
                start: 0x1000,
                end: 0x2000,
                perms: *b"r--p",
                offset: 0,
                id: nothing,
                name,
                flags,
            };
            Kind::of(&line, "/usr/bin/a.so.d")
        };
        let none = VmFlags::empty();
        assert_eq!(kind("/usr/bin/a.so.d", none), Kind::Program);
        assert_eq!(kind("/lib/libc.so.6", none), Kind::Library);
        assert_eq!(kind("/lib/x.so.d/data", none), Kind::File);
        assert_eq!(kind("/etc/ld.so.cache", none), Kind::File);
        assert_eq!(kind("/lib/plugin.so", none), Kind::Library);
        assert_eq!(kind("/tmp/code", VmFlags::EXEC), Kind::Library);
        assert_eq!(kind("", VmFlags::GROWSDOWN), Kind::Stack);
        assert_eq!(kind("", none), Kind::Anonymous);
        assert_eq!(kind("[anon:arena]", none), Kind::Anonymous);
        assert_eq!(kind("[vdso]", VmFlags::EXEC), Kind::Special);
        assert_eq!(kind("/memfd:x (deleted)", none), Kind::Shared);
        assert_eq!(kind("[heap]", none), Kind::Heap);
        assert_eq!(kind("[stack]", none), Kind::Stack);
    }
}

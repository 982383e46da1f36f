//! Calls and results in words, as a person knows them from manual pages.

use std::fmt;

use samara_mm::{Call, Errno, FileArg};

use crate::names::printable;

/// A call in words, such as `mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, 3</lib/x.so>, 0)`.
pub struct Described<'a>(pub &'a Call);

/// The result of a call in words: an address or number, or an error.
pub struct Returned(pub i64);

/// Returns the result of a call as the kernel returns it, as the engine does.
pub(crate) fn outcome(returned: i64) -> Result<u64, Errno> {
    if (-4095..0).contains(&returned) {
        Err(Errno(-returned as i32))
    } else {
        Ok(returned as u64)
    }
}

/// Returns an engine's answer as the kernel returns it: the value, or minus the error number.
pub fn returned(outcome: Result<u64, Errno>) -> i64 {
    match outcome {
        Ok(value) => value as i64,
        Err(errno) => -i64::from(errno.0),
    }
}

impl fmt::Display for Returned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match outcome(self.0) {
            Ok(value @ 0..=9) => write!(f, "{value}"),
            Ok(value) => write!(f, "{value:#x}"),
            Err(errno) => write!(f, "-1 {errno} ({})", errno.description()),
        }
    }
}

struct Address(u64);

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            f.write_str("NULL")
        } else {
            write!(f, "{:#x}", self.0)
        }
    }
}

/// A set of bits by name; what has no name follows as a number.
struct Bits(u64, &'static [(u64, &'static str)], &'static str);

impl fmt::Display for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        let mut any = false;
        for &(bits, name) in self.1 {
            if bits != 0 && rest & bits == bits {
                if any {
                    f.write_str("|")?;
                }
                f.write_str(name)?;
                rest &= !bits;
                any = true;
            }
        }
        match (any, rest) {
            (true, 0) => Ok(()),
            (true, rest) => write!(f, "|{rest:#x}"),
            (false, 0) => f.write_str(self.2),
            (false, rest) => write!(f, "{rest:#x}"),
        }
    }
}

/// The names of `PROT_*`.
pub const PROT: &[(u64, &str)] = &[
    (1, "PROT_READ"),
    (2, "PROT_WRITE"),
    (4, "PROT_EXEC"),
    (8, "PROT_SEM"),
    (0x0100_0000, "PROT_GROWSDOWN"),
    (0x0200_0000, "PROT_GROWSUP"),
];

fn prot(bits: u64) -> Bits {
    Bits(bits, PROT, "PROT_NONE")
}

/// The names of `MAP_*`.
pub const MAP: &[(u64, &str)] = &[
    (3, "MAP_SHARED_VALIDATE"),
    (1, "MAP_SHARED"),
    (2, "MAP_PRIVATE"),
    (0x20, "MAP_ANONYMOUS"),
    (0x10_0000, "MAP_FIXED_NOREPLACE"),
    (0x10, "MAP_FIXED"),
    (0x40, "MAP_32BIT"),
    (0x80, "MAP_ABOVE4G"),
    (0x100, "MAP_GROWSDOWN"),
    (0x800, "MAP_DENYWRITE"),
    (0x1000, "MAP_EXECUTABLE"),
    (0x2000, "MAP_LOCKED"),
    (0x4000, "MAP_NORESERVE"),
    (0x8000, "MAP_POPULATE"),
    (0x1_0000, "MAP_NONBLOCK"),
    (0x2_0000, "MAP_STACK"),
    (0x4_0000, "MAP_HUGETLB"),
    (0x8_0000, "MAP_SYNC"),
];

fn map_flags(bits: u64) -> Bits {
    Bits(bits, MAP, "0")
}

/// The names of `MREMAP_*`.
pub const REMAP: &[(u64, &str)] = &[
    (1, "MREMAP_MAYMOVE"),
    (2, "MREMAP_FIXED"),
    (4, "MREMAP_DONTUNMAP"),
];

/// The names of `MCL_*`.
pub const LOCK_ALL: &[(u64, &str)] = &[(1, "MCL_CURRENT"), (2, "MCL_FUTURE"), (4, "MCL_ONFAULT")];

/// The names of `MS_*`.
pub const SYNC: &[(u64, &str)] = &[(1, "MS_ASYNC"), (2, "MS_INVALIDATE"), (4, "MS_SYNC")];

/// Returns the bits of a name in a table.
pub fn named(table: &[(u64, &str)], name: &str) -> Option<u64> {
    let found = table.iter().find(|(_, known)| *known == name)?;
    Some(found.0)
}

/// Returns the number of an advice of `madvise(2)`.
pub fn advice_named(name: &str) -> Option<u64> {
    (0..=103).find(|number| advice(*number as i32) == Some(name))
}

/// Returns the name of an advice, including those that need a privileged caller and change no map.
fn advice(number: i32) -> Option<&'static str> {
    match number {
        100 => Some("MADV_HWPOISON"),
        101 => Some("MADV_SOFT_OFFLINE"),
        number => samara_mm::Advice(number).name(),
    }
}

struct Advice(i32);

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match advice(self.0) {
            Some(name) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Call::Mmap { .. } => self.fmt_mmap(f),
            Call::Munmap { addr, len } => write!(f, "munmap({}, {len})", Address(*addr)),
            Call::Mprotect { .. } => self.fmt_mprotect(f),
            Call::Mremap { .. } => self.fmt_mremap(f),
            Call::Brk { addr } => write!(f, "brk({})", Address(*addr)),
            Call::Madvise { addr, len, advice } => {
                write!(f, "madvise({}, {len}, {})", Address(*addr), Advice(*advice))
            }
            Call::ProcessMadvise { .. } => self.fmt_process_madvise(f),
            Call::Mlock { .. }
            | Call::Munlock { .. }
            | Call::Mlockall { .. }
            | Call::Munlockall => self.fmt_lock(f),
            Call::Msync { addr, len, flags } => {
                let names = Bits(*flags, SYNC, "0");
                write!(f, "msync({}, {len}, {names})", Address(*addr))
            }
            Call::Mincore { addr, len } => write!(f, "mincore({}, {len})", Address(*addr)),
            Call::Mseal { addr, len, flags } => {
                write!(f, "mseal({}, {len}, {flags:#x})", Address(*addr))
            }
            Call::RemapFilePages {
                addr,
                len,
                prot: bits,
                pgoff,
                flags,
            } => write!(
                f,
                "remap_file_pages({}, {len}, {}, {pgoff}, {})",
                Address(*addr),
                prot(*bits),
                map_flags(*flags)
            ),
            Call::Shmat { .. } => self.fmt_shmat(f),
            Call::Shmdt { addr } => write!(f, "shmdt({})", Address(*addr)),
            Call::Mbind { .. } | Call::SetMempolicyHomeNode { .. } => self.fmt_policy(f),
            Call::PkeyAlloc { flags, rights } => write!(f, "pkey_alloc({flags:#x}, {rights:#x})"),
            Call::PkeyFree { pkey } => write!(f, "pkey_free({pkey})"),
            Call::SetVmaName { .. }
            | Call::SetMdwe { .. }
            | Call::SetMemoryMerge { .. }
            | Call::SetMm { .. } => self.fmt_prctl(f),
            Call::UffdRegister { .. } | Call::UffdUnregister { .. } | Call::UffdClose { .. } => {
                self.fmt_userfaultfd(f)
            }
            other => write!(f, "{other:?}"),
        }
    }
}

/// The calls that take several lines, one method for each family. A method writes nothing for calls of
/// another family.
impl Described<'_> {
    fn fmt_mmap(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Call::Mmap {
            addr,
            len,
            prot: bits,
            flags,
            file,
            offset,
        } = self.0
        else {
            return Ok(());
        };
        write!(
            f,
            "mmap({}, {len}, {}, {}, ",
            Address(*addr),
            prot(*bits),
            map_flags(*flags)
        )?;
        match file {
            FileArg::None => f.write_str("-1")?,
            FileArg::Bad => f.write_str("<not open>")?,
            FileArg::File(file) => write!(f, "<{}>", printable(&file.name))?,
        }
        write!(f, ", {offset:#x})")
    }

    fn fmt_mprotect(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Call::Mprotect {
            addr,
            len,
            prot: bits,
            pkey,
        } = self.0
        else {
            return Ok(());
        };
        let (addr, bits) = (Address(*addr), prot(*bits));
        match pkey {
            -1 => write!(f, "mprotect({addr}, {len}, {bits})"),
            pkey => write!(f, "pkey_mprotect({addr}, {len}, {bits}, {pkey})"),
        }
    }

    fn fmt_mremap(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Call::Mremap {
            old_addr,
            old_len,
            new_len,
            flags,
            new_addr,
        } = self.0
        else {
            return Ok(());
        };
        let names = Bits(*flags, REMAP, "0");
        write!(
            f,
            "mremap({}, {old_len}, {new_len}, {names}",
            Address(*old_addr)
        )?;
        if flags & 6 != 0 {
            write!(f, ", {}", Address(*new_addr))?;
        }
        f.write_str(")")
    }

    fn fmt_process_madvise(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Call::ProcessMadvise {
            ranges,
            advice,
            flags,
        } = self.0
        else {
            return Ok(());
        };
        f.write_str("process_madvise(<itself>, [")?;
        for (index, (addr, len)) in ranges.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{{{}, {len}}}", Address(*addr))?;
        }
        write!(f, "], {}, {}, {flags:#x})", ranges.len(), Advice(*advice))
    }

    fn fmt_lock(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Call::Mlock {
                addr,
                len,
                flags: 0,
            } => write!(f, "mlock({}, {len})", Address(*addr)),
            Call::Mlock { addr, len, flags } => {
                write!(f, "mlock2({}, {len}, {flags:#x})", Address(*addr))
            }
            Call::Munlock { addr, len } => write!(f, "munlock({}, {len})", Address(*addr)),
            Call::Mlockall { flags } => {
                let names = Bits(*flags, LOCK_ALL, "0");
                write!(f, "mlockall({names})")
            }
            Call::Munlockall => f.write_str("munlockall()"),
            _ => Ok(()),
        }
    }

    fn fmt_shmat(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Call::Shmat {
            segment,
            addr,
            flags,
        } = self.0
        else {
            return Ok(());
        };
        match segment {
            Some(segment) => write!(f, "shmat({}, ", segment.file.id.inode)?,
            None => f.write_str("shmat(<no segment>, ")?,
        }
        let names = Bits(
            *flags,
            &[
                (0o10000, "SHM_RDONLY"),
                (0o20000, "SHM_RND"),
                (0o40000, "SHM_REMAP"),
                (0o100000, "SHM_EXEC"),
            ],
            "0",
        );
        write!(f, "{}, {names})", Address(*addr))
    }

    fn fmt_policy(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Call::Mbind {
                addr,
                len,
                mode,
                nodes,
                flags,
            } => write!(
                f,
                "mbind({}, {len}, {mode:#x}, {nodes:#x}, {flags:#x})",
                Address(*addr)
            ),
            Call::SetMempolicyHomeNode {
                addr,
                len,
                home,
                flags,
            } => write!(
                f,
                "set_mempolicy_home_node({}, {len}, {home}, {flags:#x})",
                Address(*addr)
            ),
            _ => Ok(()),
        }
    }

    fn fmt_prctl(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Call::SetVmaName { addr, len, name } => {
                let addr = Address(*addr);
                write!(f, "prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, {addr}, {len}, ")?;
                match name {
                    Some(name) => write!(f, "{})", printable(&format!("{name:?}"))),
                    None => f.write_str("NULL)"),
                }
            }
            Call::SetMdwe { bits } => write!(f, "prctl(PR_SET_MDWE, {bits:#x})"),
            Call::SetMemoryMerge { on } => write!(f, "prctl(PR_SET_MEMORY_MERGE, {on})"),
            Call::SetMm {
                start_brk,
                brk,
                data_size,
                stack_top,
            } => write!(
                f,
                "prctl(PR_SET_MM, heap {start_brk:#x}-{brk:#x}, {data_size} bytes of data, stack {stack_top:#x})"
            ),
            _ => Ok(()),
        }
    }

    fn fmt_userfaultfd(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Call::UffdRegister {
                context,
                addr,
                len,
                mode,
                ..
            } => write!(
                f,
                "ioctl(userfaultfd {context}, UFFDIO_REGISTER, {}, {len}, {mode:#x})",
                Address(*addr)
            ),
            Call::UffdUnregister {
                context, addr, len, ..
            } => write!(
                f,
                "ioctl(userfaultfd {context}, UFFDIO_UNREGISTER, {}, {len})",
                Address(*addr)
            ),
            Call::UffdClose { context } => write!(f, "close(userfaultfd {context})"),
            _ => Ok(()),
        }
    }
}

/// Kinds of calls, in the order in which they are listed.
pub const KINDS: [&str; 31] = [
    "mmap",
    "munmap",
    "mprotect",
    "mremap",
    "brk",
    "madvise",
    "mlock",
    "munlock",
    "mlockall",
    "munlockall",
    "msync",
    "mincore",
    "mseal",
    "remap_file_pages",
    "shmat",
    "shmdt",
    "prctl(PR_SET_VMA)",
    "mbind",
    "pkey_alloc",
    "pkey_free",
    "pkey_mprotect",
    "mlock2",
    "prctl(PR_SET_MDWE)",
    "prctl(PR_SET_MEMORY_MERGE)",
    "process_madvise",
    "ioctl(UFFDIO_REGISTER)",
    "ioctl(UFFDIO_UNREGISTER)",
    "close(userfaultfd)",
    "prctl(PR_SET_MM)",
    "set_mempolicy_home_node",
    "another",
];

/// Returns the place of a call in [`KINDS`].
pub(crate) fn kind(call: &Call) -> usize {
    match call {
        Call::Mmap { .. } => 0,
        Call::Munmap { .. } => 1,
        Call::Mprotect { pkey: -1, .. } => 2,
        Call::Mprotect { .. } => 20,
        Call::Mremap { .. } => 3,
        Call::Brk { .. } => 4,
        Call::Madvise { .. } => 5,
        Call::Mlock { flags: 0, .. } => 6,
        Call::Mlock { .. } => 21,
        Call::Munlock { .. } => 7,
        Call::Mlockall { .. } => 8,
        Call::Munlockall => 9,
        Call::Msync { .. } => 10,
        Call::Mincore { .. } => 11,
        Call::Mseal { .. } => 12,
        Call::RemapFilePages { .. } => 13,
        Call::Shmat { .. } => 14,
        Call::Shmdt { .. } => 15,
        Call::SetVmaName { .. } => 16,
        Call::Mbind { .. } => 17,
        Call::PkeyAlloc { .. } => 18,
        Call::PkeyFree { .. } => 19,
        Call::SetMdwe { .. } => 22,
        Call::SetMemoryMerge { .. } => 23,
        Call::ProcessMadvise { .. } => 24,
        Call::UffdRegister { .. } => 25,
        Call::UffdUnregister { .. } => 26,
        Call::UffdClose { .. } => 27,
        Call::SetMm { .. } => 28,
        Call::SetMempolicyHomeNode { .. } => 29,
        _ => 30,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_read_like_their_manual_pages() {
        let call = Call::Mmap {
            addr: 0,
            len: 8192,
            prot: 3,
            flags: 0x22,
            file: FileArg::None,
            offset: 0,
        };
        assert_eq!(
            Described(&call).to_string(),
            "mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0x0)"
        );
        let call = Call::Madvise {
            addr: 0x1000,
            len: 1,
            advice: 4,
        };
        assert_eq!(
            Described(&call).to_string(),
            "madvise(0x1000, 1, MADV_DONTNEED)"
        );
        assert_eq!(
            Returned(-12).to_string(),
            "-1 ENOMEM (Cannot allocate memory)"
        );
        assert_eq!(Returned(0x7f00).to_string(), "0x7f00");
    }

    #[test]
    fn results_survive_both_ways() {
        for value in [0, 1, -1, -12, -4095, 0x7fff_ffff_f000] {
            assert_eq!(returned(outcome(value)), value);
        }
    }
}

//! Checks of `mmap(2)` that depend on the file and on how it was opened.

use crate::abi;
use crate::errno::Errno;
use crate::file::{File, FileKind};
use crate::flags::VmFlags;
use crate::kernel::{KernelVersion, Rule};

/// The flags that `MAP_SHARED_VALIDATE` accepts for every file.
const LEGACY_FLAGS: u64 = abi::MAP_SHARED
    | abi::MAP_PRIVATE
    | abi::MAP_FIXED
    | abi::MAP_ANONYMOUS
    | abi::MAP_DENYWRITE
    | abi::MAP_EXECUTABLE
    | abi::MAP_UNINITIALIZED
    | abi::MAP_GROWSDOWN
    | abi::MAP_LOCKED
    | abi::MAP_NORESERVE
    | abi::MAP_POPULATE
    | abi::MAP_NONBLOCK
    | abi::MAP_STACK
    | abi::MAP_HUGETLB
    | abi::MAP_32BIT
    | HUGE_SIZES;
/// The bits of a size of huge pages that 2 MiB or 1 GiB has.
const HUGE_SIZES: u64 = (21 | 30) << abi::MAP_HUGE_SHIFT;

/// `F_SEAL_WRITE` and `F_SEAL_FUTURE_WRITE` (`F_ADD_SEALS(2const)`).
const WRITE_SEALS: u32 = SEAL_WRITE | 0x10;
const SEAL_WRITE: u32 = 0x8;

/// Returns the flags that `MAP_SHARED_VALIDATE` accepts for a file.
fn accepted_flags(file: &File, kernel: KernelVersion) -> u64 {
    let sync = match file.kind {
        FileKind::Regular => abi::MAP_SYNC,
        _ => 0,
    };
    let above = match kernel.has(Rule::Above4gIsKnown) {
        true => abi::MAP_ABOVE4G,
        false => 0,
    };
    LEGACY_FLAGS | sync | above
}

/// Returns the flags of a mapping of `len` bytes of a file from `offset`. `area_flags` are those that do not depend on the file.
///
/// # Errors
/// `EOVERFLOW` beyond the largest offset, `EOPNOTSUPP` for unknown flags of `MAP_SHARED_VALIDATE`, `EACCES` and `EPERM` where the file or the way
/// it was opened forbids the access, `ENODEV` for a file that cannot be mapped, `EINVAL` for other flags.
#[inline(always)]
pub(super) fn file_flags(
    file: &File,
    kernel: KernelVersion,
    flags: u64,
    mut area_flags: VmFlags,
    len: u64,
    offset: u64,
) -> Result<VmFlags, Errno> {
    // The mapping may not end beyond the largest offset of a file.
    let most = file.kind.largest();
    if len > most || offset >> 12 > (most - len) >> 12 {
        return Err(Errno::EOVERFLOW);
    }
    let kind = flags & abi::MAP_TYPE;
    match kind {
        abi::MAP_SHARED | abi::MAP_SHARED_VALIDATE => {
            if kind == abi::MAP_SHARED_VALIDATE && flags & !accepted_flags(file, kernel) != 0 {
                return Err(Errno::EOPNOTSUPP);
            }
            if area_flags.contains(VmFlags::WRITE) && !file.writable {
                return Err(Errno::EACCES);
            }
            area_flags |= VmFlags::SHARED | VmFlags::MAYSHARE;
            if !file.writable {
                area_flags -= VmFlags::SHARED | VmFlags::MAYWRITE;
            }
        }
        abi::MAP_PRIVATE => {}
        _ => return Err(Errno::EINVAL),
    }
    if !file.readable {
        return Err(Errno::EACCES);
    }
    if file.noexec {
        if area_flags.contains(VmFlags::EXEC) {
            return Err(Errno::EPERM);
        }
        area_flags -= VmFlags::MAYEXEC;
    }
    match file.kind {
        FileKind::Unmappable => return Err(Errno::ENODEV),
        // No such driver lets its VMAs grow. The flag also marks them for the check that comes before a split.
        FileKind::WholeDevice => area_flags |= VmFlags::DONTEXPAND,
        _ => {}
    }
    if flags & abi::MAP_GROWSDOWN != 0 {
        return Err(Errno::EINVAL);
    }
    if area_flags.contains(VmFlags::SHARED) && file.seals & WRITE_SEALS != 0 {
        if !area_flags.contains(VmFlags::WRITE) {
            area_flags -= VmFlags::MAYWRITE;
        } else if !is_refused_late(file, area_flags, kernel) {
            return Err(Errno::EPERM);
        }
    }
    Ok(area_flags)
}

/// Returns `true` if the kernel checks the seal only after it has unmapped what the mapping replaces.
pub(super) fn is_refused_late(file: &File, flags: VmFlags, kernel: KernelVersion) -> bool {
    let writes = VmFlags::SHARED | VmFlags::WRITE;
    flags.contains(writes)
        && file.seals & WRITE_SEALS == WRITE_SEALS & !SEAL_WRITE
        && !kernel.has(Rule::FutureSealIsLookedAtFirst)
}

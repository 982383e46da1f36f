//! Failures of a call for reasons outside the address space, which the engine does not model.

use samara_mm::{AddressSpace, Area, Backing, Call, File, FileArg, FileKind, VmFlags};

/// Returns the one of several ranges at which the kernel has failed with `error`, or perhaps has: the result
/// is the number of bytes before it, if there are any.
pub(super) fn failing_range(
    ranges: &[(u64, u64)],
    returned: i64,
    error: i32,
) -> Option<(u64, u64)> {
    if returned == -i64::from(error) {
        return ranges.iter().copied().find(|(_, len)| *len > 0);
    }
    let mut left = u64::try_from(returned).ok()?;
    ranges.iter().copied().find(|&(_, len)| {
        let stopped = left == 0 && len > 0;
        left = left.saturating_sub(len);
        stopped
    })
}

/// Returns `true` if the kernel may have failed with this result for a reason outside the address space: a
/// device's driver, input and output, the state of pages.
pub(super) fn is_failure_outside(engine: &AddressSpace, call: &Call, returned: i64) -> bool {
    if let Call::ProcessMadvise { ranges, .. } = call
        && populates(call)
        && returned > 0
    {
        let stopped = failing_range(ranges, returned, libc::EFAULT);
        return stopped.is_some_and(|(addr, len)| may_lack_pages(engine, addr, len));
    }
    if !(-4095..0).contains(&returned) {
        return false;
    }
    let error = -returned as i32;
    match call {
        Call::Mmap {
            file: FileArg::File(file),
            flags,
            ..
        } => mmap_fails_outside(file, *flags, error),
        Call::Madvise { addr, len, advice } => {
            madvise_fails_outside(engine, (*addr, *len), *advice, error)
        }
        // A segment that will be removed disappears with the last area that is unmapped to make space, and
        // cannot be mapped then. Nor can memory that was sealed since it was mapped.
        Call::RemapFilePages { addr, .. } => {
            is_driven(engine, *addr)
                || error == libc::EINVAL && is_segment(engine, *addr)
                || error == libc::EPERM && is_memory(engine, *addr)
        }
        Call::UffdRegister { addr, len, .. } if error == libc::EBUSY => {
            has_unknown_watcher(engine, *addr, *len)
        }
        Call::UffdUnregister { addr, len, .. } if error == libc::EINVAL => {
            has_unknown_watcher(engine, *addr, *len)
        }
        // Some drivers choose the place of their mappings, and a ring of `io_setup` whose owner is another
        // address space does not move. This may be the first moved area or a later one.
        Call::Mremap {
            old_addr,
            old_len,
            flags,
            ..
        } if flags & libc::MREMAP_FIXED as u64 != 0 => {
            let is_driven =
                |area: Area<'_>| area.vma.file().is_some_and(|file| file.kind.is_driven());
            matches!(error, libc::EINVAL | libc::EFAULT)
                && files_in(engine, *old_addr, (*old_len).max(1)).any(is_driven)
        }
        Call::ProcessMadvise { ranges, advice, .. } => ranges
            .iter()
            .any(|range| madvise_fails_outside(engine, *range, *advice, error)),
        // Locking populates pages. If that fails, the areas are still locked.
        Call::Mlock { addr, len, .. } => {
            matches!(error, libc::EAGAIN | libc::EINTR)
                || error == libc::ENOMEM && may_lack_pages(engine, *addr, *len)
        }
        Call::Mlockall { .. } => matches!(error, libc::EAGAIN | libc::EINTR),
        Call::Msync { addr, len, flags } => {
            msync_fails_outside(engine, (*addr, *len), *flags, error)
        }
        Call::Mincore { .. } => matches!(error, libc::EFAULT | libc::EAGAIN),
        Call::Mbind { .. } => matches!(error, libc::EIO | libc::EFAULT),
        // A segment of another namespace is not known.
        Call::Shmat { segment, .. } => {
            matches!(error, libc::EACCES | libc::EIDRM) || segment.is_none()
        }
        _ => false,
    }
}

fn mmap_fails_outside(file: &File, flags: u64, error: i32) -> bool {
    file.kind.is_driven()
        // It may have been sealed since the call began.
        || error == libc::EPERM && may_be_sealed(file.kind) && is_to_be_shared(flags)
        || matches!(
            error,
            libc::ENODEV | libc::EIO | libc::ENXIO | libc::ENFILE | libc::ENOLCK
        )
}

fn madvise_fails_outside(
    engine: &AddressSpace,
    (addr, len): (u64, u64),
    advice: i32,
    error: i32,
) -> bool {
    const EHWPOISON: i32 = 133;
    if matches!(advice, 22 | 23) && error == libc::EFAULT {
        return may_lack_pages(engine, addr, len);
    }
    if advice == libc::MADV_REMOVE && no_holes(error) {
        let end = addr.saturating_add(len);
        let mut within = engine
            .areas()
            .filter(|area| area.start < end && area.end > addr);
        return within.any(|area| area.vma.flags.contains(VmFlags::SHARED));
    }
    let on_pages = !matches!(advice, 0..=2 | 10..=19);
    on_pages
        && matches!(
            error,
            libc::EAGAIN
                | libc::EBUSY
                | libc::EIO
                | libc::EINVAL
                | libc::EFAULT
                | libc::ENOMEM
                | libc::EPERM
                | libc::EFBIG
                | EHWPOISON
        )
}

/// Returns `true` if writing back may fail with this error for a reason of the file system's own.
/// Some files, for example sockets, cannot be written back.
fn msync_fails_outside(
    engine: &AddressSpace,
    (addr, len): (u64, u64),
    flags: u64,
    error: i32,
) -> bool {
    let asked = flags & libc::MS_SYNC as u64 != 0;
    matches!(error, libc::EIO | libc::EBUSY | libc::EINTR)
        || match error {
            libc::ENOMEM => false,
            libc::EINVAL => asked && has_shared(engine, addr, len, FileKind::is_driven),
            _ => asked && has_shared(engine, addr, len, |_| true),
        }
}

/// Returns `true` if the kernel may have failed from outside before it came to the reason for which the
/// engine refuses with `own`.
///
/// `mincore` reports pages up to the first hole. With a bad vector it fails before that, unless the hole is
/// at the start and the vector only not mapped. `msync` goes on behind holes.
pub(super) fn failed_before(engine: &AddressSpace, call: &Call, returned: i64, own: i64) -> bool {
    match *call {
        Call::Shmat { segment: None, .. } => true,
        // Of an area before the one that the engine refuses.
        Call::Madvise { .. } => no_holes(-returned as i32),
        Call::Msync { .. } => own == -i64::from(libc::ENOMEM) || own == -i64::from(libc::EBUSY),
        Call::Mincore { addr, len } => {
            own == -i64::from(libc::ENOMEM)
                && addr
                    .checked_add(len)
                    .is_some_and(|end| end <= engine.config().task_size)
        }
        _ => false,
    }
}

/// Returns `true` for the errors of files that cannot have holes (`fallocate(2)`): of drivers, of
/// file systems without holes, of sealed memory, and of offsets beyond the largest one.
fn no_holes(error: i32) -> bool {
    matches!(
        error,
        libc::ENODEV | libc::EOPNOTSUPP | libc::EPERM | libc::EFBIG
    )
}

/// Returns `true` for files in memory, which may get seals (`fcntl(2)`) as long as they are open.
pub fn may_be_sealed(kind: FileKind) -> bool {
    matches!(kind, FileKind::Shmem | FileKind::HugeTlb(_))
}

fn is_to_be_shared(flags: u64) -> bool {
    const SHARED: [u64; 2] = [libc::MAP_SHARED as u64, libc::MAP_SHARED_VALIDATE as u64];
    SHARED.contains(&(flags & libc::MAP_TYPE as u64))
}

/// Returns `true` if a segment is attached there.
fn is_segment(engine: &AddressSpace, addr: u64) -> bool {
    let area = engine.lookup(addr & !0xfff);
    area.is_some_and(|area| matches!(area.vma.backing, Backing::Shm { .. }))
}

/// Returns `true` if a file in memory is mapped there.
fn is_memory(engine: &AddressSpace, addr: u64) -> bool {
    let area = engine.lookup(addr & !0xfff);
    area.is_some_and(|area| area.vma.file().is_some_and(|file| may_be_sealed(file.kind)))
}

/// Returns `true` if a driver's mapping is there.
pub(super) fn is_driven(engine: &AddressSpace, addr: u64) -> bool {
    let area = engine.lookup(addr);
    area.is_some_and(|area| area.vma.file().is_some_and(|file| file.kind.is_driven()))
}

/// Returns `true` if the kernel may be unable to populate a page of the range.
fn may_lack_pages(engine: &AddressSpace, addr: u64, len: u64) -> bool {
    lacking(engine, addr, addr.saturating_add(len))
        .next()
        .is_some()
}

/// Returns the areas of `[start, end)` with pages that the kernel may be unable to populate. These
/// are areas of files, whose ends are unknown here. They are areas that a userfaultfd watches: it
/// may answer only the program's own accesses, or none (`UFFD_USER_MODE_ONLY`,
/// `UFFD_FEATURE_SIGBUS`), also for present pages that it has write-protected. And they are areas
/// with a protection key to which the thread may have no rights.
pub(crate) fn lacking(
    engine: &AddressSpace,
    start: u64,
    end: u64,
) -> impl Iterator<Item = Area<'_>> {
    const WATCHED: VmFlags = VmFlags::UFFD;
    engine.areas().filter(move |area| {
        let flags = area.vma.flags;
        let lacks = area.vma.file().is_some() || flags.intersects(WATCHED) || flags.pkey() != 0;
        area.start < end && area.end > start && lacks
    })
}

/// Returns `true` if a file of such a kind is mapped shared there.
fn has_shared(engine: &AddressSpace, addr: u64, len: u64, such: impl Fn(FileKind) -> bool) -> bool {
    files_in(engine, addr, len).any(|area| {
        area.vma.flags.contains(VmFlags::SHARED)
            && area.vma.file().is_some_and(|file| such(file.kind))
    })
}

/// Returns `true` if an area there was watched before the trace. It is then unknown by which
/// userfaultfd.
fn has_unknown_watcher(engine: &AddressSpace, addr: u64, len: u64) -> bool {
    let end = addr.saturating_add(len);
    let mut within = engine
        .areas()
        .filter(|area| area.start < end && area.end > addr);
    within.any(|area| area.vma.flags.intersects(VmFlags::UFFD) && area.vma.uffd.is_none())
}

/// Returns the areas of files in a range.
fn files_in(engine: &AddressSpace, addr: u64, len: u64) -> impl Iterator<Item = Area<'_>> {
    let end = addr.saturating_add(len);
    engine
        .areas()
        .filter(move |area| area.start < end && area.end > addr && area.vma.file().is_some())
}

/// Returns `true` for `MADV_POPULATE_READ` and `MADV_POPULATE_WRITE`.
pub(super) fn populates(call: &Call) -> bool {
    matches!(
        call,
        Call::Madvise {
            advice: 22 | 23,
            ..
        } | Call::ProcessMadvise {
            advice: 22 | 23,
            ..
        }
    )
}

//! One engine, as one assumption about the order of page faults has it.

mod halves;
mod maps;
mod owners;

use samara_mm::{
    AddressSpace, Area, Backing, Call, Errno, FileArg, FileKind, Overcommit, Pages, SharedMap,
    VmFlags,
};

use crate::compare::Alike;
use crate::describe;
use crate::undecided::Unknown;

use self::owners::Owners;

pub use self::halves::halves;

/// The relation of the engine's answer to the kernel's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// They are the same.
    Agrees,
    /// They differ: the engine's map is no longer the kernel's.
    Differs,
    /// They differ where something is not known on which the answer depends.
    Undecided(Unknown),
    /// The kernel failed for a reason that no address space decides. The maps are still the same.
    Outside,
    /// The engine does not know the call.
    NotModelled,
}

/// An engine, and which of its unnamed objects is which of the kernel's.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) engine: AddressSpace,
    /// With one, calls are performed as while other threads may look, and maps are compared through it, as these see them.
    shared: Option<SharedMap>,
    alike: Alike,
    /// Owners of private pages were made up: what the kernel's map tells of them is learnt.
    assumes: bool,
    owners: Owners,
    /// Calls since this became an alternative to another.
    pub(crate) age: u32,
}

impl Side {
    pub(crate) fn new(mut engine: AddressSpace, shared: bool) -> Self {
        Self {
            shared: shared.then(|| engine.share()),
            engine,
            alike: Alike::default(),
            assumes: false,
            owners: Owners::default(),
            age: 0,
        }
    }

    /// The same of a process that had run before: owners of private pages are made up.
    pub(crate) fn found(engine: AddressSpace, shared: bool) -> Self {
        Self {
            assumes: true,
            ..Self::new(engine, shared)
        }
    }

    /// The same with an engine that was [built anew](AddressSpace::take_over): owners of what had parted are made up.
    pub(crate) fn anew(&self, engine: AddressSpace) -> Self {
        Self {
            assumes: true,
            owners: self.owners.settled(),
            ..Self::new(engine, self.is_shared())
        }
    }

    /// Are calls performed as while other threads may look?
    pub(crate) fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    pub(crate) fn fork(&mut self) -> Result<Self, Errno> {
        Ok(Self {
            alike: self.alike.clone(),
            age: self.age,
            ..Self::new(self.engine.fork()?, self.shared.is_some())
        })
    }

    pub(crate) fn try_clone(&self) -> Result<Self, Errno> {
        Ok(Self {
            alike: self.alike.clone(),
            assumes: self.assumes,
            owners: self.owners.clone(),
            ..Self::new(self.engine.try_clone()?, self.shared.is_some())
        })
    }

    /// Performs a call and judges the answer against what the kernel returned.
    pub(crate) fn perform(
        &mut self,
        call: &Call,
        returned: i64,
        facts: &mut dyn Pages,
    ) -> (Verdict, i64) {
        if !self.assumes {
            return self.perform_beside_pool(call, returned, facts);
        }
        let (before, brk) = (self.meetings(call, returned), self.engine.layout().brk);
        let judged = self.perform_beside_pool(call, returned, facts);
        self.note_owners((&before, brk), call, returned);
        judged
    }

    fn perform_beside_pool(
        &mut self,
        call: &Call,
        returned: i64,
        facts: &mut dyn Pages,
    ) -> (Verdict, i64) {
        let pool = self.engine.config().huge_pool.clone();
        let lacking = returned == -i64::from(libc::ENOMEM);
        // What others have taken from the pool of huge pages, nobody here knows.
        pool.iter().for_each(|pool| pool.tell(!lacking));
        let judged = self.perform_told(call, returned, facts);
        pool.iter().for_each(|pool| pool.tell(true));
        judged
    }

    /// As [`perform`](Self::perform), when the pool of huge pages has been told what it has.
    fn perform_told(
        &mut self,
        call: &Call,
        returned: i64,
        facts: &mut dyn Pages,
    ) -> (Verdict, i64) {
        let populating = populates(call);
        let mapping = matches!(
            call,
            Call::Mmap { .. }
                | Call::Shmat { .. }
                | Call::RemapFilePages { .. }
                | Call::Mremap { .. }
                | Call::UffdRegister { .. }
                | Call::UffdUnregister { .. }
        );
        if lacks_memory(&self.engine, call, returned)
            || refused_for_pages(call, returned)
            || found_no_room(call, returned)
            || (populating || mapping) && outside(&self.engine, call, returned)
        {
            // The driver, the file system, the owner of the segment, the place of a page or a machine that has promised enough may have refused: the
            // engine must not go on alone.
            let Ok(mut trial) = self.engine.try_clone() else {
                return (Verdict::Outside, 0);
            };
            let own = describe::returned(trial.perform_with(call, facts));
            if own != returned {
                let explained = !found_no_room(call, returned)
                    || is_near_start(own)
                    || own < 0 && self.lowest_room(call).is_some_and(is_near_start);
                let verdict = match explained {
                    true => Verdict::Outside,
                    false => Verdict::Differs,
                };
                if explained && let Some(refused) = refused_with_a_key(&self.engine, call) {
                    let _ = self.engine.perform(&refused);
                }
                return (verdict, own);
            }
            if populating {
                // How far it came is not known: what was written shows itself.
                return (Verdict::Agrees, own);
            }
            if let Some(shared) = &mut self.shared {
                *shared = trial.share();
            }
            self.engine = trial;
            return (Verdict::Agrees, own);
        }
        let answer = if placed_at_random(call, returned) {
            self.engine.perform_at(call, returned as u64, facts)
        } else {
            self.engine.perform_with(call, facts)
        };
        let own = describe::returned(answer);
        let verdict = if own == returned {
            Verdict::Agrees
        } else if own == -i64::from(Errno::ENOSYS.0) {
            Verdict::NotModelled
        } else if outside(&self.engine, call, returned)
            && (own >= 0 || told_before(&self.engine, call, returned, own))
        {
            Verdict::Outside
        } else {
            Verdict::Differs
        };
        (verdict, own)
    }

    /// Where a mapping would go that is refused for what it is, when a place has been found.
    fn lowest_room(&self, call: &Call) -> Option<i64> {
        let Call::Mmap { addr, len, .. } = *call else {
            return None;
        };
        let plain = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let mapping = Call::Mmap {
            addr,
            len,
            prot: 0,
            flags: (plain | libc::MAP_32BIT) as u64,
            file: FileArg::None,
            offset: 0,
        };
        let mut trial = self.engine.try_clone().ok()?;
        Some(describe::returned(trial.perform(&mapping)))
    }
}

/// Returns `true` if the kernel has placed the mapping at random. With address randomisation it begins
/// the search for `MAP_32BIT` up to 32 MiB above its start, anew for each call.
pub fn placed_at_random(call: &Call, returned: i64) -> bool {
    const MAP_32BIT: u64 = 0x40;
    const START: i64 = 0x4000_0000;
    const END: i64 = 0x8000_0000;
    match call {
        Call::Mmap { flags, addr, .. } => {
            flags & (MAP_32BIT | 0x10 | 0x10_0000) == MAP_32BIT
                && (START..END).contains(&returned)
                && returned as u64 != *addr
        }
        _ => false,
    }
}

/// May the kernel have found no room for `MAP_32BIT` [since it began its search too far above](placed_at_random)?
fn found_no_room(call: &Call, returned: i64) -> bool {
    const START: i64 = 0x4000_0000;
    returned == -i64::from(libc::ENOMEM) && placed_at_random(call, START)
}

/// Is that where a search may have begun above?
fn is_near_start(address: i64) -> bool {
    (0x4000_0000..0x4200_0000).contains(&address)
}

/// What sets a protection key aside as a mapping does that is refused by its file: another that is refused, of no known type.
fn refused_with_a_key(engine: &AddressSpace, call: &Call) -> Option<Call> {
    match *call {
        Call::Mmap {
            addr,
            len,
            prot,
            flags,
            offset,
            ..
        } if engine.config().pkeys && prot == libc::PROT_EXEC as u64 => Some(Call::Mmap {
            addr,
            len,
            prot,
            flags: flags & !(libc::MAP_TYPE as u64) | libc::MAP_ANONYMOUS as u64,
            file: FileArg::None,
            offset,
        }),
        _ => None,
    }
}

/// Is a device mapped at a fixed place, where other areas may be? Its driver may be asked before these are touched.
pub(crate) fn maps_device_over_others(call: &Call) -> bool {
    matches!(call, Call::Mmap { file: FileArg::File(file), .. } if file.kind.is_driven())
        && replaced_by(call).is_some()
}

/// Returns the unmapping that remains if a driver refuses its mapping: it may be asked when its place has
/// been unmapped.
pub fn replaced_by(call: &Call) -> Option<Call> {
    match *call {
        Call::Mmap {
            addr, len, flags, ..
        } if flags & libc::MAP_FIXED as u64 != 0 => Some(Call::Munmap { addr, len }),
        Call::Mremap {
            new_len,
            flags,
            new_addr,
            ..
        } if flags & libc::MREMAP_FIXED as u64 != 0 => Some(Call::Munmap {
            addr: new_addr,
            len: new_len,
        }),
        Call::RemapFilePages { addr, len, .. } => Some(Call::Munmap {
            addr: addr & !0xfff,
            len: len & !0xfff,
        }),
        _ => None,
    }
}

/// May all processes together have been promised too much for this call (`vm.overcommit_memory` 2)? What others have, nobody here knows.
fn lacks_memory(engine: &AddressSpace, call: &Call, returned: i64) -> bool {
    if !matches!(engine.config().overcommit, Overcommit::Never { .. }) {
        return false;
    }
    match *call {
        Call::Mmap { .. } | Call::Mprotect { .. } | Call::Mremap { .. } | Call::Shmat { .. } => {
            returned == -i64::from(libc::ENOMEM)
        }
        Call::Brk { addr } => returned >= 0 && (returned as u64) < addr,
        _ => false,
    }
}

/// Did `mbind` refuse since a page lies on another node? Where pages are to be moved, it does so when all else is done.
fn refused_for_pages(call: &Call, returned: i64) -> bool {
    const MOVING: u32 = 0x2 | 0x4;
    matches!(call, Call::Mbind { flags, .. } if *flags as u32 & MOVING == 0)
        && returned == -i64::from(libc::EIO)
}

/// The ranges that a call fills with pages, if it failed as those do that come to the end of a file.
pub(crate) fn filled_in(call: &Call, returned: i64) -> Vec<(u64, u64)> {
    let error = |errno: i32| returned == -i64::from(errno);
    let from = |addr: u64, len: u64| (addr & !0xfff, addr.saturating_add(len));
    match call {
        Call::Mlock { addr, len, .. } if error(libc::ENOMEM) => vec![from(*addr, *len)],
        Call::Madvise { addr, len, .. } if populates(call) && error(libc::EFAULT) => {
            vec![from(*addr, *len)]
        }
        Call::ProcessMadvise { ranges, .. } if populates(call) => {
            let failed = failing_range(ranges, returned, libc::EFAULT);
            failed
                .map(|(addr, len)| from(addr, len))
                .into_iter()
                .collect()
        }
        _ => Vec::new(),
    }
}

/// The range of several at which the kernel has failed with `error`, or perhaps has: it tells how far it came if it came anywhere.
fn failing_range(ranges: &[(u64, u64)], returned: i64, error: i32) -> Option<(u64, u64)> {
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

/// Can the kernel have failed with this error for a reason that lies outside the address space: a device's driver,
/// input and output, the state of pages?
fn outside(engine: &AddressSpace, call: &Call, returned: i64) -> bool {
    if let Call::ProcessMadvise { ranges, .. } = call
        && populates(call)
        && returned > 0
    {
        let stopped = failing_range(ranges, returned, libc::EFAULT);
        return stopped.is_some_and(|(addr, len)| may_lack_pages(engine, addr, len));
    }
    let error = -returned as i32;
    if !(-4095..0).contains(&returned) {
        return false;
    }
    const EHWPOISON: i32 = 133;
    match call {
        Call::Mmap {
            file: FileArg::File(file),
            flags,
            ..
        } => {
            file.kind.is_driven()
                // It may have been sealed since the call began.
                || error == libc::EPERM && may_be_sealed(file.kind) && is_to_be_shared(*flags)
                || matches!(
                    error,
                    libc::ENODEV | libc::EIO | libc::ENXIO | libc::ENFILE | libc::ENOLCK
                )
        }
        Call::Madvise { addr, len, .. } if populates(call) && error == libc::EFAULT => {
            may_lack_pages(engine, *addr, *len)
        }
        Call::Madvise { addr, len, advice } if *advice == libc::MADV_REMOVE && no_holes(error) => {
            let end = addr.saturating_add(*len);
            let mut within = engine
                .areas()
                .filter(|area| area.start < end && area.end > *addr);
            within.any(|area| area.vma.flags.contains(VmFlags::SHARED))
        }
        // A segment that is to be removed goes with the last area that is cut out of the way, and cannot be mapped then. Nor can memory that was sealed since it was
        // mapped.
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
        // Some drivers choose the place of their mappings, and a ring of `io_setup` whose owner is another address space does not move; be it the first area that is
        // to move or another.
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
        Call::Madvise { advice, .. } => {
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
        Call::ProcessMadvise { ranges, advice, .. } => ranges.iter().any(|&(addr, len)| {
            let advice = *advice;
            outside(engine, &Call::Madvise { addr, len, advice }, returned)
        }),
        // Locking fills the pages in; where that fails, the areas are locked all the same.
        Call::Mlock { addr, len, .. } => {
            matches!(error, libc::EAGAIN | libc::EINTR)
                || error == libc::ENOMEM && may_lack_pages(engine, *addr, *len)
        }
        Call::Mlockall { .. } => matches!(error, libc::EAGAIN | libc::EINTR),
        // The file system is asked to write, which has errors of its own; a socket, say, cannot be asked.
        Call::Msync { addr, len, flags } => {
            let asked = flags & libc::MS_SYNC as u64 != 0;
            matches!(error, libc::EIO | libc::EBUSY | libc::EINTR)
                || match error {
                    libc::ENOMEM => false,
                    libc::EINVAL => asked && has_shared(engine, *addr, *len, FileKind::is_driven),
                    _ => asked && has_shared(engine, *addr, *len, |_| true),
                }
        }
        Call::Mincore { .. } => matches!(error, libc::EFAULT | libc::EAGAIN),
        Call::Mbind { .. } => matches!(error, libc::EIO | libc::EFAULT),
        // Of another namespace, nothing is known of the segment.
        Call::Shmat { segment, .. } => {
            matches!(error, libc::EACCES | libc::EIDRM) || segment.is_none()
        }
        _ => false,
    }
}

/// Can the kernel have failed from outside before it came to what the engine refuses with `own`? `mincore` tells of pages up to the first hole: in a bad vector
/// it fails before that, unless the hole is at the start and the vector only not mapped. `msync` goes on behind holes.
fn told_before(engine: &AddressSpace, call: &Call, returned: i64, own: i64) -> bool {
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

/// What files say that cannot have holes (`fallocate(2)`): drivers, file systems that know none, sealed memory, and all of them beyond their largest offset.
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

/// Is a segment attached there?
fn is_segment(engine: &AddressSpace, addr: u64) -> bool {
    let area = engine.lookup(addr & !0xfff);
    area.is_some_and(|area| matches!(area.vma.backing, Backing::Shm { .. }))
}

/// Is a file in memory mapped there?
fn is_memory(engine: &AddressSpace, addr: u64) -> bool {
    let area = engine.lookup(addr & !0xfff);
    area.is_some_and(|area| area.vma.file().is_some_and(|file| may_be_sealed(file.kind)))
}

/// Is there a mapping of a driver's?
fn is_driven(engine: &AddressSpace, addr: u64) -> bool {
    let area = engine.lookup(addr);
    area.is_some_and(|area| area.vma.file().is_some_and(|file| file.kind.is_driven()))
}

/// Can a page of the range be one that the kernel cannot fill in?
fn may_lack_pages(engine: &AddressSpace, addr: u64, len: u64) -> bool {
    lacking(engine, addr, addr.saturating_add(len))
        .next()
        .is_some()
}

/// The areas of `[start, end)` with pages that the kernel perhaps cannot fill in: of files, whose ends are not known here; those that a userfaultfd
/// watches, which may be one that answers the program alone, or none (`UFFD_USER_MODE_ONLY`, `UFFD_FEATURE_SIGBUS`), also of pages that are there and that it has
/// write-protected; and those with a protection key, to which the thread may have no rights.
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

/// Is a file of such a kind mapped shared there?
fn has_shared(engine: &AddressSpace, addr: u64, len: u64, such: impl Fn(FileKind) -> bool) -> bool {
    files_in(engine, addr, len).any(|area| {
        area.vma.flags.contains(VmFlags::SHARED)
            && area.vma.file().is_some_and(|file| such(file.kind))
    })
}

/// Was something there watched before it was followed? By which userfaultfd, nobody knows.
fn has_unknown_watcher(engine: &AddressSpace, addr: u64, len: u64) -> bool {
    let end = addr.saturating_add(len);
    let mut within = engine
        .areas()
        .filter(|area| area.start < end && area.end > addr);
    within.any(|area| area.vma.flags.intersects(VmFlags::UFFD) && area.vma.uffd.is_none())
}

/// The areas of files in a range.
fn files_in(engine: &AddressSpace, addr: u64, len: u64) -> impl Iterator<Item = Area<'_>> {
    let end = addr.saturating_add(len);
    engine
        .areas()
        .filter(move |area| area.start < end && area.end > addr && area.vma.file().is_some())
}

/// `MADV_POPULATE_READ` or `MADV_POPULATE_WRITE`?
fn populates(call: &Call) -> bool {
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

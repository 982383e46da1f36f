//! One engine under one hypothesis about the order of page faults.

mod halves;
mod maps;
mod outside;
mod owners;

use samara_mm::{AddressSpace, Call, Errno, FileArg, Overcommit, Pages, SharedMap};

use crate::compare::Alike;
use crate::describe;
use crate::undecided::Unknown;

use self::owners::Owners;

pub use self::halves::halves;
pub(crate) use self::outside::lacking;
pub use self::outside::may_be_sealed;
use self::outside::{failed_before, failing_range, is_failure_outside, populates};

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
pub(crate) struct Replica {
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

impl Replica {
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

    /// As [`new`](Self::new), for a process that had run before: owners of private pages are inferred.
    pub(crate) fn found(engine: AddressSpace, shared: bool) -> Self {
        Self {
            assumes: true,
            ..Self::new(engine, shared)
        }
    }

    /// Returns the same with an engine that was [built anew](AddressSpace::take_over): owners of
    /// what had parted are made up.
    pub(crate) fn anew(&self, engine: AddressSpace) -> Self {
        Self {
            assumes: true,
            owners: self.owners.settled(),
            ..Self::new(engine, self.is_shared())
        }
    }

    /// Returns `true` if calls are performed as with concurrent readers.
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
        // It is unknown how many pages of the huge-page pool other processes have taken.
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
            || (populating || mapping) && is_failure_outside(&self.engine, call, returned)
        {
            return self.perform_refused(call, returned, facts);
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
        } else if is_failure_outside(&self.engine, call, returned)
            && (own >= 0 || failed_before(&self.engine, call, returned, own))
        {
            Verdict::Outside
        } else {
            Verdict::Differs
        };
        (verdict, own)
    }

    /// Performs a call that the kernel may have refused for a reason outside: the driver, the file
    /// system, the owner of the segment, the place of a page, or a machine that has promised enough.
    /// The engine must not go on alone.
    fn perform_refused(
        &mut self,
        call: &Call,
        returned: i64,
        facts: &mut dyn Pages,
    ) -> (Verdict, i64) {
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
        // How far it came is not known if it populates: written pages show themselves.
        if !populates(call) {
            if let Some(shared) = &mut self.shared {
                *shared = trial.share();
            }
            self.engine = trial;
        }
        (Verdict::Agrees, own)
    }

    /// Returns the place of a mapping that is refused for its type after a place has been found.
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

/// Returns `true` if the kernel may have found no space for `MAP_32BIT` [because it began its
/// search too far above](placed_at_random).
fn found_no_room(call: &Call, returned: i64) -> bool {
    const START: i64 = 0x4000_0000;
    returned == -i64::from(libc::ENOMEM) && placed_at_random(call, START)
}

/// Returns `true` if a search may have begun above this address.
fn is_near_start(address: i64) -> bool {
    (0x4000_0000..0x4200_0000).contains(&address)
}

/// Returns a call that allocates a protection key as a mapping does that its file refuses: a
/// mapping of no known type, which is refused, too.
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

/// Returns `true` if a device is mapped at a fixed place, where other areas may be. Its driver may
/// be asked before these are touched.
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

/// Returns `true` if all processes together may have exceeded the commit limit with this call
/// (`vm.overcommit_memory` 2). The commitments of the others are unknown here.
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

/// Returns `true` if `mbind` failed because a page lies on another node. If pages should be moved,
/// it fails after everything else is done.
fn refused_for_pages(call: &Call, returned: i64) -> bool {
    const MOVING: u32 = 0x2 | 0x4;
    matches!(call, Call::Mbind { flags, .. } if *flags as u32 & MOVING == 0)
        && returned == -i64::from(libc::EIO)
}

/// Returns the ranges that a call fills with pages, if it failed as those do that come to the end
/// of a file.
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

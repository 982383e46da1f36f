//! The engine's side: performs one step on an address space.

use samara_mm::{AddressSpace, Backing, Capabilities, Errno, Moving, VmFlags, Watch};

use super::World;
use crate::generate::{ARENA, PAGE};
use crate::kernel::Step;
use crate::op::Op;

/// The pages of the arena before a call, and whether the kernel has found some elsewhere (`mbind`).
struct Written(Option<u64>, bool);

impl Watch for Written {
    fn written(&mut self, start: u64, end: u64) -> bool {
        let bits = self.0.unwrap_or(0);
        (0..64).any(|page| bits >> page & 1 != 0 && (start..end).contains(&(ARENA + page * PAGE)))
    }

    fn informed(&self) -> bool {
        self.0.is_some()
    }

    fn listens(&self) -> bool {
        false
    }

    /// Asked only about small pages, whose presence is unknown here: the test `pages` covers them.
    /// The engine itself knows those of the pool.
    fn strays(&mut self, _: u64, _: u64, _: u64, _: Moving) -> bool {
        self.1
    }
}

impl World {
    /// Returns `true` if the mapped page at `addr` has a page behind it. An area that the kernel
    /// installed is never split, so the page's number in it is the same wherever it was moved.
    fn is_backed(&self, space: &AddressSpace, addr: u64) -> bool {
        let Some(area) = space.lookup(addr) else {
            return true;
        };
        match &area.vma.backing {
            Backing::Special(name) => {
                let page = (addr - area.start) / PAGE;
                !self.unbacked.contains(&(name.name().into(), page))
            }
            _ => true,
        }
    }

    /// Another process stays, with the huge pages that it has.
    fn keep(&self, other: AddressSpace) {
        if self.huge.is_some() {
            self.others.borrow_mut().push(other);
        }
    }

    pub(super) fn step(
        &self,
        space: &mut AddressSpace,
        op: &Op,
        kernel: &Step,
        bits: Option<u64>,
    ) -> i64 {
        let mut facts = Written(bits, kernel.result == -i64::from(libc::EIO));
        let facts = &mut facts;
        let result = match *op {
            Op::Write { addr } | Op::Read { addr } if bits.is_some() => {
                if space.lookup(addr).is_none() {
                    let _ = space.grow_stack(addr);
                }
                return kernel.result;
            }
            // The presence of the page is not recorded. The effect of a fault on the area is the
            // same in either case.
            Op::Write { addr } | Op::Read { addr } if is_watched(space, addr) => {
                let write = matches!(op, Op::Write { .. });
                match space.fault(addr, write) {
                    Ok(()) if [0, -i64::from(libc::EFAULT)].contains(&kernel.result) => {
                        return kernel.result;
                    }
                    own => own.map(|()| 0),
                }
            }
            Op::Write { addr } => space.fault(addr, true).map(|()| 0),
            Op::Read { addr } => {
                let readable = space.fault(addr, false);
                readable.and_then(|()| match self.is_backed(space, addr) {
                    true => Ok(0),
                    false => Err(Errno::EFAULT),
                })
            }
            Op::ForkInto | Op::ForkAside | Op::ForkKeep if bits.is_some_and(|bits| bits != 0) => {
                for page in 0..64 {
                    if bits.is_some_and(|bits| bits >> page & 1 != 0) {
                        let start = ARENA + page * PAGE;
                        space.note_written(start, start + PAGE);
                    }
                }
                return self.step(space, op, kernel, Some(0));
            }
            Op::ForkInto => space.fork().map(|child| {
                let parent = std::mem::replace(space, child);
                self.keep(parent);
                0
            }),
            Op::ForkAside => space.fork().map(|_| 0),
            Op::ForkKeep => space.fork().map(|child| {
                self.keep(child);
                0
            }),
            Op::Limit { which, value } => {
                let mut limits = space.limits();
                match which as u32 {
                    libc::RLIMIT_AS => limits.address_space = value,
                    libc::RLIMIT_DATA => limits.data = value,
                    libc::RLIMIT_STACK => limits.stack = value,
                    libc::RLIMIT_MEMLOCK => limits.memlock = value,
                    _ => unreachable!(),
                }
                space.set_limits(limits);
                Ok(0)
            }
            Op::ReadImpliesExec { on } => {
                let mut config = space.config().clone();
                config.read_implies_exec = on == 1;
                space.set_config(config);
                Ok(0)
            }
            Op::DropCaps => {
                let mut config = space.config().clone();
                config.capabilities = Capabilities::default();
                space.set_config(config);
                Ok(0)
            }
            // The kernel draws a new start for the search of every such call.
            Op::Mmap { flags, .. }
                if flags & 0x10_0050 == 0x40
                    && (0x4000_0000..0x8000_0000).contains(&kernel.result) =>
            {
                let call = op.call(&self.objects).unwrap();
                space.perform_at(&call, kernel.result as u64, facts)
            }
            _ => space.perform_with(&op.call(&self.objects).unwrap(), facts),
        };
        match result {
            Ok(value) => value as i64,
            Err(errno) => -i64::from(errno.0),
        }
    }
}

/// Returns `true` if a userfaultfd watches the area at `addr`, or the one that would grow down to
/// it.
fn is_watched(space: &AddressSpace, addr: u64) -> bool {
    let area = space.find(addr);
    area.is_some_and(|area| {
        let there = area.start <= addr || area.vma.flags.contains(VmFlags::GROWSDOWN);
        there && area.vma.flags.intersects(VmFlags::UFFD)
    })
}

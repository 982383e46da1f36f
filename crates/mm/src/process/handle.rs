//! A process: its calls, its end.

#[cfg(feature = "exec")]
use alloc::boxed::Box;
use core::fmt;
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering;

use crate::call::Call;
use crate::config::{Config, Layout, Limits};
use crate::errno::Errno;
use crate::heap::counted::Counted;
use crate::pages::Pages;
use crate::process::file::Inode;
use crate::process::machine::Machine;
use crate::process::mm::Mm;
use crate::process::owner::{Owner, Tee};
use crate::process::platform::Platform;
use crate::space::AddressSpace;
use crate::space::maps::{MapsLine, line};

/// A process's memory: the map, and the pages.
///
/// All calls take `&self`: a call of the `mmap` family waits for the others and for faults, faults and copies run beside each other. So does
/// `MADV_DONTNEED` of private memory, up to 2 MiB of one area, where threads are [expected](Self::expect_threads). Dropping it is
/// exit: everything is unmapped, which needs no memory. [`exit`](Self::exit) tells whether anything was lost.
pub struct Process<P: Platform> {
    pub(crate) mm: Counted<Mm<P>>,
}

impl<P: Platform> Process<P> {
    /// A process without any mapping.
    ///
    /// # Errors
    /// As [`AddressSpace::new`]; `ENOMEM`.
    pub fn new(
        machine: &Machine<P>,
        config: Config,
        limits: Limits,
        layout: Layout,
    ) -> Result<Self, Errno> {
        Self::of(machine, AddressSpace::new(config, limits, layout)?)
    }

    /// A process with this map, whose areas have no pages yet.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn of(machine: &Machine<P>, space: AddressSpace) -> Result<Self, Errno> {
        let locks = space.locked_pages() > 0 || !space.future_locked.is_empty();
        let make = |place: &mut MaybeUninit<AddressSpace>| {
            place.write(space);
            Ok(())
        };
        // SAFETY: it fills the place.
        let process = unsafe { Self::new_with(machine, make)? };
        if locks {
            process.mm.set_has_locked();
        }
        Ok(process)
    }

    /// As [`of`](Self::of), of a map without locked memory, which goes to its place from the heap.
    #[cfg(feature = "exec")]
    #[inline(never)]
    pub(super) fn of_boxed(machine: &Machine<P>, space: Box<AddressSpace>) -> Result<Self, Errno> {
        let make = |place: &mut MaybeUninit<AddressSpace>| {
            place.write(*space);
            Ok(())
        };
        // SAFETY: it fills the place.
        unsafe { Self::new_with(machine, make) }
    }

    /// The same of a map without locked memory, as that of a child is, which is made in its place.
    ///
    /// # Safety
    /// `make` fills the place, or returns an error.
    pub(super) unsafe fn new_with(
        machine: &Machine<P>,
        make: impl FnOnce(&mut MaybeUninit<AddressSpace>) -> Result<(), Errno>,
    ) -> Result<Self, Errno> {
        // SAFETY: it fills the place.
        let mm = unsafe { Counted::try_make(|place| Mm::fill(place, machine, make))? };
        machine.add_process(&mm)?;
        Ok(Process { mm })
    }

    /// The machine that it runs on.
    pub fn machine(&self) -> &Machine<P> {
        &self.mm.machine
    }

    /// Looks at the map; calls wait meanwhile, and so `look` must not make one.
    pub fn with_space<R>(&self, look: impl FnOnce(&AddressSpace) -> R) -> R {
        look(&self.mm.space.read())
    }

    /// Sets the limits that calls are checked against from now on (`setrlimit(2)`). What exceeds them already stays. Waits for calls that are under way.
    pub fn set_limits(&self, limits: Limits) {
        self.mm.lock_for_call().set_limits(limits);
    }

    /// Looks at the area at `addr`, or the first one above it. Waits for no call, if faults do not ([`expect_threads`](Self::expect_threads)): then a
    /// line is as it was at one moment, but for the name of the heap, which is that of before the call that is under way. `look` must not make a call.
    pub fn find<R>(&self, addr: u64, look: impl FnOnce(&MapsLine<'_>) -> R) -> Option<R> {
        let mm = &*self.mm;
        if let Some(map) = mm.lockless.map() {
            let brk = mm.brk.load(Ordering::Relaxed);
            let layout = Layout { brk, ..mm.layout };
            return (map.read().find(addr)).map(|area| look(&line(area, &layout)));
        }
        let space = mm.space.read();
        (space.areas.find(addr)).map(|area| look(&line(area, &space.layout)))
    }

    /// Performs a system call on the map and on the pages.
    ///
    /// # Errors
    /// Linux's, as [`AddressSpace::perform`]; `EDEADLK` from within an [atomic operation](Self::atomic_u32) on this process.
    pub fn perform(&self, call: &Call) -> Result<u64, Errno> {
        self.mm.atomic_ops.check()?;
        if let Some(result) = self.mm.perform_lockless(call) {
            return result;
        }
        let mut owner = Owner::new(&self.mm, call);
        let result = {
            let mut space = self.mm.lock_for_call();
            let preallocated = owner.preallocate();
            let result = preallocated.and_then(|()| space.perform_closed(call, &mut owner));
            owner.apply(&space).and(result)
        };
        owner.finish().and(result)
    }

    /// As [`perform`](Self::perform), and a second owner of the pages is told, too, each time before the tables: a mirror of them, or who
    /// [refuses](Pages::refuses), which undoes the call. So does a panic of the second owner.
    ///
    /// # Errors
    /// Linux's, and the second owner's; `EDEADLK` as [`perform`](Self::perform).
    pub fn perform_with(&self, call: &Call, other: &mut dyn Pages) -> Result<u64, Errno> {
        self.mm.atomic_ops.check()?;
        let mut both = Tee::new(Owner::new(&self.mm, call), other);
        let result = {
            let mut space = self.mm.lock_for_call();
            let preallocated = both.tables.preallocate();
            let result = preallocated.and_then(|()| space.perform_closed(call, &mut both));
            both.tables.apply(&space).and(result)
        };
        both.tables.finish().and(result)
    }

    /// Exits, as dropping the process does, and tells whether that lost anything: what programs have written to files that go with the last mapping of them is
    /// written then, and what cannot be is gone. What others map or have open stays, and is not written now.
    ///
    /// While another thread does something to a file in all of its mappings ([`Machine::truncate`]), that one may have the last handle of the process, and
    /// then nobody is told.
    ///
    /// # Errors
    /// The first of [`PageSource::write_page`](crate::process::PageSource::write_page), after all pages have been tried. `ENOMEM`: there was no memory to find out.
    pub fn exit(self) -> Result<(), Errno> {
        let files = self.mm.files();
        drop(self);
        let mut result = Ok(());
        for file in files? {
            result = result.and(Inode::close(file));
        }
        result
    }
}

impl<P: Platform> Drop for Process<P> {
    fn drop(&mut self) {
        self.mm.machine.remove_process(self.mm.asid());
    }
}

impl<P: Platform> fmt::Debug for Process<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process")
            .field("number", &self.mm.asid())
            .finish_non_exhaustive()
    }
}

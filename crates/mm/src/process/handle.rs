//! A client's handle of a process: creation, system calls, look-ups, exit.
//!
//! A call locks the address space, changes the map, applies the same change to the page tables, and
//! publishes the state for lockless readers before it unlocks.

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

/// The memory of a process: the map and the pages.
///
/// All calls take `&self`. A call of the `mmap` family waits for other calls and for faults. Faults
/// and copies run concurrently. So does `MADV_DONTNEED` of private memory, up to 2 MiB of one VMA,
/// if threads are [expected](Self::expect_threads). Dropping a process unmaps everything, which
/// needs no memory. [`exit`](Self::exit) does the same and returns the first error.
pub struct Process<P: Platform> {
    pub(crate) mm: Counted<Mm<P>>,
}

impl<P: Platform> Process<P> {
    /// Creates a process without mappings.
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

    /// Creates a process with this map. Its VMAs have no pages yet.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn of(machine: &Machine<P>, space: AddressSpace) -> Result<Self, Errno> {
        let locks = space.locked_pages() > 0 || !space.future_locked.is_empty();
        let make = |place: &mut MaybeUninit<AddressSpace>| {
            place.write(space);
            Ok(())
        };
        // SAFETY: `make` initialises the place.
        let process = unsafe { Self::new_with(machine, make)? };
        if locks {
            process.mm.set_has_locked();
        }
        Ok(process)
    }

    /// As [`of`](Self::of), for a boxed map without locked memory.
    #[cfg(feature = "exec")]
    #[inline(never)]
    pub(super) fn of_boxed(machine: &Machine<P>, space: Box<AddressSpace>) -> Result<Self, Errno> {
        let make = |place: &mut MaybeUninit<AddressSpace>| {
            place.write(*space);
            Ok(())
        };
        // SAFETY: `make` initialises the place.
        unsafe { Self::new_with(machine, make) }
    }

    /// Creates a process whose map, without locked memory, is built in place by `make`.
    ///
    /// # Safety
    /// `make` initialises the place, or returns an error.
    pub(super) unsafe fn new_with(
        machine: &Machine<P>,
        make: impl FnOnce(&mut MaybeUninit<AddressSpace>) -> Result<(), Errno>,
    ) -> Result<Self, Errno> {
        // SAFETY: `Mm::fill` initialises the place, under the caller's promise.
        let mm = unsafe { Counted::try_make(|place| Mm::fill(place, machine, make))? };
        machine.add_process(&mm)?;
        Ok(Process { mm })
    }

    /// Returns the machine of the process.
    pub fn machine(&self) -> &Machine<P> {
        &self.mm.machine
    }

    /// Calls `look` with the map. Calls wait until it returns, so `look` must not make one.
    pub fn with_space<R>(&self, look: impl FnOnce(&AddressSpace) -> R) -> R {
        look(&self.mm.space.read())
    }

    /// Sets the limits for later calls (`setrlimit(2)`). Existing mappings above a limit stay.
    /// Waits for running calls.
    pub fn set_limits(&self, limits: Limits) {
        self.mm.lock_for_call().set_limits(limits);
    }

    /// Calls `look` with the line of the VMA at `addr`, or of the first one above it.
    ///
    /// Waits for no call if threads are [expected](Self::expect_threads). Then the line is
    /// consistent: it shows one moment. Only the name of the heap may be that of before a running
    /// call. `look` must not make a call.
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

    /// Performs a system call on the map and the pages.
    ///
    /// # Errors
    /// Linux's, as [`AddressSpace::perform`]. `EDEADLK` from within an [atomic
    /// operation](Self::atomic_u32) on this process.
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

    /// As [`perform`](Self::perform), and notifies a second owner of the pages.
    ///
    /// The second owner is notified before the tables each time. It may be a mirror of the tables,
    /// or [refuse](Pages::refuses) a step, which undoes the call. A panic of the second owner
    /// undoes the call, too.
    ///
    /// # Errors
    /// Linux's, and the second owner's. `EDEADLK` as [`perform`](Self::perform).
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

    /// Exits the process and returns the first error of writing its files.
    ///
    /// The dirty pages of a file are written here if the process has the last handle of the file.
    /// Pages that cannot be written are lost. A file that others map or have open keeps its pages,
    /// and they are not written now.
    ///
    /// While another thread changes all mappings of a file ([`Machine::truncate`]), that thread may
    /// drop the last handle of the process. Then no error is reported.
    ///
    /// # Errors
    /// The first error of [`PageSource::write_page`](crate::process::PageSource::write_page), after
    /// all pages were tried. `ENOMEM` if the files could not be listed.
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

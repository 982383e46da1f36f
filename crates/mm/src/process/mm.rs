//! A process: its map and its tables.

#[cfg(feature = "exec")]
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::mem::MaybeUninit;
use core::ops::{Deref, DerefMut};
#[cfg(target_has_atomic = "64")]
use core::sync::atomic::AtomicU64;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};
#[cfg(not(target_has_atomic = "64"))]
use portable_atomic::AtomicU64;

use lock_api::{RwLock, RwLockWriteGuard};
use samara_paging::{Asid, PageTables};

use crate::call::Call;
use crate::config::{Config, Layout, Limits};
use crate::errno::Errno;
use crate::heap::counted::Counted;
use crate::heap::place::fill;
use crate::pages::{Object, Pages};
use crate::process::fault::Beside;
use crate::process::file::{FilesSeen, Inode};
use crate::process::late::Late;
use crate::process::machine::Machine;
use crate::process::marks::Marks;
use crate::process::nested::Nested;
use crate::process::owner::{Both, Owner};
use crate::process::platform::Platform;
use crate::space::AddressSpace;
use crate::space::maps::{MapsLine, line};

/// The tables of a process on its machine.
pub(crate) type Tables<P> = PageTables<<P as Platform>::Format, Machine<P>>;

/// Alone in its lines of the cache: calls write to it, while faults that do without the lock of the address space read what is beside it.
#[repr(align(128))]
pub(crate) struct Apart<T>(T);

impl<T> Deref for Apart<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// What a process is made of. Others reach it through the machine's list, as long as it has not gone.
pub(crate) struct Mm<P: Platform> {
    // Dropped in this order: pages leave the tables before their files are given up.
    pub(crate) tables: Tables<P>,
    pub(crate) space: Apart<RwLock<P::RwLock, Late<AddressSpace>>>,
    /// The same map, for faults that do not wait for calls.
    pub(super) beside: Beside,
    pub(crate) machine: Machine<P>,
    /// Whether there may ever have been a huge page or a shared table: else nothing reaches across the ends of a range.
    divisible: AtomicBool,
    /// Whether a child may not use this process's tables: there may be pages in them that it must not get.
    unshareable: AtomicBool,
    /// Whether there may ever have been a page in swap: else markers are guards.
    swapped: AtomicBool,
    /// Whether a thread may be within an atomic operation.
    pub(crate) nested: Nested,
    /// The files that pages may be of.
    pub(crate) files: FilesSeen,
    /// Where Linux has tables without pages.
    hollow: Apart<Marks<P>>,
    /// Its pages are being given up, or have been: what is missing does not come back.
    reaped: AtomicBool,
    /// Whether it may ever have locked memory.
    locks: AtomicBool,
    /// The key of areas that can be executed only; 0 while there has been none, and an entry of the tables says all that an access needs.
    execute_only: AtomicU8,
    /// The end of the heap when the last call ended, for those who look at areas without the lock.
    brk: Apart<AtomicU64>,
    /// Where else heap and stack are, which does not change.
    layout: Layout,
}

impl<P: Platform> Mm<P> {
    /// # Safety
    /// `make` fills the place, or returns an error.
    unsafe fn fill(
        place: &mut MaybeUninit<Self>,
        machine: &Machine<P>,
        make: impl FnOnce(&mut MaybeUninit<AddressSpace>) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let tables = machine.make_tables()?;
        // SAFETY: a field of the place. If there is no map in the end, it is not dropped.
        let space = unsafe {
            let space = &raw mut (*place.as_mut_ptr()).space;
            space.write(Apart(RwLock::new(Late::new())));
            (*space).0.get_mut()
        };
        // SAFETY: there is none yet.
        make(unsafe { space.place() })?;
        let (layout, execute_only) = (space.layout, space.execute_only);
        fill!(
            place,
            Mm<P> {
                space,
                tables: tables,
                beside: Beside::new(),
                brk: Apart(AtomicU64::new(layout.brk)),
                layout: layout,
                machine: machine.clone(),
                divisible: AtomicBool::new(false),
                unshareable: AtomicBool::new(false),
                swapped: AtomicBool::new(false),
                nested: Nested::new(),
                files: FilesSeen::new(),
                hollow: Apart(Marks::new()),
                reaped: AtomicBool::new(false),
                locks: AtomicBool::new(false),
                execute_only: AtomicU8::new(execute_only),
            }
        );
        Ok(())
    }

    /// Its number among the processes of its machine.
    pub(crate) fn number(&self) -> Asid {
        self.tables.asid()
    }

    /// Whether a huge page or a shared table may reach across the ends of a range.
    pub(super) fn divisible(&self) -> bool {
        // Relaxed: set with the address space locked, and asked by calls, which lock it for writing.
        self.divisible.load(Ordering::Relaxed)
    }

    pub(super) fn set_divisible(&self) {
        if !self.divisible() {
            self.divisible.store(true, Ordering::Relaxed);
        }
    }

    /// Whether markers may name places in swap.
    pub(super) fn swapped(&self) -> bool {
        // Relaxed: as `divisible`.
        self.swapped.load(Ordering::Relaxed)
    }

    /// The caller holds the lock of the address space for writing.
    pub(super) fn set_swapped(&self) {
        if !self.swapped() {
            self.swapped.store(true, Ordering::Relaxed);
            self.set_unshareable();
        }
    }

    pub(super) fn hollow(&self) -> &Marks<P> {
        &self.hollow
    }

    /// Whether memory of it may be locked.
    pub(super) fn locks(&self) -> bool {
        // Relaxed: as that of the machine.
        self.locks.load(Ordering::Relaxed)
    }

    /// Before it locks some.
    pub(super) fn set_locks(&self) {
        if !self.locks() {
            self.machine.kept().set_locks();
            self.locks.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn reaped(&self) -> bool {
        // Relaxed: a fault that finds the page gone finds this too, by the lock of the page's table, or it had looked before.
        self.reaped.load(Ordering::Relaxed)
    }

    pub(crate) fn set_reaped(&self) {
        self.reaped.store(true, Ordering::Relaxed);
    }

    /// Whether a fork has to copy the tables, entry by entry: pages were pinned, or swapped out.
    pub(crate) fn unshareable(&self) -> bool {
        // Relaxed: set with the address space locked, and a fork locks it for writing. Who reads it without the lock finds it set only after that.
        self.unshareable.load(Ordering::Relaxed)
    }

    /// The caller holds the lock of the address space.
    pub(crate) fn set_unshareable(&self) {
        if !self.unshareable() {
            self.unshareable.store(true, Ordering::Relaxed);
        }
    }

    /// Whether what an entry of the tables allows may be forbidden by the key of areas that can be executed only.
    pub(crate) fn has_execute_only(&self) -> bool {
        self.execute_only_key() != 0
    }

    /// The protection key that forbids reading and writing what can be executed only; 0 if none does.
    pub(super) fn execute_only_key(&self) -> u8 {
        // Acquire: with the store below. Who has seen a call return sees what it made of the areas.
        self.execute_only.load(Ordering::Acquire)
    }

    /// Comes after a call, before it returns. An access or a look beside the call may still go by what was before, as if it came first.
    fn note(&self, space: &AddressSpace) {
        if space.execute_only != self.execute_only.load(Ordering::Relaxed) {
            self.execute_only
                .store(space.execute_only, Ordering::Release);
        }
        // Relaxed: it is looked at for a name.
        self.brk.store(space.layout.brk, Ordering::Relaxed);
    }
}

impl<P: Platform> Drop for Mm<P> {
    fn drop(&mut self) {
        if self.swapped() {
            let end = self.space.read().config.task_size;
            self.leave_swap(end);
        }
    }
}

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
        let process = unsafe { Self::unlocked(machine, make)? };
        if locks {
            process.mm.set_locks();
        }
        Ok(process)
    }

    /// As [`of`](Self::of), of a map without locked memory, which goes to its place from the heap.
    #[cfg(feature = "exec")]
    #[inline(never)]
    pub(super) fn of_heap(machine: &Machine<P>, space: Box<AddressSpace>) -> Result<Self, Errno> {
        let make = |place: &mut MaybeUninit<AddressSpace>| {
            place.write(*space);
            Ok(())
        };
        // SAFETY: it fills the place.
        unsafe { Self::unlocked(machine, make) }
    }

    /// The same of a map without locked memory, as that of a child is, which is made in its place.
    ///
    /// # Safety
    /// `make` fills the place, or returns an error.
    pub(super) unsafe fn unlocked(
        machine: &Machine<P>,
        make: impl FnOnce(&mut MaybeUninit<AddressSpace>) -> Result<(), Errno>,
    ) -> Result<Self, Errno> {
        // SAFETY: it fills the place.
        let mm = unsafe { Counted::try_make(|place| Mm::fill(place, machine, make))? };
        machine.enter(&mm)?;
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
        if let Some(map) = mm.beside.map() {
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
        self.mm.nested.check()?;
        if let Some(result) = self.mm.perform_alone(call) {
            return result;
        }
        let mut owner = Owner::new(&self.mm, call);
        let result = {
            let mut space = self.mm.lock_for_call();
            let foreseen = owner.foresee();
            let result = foreseen.and_then(|()| space.perform_closed(call, &mut owner));
            owner.act(&space).and(result)
        };
        owner.finish().and(result)
    }

    /// As [`perform`](Self::perform), and a second owner of the pages is told, too, each time before the tables: a mirror of them, or who
    /// [refuses](Pages::refuses), which undoes the call. So does a panic of the second owner.
    ///
    /// # Errors
    /// Linux's, and the second owner's; `EDEADLK` as [`perform`](Self::perform).
    pub fn perform_with(&self, call: &Call, other: &mut dyn Pages) -> Result<u64, Errno> {
        self.mm.nested.check()?;
        let mut both = Both::new(Owner::new(&self.mm, call), other);
        let result = {
            let mut space = self.mm.lock_for_call();
            let foreseen = both.tables.foresee();
            let result = foreseen.and_then(|()| space.perform_closed(call, &mut both));
            both.tables.act(&space).and(result)
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

/// The address space, locked for a call, whose end comes when this is dropped: also when the owner of the pages panics.
struct InCall<'a, P: Platform> {
    mm: &'a Mm<P>,
    space: RwLockWriteGuard<'a, P::RwLock, Late<AddressSpace>>,
}

impl<P: Platform> Mm<P> {
    #[inline(always)]
    fn lock_for_call(&self) -> InCall<'_, P> {
        InCall {
            mm: self,
            space: self.space.write(),
        }
    }

    /// Handles of the files that are mapped and may have pages to be written.
    ///
    /// # Errors
    /// `ENOMEM`.
    fn files(&self) -> Result<Vec<Object>, Errno> {
        let mut files: Vec<Object> = Vec::new();
        for area in self.space.read().areas.iter() {
            let Some(file) = Inode::handle(area.vma) else {
                continue;
            };
            if files.last().is_none_or(|last| !last.is_same(&file)) {
                files.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
                files.push(file);
            }
        }
        Ok(files)
    }
}

impl<P: Platform> Deref for InCall<'_, P> {
    type Target = AddressSpace;

    #[inline(always)]
    fn deref(&self) -> &AddressSpace {
        &self.space
    }
}

impl<P: Platform> DerefMut for InCall<'_, P> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut AddressSpace {
        &mut self.space
    }
}

impl<P: Platform> Drop for InCall<'_, P> {
    #[inline(always)]
    fn drop(&mut self) {
        self.mm.note(&self.space);
        self.space.end_call();
    }
}

impl<P: Platform> Drop for Process<P> {
    fn drop(&mut self) {
        self.mm.machine.leave(self.mm.number());
    }
}

impl<P: Platform> fmt::Debug for Process<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process")
            .field("number", &self.mm.number())
            .finish_non_exhaustive()
    }
}

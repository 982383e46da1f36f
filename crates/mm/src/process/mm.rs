//! The state of a process: its map, its page tables, and what lockless readers need of both.
//!
//! Faults, calls and walkers are methods of [`Mm`] in other files. This file holds the fields,
//! their locks, and the guard of a call. The lock order is in the head of `process/mod.rs`.

use alloc::vec::Vec;
use core::mem::MaybeUninit;
use core::ops::{Deref, DerefMut};
#[cfg(target_has_atomic = "64")]
use core::sync::atomic::AtomicU64;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};
#[cfg(not(target_has_atomic = "64"))]
use portable_atomic::AtomicU64;

use lock_api::{RwLock, RwLockWriteGuard};
use samara_paging::{Asid, PageTables};

use crate::config::Layout;
use crate::errno::Errno;
use crate::heap::place::fill;
use crate::object::Object;
use crate::process::address_set::AddressSet;
use crate::process::atomic_ops::AtomicOps;
use crate::process::file::{FileFilter, Inode};
use crate::process::in_place::InPlace;
use crate::process::lockless_map::LocklessMap;
use crate::process::machine::Machine;
use crate::process::platform::Platform;
use crate::space::AddressSpace;

/// Page tables of a process on its machine.
pub(crate) type Tables<P> = PageTables<<P as Platform>::Format, Machine<P>>;

/// A value alone in its cache lines. Calls write to it, while lockless faults read the fields next
/// to it.
#[repr(align(128))]
pub(crate) struct CachePadded<T>(T);

impl<T> Deref for CachePadded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// The memory of a process. The machine's list holds a handle until the process exits.
///
/// A field without a remark is immutable or has a lock inside. "Protected by `space`" means: read
/// and written with `space` locked.
pub(crate) struct Mm<P: Platform> {
    // Dropped in this order: pages leave the tables before their files are released.
    pub(crate) tables: Tables<P>,
    pub(crate) space: CachePadded<RwLock<P::RwLock, InPlace<AddressSpace>>>,
    /// The same map for faults that do not wait for calls. Set once, with `space` locked for
    /// writing.
    pub(super) lockless: LocklessMap,
    pub(crate) machine: Machine<P>,
    /// `true` if there may ever have been a huge page or a shared table. If `false`, no entry
    /// crosses the ends of a range. Written with `space` locked, never reset.
    may_need_split: AtomicBool,
    /// `true` if a fork must copy the tables entry by entry: a shared table could hold pages that
    /// the child must not get. Written with `space` locked, never reset.
    forks_by_copy: AtomicBool,
    /// `true` if there may ever have been a page in swap. If `false`, all markers are guards.
    /// Written with `space` locked for writing, never reset.
    swapped: AtomicBool,
    /// Says if a thread may be within an atomic operation.
    pub(crate) atomic_ops: AtomicOps,
    /// The files whose pages the tables may hold.
    pub(crate) files: FileFilter,
    /// The stretches in which Linux would have a table without pages.
    retained_tables: CachePadded<AddressSet<P>>,
    /// `true` once the pages are being freed by the reaper. A missing page does not come back.
    reaped: AtomicBool,
    /// `true` if the process may ever have locked memory. Never reset.
    has_locked: AtomicBool,
    /// The protection key of execute-only VMAs, or 0 if there has been none. If 0, a page-table
    /// entry alone decides about an access. Written with `space` locked for writing.
    execute_only: AtomicU8,
    /// The program break after the last call, for look-ups without the lock. Written with `space`
    /// locked for writing.
    pub(super) brk: CachePadded<AtomicU64>,
    /// The other bounds of heap and stack. Immutable.
    pub(super) layout: Layout,
}

impl<P: Platform> Mm<P> {
    /// Initialises the state in place. `make` builds the map.
    ///
    /// # Safety
    /// `make` initialises the place, or returns an error.
    pub(super) unsafe fn fill(
        place: &mut MaybeUninit<Self>,
        machine: &Machine<P>,
        make: impl FnOnce(&mut MaybeUninit<AddressSpace>) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let tables = machine.make_tables()?;
        // SAFETY: a field of the place. It is not dropped unless the map is made.
        let space = unsafe {
            let space = &raw mut (*place.as_mut_ptr()).space;
            space.write(CachePadded(RwLock::new(InPlace::new())));
            (*space).0.get_mut()
        };
        // SAFETY: no value was put there before.
        make(unsafe { space.place() })?;
        let (layout, execute_only) = (space.layout, space.execute_only);
        fill!(
            place,
            Mm<P> {
                space,
                tables: tables,
                lockless: LocklessMap::new(),
                brk: CachePadded(AtomicU64::new(layout.brk)),
                layout: layout,
                machine: machine.clone(),
                may_need_split: AtomicBool::new(false),
                forks_by_copy: AtomicBool::new(false),
                swapped: AtomicBool::new(false),
                atomic_ops: AtomicOps::new(),
                files: FileFilter::new(),
                retained_tables: CachePadded(AddressSet::new()),
                reaped: AtomicBool::new(false),
                has_locked: AtomicBool::new(false),
                execute_only: AtomicU8::new(execute_only),
            }
        );
        Ok(())
    }

    /// Returns the number of the process on its machine.
    pub(crate) fn asid(&self) -> Asid {
        self.tables.asid()
    }

    /// Returns `true` if a huge page or a shared table may cross the ends of a range.
    pub(super) fn may_need_split(&self) -> bool {
        // Relaxed: set with the address space locked, and read by calls, which lock it for writing.
        self.may_need_split.load(Ordering::Relaxed)
    }

    pub(super) fn set_may_need_split(&self) {
        if !self.may_need_split() {
            self.may_need_split.store(true, Ordering::Relaxed);
        }
    }

    /// Returns `true` if markers may name slots in swap.
    pub(super) fn swapped(&self) -> bool {
        // Relaxed: as `may_need_split`.
        self.swapped.load(Ordering::Relaxed)
    }

    /// Notes that a page goes to swap.
    ///
    /// Preconditions: the caller holds the lock of the address space for writing.
    pub(super) fn set_swapped(&self) {
        if !self.swapped() {
            self.swapped.store(true, Ordering::Relaxed);
            self.set_forks_by_copy();
        }
    }

    pub(super) fn retained_tables(&self) -> &AddressSet<P> {
        &self.retained_tables
    }

    /// Returns `true` if the process may have locked memory.
    pub(super) fn has_locked(&self) -> bool {
        // Relaxed: as `NeededPages::has_locked`.
        self.has_locked.load(Ordering::Relaxed)
    }

    /// Notes that the process is about to lock memory.
    pub(super) fn set_has_locked(&self) {
        if !self.has_locked() {
            self.machine.needed_pages().set_has_locked();
            self.has_locked.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn reaped(&self) -> bool {
        // Relaxed: a fault that finds the page gone sees this store through the lock of the page's
        // table. Otherwise it looked before the reaper.
        self.reaped.load(Ordering::Relaxed)
    }

    pub(crate) fn set_reaped(&self) {
        self.reaped.store(true, Ordering::Relaxed);
    }

    /// Returns `true` if a fork must copy the tables entry by entry, because pages were pinned or
    /// swapped out.
    pub(crate) fn forks_by_copy(&self) -> bool {
        // Relaxed: set with the address space locked, and a fork locks it for writing. A reader
        // without the lock may see it late, never early.
        self.forks_by_copy.load(Ordering::Relaxed)
    }

    /// Makes every later fork copy the tables.
    ///
    /// Preconditions: the caller holds the lock of the address space.
    pub(crate) fn set_forks_by_copy(&self) {
        if !self.forks_by_copy() {
            self.forks_by_copy.store(true, Ordering::Relaxed);
        }
    }

    /// Returns `true` if a protection key may forbid an access that a page-table entry allows.
    pub(crate) fn has_execute_only(&self) -> bool {
        self.execute_only_key() != 0
    }

    /// Returns the protection key that forbids reads and writes of execute-only VMAs, or 0 if there
    /// is none.
    pub(super) fn execute_only_key(&self) -> u8 {
        // Acquire: pairs with the release in `publish`. A thread that saw a call return sees the
        // result of the call here.
        self.execute_only.load(Ordering::Acquire)
    }

    /// Publishes the state that lockless readers need. Called at the end of a call, before it
    /// returns. A concurrent access or look-up may still use the state before the call, as if it
    /// came first.
    ///
    /// Preconditions: the caller holds the lock of the address space for writing.
    fn publish(&self, space: &AddressSpace) {
        if space.execute_only != self.execute_only.load(Ordering::Relaxed) {
            self.execute_only
                .store(space.execute_only, Ordering::Release);
        }
        // Relaxed: the value only decides about a name.
        self.brk.store(space.layout.brk, Ordering::Relaxed);
    }
}

impl<P: Platform> Drop for Mm<P> {
    fn drop(&mut self) {
        if self.swapped() {
            let end = self.space.read().config.task_size;
            self.free_swapped(end);
        }
    }
}

/// The address space locked for a call. Dropping it ends the call, also when the owner of the pages
/// panics.
pub(super) struct InCall<'a, P: Platform> {
    mm: &'a Mm<P>,
    space: RwLockWriteGuard<'a, P::RwLock, InPlace<AddressSpace>>,
}

impl<P: Platform> Mm<P> {
    #[inline(always)]
    pub(super) fn lock_for_call(&self) -> InCall<'_, P> {
        InCall {
            mm: self,
            space: self.space.write(),
        }
    }

    /// Returns handles of the mapped files that may have pages to write.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(super) fn files(&self) -> Result<Vec<Object>, Errno> {
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
        self.mm.publish(&self.space);
        self.space.end_call();
    }
}

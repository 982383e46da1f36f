//! A process: its map and its tables.

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
use crate::pages::Object;
use crate::process::address_set::AddressSet;
use crate::process::atomic_ops::AtomicOps;
use crate::process::file::{FileFilter, Inode};
use crate::process::in_place::InPlace;
use crate::process::lockless_map::LocklessMap;
use crate::process::machine::Machine;
use crate::process::platform::Platform;
use crate::space::AddressSpace;

/// The tables of a process on its machine.
pub(crate) type Tables<P> = PageTables<<P as Platform>::Format, Machine<P>>;

/// Alone in its lines of the cache: calls write to it, while faults that do without the lock of the address space read what is beside it.
#[repr(align(128))]
pub(crate) struct CachePadded<T>(T);

impl<T> Deref for CachePadded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// What a process is made of. Others reach it through the machine's list, as long as it has not gone.
pub(crate) struct Mm<P: Platform> {
    // Dropped in this order: pages leave the tables before their files are given up.
    pub(crate) tables: Tables<P>,
    pub(crate) space: CachePadded<RwLock<P::RwLock, InPlace<AddressSpace>>>,
    /// The same map, for faults that do not wait for calls.
    pub(super) lockless: LocklessMap,
    pub(crate) machine: Machine<P>,
    /// Whether there may ever have been a huge page or a shared table: else nothing reaches across the ends of a range.
    may_need_split: AtomicBool,
    /// Whether a child may not use this process's tables: there may be pages in them that it must not get.
    forks_by_copy: AtomicBool,
    /// Whether there may ever have been a page in swap: else markers are guards.
    swapped: AtomicBool,
    /// Whether a thread may be within an atomic operation.
    pub(crate) atomic_ops: AtomicOps,
    /// The files that pages may be of.
    pub(crate) files: FileFilter,
    /// Where Linux has tables without pages.
    retained_tables: CachePadded<AddressSet<P>>,
    /// Its pages are being given up, or have been: what is missing does not come back.
    reaped: AtomicBool,
    /// Whether it may ever have locked memory.
    has_locked: AtomicBool,
    /// The key of areas that can be executed only; 0 while there has been none, and an entry of the tables says all that an access needs.
    execute_only: AtomicU8,
    /// The end of the heap when the last call ended, for those who look at areas without the lock.
    pub(super) brk: CachePadded<AtomicU64>,
    /// Where else heap and stack are, which does not change.
    pub(super) layout: Layout,
}

impl<P: Platform> Mm<P> {
    /// # Safety
    /// `make` fills the place, or returns an error.
    pub(super) unsafe fn fill(
        place: &mut MaybeUninit<Self>,
        machine: &Machine<P>,
        make: impl FnOnce(&mut MaybeUninit<AddressSpace>) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let tables = machine.make_tables()?;
        // SAFETY: a field of the place. If there is no map in the end, it is not dropped.
        let space = unsafe {
            let space = &raw mut (*place.as_mut_ptr()).space;
            space.write(CachePadded(RwLock::new(InPlace::new())));
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

    /// Its number among the processes of its machine.
    pub(crate) fn asid(&self) -> Asid {
        self.tables.asid()
    }

    /// Whether a huge page or a shared table may reach across the ends of a range.
    pub(super) fn may_need_split(&self) -> bool {
        // Relaxed: set with the address space locked, and asked by calls, which lock it for writing.
        self.may_need_split.load(Ordering::Relaxed)
    }

    pub(super) fn set_may_need_split(&self) {
        if !self.may_need_split() {
            self.may_need_split.store(true, Ordering::Relaxed);
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
            self.set_forks_by_copy();
        }
    }

    pub(super) fn retained_tables(&self) -> &AddressSet<P> {
        &self.retained_tables
    }

    /// Whether memory of it may be locked.
    pub(super) fn has_locked(&self) -> bool {
        // Relaxed: as that of the machine.
        self.has_locked.load(Ordering::Relaxed)
    }

    /// Before it locks some.
    pub(super) fn set_has_locked(&self) {
        if !self.has_locked() {
            self.machine.needed_pages().set_has_locked();
            self.has_locked.store(true, Ordering::Relaxed);
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
    pub(crate) fn forks_by_copy(&self) -> bool {
        // Relaxed: set with the address space locked, and a fork locks it for writing. Who reads it without the lock finds it set only after that.
        self.forks_by_copy.load(Ordering::Relaxed)
    }

    /// The caller holds the lock of the address space.
    pub(crate) fn set_forks_by_copy(&self) {
        if !self.forks_by_copy() {
            self.forks_by_copy.store(true, Ordering::Relaxed);
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
    fn publish(&self, space: &AddressSpace) {
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
            self.free_swapped(end);
        }
    }
}

/// The address space, locked for a call, whose end comes when this is dropped: also when the owner of the pages panics.
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

    /// Handles of the files that are mapped and may have pages to be written.
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

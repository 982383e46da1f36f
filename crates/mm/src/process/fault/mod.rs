//! Page faults of a process, from an address to a mapped page; `space/fault.rs` only changes the
//! map, and `paging/fault.rs` only changes entries of one table.
//!
//! A fault goes through these steps, each a method here:
//!
//! - `fault_with` tries without the lock of the address space (`lockless`), then with the lock held
//!   for reading, then for writing;
//! - `step` finds the VMA and checks that it permits the access;
//! - `handle_pte` looks at the page-table entry and does one thing: it maps a page, copies one,
//!   adds a permission, or swaps one in.
//!
//! After each step the fault looks again. So a concurrent change has the same effect as one before
//! the fault. If the map must change (a stack grows, or a VMA gets its owner of private pages), the
//! fault begins anew with the lock held for writing.

mod anon;
mod file;
mod lockless;
mod swap;
mod unshare;

use samara_paging::{Attrs, Change, Entry, PageSize, WritePolicy};
pub(super) use swap::{SwapArea, free_slot};
pub use swap::{SwapDevice, Swapped};

use self::anon::PagePte;
use crate::flags::{PAGE_MASK, PAGE_SIZE, VmFlags};
use crate::pages::{NoPages, Pages};
use crate::process::handle::Process;
use crate::process::mm::Mm;
use crate::process::platform::Platform;
use crate::process::signal::{Access, Fault};
use crate::space::AddressSpace;
use crate::vma::{Area, Vma};

/// The result of one step of a fault.
enum Step {
    /// The access succeeds now.
    Done,
    /// The entry has changed, by this step or concurrently: look again.
    Again,
    /// The map must change, or the step may block: take the lock of the address space.
    NeedsWriteLock,
}

/// Says if a fault may block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Blocking {
    /// It holds a VMA's lock, for which calls spin.
    No,
    /// It holds the lock of the address space, which sleeps.
    Yes,
}

impl<P: Platform> Process<P> {
    /// Handles a fault of the program at `addr`, for all accesses in `access`. Afterwards they
    /// succeed, until something takes the page away again.
    ///
    /// An instruction fetch that the VMA forbids maps the page before it fails, as in Linux.
    ///
    /// # Errors
    /// The signal that Linux sends; [`Fault::NoMemory`]; [`Fault::Deadlock`].
    pub fn fault(&self, addr: u64, access: Access) -> Result<(), Fault> {
        self.fault_with(addr, access, &mut NoPages)
    }

    /// As [`fault`](Self::fault), and notifies a second owner of the pages if a stack grows.
    ///
    /// # Errors
    /// As [`fault`](Self::fault). If the second owner refuses, the stack does not grow.
    #[inline]
    pub fn fault_with(
        &self,
        addr: u64,
        access: Access,
        other: &mut dyn Pages,
    ) -> Result<(), Fault> {
        self.mm.fault_with(addr, access, other)
    }
}

impl<P: Platform> Mm<P> {
    /// As [`Process::fault_with`].
    #[inline]
    pub(super) fn fault_with(
        &self,
        addr: u64,
        access: Access,
        other: &mut dyn Pages,
    ) -> Result<(), Fault> {
        self.atomic_ops.check().map_err(|_| Fault::Deadlock)?;
        let page = addr & PAGE_MASK;
        if self.handle_lockless(page, access) {
            return Ok(());
        }
        let done = match self.space.try_read() {
            Some(space) => self.handle(&space, page, access)?,
            None => self.handle_waiting(page, access)?,
        };
        if done {
            return Ok(());
        }
        self.handle_exclusive(page, access, other)
    }

    /// As [`handle`](Self::handle), for a fault that must wait for a running call. Later faults do
    /// not wait for calls.
    #[cold]
    fn handle_waiting(&self, page: u64, access: Access) -> Result<bool, Fault> {
        self.begin_lockless();
        self.handle(&self.space.read(), page, access)
    }

    /// Handles a fault for which the map must change.
    #[cold]
    fn handle_exclusive(
        &self,
        page: u64,
        access: Access,
        other: &mut dyn Pages,
    ) -> Result<(), Fault> {
        let mut space = self.space.write();
        self.change_map(&mut space, page, access, other)?;
        if self.handle(&space, page, access)? {
            return Ok(());
        }
        // The map was changed so that it need not change again.
        Err(Fault::NoMemory)
    }

    /// Handles the fault as far as possible without a change of the map. Returns `false` if the map
    /// must change. Always inlined: most faults end here, after one step.
    ///
    /// Preconditions: the caller holds the lock of the address space.
    #[inline(always)]
    pub(super) fn handle(
        &self,
        space: &AddressSpace,
        page: u64,
        access: Access,
    ) -> Result<bool, Fault> {
        loop {
            match self.step(space, page, access)? {
                Step::Done => return Ok(true),
                Step::Again => {}
                Step::NeedsWriteLock => return Ok(false),
            }
        }
    }

    /// Grows a stack, or gives a VMA its owner of private pages.
    ///
    /// Preconditions: the caller holds the lock of the address space for writing.
    fn change_map(
        &self,
        space: &mut AddressSpace,
        page: u64,
        access: Access,
        other: &mut dyn Pages,
    ) -> Result<(), Fault> {
        let look = |space: &AddressSpace| space.areas.at(page).map(|area| area.vma.flags);
        let mut flags = look(space);
        if flags.is_none() {
            space
                .grow_stack_with(page, other)
                .map_err(|_| Fault::MAPERR)?;
            flags = look(space);
        }
        permits(space, flags.ok_or(Fault::MAPERR)?, access)?;
        let owned_by_reading = |area: Area<'_>| self.is_owned_by_reading(&area, page);
        let owned =
            access.contains(Access::WRITE) || space.areas.at(page).is_some_and(owned_by_reading);
        if owned {
            space.touch(page);
        }
        Ok(())
    }

    #[inline(always)]
    fn step(&self, space: &AddressSpace, page: u64, access: Access) -> Result<Step, Fault> {
        let Some(area) = space.areas.at(page) else {
            let grows = space
                .areas
                .find(page)
                .is_some_and(|above| above.vma.flags.contains(VmFlags::GROWSDOWN));
            return if grows {
                Ok(Step::NeedsWriteLock)
            } else {
                Err(Fault::MAPERR)
            };
        };
        permits(space, area.vma.flags, access)?;
        if self.is_owned_by_reading(&area, page) {
            return Ok(Step::NeedsWriteLock);
        }
        self.handle_pte(&area, page, access, Blocking::Yes)
    }

    /// Maps a page as an access would. The VMA must allow the access.
    ///
    /// Preconditions: the caller holds the lock of the address space.
    ///
    /// # Errors
    /// As [`Process::fault`].
    pub(crate) fn fault_in(&self, area: &Area<'_>, page: u64, write: bool) -> Result<(), Fault> {
        let access = if write { Access::WRITE } else { Access::READ };
        loop {
            match self.handle_pte(area, page, access, Blocking::Yes)? {
                Step::Done => return Ok(()),
                Step::Again => {}
                // The caller has given the VMA its owner.
                Step::NeedsWriteLock => return Err(Fault::NoMemory),
            }
        }
    }

    /// Takes the next step towards an access that the VMA allows, by the page-table entry.
    ///
    /// Preconditions: the caller holds the VMA's lock or the address space's.
    fn handle_pte(
        &self,
        area: &Area<'_>,
        page: u64,
        access: Access,
        blocking: Blocking,
    ) -> Result<Step, Fault> {
        let vma = area.vma;
        let write = access.contains(Access::WRITE);
        // A write needs an owner of private pages, except where a guard refuses it.
        let unowned = write && vma.is_private() && vma.anon().is_none();
        if unowned && !vma.guarded.get() {
            return Ok(Step::NeedsWriteLock);
        }
        let mut pte = self.tables.pte(page, self.machine.tlb());
        let entry = pte.entry();
        if unowned && !matches!(entry, Entry::Marker(_)) {
            return Ok(Step::NeedsWriteLock);
        }
        match entry {
            Entry::Page { attrs, size, phys } if write && !attrs.contains(Attrs::WRITE) => {
                self.handle_write_protected(vma, page, pte, attrs, (phys, size))
            }
            Entry::Page { attrs, .. } => {
                drop(pte);
                self.handle_present(vma, page, access, attrs)
            }
            Entry::Marker(marker) => {
                drop(pte);
                self.handle_marker(vma, page, write, marker, blocking)
            }
            Entry::Empty if self.reaped() => Err(Fault::ADRERR),
            Entry::Empty => self.handle_missing(area, page, access, pte, blocking),
        }
    }

    /// Handles a write to a present page without permission to write.
    #[inline(always)]
    fn handle_write_protected(
        &self,
        vma: &Vma,
        page: u64,
        mut pte: PagePte<'_, P>,
        attrs: Attrs,
        (phys, size): (u64, PageSize),
    ) -> Result<Step, Fault> {
        if !vma.is_private() {
            drop(pte);
            return self.write_shared(vma, page, phys);
        }
        if attrs.contains(Attrs::SPECIAL) {
            return self.write_zero(vma, page, &mut pte, phys, size);
        }
        self.copy_on_write(vma, page, &mut pte, phys, size)
    }

    /// Handles an access to a present page that may be written, if it is a write.
    #[inline(always)]
    fn handle_present(
        &self,
        vma: &Vma,
        page: u64,
        access: Access,
        attrs: Attrs,
    ) -> Result<Step, Fault> {
        let fetch_refused = access.contains(Access::EXEC) && !attrs.contains(Attrs::EXEC);
        if fetch_refused && !vma.flags.contains(VmFlags::EXEC) {
            return Err(Fault::ACCERR);
        }
        if fetch_refused || !attrs.intersects(Attrs::ACCESS) {
            return self.restore_access(vma, page);
        }
        let write = access.contains(Access::WRITE);
        let wanted = match write {
            true => Attrs::ACCESSED | Attrs::DIRTY,
            false => Attrs::ACCESSED,
        };
        if attrs.contains(wanted) {
            return Ok(Step::Done);
        }
        Ok(self.note_access(page, write))
    }

    /// Handles an access to a page in swap, or to a guard.
    #[inline(always)]
    fn handle_marker(
        &self,
        vma: &Vma,
        page: u64,
        write: bool,
        marker: u32,
        blocking: Blocking,
    ) -> Result<Step, Fault> {
        if Swapped::of(marker).is_none() {
            return Err(Fault::MAPERR);
        }
        if blocking == Blocking::No {
            return Ok(Step::NeedsWriteLock);
        }
        self.swap_in(vma, page, marker, write)
    }

    /// Handles an access to an empty entry.
    #[inline(always)]
    fn handle_missing(
        &self,
        area: &Area<'_>,
        page: u64,
        access: Access,
        mut pte: PagePte<'_, P>,
        blocking: Blocking,
    ) -> Result<Step, Fault> {
        let write = access.contains(Access::WRITE);
        let step = if area.vma.is_anonymous() {
            self.missing_anon(area, page, write, &mut pte)?
        } else {
            drop(pte);
            self.missing_file(area, page, write, blocking)?
        };
        // The page may still forbid a fetch.
        Ok(match step {
            Step::Done if access.contains(Access::EXEC) => Step::Again,
            step => step,
        })
    }

    /// Sets the accessed bit of a page, and the dirty bit for a write, if the processor leaves that
    /// to software.
    #[cold]
    fn note_access(&self, page: u64, write: bool) -> Step {
        let need = if write { Attrs::WRITE } else { Attrs::READ };
        match self.tables.access(page, need, |_| ()) {
            Ok(()) => Step::Done,
            // It has changed concurrently.
            Err(_) => Step::Again,
        }
    }

    /// Gives a page the permissions of its VMA, except writing, if it has fewer.
    #[inline(never)]
    fn restore_access(&self, vma: &Vma, page: u64) -> Result<Step, Fault> {
        let change = Change::access(vma_attrs(vma.flags), WritePolicy::Exclusive);
        self.tables
            .protect(page..page + PAGE_SIZE, change, self.machine.tlb())?;
        Ok(Step::Again)
    }
}

/// Checks that a VMA with these flags permits the access, as far as this is known without the page.
///
/// # Errors
/// The signal.
fn permits(space: &AddressSpace, flags: VmFlags, access: Access) -> Result<(), Fault> {
    // The key comes first, because the processor checks it first.
    if access.intersects(Access::READ | Access::WRITE) && space.is_execute_only(flags) {
        return Err(Fault::PKUERR);
    }
    if !may_access(flags, access) {
        return Err(Fault::ACCERR);
    }
    Ok(())
}

/// Checks the same without protection keys.
fn may_access(flags: VmFlags, access: Access) -> bool {
    flags.intersects(VmFlags::ACCESS)
        && (!access.contains(Access::WRITE) || flags.contains(VmFlags::WRITE))
}

/// Returns the permissions of a page-table entry in a VMA with these flags, writing included.
pub(super) fn vma_attrs(flags: VmFlags) -> Attrs {
    let mut attrs = Attrs::empty().with_pkey(flags.pkey() as u8);
    if flags.intersects(VmFlags::ACCESS) {
        attrs |= Attrs::READ;
    }
    if flags.contains(VmFlags::WRITE) {
        attrs |= Attrs::WRITE;
    }
    if flags.contains(VmFlags::EXEC) {
        attrs |= Attrs::EXEC;
    }
    attrs
}

/// Attributes of a page that was just accessed, but not written.
fn clean_attrs(flags: VmFlags) -> Attrs {
    (vma_attrs(flags) | Attrs::USER | Attrs::ACCESSED) - Attrs::WRITE
}

/// Attributes of a page that was just written.
#[inline]
fn dirty_attrs(flags: VmFlags) -> Attrs {
    vma_attrs(flags)
        | Attrs::USER
        | Attrs::ACCESSED
        | Attrs::WRITE
        | Attrs::DIRTY
        | Attrs::SOFT_DIRTY
}

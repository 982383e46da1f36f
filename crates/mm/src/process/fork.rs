//! Fork: the child's map is one duplicate of the parent's tree, and it gets the pages that a fault
//! could not bring back.
//!
//! Linux copies the tables of private VMAs that have an owner of private pages: all of their
//! entries, also pages of files and zero pages. All other VMAs start empty. Here a stretch of 2 MiB
//! can be shared instead of copied, if each VMA in it is one of those, or a shared mapping.
//!
//! Steps of [`Process::fork`]: close the VMAs to faults, duplicate the map (`fork_map`), copy or
//! share the tables (`copy_tables`), and tell the processors what changed.

use core::cell::Cell;
use core::mem::MaybeUninit;
use core::ops::{Deref, DerefMut, Range};
use core::slice;

use samara_paging::{Changed, Context, ForkFilter, Invalidate, Mapping};

use crate::errno::Errno;
use crate::flags::{PMD_SIZE, VmFlags};
use crate::process::handle::Process;
use crate::process::mm::Mm;
use crate::process::platform::Platform;
use crate::space::AddressSpace;
use crate::vma::Vma;

/// The way in which a child gets its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForkMode {
    /// Copies entry by entry. Frames are copied at the first write.
    Copy,
    /// Shares last-level tables. The first change in a stretch of 2 MiB copies that one table.
    ///
    /// Programs see the same, except that pages of shared mappings may be present in the child from
    /// the start. A process forks by copying if pages of it were ever [pinned](Process::pin) or in
    /// swap.
    Share,
}

impl<P: Platform> Process<P> {
    /// Creates a child with the same map and the same bytes (`fork(2)`).
    ///
    /// VMAs with `MADV_DONTFORK` are left out, those with `MADV_WIPEONFORK` are empty, and locks
    /// are not inherited. The fork waits for calls and faults of this process, and they wait for
    /// the fork.
    ///
    /// # Errors
    /// `ENOMEM`: the child is gone, and the parent's programs see no trace of it. `EDEADLK` from
    /// within an [atomic operation](Self::atomic_u32) on this process.
    pub fn fork(&self, mode: ForkMode) -> Result<Self, Errno> {
        let parent = &*self.mm;
        parent.atomic_ops.check()?;
        let mut space = parent.space.write();
        // Closed, so that no fault maps or copies a page during the fork.
        let mut space = Closed::all(&mut space);
        let (child, around) = parent.fork_map(&mut space)?;
        // A truncation after this visits the child, and waits for this lock until the child is
        // complete.
        let complete = child.mm.space.write();
        child.mm.files.inherit(&parent.files);
        let mode = if parent.forks_by_copy() {
            ForkMode::Copy
        } else {
            mode
        };
        if mode == ForkMode::Share {
            parent.set_may_need_split();
            child.mm.set_may_need_split();
        } else if parent.may_need_split() {
            child.mm.set_may_need_split();
        }
        // One invalidation at the end is enough. Until the child is handed out, no thread reads
        // what a processor still writes through a stale entry. Until then nothing of the parent is
        // freed or split.
        let pending = Pending {
            changed: Cell::new(Changed::empty()),
            entered: Cell::new(false),
        };
        let copied = parent.copy_tables(&space, around, &child.mm, mode, &pending);
        let changed = pending.changed.get();
        let (all, tlb) = (0..space.config.task_size, parent.machine.tlb());
        if !changed.is_empty() {
            tlb.invalidate(parent.tables.context(), slice::from_ref(&all), changed);
        }
        copied?;
        if pending.entered.get() {
            tlb.notify_mapped(child.mm.tables.context(), all, false);
        }
        if parent.swapped() {
            parent.inherit_swapped(&child.mm, space.config.task_size);
        }
        drop(complete);
        Ok(child)
    }
}

impl<P: Platform> Mm<P> {
    /// Duplicates the map for a child without pages. Returns the child, and the range that contains
    /// all VMAs whose pages must be copied.
    ///
    /// Out of line, so that its stack frame is gone before pages are copied.
    ///
    /// # Errors
    /// `ENOMEM`.
    #[inline(never)]
    fn fork_map(&self, space: &mut AddressSpace) -> Result<(Process<P>, Range<u64>), Errno> {
        let (mut first, mut end) = (u64::MAX, 0);
        let map = |place: &mut MaybeUninit<AddressSpace>| {
            space.fork_into(place, |range, vma| {
                if is_copied(vma) {
                    first = first.min(*range.start());
                    end = *range.end() + 1;
                }
            })
        };
        // SAFETY: `fork_into` initialises the place, or returns an error.
        let child = unsafe { Process::new_with(&self.machine, map)? };
        Ok((child, first..end))
    }
}

/// Invalidations of the parent, and announcements of new entries of the child, which a fork delays
/// to its end.
struct Pending {
    changed: Cell<Changed>,
    entered: Cell<bool>,
}

impl Invalidate for Pending {
    fn invalidate(&self, _: &Context, _: &[Range<u64>], changed: Changed) {
        self.changed.set(self.changed.get() | changed);
    }

    fn notify_mapped(&self, _: &Context, _: Range<u64>, _: bool) {
        self.entered.set(true);
    }
}

/// A map with all VMAs closed to faults. Dropping it opens them.
struct Closed<'a>(&'a mut AddressSpace);

impl<'a> Closed<'a> {
    fn all(space: &'a mut AddressSpace) -> Self {
        space.areas.close_locks(0, u64::MAX);
        Closed(space)
    }
}

impl Deref for Closed<'_> {
    type Target = AddressSpace;

    fn deref(&self) -> &AddressSpace {
        self.0
    }
}

impl DerefMut for Closed<'_> {
    fn deref_mut(&mut self) -> &mut AddressSpace {
        self.0
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.0.areas.open_locks();
    }
}

impl<P: Platform> Mm<P> {
    /// Copies or shares the pages of all VMAs in `whole` that a child needs.
    ///
    /// Preconditions: the caller holds the locks of both address spaces for writing, and the
    /// parent's VMAs are closed.
    fn copy_tables(
        &self,
        space: &AddressSpace,
        whole: Range<u64>,
        child: &Self,
        mode: ForkMode,
        tlb: &Pending,
    ) -> Result<(), Errno> {
        if whole.is_empty() {
            return Ok(());
        }
        let mut done = 0;
        let areas = space.areas.in_range(whole);
        for area in areas.filter(|area| is_copied(area.vma)) {
            self.inherit_retained(child, area.start..area.end);
            let mut at = area.start.max(done);
            while at < area.end {
                let stretch = at & !(PMD_SIZE - 1);
                let next = stretch.saturating_add(PMD_SIZE);
                let result = if mode == ForkMode::Share && is_shareable(space, stretch) {
                    // The following stretches within the VMA can be shared, too.
                    done = next.max(area.end & !(PMD_SIZE - 1));
                    self.tables.share_range(&child.tables, stretch..done, tlb)
                } else {
                    done = match mode {
                        ForkMode::Copy => area.end,
                        ForkMode::Share => area.end.min(next),
                    };
                    let mapping = if area.vma.is_private() {
                        Mapping::Private
                    } else {
                        Mapping::Shared
                    };
                    self.tables
                        .copy_range(&child.tables, at..done, mapping, ForkFilter::All, tlb)
                };
                result.map_err(|_| Errno::ENOMEM)?;
                at = done;
            }
        }
        Ok(())
    }
}

/// Returns `true` if a child gets the pages of the VMA from the start.
#[inline]
fn is_copied(vma: &Vma) -> bool {
    let left_out = VmFlags::DONTCOPY | VmFlags::WIPEONFORK;
    let owned = vma.is_private() && vma.anon().is_some();
    (owned || vma.guarded.get()) && !vma.flags.intersects(left_out)
}

/// Returns `true` if a child may share the table of the 2 MiB at `start`.
fn is_shareable(space: &AddressSpace, start: u64) -> bool {
    // The last stretch of all numbers has no end.
    let Some(end) = start.checked_add(PMD_SIZE) else {
        return false;
    };
    let mut next = start;
    while let Some(area) = space.areas.find_in(next, end) {
        let flags = area.vma.flags;
        let shared = flags.contains(VmFlags::MAYSHARE) && !flags.contains(VmFlags::DONTCOPY);
        if !shared && !is_copied(area.vma) {
            return false;
        }
        next = area.end;
    }
    true
}

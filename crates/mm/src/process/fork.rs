//! A child: its map by one duplicate of the parent's tree, and those pages that a fault could not bring back.
//!
//! Linux copies the tables of private areas that have an owner of private pages, all of them: also the pages of files and of zeroes that lie in such
//! an area. All others start empty. Here the tables can be shared instead of copied, stretch by stretch of 2 MiB: where every area is one of those,
//! or a shared mapping.

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
use crate::space::vma::Vma;

/// How a child gets its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForkMode {
    /// Entry by entry; frames are copied at the first write.
    Copy,
    /// Last-level tables are used by both; whoever first changes something in its 2 MiB gets a copy of that one table. What programs see is the
    /// same, but that pages of shared mappings may be present in the child from the start. A process in which pages were ever
    /// [pinned](Process::pin), or in swap, forks by copying.
    Share,
}

impl<P: Platform> Process<P> {
    /// A child with the same map and the same bytes, as `fork(2)` makes it: areas with `MADV_DONTFORK` are left out, those with
    /// `MADV_WIPEONFORK` are empty, locks are not inherited. Waits for calls and faults of this process, and they for it.
    ///
    /// # Errors
    /// `ENOMEM`: nothing of the child is left, and no program can tell that this was tried. `EDEADLK` from within an
    /// [atomic operation](Self::atomic_u32) on this process.
    pub fn fork(&self, mode: ForkMode) -> Result<Self, Errno> {
        let parent = &*self.mm;
        parent.atomic_ops.check()?;
        let mut space = parent.space.write();
        // No fault maps or copies a page in the middle of this.
        let mut space = Closed::all(&mut space);
        let (child, around) = parent.fork_map(&mut space)?;
        // Whoever cuts pages off a file after this visits the child, and waits until it is complete.
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
        // Until the child is handed out, nobody reads what a processor that remembers too much still writes: it is enough that all forget
        // before that. Nothing of the parent's is freed or divided in the meantime.
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
    /// Makes a child with a duplicate of the map and without pages. Returns it, and the range that contains all areas whose pages are to be copied.
    ///
    /// # Errors
    /// `ENOMEM`.
    // A call, whose frame is given up before pages are copied.
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
        // SAFETY: it makes a map, or tells that it could not.
        let child = unsafe { Process::new_with(&self.machine, map)? };
        Ok((child, first..end))
    }
}

/// Invalidations of the parent that a fork puts off to its end, and announcements of new entries of the child.
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

/// A map whose areas are all closed to faults, until this is dropped.
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
    /// Gives the child the pages of its areas, all of which lie in `whole`, if there are any.
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
                    // What follows within the area is as good.
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

/// Whether a child has the pages of an area from the start.
#[inline]
fn is_copied(vma: &Vma) -> bool {
    let left_out = VmFlags::DONTCOPY | VmFlags::WIPEONFORK;
    let owned = vma.is_private() && vma.anon().is_some();
    (owned || vma.guarded.get()) && !vma.flags.intersects(left_out)
}

/// Whether a child may have all that is in the 2 MiB from `start` on.
fn is_shareable(space: &AddressSpace, start: u64) -> bool {
    // The last ones of all numbers have no end.
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

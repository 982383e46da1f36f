//! When tables are freed that a walk may still be reading.
//!
//! A walk takes no lock: it may hold a pointer to a table that has just left the tree. Such tables are empty, so that the walk finds nothing there,
//! but their memory must not become something else under it. Kernels have a mechanism for that (RCU, an interrupt to all processors);
//! [`Reclaim`] is the door to it. [`Grace`] is one that needs nothing.

use crate::atomic::{AtomicUsize, Ordering};

use crate::invalidate::Retired;
use crate::phys::{FrameAllocator, PhysMem, Physical};
use crate::shard::{self, CachePadded, SHARDS};

/// How the library learns that no walk can hold a table any more.
///
/// # Safety
///
/// If `passed(cookie)` is true, every section that was entered before the call of [`start`](Self::start) that gave the cookie has ended, and sections
/// that were entered later see what was stored (sequentially consistent) before that call.
pub unsafe trait Reclaim {
    /// A section is entered while this exists.
    type Section<'a>
    where
        Self: 'a;

    /// Enters a section; `near` is the address that will be looked at, which may choose one of several counters.
    fn enter(&self, near: u64) -> Self::Section<'_>;

    /// A name for the sections that are under way now.
    fn start(&self) -> usize;

    /// Whether all of them have ended. Never waits.
    fn passed(&self, cookie: usize) -> bool;
}

/// Sections as counters of two epochs: entering and leaving costs an atomic addition each, on a line that other threads seldom touch.
///
/// # Both interleavings
///
/// The epoch goes from `e` to `e + 1` only when no section of `e - 1` is left; a cookie taken at `e` has passed at `e + 2`.
///
/// *The section is entered before the table leaves.* Its epoch is at most `e`, the one at which the cookie is taken afterwards. Its counter, that of `e`'s
/// parity (or of `e - 1`'s), is not zero until it ends, so that the step to `e + 2` (or already that to `e + 1`) waits for it.
///
/// *The table leaves before the section is entered.* If the section's epoch is at most `e`, it is waited for without need. If it is later, it read an
/// epoch that was written after the cookie read `e`, and the table's last entry was cleared before that. All of these and the walk's
/// reads are sequentially consistent, so the walk does not find the table.
///
/// A section that reads the epoch, and counts itself only after the epoch has changed, sees that when it reads it again, and starts over. If the
/// parity is the same again, the section belongs to the later epoch: it has read nothing yet.
#[derive(Debug, Default)]
pub struct Grace {
    epoch: AtomicUsize,
    /// Each section is counted in one, whichever it is.
    lanes: [CachePadded<[AtomicUsize; 2]>; SHARDS],
}

impl Grace {
    /// No section is under way.
    pub fn new() -> Self {
        Self::default()
    }
}

/// A section of [`Grace`].
#[derive(Debug)]
pub struct GraceSection<'a>(&'a AtomicUsize);

impl Drop for GraceSection<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

// SAFETY: argued above.
unsafe impl Reclaim for Grace {
    type Section<'a> = GraceSection<'a>;

    #[inline]
    fn enter(&self, near: u64) -> GraceSection<'_> {
        // The checker's threads cannot be told apart; their addresses can.
        let lane = if cfg!(samara_loom) {
            ((near >> 21) ^ (near >> 30)) as usize
        } else {
            shard::current()
        };
        let lane = &self.lanes[lane % SHARDS].0;
        loop {
            let parity = self.epoch.load(Ordering::SeqCst) & 1;
            let counter = &lane[parity];
            counter.fetch_add(1, Ordering::SeqCst);
            if self.epoch.load(Ordering::SeqCst) & 1 == parity {
                return GraceSection(counter);
            }
            counter.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn start(&self) -> usize {
        self.epoch.load(Ordering::SeqCst).wrapping_add(2)
    }

    fn passed(&self, cookie: usize) -> bool {
        loop {
            let epoch = self.epoch.load(Ordering::SeqCst);
            if epoch.wrapping_sub(cookie) as isize >= 0 {
                return true;
            }
            let before = (epoch + 1) & 1;
            // Acquire, through SeqCst: what those sections read comes before what is done with the tables.
            if self
                .lanes
                .iter()
                .any(|lane| lane.0[before].load(Ordering::SeqCst) != 0)
            {
                return false;
            }
            // If another was faster, the epoch is looked at again.
            let _ = self.epoch.compare_exchange(
                epoch,
                epoch.wrapping_add(1),
                Ordering::SeqCst,
                Ordering::SeqCst,
            );
        }
    }
}

/// For owners without concurrent walks: tables are freed at once.
#[derive(Debug)]
pub struct Exclusive(());

impl Exclusive {
    /// Nothing is waited for.
    ///
    /// # Safety
    ///
    /// Of the calls on address spaces over this memory, no two run at the same time on tables that they have in common.
    pub const unsafe fn new() -> Self {
        Self(())
    }
}

// SAFETY: by the promise given at construction no section is under way when a table is retired.
unsafe impl Reclaim for Exclusive {
    type Section<'a> = ();

    fn enter(&self, _near: u64) {}

    fn start(&self) -> usize {
        0
    }

    fn passed(&self, _cookie: usize) -> bool {
        true
    }
}

/// Tables that wait: those whose sections are named, and those that came later.
#[derive(Debug)]
pub(crate) struct Limbo {
    waiting: Retired,
    cookie: usize,
    later: Retired,
}

impl Limbo {
    pub(crate) const fn new() -> Self {
        Self {
            waiting: Retired::new(),
            cookie: 0,
            later: Retired::new(),
        }
    }

    /// Takes a list in; gives back what may be freed.
    pub(crate) fn push<B: FrameAllocator + PhysMem, R: Reclaim>(
        &mut self,
        memory: &Physical<B, R>,
        list: Retired,
    ) -> Retired {
        if list.is_empty() {
            return Retired::new();
        }
        if self.later.is_empty() {
            self.later = list;
        } else {
            memory.table(list.tail).set_link(self.later.head);
            self.later.head = list.head;
            self.later.len += list.len;
        }
        self.poll(memory.grace())
    }

    /// What may be freed now: one list at a time.
    pub(crate) fn poll<R: Reclaim>(&mut self, reclaim: &R) -> Retired {
        if self.waiting.is_empty() {
            if self.later.is_empty() {
                return Retired::new();
            }
            self.waiting = core::mem::replace(&mut self.later, Retired::new());
            self.cookie = reclaim.start();
        }
        if reclaim.passed(self.cookie) {
            core::mem::replace(&mut self.waiting, Retired::new())
        } else {
            Retired::new()
        }
    }
}

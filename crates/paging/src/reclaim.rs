//! Grace periods: deferred freeing of tables that walks may still read.
//!
//! A walk takes no lock: it may hold a pointer to a table that has just left the tree. Such a table
//! is empty, so that the walk finds nothing there, but its memory must not be reused during the
//! walk. Kernels have a mechanism for that (RCU, an interrupt to all processors), and connect it
//! through [`Reclaim`]. [`Grace`] is an implementation without any such support.

use crate::atomic::{AtomicUsize, Ordering};

use crate::invalidate::Retired;
use crate::phys::{FrameAllocator, PhysMem, Physical};
use crate::shard::{self, CachePadded, SHARDS};

/// The mechanism that tells when no walk can hold a table any more.
///
/// # Safety
///
/// If `passed(cookie)` returns `true`, every section entered before the call of
/// [`start`](Self::start) that returned the cookie has ended. Sections entered later see the
/// (sequentially consistent) stores before that call.
pub unsafe trait Reclaim {
    /// A guard: the section lasts while this value exists.
    type Section<'a>
    where
        Self: 'a;

    /// Enters a section. `near` is the address to be walked, which may select one of several
    /// counters.
    fn enter(&self, near: u64) -> Self::Section<'_>;

    /// Returns a cookie for the sections in progress.
    fn start(&self) -> usize;

    /// Returns `true` if all of these sections have ended. Never waits.
    fn passed(&self, cookie: usize) -> bool;
}

/// Sections counted in two epochs. Entering and leaving costs an atomic addition each, on a cache
/// line that other threads rarely touch.
///
/// # Both interleavings
///
/// The epoch advances from `e` to `e + 1` only when no section of `e - 1` is left. A cookie taken
/// at `e` has passed at `e + 2`.
///
/// *The section is entered before the table leaves.* Its epoch is at most `e`, the epoch of the
/// cookie, which is taken afterwards. Its counter is that of the parity of `e` or of `e - 1`, and
/// is not zero until the section ends. The step to `e + 2`, or already the step to `e + 1`,
/// therefore waits for it.
///
/// *The table leaves before the section is entered.* If the section's epoch is at most `e`, the
/// wait is unnecessary but harmless. If it is later, the section read an epoch written after the
/// cookie read `e`, and the entry of the table was cleared before that. All of these accesses and
/// the walk's reads are sequentially consistent, so that the walk does not find the table.
///
/// A section that reads the epoch, and counts itself only after the epoch has changed, notices the
/// change when it reads the epoch again, and starts over. If the parity is the same again, the
/// section belongs to the later epoch: it has read nothing yet.
#[derive(Debug, Default)]
pub struct Grace {
    epoch: AtomicUsize,
    /// The counters. Each section is counted in any one of the shards.
    shards: [CachePadded<[AtomicUsize; 2]>; SHARDS],
}

impl Grace {
    /// Creates a value without a section in progress.
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

// SAFETY: by the argument above.
unsafe impl Reclaim for Grace {
    type Section<'a> = GraceSection<'a>;

    #[inline]
    fn enter(&self, near: u64) -> GraceSection<'_> {
        // The checker's threads have no numbers. Their addresses differ instead.
        let shard = if cfg!(samara_loom) {
            ((near >> 21) ^ (near >> 30)) as usize
        } else {
            shard::current()
        };
        let shard = &self.shards[shard % SHARDS].0;
        loop {
            let parity = self.epoch.load(Ordering::SeqCst) & 1;
            let counter = &shard[parity];
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
            // Acquire, through SeqCst: the reads of those sections happen before the reuse of the
            // tables.
            if self
                .shards
                .iter()
                .any(|shard| shard.0[before].load(Ordering::SeqCst) != 0)
            {
                return false;
            }
            // If another thread advanced the epoch first, the loop reads it again.
            let _ = self.epoch.compare_exchange(
                epoch,
                epoch.wrapping_add(1),
                Ordering::SeqCst,
                Ordering::SeqCst,
            );
        }
    }
}

/// For callers without concurrent walks: tables are freed immediately.
#[derive(Debug)]
pub struct Exclusive(());

impl Exclusive {
    /// Creates a value that never waits.
    ///
    /// # Safety
    ///
    /// No two calls on address spaces over this memory run at the same time on tables that they
    /// have in common.
    pub const unsafe fn new() -> Self {
        Self(())
    }
}

// SAFETY: by the promise at construction, no section is in progress when a table is retired.
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

/// Retired tables: those that wait for a cookie, and those that came later.
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

    /// Adds a list. Returns the tables that may be freed.
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

    /// Returns the tables that may be freed now, one list at a time.
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

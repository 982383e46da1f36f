//! TLB invalidation: the ranges gathered during a call, and the frames and tables that are freed
//! only afterwards.
//!
//! A frame, a table or a use of a shared table is given up only after the TLBs are invalidated,
//! because until then a processor may still use it. A call gathers them without allocating:
//! unreferenced frames as in [`DeferredFree`], and tables in a list through their first entries.

use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ops::Range;

use bitflags::bitflags;

use crate::atomic::AtomicU64;
use crate::deferred_free::DeferredFree;
use crate::entry::Attrs;
use crate::format::Format;
use crate::phys::{Memory, Physical};
use crate::share::drop_table_user;

/// The number of an address space, chosen by its owner.
pub type Asid = u32;

/// The platform's record of the processors that run an address space. Each
/// [`PageTables`](crate::PageTables) has one and passes it to [`Invalidate`].
///
/// The two words belong to the platform: the library neither reads nor writes them. They start as
/// 0, lie in their own cache lines, and are dropped with the tables. A kernel's context switch sets
/// its processor's bit in [`cpus`](Self::cpus) of the address space that it loads, and clears the
/// bit in the one that it leaves. [`invalidate`](Invalidate::invalidate) then interrupts only those
/// processors. An address space with a hardware [`tag`](Self::tag) needs no flush at a switch.
#[derive(Debug)]
pub struct Context {
    asid: Asid,
    cpus: AtomicU64,
    tag: AtomicU64,
}

impl Context {
    /// Creates the context of an address space that no processor runs.
    pub fn new(asid: Asid) -> Self {
        Self {
            asid,
            cpus: AtomicU64::new(0),
            tag: AtomicU64::new(0),
        }
    }

    /// Returns the number that the tables were created with.
    #[inline]
    pub fn asid(&self) -> Asid {
        self.asid
    }

    /// Returns the word for the processors that run the address space: a bit for each, or for each
    /// group of them if there are more than 64.
    ///
    /// A processor must set its bit before it loads the root, with a full barrier in between.
    /// `invalidate` is called after the tables have changed, and must execute a full barrier before
    /// it reads the word. Then either it sees the bit, or the processor finds the changed tables.
    #[inline]
    pub fn cpus(&self) -> &AtomicU64 {
        &self.cpus
    }

    /// Returns the word for the hardware tag (PCID, ASID), for example together with its
    /// generation.
    #[inline]
    pub fn tag(&self) -> &AtomicU64 {
        &self.tag
    }
}

bitflags! {
    /// The kinds of changes in a range.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Changed: u32 {
        /// Leaves: translations of pages.
        const PAGES = 1;
        /// Entries that point to tables: page-walk caches must be invalidated as well.
        const TABLES = 2;
    }
}

/// Invalidates the TLBs of processors.
///
/// When [`invalidate`](Self::invalidate) returns, no processor uses a cached translation of these
/// ranges, or is in the middle of an access that does. Each call on the tables that has something
/// to invalidate calls it once. A call that gives up very many shared tables calls it once for
/// every [`SHARED_TABLE_BATCH`] of them.
///
/// It is called without locks, with one exception. Where a processor must find nothing between the
/// old entry and the new one, the locks of the tables are held: in
/// [`replace`](crate::PteRef::replace), [`copy_on_write`](crate::PteRef::copy_on_write) and
/// [`merge`](crate::PageTables::merge), and on AArch64 when huge pages are split or collapsed.
/// Processors that wait for such a lock must therefore still accept the interrupts that
/// invalidation needs.
pub trait Invalidate {
    /// Invalidates these ranges (each start inclusive, each end exclusive, in bytes, at most eight,
    /// ascending) of this address space. An end of [`u64::MAX`] means the end of all addresses.
    fn invalidate(&self, context: &Context, ranges: &[Range<u64>], changed: Changed);

    /// Reports that entries in `range` (in bytes, the end exclusive) have become valid, though not
    /// necessarily all of them. If `executable`, executable pages are among them. When it returns,
    /// the processors find these entries and the bytes behind them. It is called before the mapping
    /// call or the fault returns, once for each last-level table or huge page, or once for a range.
    /// It is called only for formats with
    /// [`Format::NOTIFIES_MAPPED`](crate::Format::NOTIFIES_MAPPED), which x86-64 does not have. The
    /// default does nothing, which suits tables that no processor walks.
    ///
    /// On AArch64 an implementation executes `dsb ishst` and `isb`. If `executable`, it also
    /// invalidates the instruction caches, unless the processor does so by itself (`CTR_EL0.DIC`).
    /// The code that fills a frame with instructions has cleaned the data cache (`CTR_EL0.IDC`). On
    /// RISC-V without Svvptc it executes an `sfence.vma` of the range on this hart; if
    /// `executable`, also a `fence.i` on each hart of [`Context::cpus`]. Another hart may still
    /// have cached the invalid entry and take a fault. A RISC-V fault handler therefore executes
    /// `sfence.vma` for the address of every fault that succeeds.
    ///
    /// It may be called with locks of tables held. It must not call the tables, and processors that
    /// wait for such a lock must still accept interrupts.
    fn notify_mapped(&self, context: &Context, range: Range<u64>, executable: bool) {
        let _ = (context, range, executable);
    }

    /// Reports that an address space ends: its tables are freed after this returns. From then on,
    /// no processor may have its root loaded or hold its translations. A platform whose processors
    /// keep a root loaded while they run nothing of it makes them load another one here, and
    /// revokes the [tag](Context::tag). The default does nothing.
    ///
    /// It is called without locks of the tables, once for each address space, by the thread that
    /// gives up the last handle, if [`Memory::ended`](crate::Memory::ended) passes the call on.
    fn ended(&self, context: &Context) {
        let _ = context;
    }
}

/// No processor uses these tables: there is nothing to invalidate.
impl Invalidate for () {
    fn invalidate(&self, _: &Context, _: &[Range<u64>], _: Changed) {}
}

impl<T: Fn(&Context, &[Range<u64>], Changed)> Invalidate for T {
    fn invalidate(&self, context: &Context, ranges: &[Range<u64>], changed: Changed) {
        self(context, ranges, changed);
    }
}

/// Notifies the processors of entries that have become valid with these attributes.
#[inline(always)]
pub(crate) fn notify_mapped<F: Format>(
    tlb: &dyn Invalidate,
    context: &Context,
    start: u64,
    end: u64,
    attrs: Attrs,
) {
    if F::NOTIFIES_MAPPED && attrs.intersects(Attrs::ACCESS) {
        tlb.notify_mapped(context, start..end, attrs.contains(Attrs::EXEC));
    }
}

/// The number of ranges gathered by a call. If there are more, the two with the smallest gap are
/// merged.
const RANGES: usize = 8;
/// The number of shared tables that a call gives up before it invalidates. A table has 512 pages,
/// and the tables are gathered on the stack.
pub const SHARED_TABLE_BATCH: usize = 16;

/// A list of tables that are in no tree, linked through their first entries.
#[derive(Debug)]
pub(crate) struct Retired {
    pub(crate) head: u64,
    pub(crate) tail: u64,
    pub(crate) len: usize,
}

impl Retired {
    pub(crate) const fn new() -> Self {
        Self {
            head: 0,
            tail: 0,
            len: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The invalidations and deferred frees gathered by a call. They are handed over by
/// [`finish`](Self::finish), at the latest on drop.
pub(crate) struct Gather<'a, F: Format, M: Memory> {
    memory: &'a Physical<M::Backing, M::Reclaim>,
    tlb: &'a dyn Invalidate,
    context: &'a Context,
    ranges: [Range<u64>; RANGES],
    len: usize,
    changed: Changed,
    dead: DeferredFree,
    tables: Retired,
    /// The first `shared_len` are initialised. Most calls have none, and do not pay for
    /// initialising the array.
    shared: [MaybeUninit<u64>; SHARED_TABLE_BATCH],
    shared_len: usize,
    format: PhantomData<F>,
}

impl<'a, F: Format, M: Memory> Gather<'a, F, M> {
    #[inline]
    pub(crate) fn new(memory: &'a M, tlb: &'a dyn Invalidate, context: &'a Context) -> Self {
        Self {
            memory: memory.physical(),
            tlb,
            context,
            ranges: [const { 0..0 }; RANGES],
            len: 0,
            changed: Changed::empty(),
            dead: DeferredFree::new(),
            tables: Retired::new(),
            shared: [const { MaybeUninit::uninit() }; SHARED_TABLE_BATCH],
            shared_len: 0,
            format: PhantomData,
        }
    }

    /// Adds a range that TLBs may hold. Ranges are expected in ascending order, but any order
    /// works.
    #[inline]
    pub(crate) fn range(&mut self, start: u64, end: u64, changed: Changed) {
        self.changed |= changed;
        if let Some(last) = self.len.checked_sub(1).map(|i| &mut self.ranges[i])
            && start <= last.end
            && start >= last.start
        {
            last.end = last.end.max(end);
            return;
        }
        self.insert_range(start, end);
    }

    #[cold]
    fn insert_range(&mut self, start: u64, end: u64) {
        if self.len == RANGES {
            self.merge_nearest();
        }
        let at = self.ranges[..self.len].partition_point(|range| range.start < start);
        self.ranges[at..=self.len].rotate_right(1);
        self.ranges[at] = start..end;
        self.len += 1;
        // Merges the ranges that touch it, below and above.
        if at > 0 && self.ranges[at - 1].end >= start {
            self.merge_next(at - 1);
        }
        let at = self.ranges[..self.len].partition_point(|range| range.end < start);
        while at + 1 < self.len && self.ranges[at + 1].start <= self.ranges[at].end {
            self.merge_next(at);
        }
    }

    /// Merges the two ranges with the smallest gap.
    fn merge_nearest(&mut self) {
        let gap = |i: &usize| self.ranges[i + 1].start - self.ranges[*i].end;
        if let Some(at) = (0..self.len - 1).min_by_key(gap) {
            self.merge_next(at);
        }
    }

    /// Merges a range and the next.
    fn merge_next(&mut self, at: usize) {
        self.ranges[at].end = self.ranges[at].end.max(self.ranges[at + 1].end);
        self.ranges[at + 1..self.len].rotate_left(1);
        self.len -= 1;
    }

    /// Returns `true` if shared tables wait for invalidation.
    pub(crate) fn has_shared(&self) -> bool {
        self.shared_len > 0
    }

    /// Calls `drop` with the deferred free list. If it returns `true`, the table at `phys` has left
    /// its tree and is retired.
    pub(crate) fn with_deferred(
        &mut self,
        drop: impl FnOnce(&mut DeferredFree) -> bool,
        phys: u64,
    ) {
        if drop(&mut self.dead) {
            self.retire_table(phys);
        }
    }

    /// Returns the deferred free list.
    #[inline]
    pub(crate) fn deferred(&mut self) -> &mut DeferredFree {
        &mut self.dead
    }

    /// Adds a table that has left the tree.
    pub(crate) fn retire_table(&mut self, phys: u64) {
        self.memory.link(&mut self.tables, phys);
    }

    /// Adds a shared table that this address space no longer uses. Returns `true` if the batch is
    /// full and the caller must call [`finish`](Self::finish).
    pub(crate) fn defer_shared(&mut self, phys: u64) -> bool {
        self.shared[self.shared_len].write(phys);
        self.shared_len += 1;
        self.shared_len == SHARED_TABLE_BATCH
    }

    /// Invalidates one range at once, with a lock held.
    pub(crate) fn invalidate_now(&self, start: u64, end: u64, changed: Changed) {
        let range = start..end;
        self.tlb
            .invalidate(self.context, core::slice::from_ref(&range), changed);
    }

    /// Notifies the processors of entries that have become valid with these attributes.
    #[inline(always)]
    pub(crate) fn notify_mapped(&self, start: u64, end: u64, attrs: Attrs) {
        notify_mapped::<F>(self.tlb, self.context, start, end, attrs);
    }

    /// Returns `true` if tables wait for a grace period or for invalidation.
    #[inline]
    pub(crate) fn has_tables(&self) -> bool {
        self.shared_len > 0 || !self.tables.is_empty()
    }

    /// Invalidates the ranges, and then frees what waited for that. The caller holds no lock.
    #[inline]
    pub(crate) fn finish(&mut self) {
        if self.len > 0 || self.has_tables() || !self.dead.is_empty() {
            self.finish_all();
        }
    }

    fn finish_all(&mut self) {
        if self.len > 0 {
            self.tlb
                .invalidate(self.context, &self.ranges[..self.len], self.changed);
            self.len = 0;
            self.changed = Changed::empty();
        }
        for i in 0..self.shared_len {
            let memory = self.memory;
            // SAFETY: written by `defer_shared`, which counts them.
            let phys = unsafe { self.shared[i].assume_init() };
            self.with_deferred(|dead| drop_table_user::<F, M>(memory, phys, dead), phys);
        }
        self.shared_len = 0;
        self.memory.free_deferred(&mut self.dead);
        if !self.tables.is_empty() {
            self.memory
                .retire(core::mem::replace(&mut self.tables, Retired::new()));
        }
    }
}

impl<F: Format, M: Memory> Drop for Gather<'_, F, M> {
    fn drop(&mut self) {
        self.finish();
    }
}

//! What processors must forget, gathered during a call and handed over once; and what has to wait for that.
//!
//! A frame, a table or a place in a shared table is given up only after the processors have been told: until then one of them may still use what it
//! remembers. So a call collects them, without memory of its own: dead frames as [`DeferredFree`] keeps them, tables in a list through
//! their first entries.

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

/// The number of an address space, which its owner gives it.
pub type Asid = u32;

/// Who runs an address space: one in each [`PageTables`](crate::PageTables), handed to [`Invalidate`].
///
/// The two words are the platform's: the library neither reads nor writes them. They start as 0, lie in cache lines of their own, and are dropped with the
/// tables. A kernel's context switch sets its processor's bit in [`cpus`](Self::cpus) of the address space that it loads and clears it in that of the one it
/// leaves; [`invalidate`](Invalidate::invalidate) then interrupts only those processors. Processors in a numbered [`tag`](Self::tag) need no flush at a switch.
#[derive(Debug)]
pub struct Context {
    asid: Asid,
    cpus: AtomicU64,
    tag: AtomicU64,
}

impl Context {
    /// An address space with this number, which no processor runs.
    pub fn new(asid: Asid) -> Self {
        Self {
            asid,
            cpus: AtomicU64::new(0),
            tag: AtomicU64::new(0),
        }
    }

    /// Returns the number that the tables were made with.
    #[inline]
    pub fn asid(&self) -> Asid {
        self.asid
    }

    /// Returns the word for the processors that run it: a bit for each, or, where there are more than 64, for each group of them.
    ///
    /// A processor must set its bit before it loads the root, and a full barrier must come between; `invalidate` is called after the tables have changed, and must have
    /// a full barrier before it reads the word. Then either it sees the bit, or the processor finds the tables as they are now.
    #[inline]
    pub fn cpus(&self) -> &AtomicU64 {
        &self.cpus
    }

    /// Returns the word for the hardware's tag (PCID, ASID), with the generation of tags in which it was given, for instance.
    #[inline]
    pub fn tag(&self) -> &AtomicU64 {
        &self.tag
    }
}

bitflags! {
    /// What has changed in a range.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Changed: u32 {
        /// Leaves: translations of pages.
        const PAGES = 1;
        /// Entries that point to tables: also what processors remember of the way down.
        const TABLES = 2;
    }
}

/// Tells the processors to forget translations.
///
/// When [`invalidate`](Self::invalidate) returns, no processor uses what it remembered of these ranges, or is in the middle of an access
/// that does. It is called once by each call that has something to forget, except that a call that gives up places in very many shared tables does so
/// every [`SHARED_TABLE_BATCH`] of them.
///
/// It is called without any lock, with one exception: where a processor must find nothing between the old entry and the new
/// ([`replace`](crate::PteRef::replace), and on AArch64 huge pages that are divided or put together), the locks of the tables are held. Processors that wait
/// for such a lock must therefore still take the interrupts that this needs.
pub trait Invalidate {
    /// Forget these ranges (each start inclusive, end exclusive, in bytes, at most eight, ascending) of this address space. An end of [`u64::MAX`] is the end of
    /// all addresses.
    fn invalidate(&self, context: &Context, ranges: &[Range<u64>], changed: Changed);

    /// Entries in `range` (in bytes, the end exclusive) have become valid, not necessarily all, and pages that may be executed are among them if `executable`. When it
    /// returns, the processors find these entries and the bytes behind them. Called before the call that maps, or the fault, returns, once for each
    /// last-level table or huge page, or once for a range; only for formats with [`Format::NOTIFIES_MAPPED`](crate::Format::NOTIFIES_MAPPED), which x86-64 is not among. Does nothing
    /// unless said otherwise, which suits tables that no processor walks.
    ///
    /// On AArch64 this is `dsb ishst` and `isb`; if `executable`, also the instruction caches are invalidated, where the processor does not do so by
    /// itself (`CTR_EL0.DIC`): whoever fills a frame with code has cleaned the data cache (`CTR_EL0.IDC`). On RISC-V without Svvptc it is an
    /// `sfence.vma` of the range on this hart; if `executable`, also a `fence.i` on each hart of [`Context::cpus`]. Another hart
    /// may still remember that nothing was there, and take a fault: a RISC-V fault handler executes `sfence.vma` for the address of every fault that succeeds.
    ///
    /// It may be called with locks of tables held: it must not call the tables, and processors that wait for such a lock must still take interrupts.
    fn notify_mapped(&self, context: &Context, range: Range<u64>, executable: bool) {
        let _ = (context, range, executable);
    }

    /// The address space ends: its tables are freed after this returns. Then no processor may have its root loaded, or use what it remembered of it. A
    /// platform whose processors leave a root loaded while they run nothing of it makes them load another one here, and takes the
    /// [tag](Context::tag) back. Does nothing unless said otherwise.
    ///
    /// Called without any lock of the tables, once for each address space, by whoever gives up the last handle: where [`Memory::ended`](crate::Memory::ended)
    /// passes it on.
    fn ended(&self, context: &Context) {
        let _ = context;
    }
}

/// No processor uses these tables: nothing to forget.
impl Invalidate for () {
    fn invalidate(&self, _: &Context, _: &[Range<u64>], _: Changed) {}
}

impl<T: Fn(&Context, &[Range<u64>], Changed)> Invalidate for T {
    fn invalidate(&self, context: &Context, ranges: &[Range<u64>], changed: Changed) {
        self(context, ranges, changed);
    }
}

/// Tells the processors of entries that have become valid, and allow this.
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

/// Ranges of one call. When there are more, those with the smallest gap between them become one.
const RANGES: usize = 8;
/// Places in shared tables that a call gives up before it hands over what it has gathered: a table has 512 pages, and they are kept on the stack.
pub const SHARED_TABLE_BATCH: usize = 16;

/// A list of tables that are in no tree, through their first entries.
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

/// What one call has gathered. Handed over by [`finish`](Self::finish), at the latest when it is dropped.
pub(crate) struct Gather<'a, F: Format, M: Memory> {
    memory: &'a Physical<M::Backing, M::Reclaim>,
    tlb: &'a dyn Invalidate,
    context: &'a Context,
    ranges: [Range<u64>; RANGES],
    len: usize,
    changed: Changed,
    dead: DeferredFree,
    tables: Retired,
    /// The first `shared_len` are there. Most calls have none: the others are not written for nothing.
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

    /// Processors may remember something of this range. Ranges of a call come in ascending order, or anyhow.
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
        // What touches it, below and above, becomes one with it.
        if at > 0 && self.ranges[at - 1].end >= start {
            self.merge_next(at - 1);
        }
        let at = self.ranges[..self.len].partition_point(|range| range.end < start);
        while at + 1 < self.len && self.ranges[at + 1].start <= self.ranges[at].end {
            self.merge_next(at);
        }
    }

    /// Joins the two ranges that are nearest to one another.
    fn merge_nearest(&mut self) {
        let gap = |i: &usize| self.ranges[i + 1].start - self.ranges[*i].end;
        if let Some(at) = (0..self.len - 1).min_by_key(gap) {
            self.merge_next(at);
        }
    }

    /// Joins a range and the next.
    fn merge_next(&mut self, at: usize) {
        self.ranges[at].end = self.ranges[at].end.max(self.ranges[at + 1].end);
        self.ranges[at + 1..self.len].rotate_left(1);
        self.len -= 1;
    }

    /// Whether places in shared tables wait for the processors.
    pub(crate) fn has_shared(&self) -> bool {
        self.shared_len > 0
    }

    /// Lets `drop` note dead frames; if it says so, the table at `phys` has left its tree.
    pub(crate) fn with_deferred(
        &mut self,
        drop: impl FnOnce(&mut DeferredFree) -> bool,
        phys: u64,
    ) {
        if drop(&mut self.dead) {
            self.retire_table(phys);
        }
    }

    /// Where dead frames are noted.
    #[inline]
    pub(crate) fn deferred(&mut self) -> &mut DeferredFree {
        &mut self.dead
    }

    /// A table that has left the tree.
    pub(crate) fn retire_table(&mut self, phys: u64) {
        self.memory.link(&mut self.tables, phys);
    }

    /// A place in a shared table, which this address space does not use any more; true: hand over soon.
    pub(crate) fn defer_shared(&mut self, phys: u64) -> bool {
        self.shared[self.shared_len].write(phys);
        self.shared_len += 1;
        self.shared_len == SHARED_TABLE_BATCH
    }

    /// Tells the processors of one range at once, with a lock held.
    pub(crate) fn invalidate_now(&self, start: u64, end: u64, changed: Changed) {
        let range = start..end;
        self.tlb
            .invalidate(self.context, core::slice::from_ref(&range), changed);
    }

    /// Tells the processors of entries that have become valid, and allow this.
    #[inline(always)]
    pub(crate) fn notify_mapped(&self, start: u64, end: u64, attrs: Attrs) {
        notify_mapped::<F>(self.tlb, self.context, start, end, attrs);
    }

    /// Whether tables, or places in them, wait for walks that are under way.
    #[inline]
    pub(crate) fn has_tables(&self) -> bool {
        self.shared_len > 0 || !self.tables.is_empty()
    }

    /// Tells the processors, then gives up what waited for that. No lock is held.
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
            // SAFETY: written by `shared`, which counts them.
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

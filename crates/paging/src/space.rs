//! The tables of one address space.

use crate::atomic::{AtomicUsize, Ordering};
use core::marker::PhantomData;

use crate::cursor::Cursor;
use crate::entry::{Attrs, ENTRIES};
use crate::error::Error;
use crate::format::Format;
use crate::invalidate::{Asid, Context, Gather, Invalidate, notify_mapped};
use crate::kernel_half::AddressBounds;
use crate::phys::{Memory, Physical};
use crate::reclaim::Reclaim;
use crate::shard::CachePadded;
use crate::share::{drop_table_user, release_leaf};

/// The page tables of one address space, in the format `F`.
///
/// All calls take `&self`, so that faults, calls and walks of several threads run concurrently.
/// Each entry changes atomically. A call over a range changes it table by table, and in each table
/// finds the entries of that moment.
///
/// # Protocol
///
/// - *Locks.* Every table has a lock, in its frame's word of the count array. A thread that changes
///   an entry holds the lock of the table with the entry. A thread that changes an entry that
///   points to a table also holds the lock of that lower table, taken after the upper one.
///   Therefore, if a thread holds a table's lock and then finds that the entry above still points
///   to the table, the entry keeps doing so until it unlocks the table.
/// - *Walks.* A walk takes no lock. It reads entries one after the other within a section of
///   [`Reclaim`]. Until the section ends, no table that it may hold is reused.
/// - *`unlink_seq`.* Some tables leave this address space but stay in use: other address spaces
///   share them, or the tables move within this one. A walk in such a table could read entries that
///   are not those of its address. `unlink_seq` is incremented after the table has left and before
///   another thread changes it. A walk reads the counter before it starts and after it has read a
///   leaf, and starts again if the values differ.
/// - *Both interleavings.* A walk that found the table before it left has also read the counter
///   before that. If it then read an entry changed by another thread, it reads the counter after
///   the increment and sees a higher value. If it read no such entry, it read an entry of this
///   address space. A table that leaves because it is empty is not counted. It stays empty until
///   the walk has ended, and it was empty when it left, after the walk had found it.
/// - *`generation`.* A [`View`](crate::View) keeps a last-level table from one look-up to the next.
///   `generation` is incremented whenever such a table or a huge page was added, removed or shared,
///   before the call that did so returns. A look-up that reads the counter after that starts at the
///   root. A look-up that reads it before runs concurrently with the call, and may find the
///   previous state; in a table that has left the tree it finds nothing. Every increment of
///   `unlink_seq` also increments `generation`. Faults do without `generation`: it changes so often
///   that its cache line would come from another processor each time.
/// - *Shared tables.* The entry above a last-level table may be marked as shared. No thread changes
///   the table through such an entry: see [`share_range`](Self::share_range).
/// - *Lock order*, outermost first: upper tables, from the root down → last-level tables → the list
///   of retired tables, the allocator's locks. Of two tables on one level, the one at the lower
///   physical address is locked first. [`Invalidate`] is called without locks, with the exceptions
///   that it lists.
#[derive(Debug)]
pub struct PageTables<F: Format, M: Memory> {
    pub(crate) memory: M,
    pub(crate) root: u64,
    context: CachePadded<Context>,
    pub(crate) bounds: AddressBounds,
    unlink_seq: AtomicUsize,
    generation: CachePadded<AtomicUsize>,
    format: PhantomData<fn() -> F>,
}

impl<F: Format, M: Memory> PageTables<F, M> {
    /// The level of the root table.
    pub(crate) const TOP: usize = F::LEVELS - 1;

    /// Creates an empty address space. `asid` is the number in its [`Context`], which invalidations
    /// receive.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`]: the root table needs a frame.
    pub fn new(memory: M, asid: Asid) -> Result<Self, Error> {
        Self::with(memory, asid, AddressBounds::whole::<F>())
    }

    pub(crate) fn with(memory: M, asid: Asid, bounds: AddressBounds) -> Result<Self, Error> {
        let root = memory.physical().alloc_empty_table()?;
        Ok(Self {
            memory,
            root,
            context: CachePadded(Context::new(asid)),
            bounds,
            unlink_seq: AtomicUsize::new(0),
            generation: CachePadded(AtomicUsize::new(0)),
            format: PhantomData,
        })
    }

    /// Returns the physical address of the root table, for CR3, TTBR0 (TTBR1 for [a
    /// kernel's](Self::new_kernel) on AArch64) or satp. It does not change until the tables are
    /// dropped.
    ///
    /// Before that, every processor with this root loaded must load another one and invalidate the
    /// translations of this one, at the latest when [`Memory::ended`](crate::Memory::ended) is
    /// called. Dropping the tables invalidates nothing.
    pub fn root(&self) -> u64 {
        self.root
    }

    /// Returns the number passed at creation.
    pub fn asid(&self) -> Asid {
        self.context().asid()
    }

    /// Returns the context, which invalidations receive.
    #[inline]
    pub fn context(&self) -> &Context {
        &self.context.0
    }

    /// Returns the memory that frames and tables come from.
    pub fn physical(&self) -> &Physical<M::Backing, M::Reclaim> {
        self.memory.physical()
    }

    #[inline]
    pub(crate) fn cursor(&self, near: u64) -> Cursor<'_, F, M> {
        let section = self.physical().grace().enter(near);
        Cursor::new(self, section)
    }

    #[inline]
    pub(crate) fn gather<'a>(&'a self, tlb: &'a dyn Invalidate) -> Gather<'a, F, M> {
        Gather::new(&self.memory, tlb, self.context())
    }

    /// Notifies the processors of entries that have become valid with these attributes.
    #[inline(always)]
    pub(crate) fn notify_mapped(&self, tlb: &dyn Invalidate, start: u64, end: u64, attrs: Attrs) {
        notify_mapped::<F>(tlb, self.context(), start, end, attrs);
    }

    /// Records that a table or a huge page was added, or an empty table removed: see the protocol.
    pub(crate) fn bump_generation(&self) {
        self.generation.0.fetch_add(1, Ordering::SeqCst);
    }

    /// Records that a table in use has left its place, so that concurrent walks start again.
    pub(crate) fn bump_unlink_seq(&self) {
        self.unlink_seq.fetch_add(1, Ordering::SeqCst);
        self.bump_generation();
    }

    #[inline]
    pub(crate) fn generation(&self) -> usize {
        self.generation.0.load(Ordering::SeqCst)
    }

    #[inline]
    pub(crate) fn unlink_seq(&self) -> usize {
        self.unlink_seq.load(Ordering::SeqCst)
    }

    /// Gives up everything below a table that only the drop of this address space can reach.
    fn tear_down(&self, gather: &mut Gather<'_, F, M>, phys: u64, level: usize) {
        let memory = self.physical();
        let table = memory.table(phys);
        let own = if level == Self::TOP {
            self.own_entries()
        } else {
            0..ENTRIES
        };
        table.for_each_used(own, |_, raw| {
            if level > 0 && F::is_table(raw) {
                let below = F::phys(raw);
                if level > 1 {
                    self.tear_down(gather, below, level - 1);
                } else {
                    gather
                        .with_deferred(|dead| drop_table_user::<F, M>(memory, below, dead), below);
                }
            } else {
                release_leaf::<F, M>(memory, raw, level, gather.deferred());
            }
        });
        gather.retire_table(phys);
    }
}

impl<F: Format, M: Memory> Drop for PageTables<F, M> {
    /// Frees the address space. No processor uses the tables any more, and all TLBs are
    /// invalidated: see [`root`](Self::root). Needs no memory.
    fn drop(&mut self) {
        self.memory.ended(&self.context.0);
        let mut gather = Gather::<F, M>::new(&self.memory, &(), &self.context.0);
        self.tear_down(&mut gather, self.root, Self::TOP);
        gather.finish();
    }
}

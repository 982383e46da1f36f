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
/// All calls take `&self`, so that faults, calls and walks of several threads run beside each other. Each entry changes at once. A call over a
/// range changes it table by table; what it finds is each time what is there at that moment.
///
/// # Protocol
///
/// - Every table has a lock, in its word of the array of frames. Whoever changes an entry holds the lock of the table that it is in; whoever changes an
///   entry that points to a table holds that table's lock as well, taken after the upper one. So who holds a table's lock, and then
///   finds that the entry above still points to it, knows that it stays so.
/// - A walk takes no lock. It reads entries one after the other within a section of [`Reclaim`], until which no table that it may hold becomes
///   something else.
/// - A table that leaves this address space, while others go on using it or it goes on elsewhere in this one, is a danger to walks: they
///   would read what is not theirs. `unlink_seq` is counted up after the table has left and before anybody else changes it. A walk reads it before
///   it starts and after it has read a leaf, and begins again if it differs. If the walk found the table before it left, it read the counter before
///   that, too; if it then read something that another has changed later, it reads the counter after that, and sees that it is higher. If it read
///   nothing of that kind, it read what was this address space's. A table that leaves because it is empty is not counted: it stays as it is until the walk is
///   over, and there was nothing when it left, which was after the walk had found it.
/// - A [`View`](crate::View) remembers a last-level table from one look-up to the next. So `generation` is counted up whenever such a table, or a huge page,
///   has come, gone or become shared, before the call that did so returns. If a look-up reads the counter after that, it goes down anew. If before, it
///   runs beside that call, and may find what was there until then: in a table that has left the tree, nothing. All that counts for `unlink_seq` counts here, too.
///   Tables come and go all the time, so that faults do without this counter: it would come from another processor each time.
/// - An entry above a last-level table may say that the table is shared: then nobody changes the table by way of this entry. See
///   [`share_range`](Self::share_range).
/// - Locks, outermost first: upper tables, from the root down → last-level tables → the limbo of retired tables, the allocator's. Of two
///   tables on one level, that at the lower physical address is locked first. [`Invalidate`] is called without any.
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

    /// An empty address space; `asid` is the number in its [`Context`], which invalidations are told with.
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

    /// Returns the physical address of the root table, for CR3, TTBR0 (TTBR1 for [a kernel's](Self::new_kernel) on AArch64) or satp. It stays the same until
    /// the tables are dropped.
    ///
    /// Before that, every processor that has this root loaded must load another one, and forget what it remembers of this one: at the latest when
    /// [`Memory::ended`](crate::Memory::ended) is told. Dropping tells nobody to forget.
    pub fn root(&self) -> u64 {
        self.root
    }

    /// The number that it was made with.
    pub fn asid(&self) -> Asid {
        self.context().asid()
    }

    /// Returns who runs it, as invalidations are told.
    #[inline]
    pub fn context(&self) -> &Context {
        &self.context.0
    }

    /// The memory that frames and tables come from.
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

    /// Tells the processors of entries that have become valid, and allow this.
    #[inline(always)]
    pub(crate) fn notify_mapped(&self, tlb: &dyn Invalidate, start: u64, end: u64, attrs: Attrs) {
        notify_mapped::<F>(tlb, self.context(), start, end, attrs);
    }

    /// A table or a huge page has come, or an empty table has gone: see the protocol.
    pub(crate) fn bump_generation(&self) {
        self.generation.0.fetch_add(1, Ordering::SeqCst);
    }

    /// What walks have found until now is not what they go on with.
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

    /// Gives up all below a table, which nobody but this address space's drop can reach.
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
    /// Exit: no processor uses the tables any more, and has been told to forget them: see [`root`](Self::root). Needs no memory.
    fn drop(&mut self) {
        self.memory.ended(&self.context.0);
        let mut gather = Gather::<F, M>::new(&self.memory, &(), &self.context.0);
        self.tear_down(&mut gather, self.root, Self::TOP);
        gather.finish();
    }
}

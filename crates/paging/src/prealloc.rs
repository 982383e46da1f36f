//! Preallocation of tables, so that a call cannot fail halfway for lack of memory.

use core::fmt;

use crate::entry::span;
use crate::error::Error;
use crate::format::{Format, MAX_LEVELS};
use crate::invalidate::Retired;
use crate::phys::{Memory, Physical};
use crate::space::PageTables;

/// The tables preallocated for one [`move_range_with`](PageTables::move_range_with) or
/// [`split_with`](PageTables::split_with). Unused tables are freed when this value is dropped.
pub struct Preallocation<'a, M: Memory> {
    pub(crate) tables: PreallocTables<'a, M>,
}

impl<'a, M: Memory> Preallocation<'a, M> {
    /// Returns an empty preallocation.
    pub(crate) fn none<F: Format>(tables: &'a PageTables<F, M>) -> Self {
        Self {
            tables: PreallocTables::none(tables.physical()),
        }
    }
}

impl<M: Memory> fmt::Debug for Preallocation<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Preallocation").finish_non_exhaustive()
    }
}

impl<F: Format, M: Memory> PageTables<F, M> {
    /// Preallocates the tables for [`move_range_with`](Self::move_range_with) with the same
    /// arguments. The caller must unmap everything at `to` before that call.
    ///
    /// # Errors
    ///
    /// [`Error::Exists`] if the ranges overlap; [`Error::NoMemory`], [`Error::Misaligned`].
    ///
    /// ```
    /// # use samara_paging::{Arena, Attrs, Error, Exclusive, Kind, PageSize, PageTables, Physical, Source, format::X86_64};
    /// # // SAFETY: one thread uses the tables.
    /// # let memory = Physical::new(Arena::on_heap(64)?, unsafe { Exclusive::new() }, 1 << 30, 64)?;
    /// let space = PageTables::<X86_64, _>::new(&memory, 1)?;
    /// let attrs = Attrs::READ | Attrs::USER;
    /// let page = memory.alloc_page(Kind::Anon)?;
    /// space.map(0x1000, PageSize::Small, Source::Owned(page), attrs, &())?;
    ///
    /// let mut spare = space.preallocate_move(0x1000, 0x7000_0000_0000, 0x1000)?;
    /// memory.backing().refuse_after(Some(0)); // there is no memory any more
    /// space.move_range_with(0x1000, 0x7000_0000_0000, 0x1000, &mut spare, &())?;
    /// assert_eq!(space.translate(0x7000_0000_0000), Some((page, attrs)));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn preallocate_move(
        &self,
        from: u64,
        to: u64,
        len: u64,
    ) -> Result<Preallocation<'_, M>, Error> {
        let (range, _) = self.check_move(from, to, len)?;
        let mut spare = Preallocation::none(self);
        // For each level, the position of the table counted last. All tables are counted as if the
        // destination were empty, because unmapping it may free tables that exist now.
        let mut counted = [u64::MAX; MAX_LEVELS];
        let tables = self
            .cursor(from)
            .count_for_pieces(&range, to, true, |piece, lowest| {
                let mut count = 0;
                for (level, counted) in counted.iter_mut().enumerate().take(Self::TOP).skip(lowest)
                {
                    let shift = span(level + 1).trailing_zeros();
                    let (first, last) = (piece.start >> shift, (piece.end - 1) >> shift);
                    count += (last - first + 1) as usize - usize::from(*counted == first);
                    *counted = last;
                }
                Ok(count)
            })?;
        spare.tables.ensure(tables)?;
        Ok(spare)
    }
}

/// Preallocated frames for tables, of any content. Unused ones are freed on drop.
pub(crate) struct PreallocTables<'a, M: Memory> {
    memory: &'a Physical<M::Backing, M::Reclaim>,
    list: Retired,
}

impl<'a, M: Memory> PreallocTables<'a, M> {
    /// Returns an empty set: each table is allocated when it is needed.
    pub(crate) fn none(memory: &'a Physical<M::Backing, M::Reclaim>) -> Self {
        Self {
            memory,
            list: Retired::new(),
        }
    }

    /// Ensures that at least `count` tables are preallocated.
    #[inline]
    pub(crate) fn ensure(&mut self, count: usize) -> Result<(), Error> {
        while self.list.len < count {
            let table = self.memory.alloc_table()?;
            self.memory.link(&mut self.list, table);
        }
        Ok(())
    }

    /// Takes a table whose entries may have any content.
    ///
    /// The set is exhausted only if other threads removed tables after the count. The allocator is
    /// asked then.
    #[inline]
    pub(crate) fn take(&mut self) -> Result<u64, Error> {
        if self.list.len == 0 {
            return self.memory.alloc_table();
        }
        let table = self.list.head;
        self.list.head = self.memory.table(table).link();
        self.list.len -= 1;
        Ok(table)
    }

    /// Takes a table whose entries are all empty.
    pub(crate) fn take_empty(&mut self) -> Result<u64, Error> {
        let table = self.take()?;
        self.memory.clear_table(table);
        Ok(table)
    }

    /// Returns an unused table to the set.
    pub(crate) fn give(&mut self, table: u64) {
        self.memory.link(&mut self.list, table);
    }
}

impl<M: Memory> Drop for PreallocTables<'_, M> {
    #[inline]
    fn drop(&mut self) {
        while self.list.len > 0 {
            let table = self.list.head;
            self.list.head = self.memory.table(table).link();
            self.list.len -= 1;
            // SAFETY: the table has not been in a tree since it was allocated.
            unsafe { self.memory.free_table(table) };
        }
    }
}

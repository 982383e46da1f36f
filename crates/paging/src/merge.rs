//! Merging of equal pages, as KSM does: one frame replaces another with the same bytes.

use core::slice;

use crate::cursor::may_be_in_tlb;
use crate::deferred_free::DeferredFree;
use crate::entry::{PAGE_SIZE, index, tag};
use crate::error::Error;
use crate::format::Format;
use crate::invalidate::{Changed, Invalidate};
use crate::phys::Memory;
use crate::prealloc::PreallocTables;
use crate::share::release_leaf;
use crate::space::PageTables;

impl<F: Format, M: Memory> PageTables<F, M> {
    /// Replaces the frame `old` of a small page by `new`, which has the same bytes. The caller
    /// holds a reference on each. Both are private memory that no thread writes to. The page keeps
    /// its attributes, which must not include write access. The mapping of `old` is given up after
    /// the TLB invalidation.
    ///
    /// # Errors
    ///
    /// [`Error::NotMapped`] if no small page on the frame `old` is mapped there (any more), or if
    /// it is writable; [`Error::NoMemory`], [`Error::Misaligned`], [`Error::TooMany`]. Nothing has
    /// changed then.
    pub fn merge(&self, addr: u64, old: u64, new: u64, tlb: &dyn Invalidate) -> Result<(), Error> {
        self.check_range(&(addr..addr.saturating_add(PAGE_SIZE)))?;
        if !new.is_multiple_of(PAGE_SIZE) {
            return Err(Error::Misaligned);
        }
        let memory = self.physical();
        let mut dead = DeferredFree::new();
        let mut gather = self.gather(tlb);
        let mut prealloc = PreallocTables::none(memory);
        let mut cursor = self.cursor(addr);
        let (table, level) = cursor.lock_page(addr, old, &mut prealloc, &mut gather)?;
        let slot = index(addr, level);
        let raw = table.load(slot);
        if level > 0 || !tag::is_page(raw) || F::is_special(raw) || F::is_writable(raw) {
            return Err(Error::NotMapped);
        }
        memory.frames().map(new)?;
        let was = table.update::<F>(slot, raw, |raw| F::leaf(new, F::attrs(raw), 0));
        if may_be_in_tlb(was) {
            let range = addr..addr + PAGE_SIZE;
            tlb.invalidate(self.context(), slice::from_ref(&range), Changed::PAGES);
        }
        gather.notify_mapped(addr, addr + PAGE_SIZE, F::attrs(was));
        release_leaf::<F, M>(memory, was, 0, &mut dead);
        drop(table);
        if !dead.is_empty() {
            memory.free_deferred(&mut dead);
        }
        Ok(())
    }
}

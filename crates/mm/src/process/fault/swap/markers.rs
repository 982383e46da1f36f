//! The markers of a range: freeing their slots, copying them to a child, clearing soft-dirty.

use core::ops::{ControlFlow, Range};

use samara_paging::{Entry, Error};

use super::Swapped;
use super::area::SwapArea;
use crate::errno::Errno;
use crate::flags::PAGE_SIZE;
use crate::process::mm::Mm;
use crate::process::platform::Platform;

/// The most markers that are collected in one walk.
pub(super) const BATCH: usize = 16;

impl<P: Platform> Mm<P> {
    /// Calls `act` with each page in swap and its marker, upwards. `act` runs outside the walk, so
    /// it may change the tables.
    pub(super) fn each_marker<E>(
        &self,
        range: Range<u64>,
        mut act: impl FnMut(u64, u32) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut at = range.start;
        let mut found = [(0, 0); BATCH];
        loop {
            let count = self.markers(at..range.end, &mut found);
            for &(page, marker) in &found[..count] {
                at = page + PAGE_SIZE;
                act(page, marker)?;
            }
            if count < BATCH {
                return Ok(());
            }
        }
    }

    /// Finds the first pages in swap of a range, with their markers. Returns their number.
    fn markers(&self, range: Range<u64>, found: &mut [(u64, u32); BATCH]) -> usize {
        let mut count = 0;
        let _ = self.tables.walk_until(range, |page, entry| {
            if let Entry::Marker(marker) = entry
                && Swapped::of(marker).is_some()
            {
                found[count] = (page, marker);
                count += 1;
            }
            continue_batch(count)
        });
        count
    }

    /// Clears the soft-dirty bit of the pages in swap of a range.
    ///
    /// Preconditions: the caller holds the address space's lock for writing, and the VMAs are
    /// closed to faults.
    pub(crate) fn clean_swapped(&self, range: Range<u64>) -> Result<(), Errno> {
        if !self.swapped() {
            return Ok(());
        }
        self.each_marker(range, |page, marker| {
            if let Some(swapped) = Swapped::of(marker) {
                let clean = Swapped {
                    soft_dirty: false,
                    ..swapped
                };
                (self.tables)
                    .set_marker(page, Some(clean.marker()), self.machine.tlb())
                    .map_err(|_| Errno::ENOMEM)?;
            }
            Ok(())
        })
    }

    /// Frees the slots of the pages in swap of a range.
    ///
    /// Preconditions: the caller holds the address space's lock for writing.
    #[cold]
    #[inline(never)]
    pub(in crate::process) fn drop_swapped(&self, range: Range<u64>) -> Result<(), Error> {
        let Some(swap) = self.machine.swap() else {
            return Ok(());
        };
        self.each_marker(range, |page, marker| {
            match self.tables.clear_marker(page, marker, self.machine.tlb()) {
                Ok(()) => free_slot(&swap, marker),
                Err(Error::NotMapped) => {}
                Err(error) => return Err(error),
            }
            Ok(())
        })
    }

    /// Counts the slots once more, for the markers that a fork has copied to the child.
    pub(in crate::process) fn inherit_swapped(&self, child: &Self, end: u64) {
        child.set_swapped();
        let Some(swap) = self.machine.swap() else {
            return;
        };
        child.tables.walk(0..end, |_, entry| {
            if let Entry::Marker(marker) = entry
                && let Some(swapped) = Swapped::of(marker)
            {
                swap.duplicate(swapped.place);
            }
        });
    }

    /// Frees the slots of a process that ends.
    pub(in crate::process) fn free_swapped(&self, end: u64) {
        if let Some(swap) = self.machine.swap() {
            self.tables.walk(0..end, |_, entry| {
                if let Entry::Marker(marker) = entry {
                    free_slot(&swap, marker);
                }
            });
        }
    }
}

/// Continues the walk while the batch has room.
pub(super) fn continue_batch(count: usize) -> ControlFlow<()> {
    if count < BATCH {
        ControlFlow::Continue(())
    } else {
        ControlFlow::Break(())
    }
}

/// Frees the slot of a removed marker, unless it was a guard.
pub(in crate::process) fn free_slot(swap: &SwapArea, marker: u32) {
    if let Some(swapped) = Swapped::of(marker) {
        swap.put(swapped.place);
    }
}

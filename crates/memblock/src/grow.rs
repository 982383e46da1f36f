//! Growth of an array of regions into the memory that memblock itself manages.

use core::ops::Range;

use crate::map::PhysMap;
use crate::memblock::{GrownArray, Kind, Memblock};
use crate::pfn::PAGE_SIZE;
use crate::region::{NodeId, Region};
use crate::{Error, Flags, Notice};

impl<M: PhysMap> Memblock<'_, M> {
    /// Moves an array to new memory with capacity for `missing` more regions, at least doubling it.
    /// Returns the range of its old memory, which is now free (empty if memblock had not allocated
    /// it).
    ///
    /// The new memory lies outside of `busy`, the range that the caller is about to reserve or
    /// remove. As in Linux, memory above `busy` and below the current limit is tried first when the
    /// reserved array grows.
    ///
    /// # Errors
    ///
    /// Fails if growing is not allowed or impossible. Nothing has changed then.
    #[cold]
    pub(crate) fn grow(
        &mut self,
        kind: Kind,
        missing: usize,
        busy: &Range<u64>,
    ) -> Result<Range<u64>, Error> {
        if !self.can_resize {
            return Err(Error::ArrayFull);
        }
        let old = self.grown[kind as usize];
        let old = if old.regions == self.regions(kind).as_ptr() {
            old
        } else {
            GrownArray::NONE
        };
        // Reserving the new memory takes a region. Freeing the old memory splits at most one
        // region. If it lies in the range that is being reserved, inserting it again takes another.
        let own = if kind != Kind::Reserved {
            0
        } else {
            1 + if old.size > 0 { 2 } else { 0 }
        };
        let (capacity, size) = self
            .doubled_capacity(kind, missing + own)
            .ok_or(Error::ArrayFull)?;

        let limit = self.current_limit();
        let base = self
            .find_free(busy.end, limit, size)
            .or_else(|| self.find_free(0, busy.start.min(limit), size))
            .ok_or(Error::ArrayFull)?;
        let regions = self
            .map
            .virt(base, size)
            .ok_or(Error::ArrayFull)?
            .cast::<Region>()
            .as_ptr();
        if !regions.is_aligned() {
            return Err(Error::ArrayFull);
        }

        if kind != Kind::Reserved {
            // This may have to grow the reserved array, and fail, so it comes before anything is
            // moved.
            self.add_range(Kind::Reserved, base, size, Flags::NONE, NodeId::NONE)?;
        }
        // SAFETY:
        // - `virt` gave access to `size` bytes of free memory, page aligned, in which `capacity`
        //   regions fit.
        // - The memory is reserved, or will be before anything else is allocated, so that it stays
        //   the array's.
        unsafe { self.array(kind).relocate(regions, capacity) };
        self.grown[kind as usize] = GrownArray {
            regions,
            base,
            size,
        };
        if kind == Kind::Reserved {
            // There is capacity now, so that this cannot fail.
            self.add_range(kind, base, size, Flags::NONE, NodeId::NONE)?;
        }
        self.notice(Notice::ArrayGrown {
            kind,
            capacity,
            base,
            size,
        });

        // The old memory cannot be freed if that would split a reserved region and there is no
        // capacity. Then it stays reserved, which is harmless.
        let freed = old.size > 0
            && self
                .remove_range(Kind::Reserved, old.base, old.size)
                .is_ok();
        Ok(if freed {
            old.base..old.base + old.size
        } else {
            0..0
        })
    }

    /// Finds free memory in `start..end`. Unlike for allocations, an `end` of 0 has no special
    /// meaning.
    fn find_free(&self, start: u64, end: u64, size: u64) -> Option<u64> {
        if start >= end || end <= PAGE_SIZE {
            return None;
        }
        self.find_in_range(start, end, size, PAGE_SIZE)
    }

    /// Returns the number of regions after doubling until `missing` more fit, and their size in
    /// bytes, in whole pages.
    fn doubled_capacity(&self, kind: Kind, missing: usize) -> Option<(usize, u64)> {
        let array = self.regions(kind);
        let wanted = array.len().checked_add(missing)?;
        let mut capacity = array.capacity().max(1).checked_mul(2)?;
        while capacity < wanted {
            capacity = capacity.checked_mul(2)?;
        }
        let bytes = u64::try_from(capacity.checked_mul(size_of::<Region>())?).ok()?;
        Some((capacity, bytes.checked_next_multiple_of(PAGE_SIZE)?))
    }
}

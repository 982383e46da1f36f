//! Growing an array of regions out of the memory that memblock itself manages.

use core::ops::Range;

use crate::map::PhysMap;
use crate::memblock::{GrownArray, Kind, Memblock, PAGE_SIZE};
use crate::region::{NodeId, Region};
use crate::{Error, Flags, Notice};

impl<M: PhysMap> Memblock<'_, M> {
    /// Moves an array to new memory with room for `missing` more regions, at least doubling it, and returns where its old
    /// memory was freed (empty if it was not memblock's).
    ///
    /// The new memory lies outside of `busy`, the range that the caller is about to reserve or remove. As in Linux, memory
    /// above `busy` and below the current limit is tried first when the reserved array grows.
    ///
    /// # Errors
    /// When growing is not allowed or impossible; nothing has changed then.
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
        // Reserving the new memory takes a region; freeing the old one splits at most one, and should it lie in what is
        // being reserved, inserting it again takes another.
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
            // May have to grow the reserved array, and fail; so it comes before anything is moved.
            self.add_range(Kind::Reserved, base, size, Flags::NONE, NodeId::NONE)?;
        }
        // SAFETY:
        // - `virt` gave access to `size` bytes of free memory, page aligned, in which `capacity` regions fit;
        // - it is reserved, or will be before anything else is allocated, so that it stays the array's.
        unsafe { self.array(kind).relocate(regions, capacity) };
        self.grown[kind as usize] = GrownArray {
            regions,
            base,
            size,
        };
        if kind == Kind::Reserved {
            // Has room now, and thus cannot fail.
            self.add_range(kind, base, size, Flags::NONE, NodeId::NONE)?;
        }
        self.notice(Notice::ArrayGrown {
            kind,
            capacity,
            base,
            size,
        });

        // The old memory cannot be freed if that takes splitting a reserved region and there is no room for it; then it
        // stays reserved, which harms nobody.
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

    /// Free memory in `start..end`. Other than for allocations, an `end` of 0 is just that.
    fn find_free(&self, start: u64, end: u64, size: u64) -> Option<u64> {
        if start >= end || end <= PAGE_SIZE {
            return None;
        }
        self.find_in_range(start, end, size, PAGE_SIZE)
    }

    /// The number of regions after doubling until `missing` fit, and the bytes that they take in whole pages.
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

//! The calls that change regions: adding, reserving, removing, freeing, and setting nodes and
//! flags.
//!
//! Each call determines the capacity that it needs, grows the array if necessary, and then changes
//! it. A call that fails has changed nothing.

use core::ops::Range;

use crate::Error;
use crate::add::Incomplete;
use crate::isolate::Splits;
use crate::map::PhysMap;
use crate::memblock::{Kind, Memblock};
use crate::region::{Flags, NodeId, Region, capped_end};

impl<M: PhysMap> Memblock<'_, M> {
    /// Adds memory `base .. base + size` that belongs to no node.
    ///
    /// A range beyond the address space is capped at its last byte, which is never part of a
    /// region. An empty range is no error. Memory that exists already keeps its flags and node.
    ///
    /// O(log n), and up to three memmoves of the regions above. Amortised O(1) above all others.
    ///
    /// # Errors
    ///
    /// [`Error::ArrayFull`] if the array has no capacity and cannot grow. Nothing has changed then.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add(0x1000, 0x1000)?;
    /// boot.add(0x3000, 0x1000)?;
    /// boot.add(0x2000, 0x1000)?; // joins the others
    /// assert_eq!(boot.memory().len(), 1);
    /// assert_eq!(boot.phys_mem_size(), 0x3000);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn add(&mut self, base: u64, size: u64) -> Result<(), Error> {
        self.add_range(Kind::Memory, base, size, Flags::NONE, NodeId::NONE)
    }

    /// Adds memory with a node and flags. See [`add`](Self::add).
    ///
    /// # Errors
    ///
    /// As for [`add`](Self::add).
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add_node(0x2000, 0x1000, NodeId(1), Flags::HOTPLUG)?;
    /// boot.add_node(0x1000, 0x3000, NodeId(0), Flags::NONE)?;
    /// let nodes = boot.memory().iter().map(|r| (r.base, r.nid.0));
    /// assert!(nodes.eq([(0x1000, 0), (0x2000, 1), (0x3000, 0)]));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn add_node(
        &mut self,
        base: u64,
        size: u64,
        nid: NodeId,
        flags: Flags,
    ) -> Result<(), Error> {
        self.add_range(Kind::Memory, base, size, flags, nid)
    }

    /// Reserves `base .. base + size`, whether it is memory or not. See [`add`](Self::add) for the
    /// details.
    ///
    /// # Errors
    ///
    /// As for [`add`](Self::add).
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.reserve(0x1000, 0x800)?;
    /// boot.reserve(0x1400, 0x800)?; // may overlap
    /// assert_eq!(boot.reserved().len(), 1);
    /// assert_eq!(boot.reserved_size(), 0xc00);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn reserve(&mut self, base: u64, size: u64) -> Result<(), Error> {
        self.add_range(Kind::Reserved, base, size, Flags::NONE, NodeId::NONE)
    }

    /// Reserves a range with a node and flags.
    ///
    /// # Errors
    ///
    /// As for [`add`](Self::add).
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.reserve_node(0x1000, 0x800, NodeId(1), Flags::RSRV_NOINIT)?;
    /// assert!(boot.reserved()[0].is_reserved_noinit());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn reserve_node(
        &mut self,
        base: u64,
        size: u64,
        nid: NodeId,
        flags: Flags,
    ) -> Result<(), Error> {
        self.add_range(Kind::Reserved, base, size, flags, nid)
    }

    /// Reserves a range for the kernel itself, with [`Flags::RSRV_KERN`], so that
    /// [`reserved_kern_size`](Self::reserved_kern_size) counts it.
    ///
    /// # Errors
    ///
    /// As for [`add`](Self::add).
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.reserve_kern(0x10_0000, 0x80_0000)?;
    /// boot.reserve(0x90_0000, 0x1000)?; // stays apart: its flags differ
    /// assert_eq!(boot.reserved().len(), 2);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn reserve_kern(&mut self, base: u64, size: u64) -> Result<(), Error> {
        self.add_range(Kind::Reserved, base, size, Flags::RSRV_KERN, NodeId::NONE)
    }

    /// Records that memory is physically present. Limits and removals do not change these regions.
    ///
    /// # Errors
    ///
    /// As for [`add`](Self::add).
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.physmem_add(0, 0x4000)?;
    /// boot.add(0, 0x4000)?;
    /// boot.enforce_memory_limit(0x1000);
    /// assert_eq!(boot.physmem().total_size(), 0x4000);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn physmem_add(&mut self, base: u64, size: u64) -> Result<(), Error> {
        self.add_range(Kind::Physmem, base, size, Flags::NONE, NodeId::NONE)
    }

    /// Removes `base .. base + size` from memory. Parts that are not memory do not matter. O(log n)
    /// and one memmove.
    ///
    /// # Errors
    ///
    /// [`Error::ArrayFull`] if a region must be split, and the array has no capacity and cannot
    /// grow. Nothing has changed then.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add(0x1000, 0x4000)?;
    /// boot.remove(0x2000, 0x1000)?;
    /// assert!(boot.memory().iter().map(|r| r.base..r.end()).eq([0x1000..0x2000, 0x3000..0x5000]));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn remove(&mut self, base: u64, size: u64) -> Result<(), Error> {
        self.remove_range(Kind::Memory, base, size)
    }

    /// Frees `base .. base + size`: Linux's `memblock_phys_free`. Parts that are not reserved do
    /// not matter.
    ///
    /// # Errors
    ///
    /// As for [`remove`](Self::remove).
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add(0x1000, 0x1000)?;
    /// let at = boot.phys_alloc(0x1000, 0x1000)?;
    /// boot.free(at, 0x1000)?;
    /// assert_eq!(boot.phys_alloc(0x1000, 0x1000), Ok(at));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn free(&mut self, base: u64, size: u64) -> Result<(), Error> {
        self.remove_range(Kind::Reserved, base, size)
    }

    /// Sets the node of all regions of a kind within `base .. base + size`, splitting regions at
    /// its ends.
    ///
    /// # Errors
    ///
    /// [`Error::ArrayFull`] if splitting needs capacity that the array cannot get. Nothing has
    /// changed then.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add(0, 0x8000)?;
    /// boot.set_node(0x4000, 0x4000, Kind::Memory, NodeId(1))?;
    /// assert_eq!(boot.search_pfn_nid(5), Some((4, 8, NodeId(1))));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn set_node(&mut self, base: u64, size: u64, kind: Kind, nid: NodeId) -> Result<(), Error> {
        let nid = nid.canonical();
        self.change(kind, base, size, |r| r.nid = nid)
    }

    fn set_flag(
        &mut self,
        kind: Kind,
        base: u64,
        size: u64,
        flag: Flags,
        on: bool,
    ) -> Result<(), Error> {
        self.change(kind, base, size, |r| r.flags.set(flag, on))
    }

    /// Marks memory as hot-pluggable.
    ///
    /// # Errors
    ///
    /// As for [`set_node`](Self::set_node), like all calls that mark and clear.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add(0x1000, 0x2000)?;
    /// boot.mark_hotplug(0x2000, 0x1000)?;
    /// boot.set_movable_node(true);
    /// assert_eq!(boot.phys_alloc(0x1000, 0x1000), Ok(0x1000));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn mark_hotplug(&mut self, base: u64, size: u64) -> Result<(), Error> {
        self.set_flag(Kind::Memory, base, size, Flags::HOTPLUG, true)
    }

    /// Marks memory as not hot-pluggable.
    ///
    /// # Errors
    ///
    /// As for [`set_node`](Self::set_node).
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add_node(0x1000, 0x2000, NodeId(0), Flags::HOTPLUG)?;
    /// boot.clear_hotplug(0x1000, 0x1000)?;
    /// assert!(!boot.memory()[0].is_hotpluggable() && boot.memory()[1].is_hotpluggable());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn clear_hotplug(&mut self, base: u64, size: u64) -> Result<(), Error> {
        self.set_flag(Kind::Memory, base, size, Flags::HOTPLUG, false)
    }

    /// Marks memory as mirrored. Allocations prefer mirrored memory from now on.
    ///
    /// # Errors
    ///
    /// As for [`set_node`](Self::set_node).
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add(0x1000, 0x4000)?;
    /// boot.mark_mirror(0x2000, 0x1000)?;
    /// assert_eq!(boot.phys_alloc(0x800, 0x800), Ok(0x2800));
    /// assert!(boot.has_mirror());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn mark_mirror(&mut self, base: u64, size: u64) -> Result<(), Error> {
        self.set_flag(Kind::Memory, base, size, Flags::MIRROR, true)?;
        self.has_mirror = true;
        Ok(())
    }

    /// Marks memory that must not be mapped. It stays memory, but is never allocated or released to
    /// the page allocator.
    ///
    /// # Errors
    ///
    /// As for [`set_node`](Self::set_node).
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add(0x1000, 0x2000)?;
    /// boot.mark_nomap(0x2000, 0x1000)?;
    /// assert!(boot.is_memory(0x2000) && !boot.is_map_memory(0x2000));
    /// assert_eq!(boot.phys_alloc(0x1000, 0x1000), Ok(0x1000));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn mark_nomap(&mut self, base: u64, size: u64) -> Result<(), Error> {
        self.set_flag(Kind::Memory, base, size, Flags::NOMAP, true)
    }

    /// Undoes [`mark_nomap`](Self::mark_nomap).
    ///
    /// # Errors
    ///
    /// As for [`set_node`](Self::set_node).
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add_node(0x1000, 0x1000, NodeId::NONE, Flags::NOMAP)?;
    /// boot.clear_nomap(0x1000, 0x1000)?;
    /// assert!(boot.is_map_memory(0x1000));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn clear_nomap(&mut self, base: u64, size: u64) -> Result<(), Error> {
        self.set_flag(Kind::Memory, base, size, Flags::NOMAP, false)
    }

    /// Marks memory as known to be unused: see
    /// [`set_kho_scratch_only`](Self::set_kho_scratch_only).
    ///
    /// # Errors
    ///
    /// As for [`set_node`](Self::set_node).
    pub fn mark_kho_scratch(&mut self, base: u64, size: u64) -> Result<(), Error> {
        self.set_flag(Kind::Memory, base, size, Flags::KHO_SCRATCH, true)
    }

    /// Undoes [`mark_kho_scratch`](Self::mark_kho_scratch).
    ///
    /// # Errors
    ///
    /// As for [`set_node`](Self::set_node).
    pub fn clear_kho_scratch(&mut self, base: u64, size: u64) -> Result<(), Error> {
        self.set_flag(Kind::Memory, base, size, Flags::KHO_SCRATCH, false)
    }

    /// Marks reserved regions whose page structures need no initialisation.
    ///
    /// # Errors
    ///
    /// As for [`set_node`](Self::set_node).
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.reserve(0x1000, 0x3000)?;
    /// boot.reserved_mark_noinit(0x2000, 0x1000)?;
    /// assert!(boot.reserved()[1].is_reserved_noinit());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn reserved_mark_noinit(&mut self, base: u64, size: u64) -> Result<(), Error> {
        self.set_flag(Kind::Reserved, base, size, Flags::RSRV_NOINIT, true)
    }

    pub(crate) fn add_range(
        &mut self,
        kind: Kind,
        base: u64,
        size: u64,
        flags: Flags,
        nid: NodeId,
    ) -> Result<(), Error> {
        let end = capped_end(base, size);
        if base == end {
            return Ok(());
        }
        let (flags, nid) = (flags.difference(Flags::PENDING), nid.canonical());
        match self.array(kind).insert_until_full(base, end, flags, nid) {
            Ok(()) => Ok(()),
            Err(incomplete) => self.resume_add(kind, base..end, flags, nid, incomplete),
        }
    }

    #[cold]
    fn resume_add(
        &mut self,
        kind: Kind,
        range: Range<u64>,
        flags: Flags,
        nid: NodeId,
        incomplete: Incomplete,
    ) -> Result<(), Error> {
        let mut incomplete = incomplete;
        loop {
            let freed = match self.grow(kind, incomplete.missing, &range_to_avoid(kind, &range)) {
                Ok(freed) => freed,
                Err(error) => {
                    self.array(kind).undo(range.start, range.end);
                    return Err(error);
                }
            };
            // The memory of the old array is free now. If it is part of the range that is being
            // reserved, it must be inserted (again).
            let mut from = incomplete.resume;
            if kind == Kind::Reserved && freed.start < from && range.start < freed.end {
                from = range.start.max(freed.start);
            }
            match self
                .array(kind)
                .insert_until_full(from, range.end, flags, nid)
            {
                Ok(()) => {
                    self.array(kind).finish(range.start, range.end);
                    return Ok(());
                }
                // Not reached, since `grow` makes capacity for everything that is missing. If it
                // were, there would be one more round.
                Err(again) => incomplete = again,
            }
        }
    }

    pub(crate) fn remove_range(&mut self, kind: Kind, base: u64, size: u64) -> Result<(), Error> {
        let end = capped_end(base, size);
        if base == end {
            return Ok(());
        }
        if self.array(kind).splits(base, end) == Splits::OneInTwo
            && !self.array(kind).has_capacity(1)
        {
            self.grow(kind, 1, &(base..end))?;
        }
        self.array(kind).remove_range(base, end);
        Ok(())
    }

    fn change(
        &mut self,
        kind: Kind,
        base: u64,
        size: u64,
        set: impl Fn(&mut Region),
    ) -> Result<(), Error> {
        let end = capped_end(base, size);
        if base == end {
            return Ok(());
        }
        self.isolate(kind, base, end)?;
        self.array(kind).set(base, end, set);
        Ok(())
    }

    /// Splits regions so that none crosses `base` or `end`.
    pub(crate) fn isolate(&mut self, kind: Kind, base: u64, end: u64) -> Result<(), Error> {
        let missing = self.array(kind).splits(base, end).count();
        if !self.array(kind).has_capacity(missing) {
            self.grow(kind, missing, &range_to_avoid(kind, &(base..end)))?;
        }
        self.array(kind).split_at(base);
        self.array(kind).split_at(end);
        Ok(())
    }
}

/// Returns the range that a grown array must avoid while `range` of a kind is being changed. Added
/// memory need not be avoided.
fn range_to_avoid(kind: Kind, range: &Range<u64>) -> Range<u64> {
    if kind == Kind::Reserved {
        range.clone()
    } else {
        0..0
    }
}

//! Queries, and calls that reduce memory.

use crate::Notice;
use crate::map::PhysMap;
use crate::memblock::{Kind, Memblock};
use crate::pfn::PAGE_SIZE;
use crate::region::{Flags, NodeId, Region, capped_end};

impl<M: PhysMap> Memblock<'_, M> {
    /// Returns the size of memory in bytes.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add(0, 0x1000)?;
    /// boot.add(0x8000, 0x1000)?;
    /// assert_eq!(boot.phys_mem_size(), 0x2000);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn phys_mem_size(&self) -> u64 {
        self.memory().total_size()
    }

    /// Returns the size of all reserved regions in bytes.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.reserve(0x1000, 0x1000)?;
    /// boot.reserve(0x1800, 0x1000)?;
    /// assert_eq!(boot.reserved_size(), 0x1800);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn reserved_size(&self) -> u64 {
        self.reserved().total_size()
    }

    /// Returns the number of bytes below `limit` that are reserved for the kernel itself: by
    /// [`reserve_kern`](Self::reserve_kern), and by allocations if
    /// [`set_record_kern`](Self::set_record_kern) is on. Counts one node, or all for
    /// [`NodeId::NONE`]. O(n).
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.reserve_kern(0x10_0000, 0x8000)?;
    /// boot.reserve(0x20_0000, 0x1000)?;
    /// assert_eq!(boot.reserved_kern_size(u64::MAX, NodeId::NONE), 0x8000);
    /// assert_eq!(boot.reserved_kern_size(0x10_1000, NodeId::NONE), 0x1000);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn reserved_kern_size(&self, limit: u64, nid: NodeId) -> u64 {
        let nid = nid.canonical();
        self.reserved()
            .iter()
            .take_while(|r| r.base < limit)
            .filter(|r| r.flags.contains(Flags::RSRV_KERN))
            .filter(|r| !nid.is_valid() || nid == r.nid)
            .map(|r| r.end().min(limit) - r.base)
            .sum()
    }

    /// Estimates the number of free page frames: the size of memory minus that of all reserved
    /// regions, which need not be memory, in whole frames. Returns 0 if more is reserved than
    /// memory exists. [`free_frames`](Self::free_frames) counts exactly. O(1).
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add(0, 0x10_0000)?;
    /// boot.reserve(0x1800, 0x1000)?;
    /// assert_eq!(boot.estimated_nr_free_pages(), 255);
    /// assert_eq!(boot.free_frames(NodeId::NONE).map(|f| f.end - f.start).sum::<u64>(), 254);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn estimated_nr_free_pages(&self) -> u64 {
        self.phys_mem_size().saturating_sub(self.reserved_size()) / PAGE_SIZE
    }

    /// Returns the first address of memory, or 0 without memory.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add(0x8000_0000, 0x1000)?;
    /// assert_eq!(boot.start_of_dram(), 0x8000_0000);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn start_of_dram(&self) -> u64 {
        self.memory().first().map_or(0, |r| r.base)
    }

    /// Returns the first address after all memory, or 0 without memory.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add(0x8000_0000, 0x1000)?;
    /// assert_eq!(boot.end_of_dram(), 0x8000_1000);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn end_of_dram(&self) -> u64 {
        self.memory().last().map_or(0, Region::end)
    }

    /// Returns `true` if there is memory at `addr`. O(log n), as are the functions that follow.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add(0x1000, 0x1000)?;
    /// assert!(boot.is_memory(0x1fff) && !boot.is_memory(0x2000));
    /// # Ok::<(), Error>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn is_memory(&self, addr: u64) -> bool {
        self.memory().search(addr).is_some()
    }

    /// Returns `true` if there is memory at `addr` that may be mapped.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add_node(0x1000, 0x1000, NodeId::NONE, Flags::NOMAP)?;
    /// assert!(boot.is_memory(0x1000) && !boot.is_map_memory(0x1000));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn is_map_memory(&self, addr: u64) -> bool {
        self.memory()
            .search(addr)
            .is_some_and(|r| !r.flags.contains(Flags::NOMAP))
    }

    /// Returns `true` if `base .. base + size` (capped at the largest address) lies within one
    /// region of memory.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add(0x1000, 0x1000)?;
    /// assert!(boot.is_region_memory(0x1800, 0x800) && !boot.is_region_memory(0x1800, 0x801));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn is_region_memory(&self, base: u64, size: u64) -> bool {
        self.memory()
            .search(base)
            .is_some_and(|r| capped_end(base, size) <= r.end())
    }

    /// Returns `true` if `addr` is reserved.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.reserve(0x1000, 0x1000)?;
    /// assert!(boot.is_reserved(0x1000) && !boot.is_reserved(0x2000));
    /// # Ok::<(), Error>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn is_reserved(&self, addr: u64) -> bool {
        self.reserved().search(addr).is_some()
    }

    /// Returns `true` if any byte of `base .. base + size` is reserved.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.reserve(0x1000, 0x1000)?;
    /// assert!(boot.is_region_reserved(0, 0x1001) && !boot.is_region_reserved(0, 0x1000));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn is_region_reserved(&self, base: u64, size: u64) -> bool {
        self.reserved().overlaps(base, size)
    }

    /// Returns the region of memory that contains page frame `pfn`, and its node. The region is
    /// given as first frame and end frame, both rounded down. Also returns `None` if the frame has
    /// no 64-bit address.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add_node(0x1000, 0x3000, NodeId(2), Flags::NONE)?;
    /// assert_eq!(boot.search_pfn_nid(3), Some((1, 4, NodeId(2))));
    /// assert_eq!(boot.search_pfn_nid(4), None);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn search_pfn_nid(&self, pfn: u64) -> Option<(u64, u64, NodeId)> {
        let r = self.memory().search(pfn.checked_mul(PAGE_SIZE)?)?;
        Some((r.base / PAGE_SIZE, r.end() / PAGE_SIZE, r.nid))
    }

    /// Returns `true` if at most `threshold` bytes of memory, counted in whole pages, belong to no
    /// node.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add_node(0, 0x10_0000, NodeId(0), Flags::NONE)?;
    /// boot.add(0x10_0000, 0x1000)?; // of no node
    /// assert!(boot.validate_numa_coverage(0x1000) && !boot.validate_numa_coverage(0xfff));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn validate_numa_coverage(&self, threshold: u64) -> bool {
        let lost: u64 = self
            .pfn_ranges(NodeId::NONE)
            .filter(|s| !s.nid.is_valid())
            .map(|s| s.end - s.start)
            .sum();
        let lost = lost * PAGE_SIZE;
        if lost > threshold {
            self.notice(Notice::NoNodeCoverage {
                lost,
                total: self.phys_mem_size(),
            });
            return false;
        }
        true
    }

    /// Trims every region of memory to multiples of `align`, a power of two. Regions without a
    /// whole unit are dropped. O(n).
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add(0x0800, 0x2000)?;
    /// boot.add(0x8200, 0x0800)?;
    /// boot.trim_memory(PAGE_SIZE);
    /// assert!(boot.memory().iter().map(|r| r.base..r.end()).eq([0x1000..0x2000]));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn trim_memory(&mut self, align: u64) {
        if !align.is_power_of_two() {
            return;
        }
        let memory = self.array(Kind::Memory);
        for i in (0..memory.len()).rev() {
            let r = memory[i];
            let start = r.base.checked_next_multiple_of(align);
            let end = r.end() & !(align - 1);
            match start {
                Some(start) if start < end => {
                    memory.storage()[i] = Region {
                        base: start,
                        size: end - start,
                        ..r
                    };
                    *memory.total_mut() -= r.size - (end - start);
                }
                _ => memory.remove_at(i),
            }
        }
    }

    /// Returns the address below which there are `limit` bytes of memory, or `None` if there are
    /// fewer.
    fn max_addr(&self, mut limit: u64) -> Option<u64> {
        for r in self.memory() {
            if limit <= r.size {
                return Some(r.base + limit);
            }
            limit -= r.size;
        }
        None
    }

    /// Keeps the lowest `limit` bytes of memory. Removes the rest, with the reserved regions there.
    /// 0 means no limit.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add(0, 0x1000)?;
    /// boot.add(0x8000, 0x4000)?;
    /// boot.enforce_memory_limit(0x2000);
    /// assert_eq!(boot.end_of_dram(), 0x9000);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn enforce_memory_limit(&mut self, limit: u64) {
        if limit == 0 {
            return;
        }
        if let Some(end) = self.max_addr(limit) {
            self.array(Kind::Memory).remove_range(end, u64::MAX);
            self.array(Kind::Reserved).remove_range(end, u64::MAX);
        }
    }

    /// Keeps memory within `base .. base + size`, and all memory that must not be mapped. Frees
    /// reserved regions outside of the range. An empty range, or no memory at all, changes nothing.
    ///
    /// A region that must not be mapped stays whole, where Linux would leave it split at the ends
    /// of the range.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add(0, 0x8000)?;
    /// boot.mark_nomap(0x6000, 0x1000)?;
    /// boot.cap_memory_range(0x1000, 0x2000);
    /// assert!(boot.memory().iter().map(|r| r.base..r.end()).eq([0x1000..0x3000, 0x6000..0x7000]));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn cap_memory_range(&mut self, base: u64, size: u64) {
        if size == 0 {
            return;
        }
        if self.memory().total_size() == 0 {
            self.notice(Notice::NoMemoryYet);
            return;
        }
        let end = capped_end(base, size);
        let memory = self.array(Kind::Memory);
        let mut kept = 0;
        for i in 0..memory.len() {
            let r = memory[i];
            let (from, to) = if r.flags.contains(Flags::NOMAP) {
                (r.base, r.end())
            } else {
                (r.base.max(base), r.end().min(end))
            };
            if from < to {
                memory.storage()[kept] = Region {
                    base: from,
                    size: to - from,
                    ..r
                };
                kept += 1;
            }
        }
        let n = memory.len();
        memory.drain(kept, n);
        *memory.total_mut() = memory.iter().map(|r| r.size).sum();
        let reserved = self.array(Kind::Reserved);
        reserved.remove_range(0, base);
        reserved.remove_range(end, u64::MAX);
    }

    /// Keeps the lowest `limit` bytes of memory, as [`cap_memory_range`](Self::cap_memory_range)
    /// does: memory that must not be mapped stays. `u64::MAX` means no limit.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add(0, 0x8000)?;
    /// boot.mark_nomap(0x6000, 0x1000)?;
    /// boot.mem_limit_remove_map(0x1000);
    /// assert!(boot.memory().iter().map(|r| r.base..r.end()).eq([0..0x1000, 0x6000..0x7000]));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn mem_limit_remove_map(&mut self, limit: u64) {
        if limit == u64::MAX {
            return;
        }
        if let Some(end) = self.max_addr(limit) {
            self.cap_memory_range(0, end);
        }
    }
}

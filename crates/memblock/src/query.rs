//! Questions, and cutting memory down.

use crate::Notice;
use crate::map::PhysMap;
use crate::memblock::{Kind, Memblock, PAGE_SIZE};
use crate::region::{Flags, NodeId, Region, capped_end};

impl<M: PhysMap> Memblock<'_, M> {
    /// Bytes of memory.
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

    /// Bytes reserved.
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

    /// Bytes reserved for the kernel itself, below `limit`: by [`reserve_kern`](Self::reserve_kern), and by allocations if
    /// [`set_record_kern`](Self::set_record_kern) says so. Of a node, or of any for [`NodeId::NONE`]. O(n).
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

    /// About how many page frames are free: memory less what is reserved, which need not be memory, in whole frames; 0 if more is
    /// reserved than there is. [`free_frames`](Self::free_frames) counts exactly. O(1).
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

    /// Where memory begins; 0 without any.
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

    /// Where memory ends: the first address after it; 0 without any.
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

    /// Whether there is memory at `addr`. O(log n), as all that follow.
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

    /// Whether there is memory at `addr` that may be mapped.
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

    /// Whether `base .. base + size` (cut at the largest address) lies within one region of memory.
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

    /// Whether `addr` is reserved.
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

    /// Whether any of `base .. base + size` is reserved.
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

    /// The region of memory that holds page frame `pfn`, as frame numbers (both rounded down), and its node. `None` too if there
    /// is no such address.
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

    /// Whether at most `threshold` bytes of memory, counted in whole pages, belong to no node.
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

    /// Cuts every region of memory to whole units of `align`, a power of two; regions that hold none are dropped. O(n).
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

    /// The address below which there are `limit` bytes of memory, or `None` if there is not as much.
    fn max_addr(&self, mut limit: u64) -> Option<u64> {
        for r in self.memory() {
            if limit <= r.size {
                return Some(r.base + limit);
            }
            limit -= r.size;
        }
        None
    }

    /// Keeps the lowest `limit` bytes of memory and drops the rest, with what is reserved there. 0 is no limit.
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

    /// Keeps memory within `base .. base + size`, and memory that must not be mapped wherever it is; what is reserved outside
    /// is freed. An empty range, or no memory at all, changes nothing.
    ///
    /// A region that must not be mapped stays whole where Linux would leave it split at the range's ends.
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

    /// Keeps the lowest `limit` bytes of memory, as [`cap_memory_range`](Self::cap_memory_range) does: memory that must not be mapped
    /// stays. `u64::MAX` is no limit.
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

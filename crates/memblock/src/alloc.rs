//! Allocation: finding free memory and reserving it.

use core::ptr::NonNull;

use crate::cursor::Span;
use crate::map::PhysMap;
use crate::memblock::{ALLOC_ACCESSIBLE, Kind, Memblock};
use crate::pfn::PAGE_SIZE;
use crate::region::{Flags, NodeId};
use crate::{Error, Notice};

/// As an upper limit: the current limit, as [`ALLOC_ACCESSIBLE`]. Linux uses it to keep an
/// allocation from its leak checker.
pub const ALLOC_NOLEAKTRACE: u64 = 1;

/// The alignment used when 0 is requested (Linux's `SMP_CACHE_BYTES`).
pub const CACHE_LINE: u64 = 64;

/// The limit of [`Memblock::alloc_low`] (Linux's `ARCH_LOW_ADDRESS_LIMIT`).
pub const LOW_ADDRESS_LIMIT: u64 = 0xffff_ffff;

/// Returns the lowest multiple of `align`, a power of two, at which `size` bytes fit into a span.
#[inline]
fn lowest_in(span: Span, size: u64, align: u64) -> Option<u64> {
    let found = span.start.checked_next_multiple_of(align)?;
    (found < span.end && span.end - found >= size).then_some(found)
}

/// Returns the highest multiple of `align`, a power of two, at which `size` bytes fit into a span.
#[inline]
fn highest_in(span: Span, size: u64, align: u64) -> Option<u64> {
    let found = span.end.checked_sub(size)? & !(align - 1);
    (found >= span.start).then_some(found)
}

impl<M: PhysMap> Memblock<'_, M> {
    /// Finds free memory of `size` bytes at a multiple of `align`, within `start..end`, and does
    /// not reserve it. The memory belongs to a node (any, for [`NodeId::NONE`]), and `flags` has
    /// the meaning of [`Filter::flags`](crate::Filter::flags).
    ///
    /// `end` may be [`ALLOC_ACCESSIBLE`] or [`ALLOC_ANYWHERE`](crate::ALLOC_ANYWHERE). The first
    /// page is never found. `align` must be a power of two. O(log n + ranges of free memory
    /// visited).
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add_node(0x1000, 0x4000, NodeId(0), Flags::NONE)?;
    /// boot.add_node(0x5000, 0x4000, NodeId(1), Flags::NONE)?;
    /// let find = |nid| boot.find_in_range_node(0x800, 0x1000, 0, ALLOC_ACCESSIBLE, nid, Flags::NONE);
    /// assert_eq!(find(NodeId(0)), Some(0x4000));
    /// assert_eq!(find(NodeId::NONE), Some(0x8000));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn find_in_range_node(
        &self,
        size: u64,
        align: u64,
        start: u64,
        end: u64,
        nid: NodeId,
        flags: Flags,
    ) -> Option<u64> {
        if !align.is_power_of_two() {
            return None;
        }
        let end = if end == ALLOC_ACCESSIBLE || end == ALLOC_NOLEAKTRACE {
            self.current_limit()
        } else {
            end
        };
        // C callers regard address 0 as failure.
        let start = start.max(PAGE_SIZE);
        let mut spans = self.free_ranges(nid, flags).within(start..end);
        if self.bottom_up() {
            spans.find_map(|span| lowest_in(span, size, align))
        } else {
            spans.rev().find_map(|span| highest_in(span, size, align))
        }
    }

    /// Finds free memory of `size` bytes on any node, and does not reserve it. Prefers mirrored
    /// memory if any memory is marked so.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add(0x1000, 0x4000)?;
    /// boot.reserve(0x3000, 0x2000)?;
    /// assert_eq!(boot.find_in_range(0, 0x10_0000, 0x1000, 0x1000), Some(0x2000));
    /// assert_eq!(boot.reserved_size(), 0x2000);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn find_in_range(&self, start: u64, end: u64, size: u64, align: u64) -> Option<u64> {
        let flags = self.preferred_flags();
        let found = self.find_in_range_node(size, align, start, end, NodeId::NONE, flags);
        if found.is_none() && flags.contains(Flags::MIRROR) {
            self.notice(Notice::NoMirroredMemory { size });
            return self.find_in_range_node(size, align, start, end, NodeId::NONE, Flags::NONE);
        }
        found
    }

    /// Returns the flags of the memory that allocations try first.
    fn preferred_flags(&self) -> Flags {
        if self.kho_scratch_only {
            Flags::KHO_SCRATCH
        } else if self.has_mirror {
            Flags::MIRROR
        } else {
            Flags::NONE
        }
    }

    /// Reserves `size` bytes at a multiple of `align` (0: [`CACHE_LINE`]) within `start..end` and
    /// returns their address.
    ///
    /// Tries memory of `nid` first and then, unless `exact`, memory of any node. While any memory
    /// is marked as mirrored, both are tried with mirrored memory first. An empty request finds an
    /// address and reserves nothing.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`], [`Error::Alignment`]; [`Error::ArrayFull`] if memory was found but
    /// could not be recorded.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add_node(0x1000, 0x4000, NodeId(0), Flags::NONE)?;
    /// boot.add_node(0x5000, 0x4000, NodeId(1), Flags::NONE)?;
    /// let end = ALLOC_ACCESSIBLE;
    /// assert_eq!(boot.alloc_range_nid(0x3000, 0x1000, 0, end, NodeId(0), true), Ok(0x2000));
    /// // The node has no other range of this size, but another node has.
    /// assert_eq!(boot.alloc_range_nid(0x3000, 0x1000, 0, end, NodeId(0), true), Err(Error::NoMemory));
    /// assert_eq!(boot.alloc_range_nid(0x3000, 0x1000, 0, end, NodeId(0), false), Ok(0x6000));
    /// # Ok::<(), Error>(())
    /// ```
    #[inline]
    pub fn alloc_range_nid(
        &mut self,
        size: u64,
        align: u64,
        start: u64,
        end: u64,
        nid: NodeId,
        exact: bool,
    ) -> Result<u64, Error> {
        let align = if align == 0 {
            self.notice(Notice::ZeroAlignment);
            CACHE_LINE
        } else {
            align
        };
        if !align.is_power_of_two() {
            return Err(Error::Alignment);
        }
        let nid = nid.canonical();
        let recorded = (
            if self.record_kern {
                Flags::RSRV_KERN
            } else {
                Flags::NONE
            },
            if self.record_nodes { nid } else { NodeId::NONE },
        );
        let mut flags = self.preferred_flags();
        let mut error = Error::NoMemory;
        loop {
            let anywhere = (nid.is_valid() && !exact).then_some(NodeId::NONE);
            for node in [Some(nid), anywhere].into_iter().flatten() {
                if let Some(found) = self.find_in_range_node(size, align, start, end, node, flags) {
                    match self.add_range(Kind::Reserved, found, size, recorded.0, recorded.1) {
                        Ok(()) => return Ok(found),
                        Err(full) => error = full,
                    }
                }
            }
            if !flags.contains(Flags::MIRROR) {
                return Err(error);
            }
            flags = Flags::NONE;
            self.notice(Notice::NoMirroredMemory { size });
        }
    }

    /// Reserves `size` bytes at a multiple of `align`, below the current limit.
    ///
    /// # Errors
    ///
    /// As for [`alloc_range_nid`](Self::alloc_range_nid), like all calls that allocate.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add(0x1000, 0x4000)?;
    /// assert_eq!(boot.phys_alloc(0x100, 0x100), Ok(0x4f00));
    /// assert_eq!(boot.phys_alloc(0x1000, 3), Err(Error::Alignment));
    /// assert_eq!(boot.phys_alloc(0x10_0000, 1), Err(Error::NoMemory));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn phys_alloc(&mut self, size: u64, align: u64) -> Result<u64, Error> {
        self.phys_alloc_range(size, align, 0, ALLOC_ACCESSIBLE)
    }

    /// Reserves `size` bytes at a multiple of `align` within `start..end`.
    ///
    /// # Errors
    ///
    /// As for [`alloc_range_nid`](Self::alloc_range_nid).
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add(0x1000, 0x4000)?;
    /// // Something that a device reaches.
    /// assert_eq!(boot.phys_alloc_range(0x800, 0x800, 0, 0x3000), Ok(0x2800));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn phys_alloc_range(
        &mut self,
        size: u64,
        align: u64,
        start: u64,
        end: u64,
    ) -> Result<u64, Error> {
        self.alloc_range_nid(size, align, start, end, NodeId::NONE, false)
    }

    /// Reserves `size` bytes, of node `nid` if it has them.
    ///
    /// # Errors
    ///
    /// As for [`alloc_range_nid`](Self::alloc_range_nid).
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add_node(0x1000, 0x1000, NodeId(0), Flags::NONE)?;
    /// boot.add_node(0x2000, 0x1000, NodeId(1), Flags::NONE)?;
    /// assert_eq!(boot.phys_alloc_try_nid(0x1000, 0x1000, NodeId(0)), Ok(0x1000));
    /// assert_eq!(boot.phys_alloc_try_nid(0x1000, 0x1000, NodeId(0)), Ok(0x2000));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn phys_alloc_try_nid(&mut self, size: u64, align: u64, nid: NodeId) -> Result<u64, Error> {
        self.alloc_range_nid(size, align, 0, ALLOC_ACCESSIBLE, nid, false)
    }

    /// As [`alloc_try_nid_raw`](Self::alloc_try_nid_raw), but from node `nid` only.
    ///
    /// # Errors
    ///
    /// As for [`alloc_try_nid_raw`](Self::alloc_try_nid_raw).
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let buffer = Box::leak(vec![0u64; 0x800].into_boxed_slice());
    /// # let base = buffer.as_mut_ptr().expose_provenance() as u64;
    /// # let mut storage: Storage = Storage::new();
    /// # // SAFETY: only the buffer is added as memory, and nothing else uses it.
    /// # let mut boot = Memblock::with_map(&mut storage, unsafe { Identity::new() });
    /// # boot.add(base, 0x4000)?;
    /// # let none = NodeId(1);
    /// assert_eq!(boot.alloc_exact_nid_raw(64, 64, 0, ALLOC_ACCESSIBLE, none), Err(Error::NoMemory));
    /// assert!(boot.alloc_try_nid_raw(64, 64, 0, ALLOC_ACCESSIBLE, none).is_ok());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn alloc_exact_nid_raw(
        &mut self,
        size: u64,
        align: u64,
        min: u64,
        max: u64,
        nid: NodeId,
    ) -> Result<NonNull<u8>, Error> {
        self.alloc_mapped(size, align, min, max, nid, true)
    }

    /// Allocates `size` bytes without clearing them. `max` is capped at the current limit.
    ///
    /// Tries node `nid` within `min..max`, then any node there, then the same without the lower
    /// limit.
    ///
    /// # Errors
    ///
    /// As for [`alloc_range_nid`](Self::alloc_range_nid). [`Error::NoMemory`] also if the memory
    /// found is not accessible.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let buffer = Box::leak(vec![0u64; 0x800].into_boxed_slice());
    /// # let base = buffer.as_mut_ptr().expose_provenance() as u64;
    /// # let mut storage: Storage = Storage::new();
    /// # // SAFETY: only the buffer is added as memory, and nothing else uses it.
    /// # let mut boot = Memblock::with_map(&mut storage, unsafe { Identity::new() });
    /// # boot.add(base, 0x4000)?;
    /// // Above the middle, if there is any.
    /// let high = boot.alloc_try_nid_raw(0x2000, 0x10, base + 0x2000, ALLOC_ACCESSIBLE, NodeId::NONE)?;
    /// let low = boot.alloc_try_nid_raw(0x1000, 0x10, base + 0x2000, ALLOC_ACCESSIBLE, NodeId::NONE)?;
    /// assert_eq!(high.addr().get() as u64, base + 0x2000);
    /// assert_eq!(low.addr().get() as u64, base + 0x1000);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn alloc_try_nid_raw(
        &mut self,
        size: u64,
        align: u64,
        min: u64,
        max: u64,
        nid: NodeId,
    ) -> Result<NonNull<u8>, Error> {
        self.alloc_mapped(size, align, min, max, nid, false)
    }

    /// As [`alloc_try_nid_raw`](Self::alloc_try_nid_raw), cleared to zero.
    ///
    /// # Errors
    ///
    /// As for [`alloc_try_nid_raw`](Self::alloc_try_nid_raw).
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let buffer = Box::leak(vec![0u64; 0x800].into_boxed_slice());
    /// # let base = buffer.as_mut_ptr().expose_provenance() as u64;
    /// # let mut storage: Storage = Storage::new();
    /// # // SAFETY: only the buffer is added as memory, and nothing else uses it.
    /// # let mut boot = Memblock::with_map(&mut storage, unsafe { Identity::new() });
    /// # boot.add(base, 0x4000)?;
    /// let words = boot.alloc_try_nid(64, 8, 0, base + 0x1000, NodeId(0))?.cast::<[u64; 8]>();
    /// assert_eq!(words.addr().get() as u64, base + 0x1000 - 64);
    /// // SAFETY: as large and aligned as asked for, and ours alone.
    /// assert_eq!(unsafe { words.read() }, [0; 8]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn alloc_try_nid(
        &mut self,
        size: u64,
        align: u64,
        min: u64,
        max: u64,
        nid: NodeId,
    ) -> Result<NonNull<u8>, Error> {
        let memory = self.alloc_mapped(size, align, min, max, nid, false)?;
        // SAFETY: it was just allocated, is accessible for `size` bytes, and nothing else uses it.
        unsafe { memory.write_bytes(0, size as usize) };
        Ok(memory)
    }

    /// Allocates cleared memory below the current limit.
    ///
    /// # Errors
    ///
    /// As for [`alloc_try_nid_raw`](Self::alloc_try_nid_raw).
    ///
    /// ```
    /// use samara_memblock::{Identity, Memblock, Storage};
    ///
    /// // A machine whose memory is a buffer.
    /// let buffer = Box::leak(vec![0u64; 0x800].into_boxed_slice());
    /// let base = buffer.as_mut_ptr().expose_provenance() as u64;
    /// let mut storage: Storage = Storage::new();
    /// // SAFETY: only the buffer is added as memory, and nothing else uses it.
    /// let mut boot = Memblock::with_map(&mut storage, unsafe { Identity::new() });
    /// boot.add(base, 0x4000)?;
    ///
    /// let table = boot.alloc(0x1000, 0x10)?.cast::<[u64; 512]>();
    /// // SAFETY: as large and aligned as asked for, and ours alone.
    /// assert_eq!(unsafe { table.read() }, [0; 512]);
    /// assert!(boot.is_reserved(table.addr().get() as u64));
    /// # Ok::<(), samara_memblock::Error>(())
    /// ```
    pub fn alloc(&mut self, size: u64, align: u64) -> Result<NonNull<u8>, Error> {
        self.alloc_try_nid(size, align, 0, ALLOC_ACCESSIBLE, NodeId::NONE)
    }

    /// Allocates memory below the current limit without clearing it.
    ///
    /// # Errors
    ///
    /// As for [`alloc_try_nid_raw`](Self::alloc_try_nid_raw).
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let buffer = Box::leak(vec![0u64; 0x800].into_boxed_slice());
    /// # let base = buffer.as_mut_ptr().expose_provenance() as u64;
    /// # let mut storage: Storage = Storage::new();
    /// # // SAFETY: only the buffer is added as memory, and nothing else uses it.
    /// # let mut boot = Memblock::with_map(&mut storage, unsafe { Identity::new() });
    /// # boot.add(base, 0x4000)?;
    /// let buffer = boot.alloc_raw(0x1000, 0x10)?;
    /// // SAFETY: as large as asked for, and ours alone.
    /// unsafe { buffer.write_bytes(0x5a, 0x1000) };
    /// # Ok::<(), Error>(())
    /// ```
    pub fn alloc_raw(&mut self, size: u64, align: u64) -> Result<NonNull<u8>, Error> {
        self.alloc_try_nid_raw(size, align, 0, ALLOC_ACCESSIBLE, NodeId::NONE)
    }

    /// Allocates cleared memory at or above `min`, or at lower addresses if there is none.
    ///
    /// # Errors
    ///
    /// As for [`alloc_try_nid_raw`](Self::alloc_try_nid_raw).
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let buffer = Box::leak(vec![0u64; 0x800].into_boxed_slice());
    /// # let base = buffer.as_mut_ptr().expose_provenance() as u64;
    /// # let mut storage: Storage = Storage::new();
    /// # // SAFETY: only the buffer is added as memory, and nothing else uses it.
    /// # let mut boot = Memblock::with_map(&mut storage, unsafe { Identity::new() });
    /// # boot.add(base, 0x4000)?;
    /// let high = boot.alloc_from(0x1000, 1, base + 0x3000)?;
    /// let low = boot.alloc_from(0x1000, 1, base + 0x3000)?;
    /// assert_eq!(high.addr().get() as u64, base + 0x3000);
    /// assert_eq!(low.addr().get() as u64, base + 0x2000);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn alloc_from(&mut self, size: u64, align: u64, min: u64) -> Result<NonNull<u8>, Error> {
        self.alloc_try_nid(size, align, min, ALLOC_ACCESSIBLE, NodeId::NONE)
    }

    /// Allocates cleared memory below 4 GiB.
    ///
    /// # Errors
    ///
    /// As for [`alloc_try_nid_raw`](Self::alloc_try_nid_raw).
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let buffer = Box::leak(vec![0u64; 0x800].into_boxed_slice());
    /// # let base = buffer.as_mut_ptr().expose_provenance() as u64;
    /// # let mut storage: Storage = Storage::new();
    /// # // SAFETY: only the buffer is added as memory, and nothing else uses it.
    /// # let mut boot = Memblock::with_map(&mut storage, unsafe { Identity::new() });
    /// # boot.add(base, 0x4000)?;
    /// let low = boot.alloc_low(64, 64);
    /// assert_eq!(low.is_ok(), base < LOW_ADDRESS_LIMIT);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn alloc_low(&mut self, size: u64, align: u64) -> Result<NonNull<u8>, Error> {
        self.alloc_try_nid(size, align, 0, LOW_ADDRESS_LIMIT, NodeId::NONE)
    }

    /// Allocates cleared memory, of node `nid` if it has any.
    ///
    /// # Errors
    ///
    /// As for [`alloc_try_nid_raw`](Self::alloc_try_nid_raw).
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let buffer = Box::leak(vec![0u64; 0x800].into_boxed_slice());
    /// # let base = buffer.as_mut_ptr().expose_provenance() as u64;
    /// # let mut storage: Storage = Storage::new();
    /// # // SAFETY: only the buffer is added as memory, and nothing else uses it.
    /// # let mut boot = Memblock::with_map(&mut storage, unsafe { Identity::new() });
    /// # boot.add(base, 0x4000)?;
    /// assert!(boot.alloc_node(64, 64, NodeId(3)).is_ok(), "of any node, as there is no node 3");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn alloc_node(&mut self, size: u64, align: u64, nid: NodeId) -> Result<NonNull<u8>, Error> {
        self.alloc_try_nid(size, align, 0, ALLOC_ACCESSIBLE, nid)
    }

    fn alloc_mapped(
        &mut self,
        size: u64,
        align: u64,
        min: u64,
        max: u64,
        nid: NodeId,
        exact: bool,
    ) -> Result<NonNull<u8>, Error> {
        let max = max.min(self.current_limit());
        let found = match self.alloc_range_nid(size, align, min, max, nid, exact) {
            Err(Error::NoMemory | Error::ArrayFull) if min > 0 => {
                self.alloc_range_nid(size, align, 0, max, nid, exact)
            }
            other => other,
        }?;
        if let Some(memory) = self.map.virt(found, size) {
            return Ok(memory);
        }
        // This cannot need capacity that recording the allocation has not just used.
        self.remove_range(Kind::Reserved, found, size)?;
        Err(Error::NoMemory)
    }
}

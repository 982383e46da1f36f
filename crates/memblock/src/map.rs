//! Access to the memory that memblock manages.

use core::ptr::NonNull;

/// Turns a physical address into a pointer.
///
/// Memblock itself accesses memory for two purposes only: to store a region array that has outgrown
/// its first storage, and to clear the memory that the zeroing allocation calls return.
///
/// # Safety
///
/// For every range of memory that is ever added to the [`Memblock`](crate::Memblock) with this map,
/// while the range is not reserved there:
///
/// * `virt` returns `None`, or a pointer that is valid for reads and writes of `size` bytes,
///   aligned as the physical address is, to memory that nothing else accesses.
/// * Memory that memblock has reserved for one of its arrays is not accessed by others until
///   memblock frees it. So it must not be freed by hand.
pub unsafe trait PhysMap {
    /// Returns a pointer to `phys .. phys + size`, or `None` if that is not accessible.
    fn virt(&self, phys: u64, size: u64) -> Option<NonNull<u8>>;
}

/// A map without access to memory: arrays stay in their first storage, and only the calls that
/// return physical addresses work.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unmapped;

// SAFETY: it never returns a pointer.
unsafe impl PhysMap for Unmapped {
    fn virt(&self, _phys: u64, _size: u64) -> Option<NonNull<u8>> {
        None
    }
}

/// A map whose physical addresses are pointers: before paging is on, under an identity map, or in a
/// test whose "physical memory" is a buffer.
#[derive(Clone, Copy, Debug)]
pub struct Identity(());

impl Identity {
    /// Creates the map.
    ///
    /// # Safety
    ///
    /// The duties of [`PhysMap`] hold for the identity. All memory added to the memblock with this
    /// map is accessible at its own address, and nothing else uses its free part. The provenance of
    /// that memory is exposed.
    #[must_use]
    pub const unsafe fn new() -> Self {
        Identity(())
    }
}

// SAFETY: the caller of `new` promised the duties.
unsafe impl PhysMap for Identity {
    fn virt(&self, phys: u64, size: u64) -> Option<NonNull<u8>> {
        let first = usize::try_from(phys).ok()?;
        first.checked_add(usize::try_from(size).ok()?)?;
        NonNull::new(core::ptr::with_exposed_provenance_mut(first))
    }
}

/// A map with a constant offset: a kernel's direct map of all physical memory.
#[derive(Clone, Copy, Debug)]
pub struct DirectMap {
    offset: u64,
}

impl DirectMap {
    /// Creates the map. Physical address `p` is accessible at `p + offset` (the sum wraps).
    ///
    /// # Safety
    ///
    /// As for [`Identity::new`], with the offset applied.
    #[must_use]
    pub const unsafe fn new(offset: u64) -> Self {
        DirectMap { offset }
    }
}

// SAFETY: the caller of `new` promised the duties.
unsafe impl PhysMap for DirectMap {
    fn virt(&self, phys: u64, size: u64) -> Option<NonNull<u8>> {
        let first = usize::try_from(phys.wrapping_add(self.offset)).ok()?;
        first.checked_add(usize::try_from(size).ok()?)?;
        NonNull::new(core::ptr::with_exposed_provenance_mut(first))
    }
}

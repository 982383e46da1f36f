//! How memblock gets at the memory that it hands out.

use core::ptr::NonNull;

/// Turns a physical address into a pointer.
///
/// Memblock itself touches memory for two things only: to keep a region array that has outgrown its first storage, and to
/// clear what the zeroing allocation calls return.
///
/// # Safety
/// For every range of memory that is ever added to the [`Memblock`](crate::Memblock) holding this map, and while it is not
/// reserved there, `virt` either returns `None` or a pointer valid for reads and writes of `size` bytes, aligned as the
/// physical address is, that nothing else accesses; and a range that memblock has reserved for an array of its own stays
/// untouched by others until memblock frees it (so it must not be freed by hand).
pub unsafe trait PhysMap {
    /// Where `phys .. phys + size` can be accessed, or `None` if it cannot.
    fn virt(&self, phys: u64, size: u64) -> Option<NonNull<u8>>;
}

/// No access to memory: arrays stay in their first storage, and only the calls that return physical addresses work.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unmapped;

// SAFETY: it never returns a pointer.
unsafe impl PhysMap for Unmapped {
    fn virt(&self, _phys: u64, _size: u64) -> Option<NonNull<u8>> {
        None
    }
}

/// Physical addresses are pointers: before paging is on, under an identity map, or in a test whose "physical memory" is a
/// buffer.
#[derive(Clone, Copy, Debug)]
pub struct Identity(());

impl Identity {
    /// States that physical addresses can be used as pointers.
    ///
    /// # Safety
    /// The duties of [`PhysMap`] hold for the identity: whatever is added as memory to the memblock that gets this map is
    /// accessible at its own address, and its free part is in nobody else's use. The provenance of that memory must be
    /// exposed.
    #[must_use]
    pub const unsafe fn new() -> Self {
        Identity(())
    }
}

// SAFETY: whoever called `new` took on the duties.
unsafe impl PhysMap for Identity {
    fn virt(&self, phys: u64, size: u64) -> Option<NonNull<u8>> {
        let first = usize::try_from(phys).ok()?;
        first.checked_add(usize::try_from(size).ok()?)?;
        NonNull::new(core::ptr::with_exposed_provenance_mut(first))
    }
}

/// All of physical memory appears at a constant distance: a kernel's direct map.
#[derive(Clone, Copy, Debug)]
pub struct DirectMap {
    offset: u64,
}

impl DirectMap {
    /// Physical address `p` is accessible at `p + offset` (the sum wraps).
    ///
    /// # Safety
    /// As for [`Identity::new`], with the offset applied.
    #[must_use]
    pub const unsafe fn new(offset: u64) -> Self {
        DirectMap { offset }
    }
}

// SAFETY: whoever called `new` took on the duties.
unsafe impl PhysMap for DirectMap {
    fn virt(&self, phys: u64, size: u64) -> Option<NonNull<u8>> {
        let first = usize::try_from(phys.wrapping_add(self.offset)).ok()?;
        first.checked_add(usize::try_from(size).ok()?)?;
        NonNull::new(core::ptr::with_exposed_provenance_mut(first))
    }
}

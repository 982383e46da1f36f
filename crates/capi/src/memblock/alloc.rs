//! Allocation, and its settings. After the release to the page allocator it fails, since that owns
//! the free memory.

use core::ffi::{c_int, c_void};
use core::ptr::{self, NonNull};

use samara_memblock::{Error, NodeId};

use super::{Boot, PhysAddr, global, global_mut, release};

/// Returns the global if it may allocate.
///
/// # Safety
///
/// As for [`global_mut`].
unsafe fn allocator<'a>() -> Result<&'a mut Boot, Error> {
    if release::done() {
        return Err(Error::NoMemory);
    }
    // SAFETY: the caller's duty.
    Ok(unsafe { global_mut() })
}

fn address(result: Result<u64, Error>) -> PhysAddr {
    result.unwrap_or(0)
}

fn pointer(result: Result<NonNull<u8>, Error>) -> *mut c_void {
    result.map_or(ptr::null_mut(), |p| p.as_ptr().cast())
}

forward! { global_mut;
    /// Sets the direction of allocations.
    fn memblock_set_bottom_up(enable: bool) = |m| m.set_bottom_up(enable);
    /// Sets the upper limit of allocations.
    fn memblock_set_current_limit(limit: PhysAddr) = |m| m.set_current_limit(limit);
    /// Makes allocations avoid hot-pluggable memory.
    fn memblock_set_movable_node(enable: bool) = |m| m.set_movable_node(enable);
    /// Restricts allocations to memory that is known to be unused.
    fn memblock_set_kho_scratch_only() = |m| m.set_kho_scratch_only(true);
    /// Removes that restriction.
    fn memblock_clear_kho_scratch_only() = |m| m.set_kho_scratch_only(false);
    /// Makes allocations record the requested node.
    fn memblock_set_record_nodes(enable: bool) = |m| m.set_record_nodes(enable);
    /// Makes allocations mark what they reserve as the kernel's own.
    fn memblock_set_record_kern(enable: bool) = |m| m.set_record_kern(enable);
}

forward! { global;
    /// Returns the direction of allocations.
    fn memblock_bottom_up() -> bool = |m| m.bottom_up();
    /// Returns the upper limit of allocations.
    fn memblock_get_current_limit() -> PhysAddr = |m| m.current_limit();
    /// Finds free memory within limits without reserving it. Returns 0 if there is none.
    fn memblock_find_in_range(start: PhysAddr, end: PhysAddr, size: PhysAddr, align: PhysAddr) -> PhysAddr
        = |m| m.find_in_range(start, end, size, align).unwrap_or(0);
}

forward! { allocator;
    /// Allocates cleared memory, or returns NULL.
    fn memblock_alloc(size: PhysAddr, align: PhysAddr) -> *mut c_void = |m| pointer(m.and_then(|m| m.alloc(size, align)));
    /// Allocates memory without clearing it.
    fn memblock_alloc_raw(size: PhysAddr, align: PhysAddr) -> *mut c_void
        = |m| pointer(m.and_then(|m| m.alloc_raw(size, align)));
    /// Allocates cleared memory at or above `min`, or below it.
    fn memblock_alloc_from(size: PhysAddr, align: PhysAddr, min: PhysAddr) -> *mut c_void
        = |m| pointer(m.and_then(|m| m.alloc_from(size, align, min)));
    /// Allocates cleared memory below 4 GiB.
    fn memblock_alloc_low(size: PhysAddr, align: PhysAddr) -> *mut c_void
        = |m| pointer(m.and_then(|m| m.alloc_low(size, align)));
    /// Allocates cleared memory, of a node if it has any.
    fn memblock_alloc_node(size: PhysAddr, align: PhysAddr, nid: c_int) -> *mut c_void
        = |m| pointer(m.and_then(|m| m.alloc_node(size, align, NodeId(nid))));
    /// Allocates cleared memory within limits, of a node if it has any.
    fn memblock_alloc_try_nid(size: PhysAddr, align: PhysAddr, min: PhysAddr, max: PhysAddr, nid: c_int) -> *mut c_void
        = |m| pointer(m.and_then(|m| m.alloc_try_nid(size, align, min, max, NodeId(nid))));
    /// As `memblock_alloc_try_nid`, without clearing.
    fn memblock_alloc_try_nid_raw(size: PhysAddr, align: PhysAddr, min: PhysAddr, max: PhysAddr, nid: c_int) -> *mut c_void
        = |m| pointer(m.and_then(|m| m.alloc_try_nid_raw(size, align, min, max, NodeId(nid))));
    /// Allocates memory of this node only, without clearing it.
    fn memblock_alloc_exact_nid_raw(size: PhysAddr, align: PhysAddr, min: PhysAddr, max: PhysAddr, nid: c_int) -> *mut c_void
        = |m| pointer(m.and_then(|m| m.alloc_exact_nid_raw(size, align, min, max, NodeId(nid))));
    /// Allocates memory and returns its address, or 0.
    fn memblock_phys_alloc(size: PhysAddr, align: PhysAddr) -> PhysAddr = |m| address(m.and_then(|m| m.phys_alloc(size, align)));
    /// As `memblock_phys_alloc`, within limits.
    fn memblock_phys_alloc_range(size: PhysAddr, align: PhysAddr, start: PhysAddr, end: PhysAddr) -> PhysAddr
        = |m| address(m.and_then(|m| m.phys_alloc_range(size, align, start, end)));
    /// As `memblock_phys_alloc`, of a node if it has any.
    fn memblock_phys_alloc_try_nid(size: PhysAddr, align: PhysAddr, nid: c_int) -> PhysAddr
        = |m| address(m.and_then(|m| m.phys_alloc_try_nid(size, align, NodeId(nid))));
    /// As `memblock_phys_alloc`, within limits, of a node if it has any, or only of this node.
    fn memblock_alloc_range_nid(size: PhysAddr, align: PhysAddr, start: PhysAddr, end: PhysAddr, nid: c_int, exact: bool) -> PhysAddr
        = |m| address(m.and_then(|m| m.alloc_range_nid(size, align, start, end, NodeId(nid), exact)));
}

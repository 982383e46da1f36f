//! Queries, which a hook may call.

use core::ffi::{c_int, c_ulong};

use samara_memblock::{NodeId, RegionType};

use super::{PhysAddr, global, log, narrow, widen};

forward! { global;
    /// Returns the size of memory in bytes.
    fn memblock_phys_mem_size() -> PhysAddr = |m| m.phys_mem_size();
    /// Returns the size of reserved regions in bytes.
    fn memblock_reserved_size() -> PhysAddr = |m| m.reserved_size();
    /// Returns the number of bytes below `limit` that are reserved for the kernel itself, of a node
    /// or of any.
    fn memblock_reserved_kern_size(limit: PhysAddr, nid: c_int) -> PhysAddr = |m| m.reserved_kern_size(limit, NodeId(nid));
    /// Estimates the number of free page frames.
    fn memblock_estimated_nr_free_pages() -> c_ulong = |m| narrow(m.estimated_nr_free_pages());
    /// Returns the first address of memory.
    fn memblock_start_of_DRAM() -> PhysAddr = |m| m.start_of_dram();
    /// Returns the first address after all memory.
    fn memblock_end_of_DRAM() -> PhysAddr = |m| m.end_of_dram();
    /// Returns true if there is memory at the address.
    fn memblock_is_memory(addr: PhysAddr) -> bool = |m| m.is_memory(addr);
    /// Returns true if there is memory at the address that may be mapped.
    fn memblock_is_map_memory(addr: PhysAddr) -> bool = |m| m.is_map_memory(addr);
    /// Returns true if a range lies within one region of memory.
    fn memblock_is_region_memory(base: PhysAddr, size: PhysAddr) -> bool = |m| m.is_region_memory(base, size);
    /// Returns true if an address is reserved.
    fn memblock_is_reserved(addr: PhysAddr) -> bool = |m| m.is_reserved(addr);
    /// Returns true if any byte of a range is reserved.
    fn memblock_is_region_reserved(base: PhysAddr, size: PhysAddr) -> bool = |m| m.is_region_reserved(base, size);
    /// Returns true if any memory was marked as mirrored.
    fn memblock_has_mirror() -> bool = |m| m.has_mirror();
    /// Returns true if at most this many bytes belong to no node.
    fn memblock_validate_numa_coverage(threshold: c_ulong) -> bool = |m| m.validate_numa_coverage(widen(threshold));
    /// Prints the layout to standard error.
    fn memblock_dump_all() = |m| log(format_args!("{}", m.dump()));
}

/// Returns 1 if two ranges share a byte, and 0 otherwise.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub extern "C" fn memblock_addrs_overlap(
    base1: PhysAddr,
    size1: PhysAddr,
    base2: PhysAddr,
    size2: PhysAddr,
) -> c_ulong {
    c_ulong::from(samara_memblock::addrs_overlap(base1, size1, base2, size2))
}

/// Returns true if a range shares a byte with a region of an array.
///
/// # Safety
///
/// `array` is valid.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memblock_overlaps_region(
    array: *mut RegionType,
    base: PhysAddr,
    size: PhysAddr,
) -> bool {
    // SAFETY: the caller's duty.
    unsafe { &*array }.overlaps(base, size)
}

/// Returns the node of the region that contains a page frame, and stores that region in frames.
/// Returns −1 if there is none.
///
/// # Safety
///
/// The pointers are null or valid for writes. One call at a time.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memblock_search_pfn_nid(
    pfn: c_ulong,
    start_pfn: *mut c_ulong,
    end_pfn: *mut c_ulong,
) -> c_int {
    // SAFETY: one call at a time.
    let m = unsafe { global() };
    let Some((start, end, nid)) = m.search_pfn_nid(widen(pfn)) else {
        return NodeId::NONE.0;
    };
    for (out, value) in [(start_pfn, start), (end_pfn, end)] {
        if !out.is_null() {
            // SAFETY: the caller's duty.
            unsafe { out.write(narrow(value)) };
        }
    }
    nid.0
}

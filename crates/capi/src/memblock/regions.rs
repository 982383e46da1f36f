//! The regions: which memory exists, and which of it is reserved.

use core::ffi::{c_int, c_uint, c_void};
use core::ptr;

use samara_memblock::{Flags, Kind, NodeId, RegionType};

use super::{PhysAddr, global_mut, release, status};

forward! { global_mut;
    /// Permits the arrays to grow into the managed memory, until the release.
    fn memblock_allow_resize() = |m| if !release::done() {
        m.allow_resize();
    };
    /// Adds memory. Returns 0 or −ENOMEM.
    fn memblock_add(base: PhysAddr, size: PhysAddr) -> c_int = |m| status(m.add(base, size));
    /// Adds memory of a node, with flags.
    fn memblock_add_node(base: PhysAddr, size: PhysAddr, nid: c_int, flags: c_uint) -> c_int
        = |m| status(m.add_node(base, size, NodeId(nid), Flags::from_bits_retain(flags)));
    /// Removes memory.
    fn memblock_remove(base: PhysAddr, size: PhysAddr) -> c_int = |m| status(m.remove(base, size));
    /// Records physical memory.
    fn memblock_physmem_add(base: PhysAddr, size: PhysAddr) -> c_int = |m| status(m.physmem_add(base, size));
    /// Trims memory to multiples of `align`.
    fn memblock_trim_memory(align: PhysAddr) = |m| m.trim_memory(align);
    /// Keeps the lowest `limit` bytes of memory.
    fn memblock_enforce_memory_limit(limit: PhysAddr) = |m| m.enforce_memory_limit(limit);
    /// Keeps memory within a range.
    fn memblock_cap_memory_range(base: PhysAddr, size: PhysAddr) = |m| m.cap_memory_range(base, size);
    /// Keeps the lowest `limit` bytes of memory, and all memory that must not be mapped.
    fn memblock_mem_limit_remove_map(limit: PhysAddr) = |m| m.mem_limit_remove_map(limit);
    /// Marks memory as hot-pluggable.
    fn memblock_mark_hotplug(base: PhysAddr, size: PhysAddr) -> c_int = |m| status(m.mark_hotplug(base, size));
    /// Clears that mark.
    fn memblock_clear_hotplug(base: PhysAddr, size: PhysAddr) -> c_int = |m| status(m.clear_hotplug(base, size));
    /// Marks memory as mirrored.
    fn memblock_mark_mirror(base: PhysAddr, size: PhysAddr) -> c_int = |m| status(m.mark_mirror(base, size));
    /// Marks memory that must not be mapped.
    fn memblock_mark_nomap(base: PhysAddr, size: PhysAddr) -> c_int = |m| status(m.mark_nomap(base, size));
    /// Clears that mark.
    fn memblock_clear_nomap(base: PhysAddr, size: PhysAddr) -> c_int = |m| status(m.clear_nomap(base, size));
    /// Marks memory that is known to be unused.
    fn memblock_mark_kho_scratch(base: PhysAddr, size: PhysAddr) -> c_int = |m| status(m.mark_kho_scratch(base, size));
    /// Clears that mark.
    fn memblock_clear_kho_scratch(base: PhysAddr, size: PhysAddr) -> c_int = |m| status(m.clear_kho_scratch(base, size));
    /// Marks reserved regions whose page structures need no initialisation.
    fn memblock_reserved_mark_noinit(base: PhysAddr, size: PhysAddr) -> c_int = |m| status(m.reserved_mark_noinit(base, size));
}

/// Reserves a range.
///
/// # Safety
/// One call at a time; the fields of the global are as the header demands.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memblock_reserve(base: PhysAddr, size: PhysAddr) -> c_int {
    // SAFETY: the caller's duty.
    status(unsafe { release::reserve(base, size, |m| m.reserve(base, size)) })
}

/// Reserves a range for the kernel itself.
///
/// # Safety
/// One call at a time; the fields of the global are as the header demands.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memblock_reserve_kern(base: PhysAddr, size: PhysAddr) -> c_int {
    // SAFETY: the caller's duty.
    status(unsafe { release::reserve(base, size, |m| m.reserve_kern(base, size)) })
}

/// Frees a reserved range.
///
/// # Safety
/// One call at a time; the fields of the global are as the header demands.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memblock_phys_free(base: PhysAddr, size: PhysAddr) -> c_int {
    // SAFETY: the caller's duty.
    status(unsafe { release::free(base, size) }.map(|_| ()))
}

/// Frees the result of an allocation. NULL is no error.
///
/// # Safety
///
/// One call at a time. The fields of the global are as the header demands.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memblock_free(memory: *mut c_void, size: usize) {
    if !memory.is_null() {
        // Physical addresses are pointers here. Freeing fails only for lack of capacity, and then
        // leaves the range reserved.
        //
        // SAFETY: the caller's duty.
        let _ = unsafe { release::free(memory.addr() as u64, size as u64) };
    }
}

/// Sets the node of an array's regions within a range. An array other than the global's own does
/// not grow.
///
/// # Safety
///
/// `array` is valid. One call at a time.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memblock_set_node(
    base: PhysAddr,
    size: PhysAddr,
    array: *mut RegionType,
    nid: c_int,
) -> c_int {
    // SAFETY: one call at a time.
    let m = unsafe { global_mut() };
    let own = [Kind::Memory, Kind::Reserved, Kind::Physmem]
        .into_iter()
        .find(|&kind| ptr::eq(m.regions(kind), array));
    status(match own {
        Some(kind) => m.set_node(base, size, kind, NodeId(nid)),
        // SAFETY: it is valid, and none of those that `m` refers to.
        None => unsafe { &mut *array }.set_node(base, size, NodeId(nid)),
    })
}

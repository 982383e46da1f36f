//! `samara/memblock.h`.
//!
//! There is one memblock, the global `memblock`, whose fields C code may read and write between calls. As in a kernel that
//! boots, calls come one at a time: nothing here is locked, and every function has that duty of its callers in common.

#![allow(
    non_upper_case_globals,
    reason = "C code knows the global by this name"
)]

use core::ffi::{c_int, c_uint, c_ulong, c_void};
use core::ptr::{self, NonNull};

use samara_memblock::{
    Cursor, Error, Filter, Flags, Identity, Kind, Memblock, NodeId, Notice, PAGE_SIZE, RegionType,
    Span, Storage,
};

/// `phys_addr_t`.
pub type PhysAddr = u64;

type Boot = Memblock<'static, Identity>;

static mut FIRST: Storage = Storage::new();

/// The one state. Its beginning is `struct memblock`; what follows is not C's business.
// SAFETY: the only symbol of this name in a program that links this library.
#[unsafe(no_mangle)]
pub static mut memblock: Boot = {
    // SAFETY:
    // - the storage is used by nothing else;
    // - callers of the C functions that add memory state that it is accessible at its own address.
    let mut boot = unsafe { Memblock::from_raw_storage(&raw mut FIRST, Identity::new()) };
    boot.set_notify(Some(say));
    boot
};

/// Warnings go where a kernel's log would be.
fn say(notice: &Notice) {
    if !matches!(notice, Notice::ArrayGrown { .. }) {
        eprintln!("{notice}");
    }
}

/// # Safety
/// No other reference to the global is in use: functions of this module are called one at a time.
unsafe fn boot<'a>() -> &'a mut Boot {
    let global = &raw mut memblock;
    // SAFETY: the caller's duty.
    unsafe { &mut *global }
}

fn status(result: Result<(), Error>) -> c_int {
    const ENOMEM: c_int = 12;
    match result {
        Ok(()) => 0,
        Err(_) => -ENOMEM,
    }
}

fn address(result: Result<u64, Error>) -> PhysAddr {
    result.unwrap_or(0)
}

fn pointer(result: Result<NonNull<u8>, Error>) -> *mut c_void {
    result.map_or(ptr::null_mut(), |p| p.as_ptr().cast())
}

/// Defines C functions that call one method of the global: one duty, one body.
macro_rules! forward {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)? = |$boot:ident| $body:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// One call at a time; the fields of the global are as the header demands.
        // SAFETY: named as in the header, with its signature.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) $(-> $ret)? {
            // SAFETY: one call at a time is the caller's duty.
            let $boot = unsafe { boot() };
            $body
        }
    )*};
}

forward! {
    /// Permits the arrays to grow out of memory's own memory.
    fn memblock_allow_resize() = |m| m.allow_resize();
    /// Adds memory. 0, or −ENOMEM.
    fn memblock_add(base: PhysAddr, size: PhysAddr) -> c_int = |m| status(m.add(base, size));
    /// Adds memory of a node, with flags.
    fn memblock_add_node(base: PhysAddr, size: PhysAddr, nid: c_int, flags: c_uint) -> c_int
        = |m| status(m.add_node(base, size, NodeId(nid), Flags::from_bits_retain(flags)));
    /// Removes memory.
    fn memblock_remove(base: PhysAddr, size: PhysAddr) -> c_int = |m| status(m.remove(base, size));
    /// Reserves a range.
    fn memblock_reserve(base: PhysAddr, size: PhysAddr) -> c_int = |m| status(m.reserve(base, size));
    /// Notes physical memory.
    fn memblock_physmem_add(base: PhysAddr, size: PhysAddr) -> c_int = |m| status(m.physmem_add(base, size));
    /// Frees a reserved range.
    fn memblock_phys_free(base: PhysAddr, size: PhysAddr) -> c_int = |m| status(m.free(base, size));
    /// Frees what an allocation returned. NULL is no error.
    fn memblock_free(memory: *mut c_void, size: usize) = |m| if !memory.is_null() {
        // Physical addresses are pointers here. Freeing fails only for want of room, and then leaves the range reserved.
        let _ = m.free(memory.addr() as u64, size as u64);
    };
    /// Cuts memory to whole units of `align`.
    fn memblock_trim_memory(align: PhysAddr) = |m| m.trim_memory(align);
    /// Whether at most so many bytes belong to no node.
    fn memblock_validate_numa_coverage(threshold: c_ulong) -> bool = |m| m.validate_numa_coverage(widen(threshold));
    /// Marks memory as hot-pluggable.
    fn memblock_mark_hotplug(base: PhysAddr, size: PhysAddr) -> c_int = |m| status(m.mark_hotplug(base, size));
    /// Takes the mark back.
    fn memblock_clear_hotplug(base: PhysAddr, size: PhysAddr) -> c_int = |m| status(m.clear_hotplug(base, size));
    /// Marks memory as mirrored.
    fn memblock_mark_mirror(base: PhysAddr, size: PhysAddr) -> c_int = |m| status(m.mark_mirror(base, size));
    /// Marks memory as not to be mapped.
    fn memblock_mark_nomap(base: PhysAddr, size: PhysAddr) -> c_int = |m| status(m.mark_nomap(base, size));
    /// Takes the mark back.
    fn memblock_clear_nomap(base: PhysAddr, size: PhysAddr) -> c_int = |m| status(m.clear_nomap(base, size));
    /// Marks reserved regions whose page structures need no initialisation.
    fn memblock_reserved_mark_noinit(base: PhysAddr, size: PhysAddr) -> c_int = |m| status(m.reserved_mark_noinit(base, size));
    /// Chooses the direction of allocations.
    fn memblock_set_bottom_up(enable: bool) = |m| m.set_bottom_up(enable);
    /// The direction of allocations.
    fn memblock_bottom_up() -> bool = |m| m.bottom_up();
    /// Sets the address below which allocations stay.
    fn memblock_set_current_limit(limit: PhysAddr) = |m| m.set_current_limit(limit);
    /// The address below which allocations stay.
    fn memblock_get_current_limit() -> PhysAddr = |m| m.current_limit();

    /// Cleared memory, or NULL.
    fn memblock_alloc(size: PhysAddr, align: PhysAddr) -> *mut c_void = |m| pointer(m.alloc(size, align));
    /// Memory that is not cleared.
    fn memblock_alloc_raw(size: PhysAddr, align: PhysAddr) -> *mut c_void = |m| pointer(m.alloc_raw(size, align));
    /// Cleared memory from `min` on, or below it.
    fn memblock_alloc_from(size: PhysAddr, align: PhysAddr, min: PhysAddr) -> *mut c_void
        = |m| pointer(m.alloc_from(size, align, min));
    /// Cleared memory below 4 GiB.
    fn memblock_alloc_low(size: PhysAddr, align: PhysAddr) -> *mut c_void = |m| pointer(m.alloc_low(size, align));
    /// Cleared memory, of a node if it has any.
    fn memblock_alloc_node(size: PhysAddr, align: PhysAddr, nid: c_int) -> *mut c_void
        = |m| pointer(m.alloc_node(size, align, NodeId(nid)));
    /// Cleared memory within limits, of a node if it has any.
    fn memblock_alloc_try_nid(size: PhysAddr, align: PhysAddr, min: PhysAddr, max: PhysAddr, nid: c_int) -> *mut c_void
        = |m| pointer(m.alloc_try_nid(size, align, min, max, NodeId(nid)));
    /// The same, not cleared.
    fn memblock_alloc_try_nid_raw(size: PhysAddr, align: PhysAddr, min: PhysAddr, max: PhysAddr, nid: c_int) -> *mut c_void
        = |m| pointer(m.alloc_try_nid_raw(size, align, min, max, NodeId(nid)));
    /// Memory of a node only, not cleared.
    fn memblock_alloc_exact_nid_raw(size: PhysAddr, align: PhysAddr, min: PhysAddr, max: PhysAddr, nid: c_int) -> *mut c_void
        = |m| pointer(m.alloc_exact_nid_raw(size, align, min, max, NodeId(nid)));
    /// An address, or 0.
    fn memblock_phys_alloc(size: PhysAddr, align: PhysAddr) -> PhysAddr = |m| address(m.phys_alloc(size, align));
    /// An address within limits.
    fn memblock_phys_alloc_range(size: PhysAddr, align: PhysAddr, start: PhysAddr, end: PhysAddr) -> PhysAddr
        = |m| address(m.phys_alloc_range(size, align, start, end));
    /// An address, of a node if it has any.
    fn memblock_phys_alloc_try_nid(size: PhysAddr, align: PhysAddr, nid: c_int) -> PhysAddr
        = |m| address(m.phys_alloc_try_nid(size, align, NodeId(nid)));
    /// An address within limits, of a node, or only of it.
    fn memblock_alloc_range_nid(size: PhysAddr, align: PhysAddr, start: PhysAddr, end: PhysAddr, nid: c_int, exact: bool) -> PhysAddr
        = |m| address(m.alloc_range_nid(size, align, start, end, NodeId(nid), exact));

    /// Bytes of memory.
    fn memblock_phys_mem_size() -> PhysAddr = |m| m.phys_mem_size();
    /// Bytes reserved.
    fn memblock_reserved_size() -> PhysAddr = |m| m.reserved_size();
    /// Where memory begins.
    fn memblock_start_of_DRAM() -> PhysAddr = |m| m.start_of_dram();
    /// Where memory ends.
    fn memblock_end_of_DRAM() -> PhysAddr = |m| m.end_of_dram();
    /// Keeps so many bytes of memory.
    fn memblock_enforce_memory_limit(limit: PhysAddr) = |m| m.enforce_memory_limit(limit);
    /// Keeps memory within a range.
    fn memblock_cap_memory_range(base: PhysAddr, size: PhysAddr) = |m| m.cap_memory_range(base, size);
    /// Keeps so many bytes of memory, and all that must not be mapped.
    fn memblock_mem_limit_remove_map(limit: PhysAddr) = |m| m.mem_limit_remove_map(limit);
    /// Whether there is memory.
    fn memblock_is_memory(addr: PhysAddr) -> bool = |m| m.is_memory(addr);
    /// Whether there is memory that may be mapped.
    fn memblock_is_map_memory(addr: PhysAddr) -> bool = |m| m.is_map_memory(addr);
    /// Whether a range lies within one region of memory.
    fn memblock_is_region_memory(base: PhysAddr, size: PhysAddr) -> bool = |m| m.is_region_memory(base, size);
    /// Whether an address is reserved.
    fn memblock_is_reserved(addr: PhysAddr) -> bool = |m| m.is_reserved(addr);
    /// Whether any of a range is reserved.
    fn memblock_is_region_reserved(base: PhysAddr, size: PhysAddr) -> bool = |m| m.is_region_reserved(base, size);
    /// Prints the layout to standard error.
    fn memblock_dump_all() = |m| eprint!("{}", m.dump());
    /// Whether allocations avoid hot-pluggable memory.
    fn memblock_set_movable_node(enable: bool) = |m| m.set_movable_node(enable);
}

/// Whether two ranges share a byte: 1 or 0.
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

/// Whether a range shares a byte with a region of an array.
///
/// # Safety
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

/// Gives what an array has within a range a node. An array other than the global's own does not grow.
///
/// # Safety
/// `array` is valid; one call at a time.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memblock_set_node(
    base: PhysAddr,
    size: PhysAddr,
    array: *mut RegionType,
    nid: c_int,
) -> c_int {
    // SAFETY: one call at a time.
    let m = unsafe { boot() };
    let own = [Kind::Memory, Kind::Reserved, Kind::Physmem]
        .into_iter()
        .find(|&kind| ptr::eq(m.regions(kind), array));
    status(match own {
        Some(kind) => m.set_node(base, size, kind, NodeId(nid)),
        // SAFETY: valid, and none of those that `m` refers to.
        None => unsafe { &mut *array }.set_node(base, size, NodeId(nid)),
    })
}

/// The node of the region that holds a page frame, and that region in frames; −1 if there is none.
///
/// # Safety
/// The pointers are valid for writes; one call at a time.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memblock_search_pfn_nid(
    pfn: c_ulong,
    start_pfn: *mut c_ulong,
    end_pfn: *mut c_ulong,
) -> c_int {
    // SAFETY: one call at a time.
    let m = unsafe { boot() };
    let Some((start, end, nid)) = m.search_pfn_nid(widen(pfn)) else {
        return NodeId::NONE.0;
    };
    // SAFETY: the caller's duty.
    unsafe {
        start_pfn.write(start as c_ulong);
        end_pfn.write(end as c_ulong);
    }
    nid.0
}

/// What C code passes as a walk: two arrays (the second may be missing) and what to visit of the first.
///
/// # Safety
/// `a` is valid, `b` valid or null.
unsafe fn walk<'a>(
    a: *const RegionType,
    b: *const RegionType,
    nid: c_int,
    flags: c_uint,
) -> (&'a RegionType, Option<&'a RegionType>, Filter) {
    // SAFETY: the caller's duty; nothing is written through other references meanwhile.
    let (a, b, m) = unsafe { (&*a, b.as_ref(), &*boot()) };
    // Only memory has nodes and flags that matter to a walk.
    let filter = if ptr::eq(a, m.memory()) {
        m.filter(NodeId(nid), Flags::from_bits_retain(flags))
    } else {
        Filter::ALL
    };
    (a, b, filter)
}

/// # Safety
/// Each pointer is null or valid for a write.
unsafe fn give(span: Span, start: *mut PhysAddr, end: *mut PhysAddr, nid: *mut c_int) {
    // SAFETY: the caller's duty.
    unsafe {
        if !start.is_null() {
            start.write(span.start);
        }
        if !end.is_null() {
            end.write(span.end);
        }
        if !nid.is_null() {
            nid.write(span.nid.0);
        }
    }
}

/// The next piece of `a` that `b` leaves over, upwards. `*idx` starts as 0 and ends as `ULLONG_MAX`.
///
/// # Safety
/// `idx` and `a` are valid, the others valid or null; one call at a time.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __next_mem_range(
    idx: *mut u64,
    nid: c_int,
    flags: c_uint,
    a: *mut RegionType,
    b: *mut RegionType,
    start: *mut PhysAddr,
    end: *mut PhysAddr,
    out_nid: *mut c_int,
) {
    // SAFETY: the caller's duty.
    let (a, b, filter) = unsafe { walk(a, b, nid, flags) };
    // SAFETY: the caller's duty.
    let mut at = Cursor::unpack(unsafe { idx.read() });
    let span = at.next(a, b.map(|b| b.as_slice()), &filter);
    // SAFETY: the caller's duty.
    unsafe {
        idx.write(if span.is_some() {
            at.pack()
        } else {
            Cursor::END
        });
        if let Some(span) = span {
            give(span, start, end, out_nid);
        }
    }
}

/// The next piece of `a` that `b` leaves over, downwards. `*idx` starts and ends as `ULLONG_MAX`.
///
/// # Safety
/// As for [`__next_mem_range`].
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __next_mem_range_rev(
    idx: *mut u64,
    nid: c_int,
    flags: c_uint,
    a: *mut RegionType,
    b: *mut RegionType,
    start: *mut PhysAddr,
    end: *mut PhysAddr,
    out_nid: *mut c_int,
) {
    // SAFETY: the caller's duty.
    let (a, b, filter) = unsafe { walk(a, b, nid, flags) };
    let slice = b.map(|b| b.as_slice());
    // SAFETY: the caller's duty.
    let packed = unsafe { idx.read() };
    let mut at = if packed == Cursor::END {
        Cursor::top(a, slice)
    } else {
        Cursor::unpack(packed)
    };
    let span = at.next_back(a, slice, &filter);
    // SAFETY: the caller's duty.
    unsafe {
        idx.write(if span.is_some() {
            at.pack()
        } else {
            Cursor::END
        });
        if let Some(span) = span {
            give(span, start, end, out_nid);
        }
    }
}

/// The next region of memory that holds whole page frames, in frames. `*idx` starts and ends as −1.
///
/// # Safety
/// `idx` is valid, the others valid or null; one call at a time.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __next_mem_pfn_range(
    idx: *mut c_int,
    nid: c_int,
    start: *mut c_ulong,
    end: *mut c_ulong,
    out_nid: *mut c_int,
) {
    // SAFETY: one call at a time; `idx` is valid.
    let (m, last) = unsafe { (boot(), idx.read()) };
    let nid = NodeId(nid);
    // −1 is before the first.
    let from = usize::try_from(i64::from(last) + 1).unwrap_or(0);
    for (i, r) in m.memory().iter().enumerate().skip(from) {
        let (first, past) = (r.base.div_ceil(PAGE_SIZE), r.end() / PAGE_SIZE);
        if first >= past || (nid.is_valid() && nid != r.nid) {
            continue;
        }
        // SAFETY: the caller's duty.
        unsafe {
            idx.write(c_int::try_from(i).unwrap_or(c_int::MAX));
            if !start.is_null() {
                start.write(first as c_ulong);
            }
            if !end.is_null() {
                end.write(past as c_ulong);
            }
            if !out_nid.is_null() {
                out_nid.write(r.nid.0);
            }
        }
        return;
    }
    // SAFETY: the caller's duty.
    unsafe { idx.write(-1) };
}

/// `unsigned long` is as wide as the machine's words.
fn widen(n: c_ulong) -> u64 {
    #[allow(clippy::useless_conversion, reason = "narrower on 32-bit machines")]
    u64::from(n)
}

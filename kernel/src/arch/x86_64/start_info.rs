//! What a PVH loader hands over: `struct hvm_start_info` of Xen's public headers.

use core::ops::Range;
use core::slice;

use samara_memblock::firmware::{Item, e820};

use super::DIRECT_MAP;
use crate::arch::Boot;

#[repr(C)]
struct StartInfo {
    magic: u32,
    version: u32,
    flags: u32,
    module_count: u32,
    modules: u64,
    command_line: u64,
    rsdp: u64,
    memory_map: u64,
    memory_map_entries: u32,
    reserved: u32,
}

#[repr(C)]
struct Module {
    address: u64,
    size: u64,
    command_line: u64,
    reserved: u64,
}

/// Bytes of an entry of the memory map.
const ENTRY: usize = 24;
const MAGIC: u32 = 0x336e_c578;

/// Where the first tables map a physical address.
fn mapped<T>(physical: u64) -> *const T {
    core::ptr::with_exposed_provenance((physical + DIRECT_MAP) as usize)
}

/// Reads all of it. Calls `entry` for each entry of the memory map.
///
/// # Safety
/// `info` is the address that the loader gave, and its tables have not been overwritten.
pub(super) unsafe fn read(info: u64, image: Range<u64>, entry: &mut dyn FnMut(Item)) -> Boot {
    // SAFETY: the loader's table, in the first 4 GiB, which are mapped.
    let info = unsafe { &*mapped::<StartInfo>(info) };
    assert!(info.magic == MAGIC && info.version >= 1, "no PVH loader, or one without a memory map");
    let len = info.memory_map_entries as usize * ENTRY;
    // SAFETY: as many entries as the loader says.
    let map = unsafe { slice::from_raw_parts(mapped::<u8>(info.memory_map), len) };
    e820::entries(map, e820::Binary::Pvh).for_each(entry);
    let archive = (info.module_count > 0).then(|| {
        // SAFETY: there is at least one.
        let module = unsafe { &*mapped::<Module>(info.modules) };
        module.address..module.address + module.size
    });
    let command_line: &[u8] = match info.command_line {
        0 => &[],
        // SAFETY: a string that ends with a zero byte. It is copied, as its memory is not kept.
        at => keep(unsafe { core::ffi::CStr::from_ptr(mapped(at)) }.to_bytes()),
    };
    Boot { image, archive, command_line }
}

/// Copies the command line out of the loader's memory. What is longer than 4 KiB is cut off.
fn keep(line: &[u8]) -> &'static [u8] {
    static COPY: spin::Once<[u8; 4096]> = spin::Once::new();
    let len = line.len().min(4096);
    let copy = COPY.call_once(|| {
        let mut copy = [0; 4096];
        copy[..len].copy_from_slice(&line[..len]);
        copy
    });
    &copy[..len]
}

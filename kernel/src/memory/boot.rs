//! The start of memory management.
//!
//! Memblock takes over the boot loader's memory map and serves the first allocations. It then
//! releases the free memory to the frame allocator. Last, the kernel's own page tables replace the
//! boot page tables.

use core::ops::Range;

use samara_memblock::firmware::{self, Item};
use samara_memblock::{DirectMap, Kind, Memblock, PAGE_SIZE, Released, Storage};
use samara_paging::{Attrs, PageSize, Source};

use super::frames::{self, HandOver};
use super::heap;
use super::platform::{self, kernel_tables, machine};
use super::shootdown::Processors;
use crate::arch::{Arch, Machine, Segment};
use crate::log;

/// The boot loader's data, once memory is managed.
pub struct Loaded {
    archive: Option<Range<u64>>,
    pub command_line: &'static [u8],
    memblock: Released<'static, DirectMap>,
}

/// The end of low memory. The BIOS and the boot loader keep their tables below it, and secondary
/// processors start there.
const LOW: u64 = 1 << 20;
/// The end of the physical memory that the boot page tables map.
const MAPPED_AT_FIRST: u64 = 4 << 30;
/// The most entries of the memory map that are read.
const MAX_ENTRIES: usize = 64;

static mut STORAGE: Storage = Storage::new();

/// Starts memory management. Must be called once, before the first allocation.
///
/// # Safety
///
/// `info` is the boot loader's argument.
///
/// # Panics
///
/// Panics if the memory map is unusable, or if there is too little memory to boot.
pub unsafe fn start(info: u64) -> Loaded {
    // SAFETY:
    // - The boot page tables map all memory below the limit that is set here.
    // - Free memory below it has no other user.
    // - The storage has no other user.
    let mut memblock =
        unsafe { Memblock::from_raw_storage(&raw mut STORAGE, DirectMap::new(Arch::DIRECT_MAP)) };
    memblock.set_current_limit(MAPPED_AT_FIRST);

    let mut items = [const { None::<Item> }; MAX_ENTRIES];
    let mut slots = items.iter_mut();
    // SAFETY: the caller's promise.
    let boot = unsafe {
        Arch::boot(info, &mut |item| {
            if let Some(slot) = slots.next() {
                *slot = Some(item);
            }
        })
    };
    let loaded = firmware::load(items.into_iter().flatten(), &mut memblock, |problem| {
        log!("memory map: {problem}")
    });
    loaded.unwrap_or_else(|error| panic!("unusable memory map: {error}"));
    for range in [Some(0..LOW), Some(boot.image), boot.archive.clone()].into_iter().flatten() {
        let reserved = memblock.reserve(range.start, range.end - range.start);
        reserved.unwrap_or_else(|error| panic!("cannot reserve memory: {error}"));
    }

    // ANCHOR: order
    let first = memblock.phys_alloc(heap::INITIAL_SIZE, PAGE_SIZE);
    let first = first.unwrap_or_else(|_| panic!("not enough memory to boot"));
    // SAFETY: memblock has just reserved the range, and the boot page tables map it.
    unsafe { heap::init(first + Arch::DIRECT_MAP, heap::INITIAL_SIZE) };
    let parts = frames::init(memblock, MAPPED_AT_FIRST);
    let (physical, memblock, deferred) =
        parts.unwrap_or_else(|error| panic!("frame allocator: {error}"));
    platform::init(physical, Processors);
    map_kernel(&memblock);
    deferred.add(machine().physical().backing());
    // ANCHOR_END: order
    log!("memory: {} KiB", memblock.phys_mem_size() >> 10);
    Loaded { archive: boot.archive, command_line: boot.command_line, memblock }
}

/// Maps memory, devices and the image into the kernel's half, and loads the kernel's page tables.
fn map_kernel(memblock: &Memblock<'_, DirectMap>) {
    let data = Attrs::READ | Attrs::WRITE | Attrs::GLOBAL | Attrs::ACCESSED | Attrs::DIRTY;
    for region in memblock.ranges(Kind::Memory, None) {
        let large = PageSize::Large.bytes();
        let (start, end) = (region.start / large * large, region.end.next_multiple_of(large));
        for physical in (start..end).step_by(large as usize) {
            map(physical + Arch::DIRECT_MAP, PageSize::Large, physical, data);
        }
    }
    for device in Arch::DEVICES {
        for physical in device.clone().step_by(PAGE_SIZE as usize) {
            map(physical + Arch::DIRECT_MAP, PageSize::Small, physical, data | Arch::DEVICE);
        }
    }
    // ANCHOR: segments
    for Segment { addresses, physical, write, execute } in Arch::segments() {
        let mut attrs = Attrs::READ | Attrs::GLOBAL | Attrs::ACCESSED;
        attrs.set(Attrs::WRITE | Attrs::DIRTY, write);
        attrs.set(Attrs::EXEC, execute);
        for offset in (0..addresses.end - addresses.start).step_by(PAGE_SIZE as usize) {
            map(addresses.start + offset, PageSize::Small, physical + offset, attrs);
        }
    }
    // SAFETY: the image and all memory are mapped.
    unsafe { Arch::load_root(kernel_tables().root()) };
    // ANCHOR_END: segments
}

fn map(addr: u64, size: PageSize, physical: u64, attrs: Attrs) {
    let mapped = kernel_tables().map(addr, size, Source::Special(physical), attrs, &());
    match mapped {
        // Two regions of the memory map may share a large page.
        Ok(()) | Err(samara_paging::Error::Exists) => {}
        Err(error) => {
            panic!("cannot map the kernel's memory at {addr:#x} to {physical:#x}: {error}")
        }
    }
}

impl Loaded {
    /// Returns the archive with the initial files.
    pub fn archive(&self) -> &[u8] {
        // SAFETY: the range stays reserved until `free`, which consumes `self`.
        self.archive.clone().map_or(&[], |range| unsafe { super::physical_bytes(range) })
    }

    /// Frees the archive and low memory to the frame allocator.
    ///
    /// Must be called after the archive has been unpacked and all processors have started. The
    /// first frame stays reserved, because page tables use its address, 0, as "none".
    pub fn free(mut self) {
        let mut frames = HandOver::new(machine().physical().backing(), u64::MAX);
        let mut freed = 0;
        for range in [self.archive.take(), Some(PAGE_SIZE..LOW)].into_iter().flatten() {
            let len = range.end - range.start;
            freed += self.memblock.free_late(range.start, len, &mut frames).unwrap_or(0);
        }
        log!("{freed} frames of boot memory freed");
    }
}

//! The start of memory management: memblock knows what the loader said, hands out what is needed before there is an allocator, and gives the rest to the
//! allocator of frames. Then the kernel's own tables take the place of those of the first instructions.

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

/// What the loader gave, once memory is managed.
pub struct Loaded {
    archive: Option<Range<u64>>,
    pub command_line: &'static [u8],
    memblock: Released<'static, DirectMap>,
}

/// The BIOS and the loader keep their tables here; other processors start here.
const LOW: u64 = 1 << 20;
/// What the first tables map.
const MAPPED_AT_FIRST: u64 = 4 << 30;
/// Entries of the memory map that are looked at.
const MAX_ENTRIES: usize = 64;

static mut STORAGE: Storage = Storage::new();

/// Starts all of it. Called once, before anything allocates.
///
/// # Safety
/// `info` is what the loader gave.
pub unsafe fn start(info: u64) -> Loaded {
    // SAFETY: the first tables map all memory below the limit that is set here, and what is free of it nobody uses. The storage has no other user.
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
    loaded.unwrap_or_else(|error| panic!("the memory map cannot be used: {error}"));
    for range in [Some(0..LOW), Some(boot.image), boot.archive.clone()].into_iter().flatten() {
        let reserved = memblock.reserve(range.start, range.end - range.start);
        reserved.unwrap_or_else(|error| panic!("no room to reserve memory: {error}"));
    }

    // ANCHOR: order
    let first = memblock.phys_alloc(heap::INITIAL_SIZE, PAGE_SIZE);
    let first = first.unwrap_or_else(|_| panic!("there is not enough memory"));
    // SAFETY: memblock has reserved it for this.
    unsafe { heap::init(first + Arch::DIRECT_MAP, heap::INITIAL_SIZE) };
    let parts = frames::init(memblock, MAPPED_AT_FIRST);
    let (physical, memblock, deferred) = parts.unwrap_or_else(|error| panic!("no frames: {error}"));
    platform::init(physical, Processors);
    map_kernel(&memblock);
    deferred.add(machine().physical().backing());
    // ANCHOR_END: order
    log!("memory: {} KiB", memblock.phys_mem_size() >> 10);
    Loaded { archive: boot.archive, command_line: boot.command_line, memblock }
}

/// Makes the kernel's half, and loads it.
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
        // Regions of the memory map may lie in one large page.
        Ok(()) | Err(samara_paging::Error::Exists) => {}
        Err(error) => {
            panic!("the kernel's memory cannot be mapped at {addr:#x}, of {physical:#x}: {error}")
        }
    }
}

impl Loaded {
    /// The archive with the first files.
    pub fn archive(&self) -> &[u8] {
        // SAFETY: reserved until `free_archive`, which takes this.
        self.archive.clone().map_or(&[], |range| unsafe { super::physical_bytes(range) })
    }

    /// Gives the archive's memory and the first MiB to the allocator of frames: the archive was read, and all processors have started. The first frame stays, since tables tell
    /// "none" by its address.
    pub fn free(mut self) {
        let mut frames = HandOver::new(machine().physical().backing(), u64::MAX);
        let mut freed = 0;
        for range in [self.archive.take(), Some(PAGE_SIZE..LOW)].into_iter().flatten() {
            let len = range.end - range.start;
            freed += self.memblock.free_late(range.start, len, &mut frames).unwrap_or(0);
        }
        log!("{freed} frames of the start are free again");
    }
}

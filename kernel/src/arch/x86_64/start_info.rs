//! The boot loader's data, in the format of PVH.

use core::ops::Range;
use core::slice;

use samara_memblock::firmware::Item;
use samara_memblock::firmware::pvh::StartInfo;

use super::DIRECT_MAP;
use crate::arch::BootInfo;

/// Reads the data. Calls `entry` for each entry of the memory map.
///
/// # Safety
///
/// `info` is the boot loader's argument, and no code has overwritten its tables.
pub(super) unsafe fn read(info: u64, image: Range<u64>, entry: &mut dyn FnMut(Item)) -> BootInfo {
    let memory = |at: u64, len: usize| {
        let first = core::ptr::with_exposed_provenance::<u8>(at.checked_add(DIRECT_MAP)? as usize);
        // SAFETY: the boot loader's tables lie in the first 4 GiB, which the boot page tables map.
        (at >> 32 == 0).then(|| unsafe { slice::from_raw_parts(first, len) })
    };
    let info = StartInfo::read(info, memory);
    let info = info.unwrap_or_else(|problem| panic!("PVH start info: {problem}"));
    info.entries().for_each(entry);
    BootInfo { image, archive: info.initrd(), command_line: keep(info.command_line()) }
}

/// Copies the command line out of the boot loader's memory.
fn keep(line: &[u8]) -> &'static [u8] {
    static COPY: spin::Once<[u8; 4096]> = spin::Once::new();
    let mut copy = [0; 4096];
    let len = line.len().min(copy.len());
    copy[..len].copy_from_slice(&line[..len]);
    &COPY.call_once(|| copy)[..len]
}

//! The boot information of a device tree: memory map, initial files and command line.

use core::ops::Range;
use core::slice;

use samara_memblock::NodeId;
use samara_memblock::firmware::devicetree::DeviceTree;
use samara_memblock::firmware::{Entry, Item, Source, Use};

use super::{Arch, BootInfo, Machine};

/// Reads the tree at a physical address. Calls `entry` for each entry of the memory map, and for
/// the memory of the tree itself.
///
/// # Safety
///
/// The boot loader passed the address, no code has overwritten the tree, and the boot page tables
/// map it.
pub(super) unsafe fn read(info: u64, image: Range<u64>, entry: &mut dyn FnMut(Item)) -> BootInfo {
    let at = core::ptr::with_exposed_provenance::<u8>((info + Arch::DIRECT_MAP) as usize);
    // SAFETY: the caller's promise.
    let size = DeviceTree::size(unsafe { slice::from_raw_parts(at, 8) });
    let size = size.unwrap_or_else(|_| panic!("no device tree at {info:#x}"));
    // SAFETY: as above. The slice stays valid, because the tree's memory is reserved.
    let tree = DeviceTree::new(unsafe { slice::from_raw_parts(at, size) });
    let tree = tree.unwrap_or_else(|problem| panic!("device tree: {problem}"));
    tree.each(entry);
    let own = Entry { base: info, size: size as u64, usage: Use::Reserved, nid: NodeId::NONE };
    entry(own.checked());
    let command_line = tree.command_line().unwrap_or_default();
    BootInfo { image, archive: tree.initrd(), command_line }
}

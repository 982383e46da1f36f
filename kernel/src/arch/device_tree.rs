//! The start from a device tree: memory map, initial file system and command line.

use core::ops::Range;
use core::slice;

use samara_memblock::NodeId;
use samara_memblock::firmware::devicetree::DeviceTree;
use samara_memblock::firmware::{Entry, Item, Source, Use};

use super::{Arch, BootInfo, Machine};

/// Reads the tree at a physical address. Calls `entry` for each entry of the memory map, and one for the tree itself.
///
/// # Safety
/// The loader gave the address, nothing has overwritten the tree, and the first tables map it.
pub(super) unsafe fn read(info: u64, image: Range<u64>, entry: &mut dyn FnMut(Item)) -> BootInfo {
    let at = core::ptr::with_exposed_provenance::<u8>((info + Arch::DIRECT_MAP) as usize);
    // SAFETY: the caller's promise.
    let size = DeviceTree::size(unsafe { slice::from_raw_parts(at, 8) });
    let size = size.unwrap_or_else(|_| panic!("no device tree at {info:#x}"));
    // SAFETY: as above; it stays, since it is reserved.
    let tree = DeviceTree::new(unsafe { slice::from_raw_parts(at, size) });
    let tree = tree.unwrap_or_else(|problem| panic!("device tree: {problem}"));
    tree.each(entry);
    let own = Entry { base: info, size: size as u64, usage: Use::Reserved, nid: NodeId::NONE };
    entry(own.checked());
    let command_line = tree.command_line().unwrap_or_default();
    BootInfo { image, archive: tree.initrd(), command_line }
}

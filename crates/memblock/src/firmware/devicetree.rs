//! Flattened device trees: `/memory`, `/reserved-memory`, the header's reservations, and `/chosen`.
//!
//! Sources: the Devicetree Specification (memory nodes, reserved-memory, the flattened format) and
//! the bindings for `numa-node-id` and `hotpluggable`.

use fdt::nodes::{AsNode, Node};
use fdt::parsing::NoPanic;
use fdt::parsing::unaligned::UnalignedParser;
use fdt::{Fdt, FdtError};

use super::{Entry, Item, Problem, Source, Use};
use crate::NodeId;

pub use dynamic::DynamicReservation;

mod chosen;
mod dynamic;

type TreeNode<'a> = Node<'a, (UnalignedParser<'a>, NoPanic)>;

/// A device tree with a valid header.
#[derive(Clone, Copy, Debug)]
pub struct DeviceTree<'a> {
    blob: &'a [u8],
}

/// Reads a number: numbers in a device tree are big-endian 32-bit cells.
fn cell(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(
        bytes.get(at..at.checked_add(4)?)?.try_into().ok()?,
    ))
}

impl<'a> DeviceTree<'a> {
    const MAGIC: u32 = 0xd00d_feed;

    /// Checks the header. `blob` may be longer than the tree.
    ///
    /// # Errors
    ///
    /// [`Problem::Malformed`] if this is not a device tree, or one that is truncated.
    pub fn new(blob: &'a [u8]) -> Result<Self, Problem> {
        /// Begin and end of the root, its empty name, and the end token.
        const SMALLEST: usize = 16;
        let check = || {
            let total = cell(blob, 4)? as usize;
            let blob = blob.get(..total)?;
            if cell(blob, 0)? != Self::MAGIC {
                return None;
            }
            let within = |offset: usize, size: usize| {
                let (offset, size) = (cell(blob, offset)? as usize, cell(blob, size)? as usize);
                blob.get(offset..offset.checked_add(size)?).map(<[u8]>::len)
            };
            within(12, 32)?;
            (within(8, 36)? >= SMALLEST).then_some(DeviceTree { blob })
        };
        check().ok_or(Problem::Malformed)
    }

    /// Returns the header's list of reservations: pairs of 64-bit numbers, ended by zeros.
    fn reservations(self) -> impl Iterator<Item = Item> + use<'a> {
        let wide = |pair: &[u8], at| {
            Some(u64::from(cell(pair, at)?) << 32 | u64::from(cell(pair, at + 4)?))
        };
        let list = cell(self.blob, 16)
            .and_then(|at| self.blob.get(at as usize..))
            .unwrap_or_default();
        list.chunks_exact(16)
            .map_while(move |pair| Some((wide(pair, 0)?, wide(pair, 8)?)).filter(|&p| p != (0, 0)))
            .map(|(base, size)| Entry::sized(base, size, Use::Reserved))
    }

    fn nodes(self, give: &mut dyn FnMut(Item)) -> Result<(), FdtError> {
        let tree = Fdt::new_unaligned_fallible(self.blob)?;
        let root = tree.root()?.as_node();
        let outer = Cells::of(&root)?;
        for node in root.children()?.iter() {
            let node = node?;
            let name = node.name()?.name;
            if is_memory(&node, name)? && is_enabled(&node)? {
                memory(&node, outer, give)?;
            } else if name == RESERVED_MEMORY {
                each_reservation(&node, &mut |node, cells| reserved(&node, cells, give))?;
            }
        }
        Ok(())
    }

    /// Calls `give` with each child of `/reserved-memory` that has a size and no address, in the
    /// order of the tree, and with each problem there. [`load`](super::load) skips these
    /// reservations: they can be placed once everything with an address is known.
    ///
    /// ```no_run
    /// # use samara_memblock::{Memblock, Storage};
    /// # use samara_memblock::firmware::{devicetree::DeviceTree, load};
    /// # let blob = [];
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// let tree = DeviceTree::new(&blob)?;
    /// load(tree, &mut boot, |_| ())?;
    /// tree.dynamic_reservations(&mut |reservation| {
    ///     if let Ok(wanted) = reservation {
    ///         let _address = wanted.place(&mut boot);
    ///     }
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn dynamic_reservations(
        self,
        give: &mut dyn FnMut(Result<DynamicReservation<'a>, Problem>),
    ) {
        let mut search = || {
            let tree = Fdt::new_unaligned_fallible(self.blob)?;
            for node in tree.root()?.as_node().children()?.iter() {
                let node = node?;
                if node.name()?.name == RESERVED_MEMORY {
                    each_reservation(&node, &mut |node, cells| {
                        if let Some(found) = DynamicReservation::of(node, cells)? {
                            give(found);
                        }
                        Ok(())
                    })?;
                }
            }
            Ok::<(), FdtError>(())
        };
        if search().is_err() {
            give(Err(Problem::Malformed));
        }
    }
}

/// The node whose children are reservations.
const RESERVED_MEMORY: &str = "reserved-memory";

/// Calls `take` with each enabled child of `/reserved-memory`, and with the widths of its numbers.
fn each_reservation<'a>(
    parent: &TreeNode<'a>,
    take: &mut dyn FnMut(TreeNode<'a>, Cells) -> Result<(), FdtError>,
) -> Result<(), FdtError> {
    let cells = Cells::of(parent)?;
    for node in parent.children()?.iter() {
        let node = node?;
        if is_enabled(&node)? {
            take(node, cells)?;
        }
    }
    Ok(())
}

/// Yields the header's reservations, and then memory and reservations in the order of the tree. A
/// malformed node is reported when it is met, and ends the iteration.
impl Source for DeviceTree<'_> {
    fn each(&self, give: &mut dyn FnMut(Item)) {
        self.reservations().for_each(&mut *give);
        if self.nodes(give).is_err() {
            give(Err(Problem::Malformed));
        }
    }
}

fn is_memory(node: &TreeNode<'_>, name: &str) -> Result<bool, FdtError> {
    Ok(match node.raw_property("device_type")? {
        Some(kind) => kind.value == b"memory\0",
        None => name == "memory",
    })
}

fn is_enabled(node: &TreeNode<'_>) -> Result<bool, FdtError> {
    Ok(node
        .raw_property("status")?
        .is_none_or(|status| matches!(status.value, b"okay\0" | b"ok\0")))
}

fn memory(node: &TreeNode<'_>, cells: Cells, give: &mut dyn FnMut(Item)) -> Result<(), FdtError> {
    let usage = if node.raw_property("hotpluggable")?.is_some() {
        Use::Hotplug
    } else {
        Use::Ram
    };
    let nid = node
        .raw_property("numa-node-id")?
        .and_then(|id| cell(id.value, 0));
    let nid = nid
        .and_then(|id| i32::try_from(id).ok())
        .map_or(NodeId::NONE, NodeId)
        .canonical();
    // A loader that passes on less memory than exists adds this property next to `reg`.
    let ranges = match node.raw_property("linux,usable-memory")? {
        Some(usable) => Some(usable),
        None => node.raw_property("reg")?,
    };
    for item in cells.ranges(ranges.map_or(&[], |p| p.value)) {
        give(item.and_then(|(base, size)| {
            let entry = Entry {
                base,
                size,
                usage,
                nid,
            };
            entry.checked()
        }));
    }
    Ok(())
}

fn reserved(node: &TreeNode<'_>, cells: Cells, give: &mut dyn FnMut(Item)) -> Result<(), FdtError> {
    let usage = if node.raw_property("no-map")?.is_some() {
        Use::NoMap
    } else {
        Use::Reserved
    };
    if let Some(reg) = node.raw_property("reg")? {
        cells
            .ranges(reg.value)
            .for_each(|item| give(item.and_then(|(base, size)| Entry::sized(base, size, usage))));
    } else if let Some(found) = DynamicReservation::of(*node, cells)? {
        give(Err(match found {
            Ok(wanted) => Problem::Dynamic { size: wanted.size },
            Err(problem) => problem,
        }));
    }
    Ok(())
}

/// The number of cells of a number.
#[derive(Clone, Copy, Debug)]
struct Width(u32);

impl Width {
    /// Returns the single number that `bytes` hold, or `None` if they hold anything else.
    fn only(self, bytes: &[u8]) -> Option<u64> {
        let sound = (1..=2).contains(&self.0);
        let (number, rest) = self.read(bytes).filter(|_| sound)?;
        rest.is_empty().then_some(number)
    }

    /// Reads a number, and returns it with the bytes after it.
    fn read(self, bytes: &[u8]) -> Option<(u64, &[u8])> {
        let (number, rest) = bytes.split_at_checked(self.0 as usize * 4)?;
        let value = number
            .chunks_exact(4)
            .try_fold(0u64, |n, c| Some(n << 32 | u64::from(cell(c, 0)?)))?;
        Some((value, rest))
    }
}

/// The widths of addresses and sizes in the children of a node.
#[derive(Clone, Copy, Debug)]
struct Cells {
    address: Width,
    size: Width,
}

impl Cells {
    fn of(node: &TreeNode<'_>) -> Result<Self, FdtError> {
        let count = |name, default| {
            let property = node.raw_property(name)?;
            Ok::<_, FdtError>(Width(
                property.and_then(|p| cell(p.value, 0)).unwrap_or(default),
            ))
        };
        // The specification's defaults.
        Ok(Cells {
            address: count("#address-cells", 2)?,
            size: count("#size-cells", 1)?,
        })
    }

    /// Iterates over pairs of address and size. Numbers wider than 64 bits and an incomplete last
    /// pair are malformed.
    fn ranges(self, mut bytes: &[u8]) -> impl Iterator<Item = Result<(u64, u64), Problem>> + Clone {
        let sound = (1..=2).contains(&self.address.0) && (1..=2).contains(&self.size.0);
        core::iter::from_fn(move || {
            if bytes.is_empty() {
                return None;
            }
            let pair = (|| {
                let (base, rest) = self.address.read(bytes)?;
                let (size, rest) = self.size.read(rest)?;
                Some(((base, size), rest))
            })();
            match pair.filter(|_| sound) {
                Some((pair, rest)) => {
                    bytes = rest;
                    Some(Ok(pair))
                }
                None => {
                    bytes = &[];
                    Some(Err(Problem::Malformed))
                }
            }
        })
    }
}

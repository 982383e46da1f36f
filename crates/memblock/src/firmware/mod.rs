//! Memory maps as firmware hands them over, and taking them into a [`Memblock`].
//!
//! | source | parser | feature |
//! |---|---|---|
//! | e820, as boot logs print it | [`e820::lines`] | |
//! | e820, as `/sys/firmware/memmap` shows it | [`e820::sysfs_entry`] | |
//! | e820, as the BIOS hands it over | [`e820::entries`] | |
//! | what a PVH boot loader hands over | [`pvh::StartInfo`] | |
//! | `/proc/iomem` | [`iomem::lines`] | |
//! | UEFI, as `GetMemoryMap` returns it | `uefi::Descriptors` | `uefi` |
//! | UEFI, as its shell and boot logs print it | `uefi::lines` | `uefi` |
//! | device tree | `devicetree::DeviceTree` | `fdt` |
//!
//! Firmware is not trusted. All parsers yield [`Item`]s: sound entries, and what could not be made one. An entry of no bytes, one
//! that passes the end of the address space and one where no machine has memory are dropped and reported, whatever they call
//! themselves: such a hole takes no memory away, and such memory adds none. [`Entry::checked`] is that rule.
//!
//! [`load`] takes entries in whatever order they come. Where two disagree the stricter one wins: what is no memory stays out
//! although another entry says RAM, and what is reserved or not to be mapped stays so. Whatever is odd is reported.

use core::fmt;

use crate::Error;
use crate::map::PhysMap;
use crate::memblock::{Memblock, PAGE_SIZE};
use crate::region::{Flags, NodeId};

#[cfg(feature = "fdt")]
pub mod devicetree;
pub mod e820;
pub mod iomem;
pub mod pvh;
mod text;
#[cfg(feature = "uefi")]
pub mod uefi;

/// An entry that reaches beyond this is an error of the firmware: no architecture addresses more (RISC-V's 56 bits are the most).
pub const ADDRESS_LIMIT: u64 = 1 << 56;

/// What firmware says that a range is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Use {
    /// Memory for the system.
    Ram,
    /// Memory that may be unplugged.
    Hotplug,
    /// In use already, whether it is memory or not: becomes reserved.
    Reserved,
    /// Memory that must not be mapped.
    NoMap,
    /// No memory for the system, whatever else it is.
    Hole,
}

/// One range of a firmware's memory map.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Entry {
    /// First byte.
    pub base: u64,
    /// Length in bytes.
    pub size: u64,
    /// What it is.
    pub usage: Use,
    /// The node it belongs to.
    pub nid: NodeId,
}

impl Entry {
    /// Returns the entry if a map may say this.
    ///
    /// # Errors
    /// [`Problem::Empty`], [`Problem::Wraps`], [`Problem::Absurd`].
    ///
    /// ```
    /// use samara_memblock::NodeId;
    /// use samara_memblock::firmware::{Entry, Problem, Use};
    /// let hole = |base, size| Entry { base, size, usage: Use::Hole, nid: NodeId::NONE };
    /// assert!(hole(0xa0000, 0x60000).checked().is_ok());
    /// let wraps = hole(0x1000, u64::MAX);
    /// assert_eq!(wraps.checked(), Err(Problem::Wraps(wraps)));
    /// ```
    pub fn checked(self) -> Item {
        let end = u128::from(self.base) + u128::from(self.size);
        if self.size == 0 {
            Err(Problem::Empty(self))
        } else if end > 1 << 64 {
            Err(Problem::Wraps(self))
        } else if end > ADDRESS_LIMIT.into() {
            Err(Problem::Absurd(self))
        } else {
            Ok(self)
        }
    }

    /// An entry on no particular node, checked.
    fn sized(base: u64, size: u64, usage: Use) -> Item {
        let nid = NodeId::NONE;
        Entry {
            base,
            size,
            usage,
            nid,
        }
        .checked()
    }

    /// An entry from its first and last byte, checked. The range of all 2^64 bytes is empty: a kernel that prints an entry of
    /// no bytes prints the byte before the first one as the last, in arithmetic of 64 bits.
    fn inclusive(first: u64, last: u64, usage: Use) -> Item {
        let size = last.wrapping_sub(first).wrapping_add(1);
        if last < first && size != 0 {
            return Err(Problem::Backwards { first, last });
        }
        Entry::sized(first, size, usage)
    }
}

/// What is wrong with a part of a memory map.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Problem {
    /// Text that looks like an entry but cannot be read as one, with the number of its line, from 1.
    Unreadable {
        /// Which line.
        line: usize,
    },
    /// The end lies before the beginning; ignored.
    Backwards {
        /// First byte.
        first: u64,
        /// Last byte.
        last: u64,
    },
    /// Addresses are hidden: `/proc/iomem` shows zeros to all but root.
    Hidden,
    /// A binary table is cut off or its header makes no sense.
    Malformed,
    /// The kernel that printed the entry calls it invalid; ignored.
    Invalid {
        /// The number of its line, from 1.
        line: usize,
    },
    /// A reservation without an address. [`load`] leaves it out: whoever boots places it
    /// (`devicetree::DeviceTree::dynamic_reservations`).
    Dynamic {
        /// Bytes asked for.
        size: u64,
    },
    /// A reservation whose alignment is not a power of two; ignored.
    Alignment {
        /// Bytes asked for.
        size: u64,
        /// The multiple asked for.
        alignment: u64,
    },
    /// An entry of no bytes; ignored.
    Empty(Entry),
    /// An entry that passes the end of the address space; ignored.
    Wraps(Entry),
    /// An entry that reaches beyond [`ADDRESS_LIMIT`]; ignored.
    Absurd(Entry),
    /// An entry of memory that an earlier one covers, at least partly.
    Repeated(Entry),
    /// An entry that takes away what another calls memory.
    Contradicts(Entry),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut entry = |what: &str, e: &Entry| {
            write!(
                f,
                "{what}: {:?} at {:#x}, {:#x} bytes",
                e.usage, e.base, e.size
            )
        };
        match self {
            Problem::Unreadable { line } => write!(f, "line {line} cannot be read"),
            Problem::Backwards { first, last } => {
                write!(f, "ends before it begins, ignored: {first:#x} to {last:#x}")
            }
            Problem::Hidden => f.write_str("all addresses are zero (only root may see them)"),
            Problem::Malformed => f.write_str("the table is cut off or malformed"),
            Problem::Invalid { line } => {
                write!(
                    f,
                    "line {line}: the kernel calls this entry invalid, ignored"
                )
            }
            Problem::Dynamic { size } => write!(
                f,
                "a reservation of {size:#x} bytes has no address yet, left out"
            ),
            Problem::Alignment { size, alignment } => write!(
                f,
                "a reservation of {size:#x} bytes is to be aligned to {alignment:#x}, which is no power of two, ignored"
            ),
            Problem::Empty(e) => entry("empty, ignored", e),
            Problem::Wraps(e) => entry("passes the end of the address space, ignored", e),
            Problem::Absurd(e) => entry("reaches beyond what any machine addresses, ignored", e),
            Problem::Repeated(e) => entry("overlaps earlier memory", e),
            Problem::Contradicts(e) => entry("takes away memory", e),
        }
    }
}

impl core::error::Error for Problem {}

/// What a parser yields.
pub type Item = Result<Entry, Problem>;

/// A memory map that can be gone through several times: any iterator of [`Item`]s that can be cloned, or a device tree.
pub trait Source {
    /// Calls `give` with each item.
    fn each(&self, give: &mut dyn FnMut(Item));
}

impl<I: Iterator<Item = Item> + Clone> Source for I {
    fn each(&self, give: &mut dyn FnMut(Item)) {
        self.clone().for_each(give);
    }
}

/// Takes a memory map into a memblock, and tells `report` what was odd about it.
///
/// The items are gone through three times (memory; what is no memory; what is taken), so that their order does not matter.
/// In the end memory is cut to whole pages, as kernels do.
///
/// ```
/// use samara_memblock::firmware::{e820, load};
/// use samara_memblock::{Memblock, Storage};
///
/// let log = "BIOS-e820: [mem 0x0000000000000000-0x000000000009fbff] usable
///            BIOS-e820: [mem 0x000000000009fc00-0x00000000000fffff] reserved
///            BIOS-e820: [mem 0x0000000000100000-0x000000003fffffff] usable";
/// let mut storage: Storage = Storage::new();
/// let mut boot = Memblock::new(&mut storage);
/// load(e820::lines(log), &mut boot, |problem| panic!("{problem}"))?;
/// assert_eq!(boot.phys_mem_size(), 0x9f000 + 0x3ff0_0000);
/// # Ok::<(), samara_memblock::Error>(())
/// ```
///
/// # Errors
/// [`Error::ArrayFull`] when an array has no room for the map; what came before is in.
pub fn load<M: PhysMap>(
    source: impl Source,
    memblock: &mut Memblock<'_, M>,
    mut report: impl FnMut(Problem),
) -> Result<(), Error> {
    each(&source, &mut |item| match item {
        Ok(e) => add(&e, memblock, &mut report),
        Err(problem) => {
            report(problem);
            Ok(())
        }
    })?;
    each(&source, &mut |item| match item {
        Ok(e) if e.usage == Use::Hole => {
            if memblock.memory().overlaps(e.base, e.size) {
                report(Problem::Contradicts(e));
            }
            memblock.remove(e.base, e.size)
        }
        _ => Ok(()),
    })?;
    each(&source, &mut |item| match item {
        Ok(e) if e.usage == Use::Reserved => memblock.reserve(e.base, e.size),
        Ok(e) if e.usage == Use::NoMap => memblock.mark_nomap(e.base, e.size),
        _ => Ok(()),
    })?;
    memblock.trim_memory(PAGE_SIZE);
    Ok(())
}

/// Goes through a source, whose entries it checks, until something fails.
fn each(
    source: &impl Source,
    take: &mut dyn FnMut(Item) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut result = Ok(());
    source.each(&mut |item| {
        if result.is_ok() {
            result = take(item.and_then(Entry::checked));
        }
    });
    result
}

/// Adds a sound entry if it is memory.
fn add<M: PhysMap>(
    e: &Entry,
    memblock: &mut Memblock<'_, M>,
    report: &mut impl FnMut(Problem),
) -> Result<(), Error> {
    let flags = match e.usage {
        Use::Ram => Flags::NONE,
        Use::Hotplug => Flags::HOTPLUG,
        // Not mapped it stays even where it is not memory otherwise, as device trees say it of parts of their memory.
        Use::NoMap | Use::Reserved | Use::Hole => return Ok(()),
    };
    if memblock.memory().overlaps(e.base, e.size) {
        report(Problem::Repeated(*e));
    }
    memblock.add_node(e.base, e.size, e.nid, flags)
}

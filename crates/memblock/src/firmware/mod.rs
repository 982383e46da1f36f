//! Memory maps as firmware hands them over, and taking them into a [`Memblock`].
//!
//! | source | parser | feature |
//! |---|---|---|
//! | e820, as boot logs print it | [`e820::lines`] | |
//! | e820, as `/sys/firmware/memmap` shows it | [`e820::sysfs_entry`] | |
//! | `/proc/iomem` | [`iomem::lines`] | |
//! | UEFI, as `GetMemoryMap` returns it | `uefi::Descriptors` | `uefi` |
//! | UEFI, as its shell and boot logs print it | `uefi::lines` | `uefi` |
//! | device tree | `devicetree::DeviceTree` | `fdt` |
//!
//! Firmware is not trusted. All parsers yield [`Item`]s: entries, and what could not be made one. [`load`] takes them in whatever
//! order they come; where two disagree the stricter one wins: what is no memory stays out although another entry says RAM, and
//! what is reserved or not to be mapped stays so. Whatever is odd is reported, and nothing odd adds memory.

use core::fmt;

use crate::Error;
use crate::map::PhysMap;
use crate::memblock::{Memblock, PAGE_SIZE};
use crate::region::{Flags, NodeId};

#[cfg(feature = "fdt")]
pub mod devicetree;
pub mod e820;
pub mod iomem;
mod text;
#[cfg(feature = "uefi")]
pub mod uefi;

/// Memory from here on is an error of the firmware: no architecture addresses more (RISC-V's 56 bits are the most).
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
    /// Length in bytes, as the firmware has it: the sum may exceed the address space.
    pub size: u64,
    /// What it is.
    pub usage: Use,
    /// The node it belongs to.
    pub nid: NodeId,
}

impl Entry {
    fn new(base: u64, size: u64, usage: Use) -> Self {
        Entry {
            base,
            size,
            usage,
            nid: NodeId::NONE,
        }
    }

    /// From the first and the last byte. A range of all 2^64 bytes cannot be expressed, and becomes one byte shorter.
    fn inclusive(first: u64, last: u64, usage: Use) -> Result<Self, Problem> {
        match last.checked_sub(first) {
            Some(distance) => Ok(Entry::new(first, distance.saturating_add(1), usage)),
            None => Err(Problem::Backwards { first, last }),
        }
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
    /// A reservation without an address, which a kernel places itself. It is left out.
    Dynamic {
        /// Bytes asked for.
        size: u64,
    },
    /// An entry of no bytes; ignored.
    Empty(Entry),
    /// An entry that passes the end of the address space. As memory it is ignored, else cut.
    Wraps(Entry),
    /// Memory where no machine has any; ignored.
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
            Problem::Dynamic { size } => write!(
                f,
                "a reservation of {size:#x} bytes without an address, left out"
            ),
            Problem::Empty(e) => entry("empty, ignored", e),
            Problem::Wraps(e) => entry("passes the end of the address space", e),
            Problem::Absurd(e) => entry("no machine has memory there, ignored", e),
            Problem::Repeated(e) => entry("overlaps earlier memory", e),
            Problem::Contradicts(e) => entry("takes away memory", e),
        }
    }
}

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
        Ok(e) if e.usage == Use::Hole && e.size > 0 => {
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

/// Goes through a source until something fails.
fn each(
    source: &impl Source,
    take: &mut dyn FnMut(Item) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut result = Ok(());
    source.each(&mut |item| {
        if result.is_ok() {
            result = take(item);
        }
    });
    result
}

/// Checks an entry, and adds it if it is sound and memory.
fn add<M: PhysMap>(
    e: &Entry,
    memblock: &mut Memblock<'_, M>,
    report: &mut impl FnMut(Problem),
) -> Result<(), Error> {
    let end = e.base.checked_add(e.size);
    if e.size == 0 {
        report(Problem::Empty(*e));
        return Ok(());
    }
    if end.is_none() {
        report(Problem::Wraps(*e));
    }
    let flags = match e.usage {
        Use::Ram => Flags::NONE,
        Use::Hotplug => Flags::HOTPLUG,
        // Not mapped it stays even where it is not memory otherwise, as device trees say it of parts of their memory.
        Use::NoMap | Use::Reserved | Use::Hole => return Ok(()),
    };
    let Some(end) = end else { return Ok(()) };
    if end > ADDRESS_LIMIT {
        report(Problem::Absurd(*e));
        return Ok(());
    }
    if memblock.memory().overlaps(e.base, e.size) {
        report(Problem::Repeated(*e));
    }
    memblock.add_node(e.base, e.size, e.nid, flags)
}

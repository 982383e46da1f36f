//! Memory maps from firmware, and loading them into a [`Memblock`].
//!
//! | source | parser | feature |
//! |---|---|---|
//! | e820, as boot logs print it | [`e820::lines`] | |
//! | e820, as `/sys/firmware/memmap` shows it | [`e820::sysfs_entry`] | |
//! | e820, as the BIOS passes it | [`e820::entries`] | |
//! | start info of a PVH boot loader | [`pvh::StartInfo`] | |
//! | `/proc/iomem` | [`iomem::lines`] | |
//! | UEFI, as `GetMemoryMap` returns it | `uefi::Descriptors` | `uefi` |
//! | UEFI, as its shell and boot logs print it | `uefi::lines` | `uefi` |
//! | device tree | `devicetree::DeviceTree` | `fdt` |
//!
//! Firmware is not trusted. All parsers yield [`Item`]s: valid entries, and problems. Some entries
//! are dropped and reported, whatever their type: those without bytes, those that pass the end of
//! the address space, and those where no machine has memory. Such a hole removes no memory, and
//! such memory adds none. [`Entry::checked`] implements this rule.
//!
//! [`load`] accepts entries in any order. If two disagree, the stricter one wins: a hole stays a
//! hole although another entry says RAM, and reserved or unmapped memory stays so. All anomalies
//! are reported.

use core::fmt;

use crate::Error;
use crate::map::PhysMap;
use crate::memblock::Memblock;
use crate::pfn::PAGE_SIZE;
use crate::region::{Flags, NodeId};

#[cfg(feature = "fdt")]
pub mod devicetree;
pub mod e820;
pub mod iomem;
pub mod pvh;
mod text;
#[cfg(feature = "uefi")]
pub mod uefi;

/// The limit of valid addresses. An entry beyond it is a firmware error: no architecture addresses
/// more (RISC-V's 56 bits are the most).
pub const ADDRESS_LIMIT: u64 = 1 << 56;

/// The use of a range, as firmware reports it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Use {
    /// Memory for the system.
    Ram,
    /// Memory that may be unplugged.
    Hotplug,
    /// In use already, whether it is memory or not. It becomes reserved.
    Reserved,
    /// Memory that must not be mapped.
    NoMap,
    /// Not memory for the system, whatever else it is.
    Hole,
}

/// One range of a firmware's memory map.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Entry {
    /// First byte.
    pub base: u64,
    /// Length in bytes.
    pub size: u64,
    /// The use of the range.
    pub usage: Use,
    /// The node that it belongs to.
    pub nid: NodeId,
}

impl Entry {
    /// Returns the entry if it is valid in a map.
    ///
    /// # Errors
    ///
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

    /// Creates and checks an entry without a node.
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

    /// Creates and checks an entry from its first and last byte. A range of all 2^64 bytes counts
    /// as empty: a kernel that prints an entry without bytes prints the byte before the first one
    /// as the last, in 64-bit arithmetic.
    fn inclusive(first: u64, last: u64, usage: Use) -> Item {
        let size = last.wrapping_sub(first).wrapping_add(1);
        if last < first && size != 0 {
            return Err(Problem::Backwards { first, last });
        }
        Entry::sized(first, size, usage)
    }
}

/// A problem with a part of a memory map.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Problem {
    /// Text that looks like an entry but cannot be parsed.
    Unreadable {
        /// The number of its line, from 1.
        line: usize,
    },
    /// The end lies before the beginning. The entry is ignored.
    Backwards {
        /// First byte.
        first: u64,
        /// Last byte.
        last: u64,
    },
    /// The addresses are hidden: `/proc/iomem` shows zeros to everyone but root.
    Hidden,
    /// A binary table is truncated, or its header is invalid.
    Malformed,
    /// The kernel that printed the entry calls it invalid. The entry is ignored.
    Invalid {
        /// The number of its line, from 1.
        line: usize,
    },
    /// A reservation without an address. [`load`] skips it, and the kernel must place it
    /// (`devicetree::DeviceTree::dynamic_reservations`).
    Dynamic {
        /// The requested number of bytes.
        size: u64,
    },
    /// A reservation whose alignment is not a power of two. It is ignored.
    Alignment {
        /// The requested number of bytes.
        size: u64,
        /// The requested alignment.
        alignment: u64,
    },
    /// An entry without bytes. It is ignored.
    Empty(Entry),
    /// An entry that passes the end of the address space. It is ignored.
    Wraps(Entry),
    /// An entry that reaches beyond [`ADDRESS_LIMIT`]. It is ignored.
    Absurd(Entry),
    /// An entry of memory that an earlier one covers at least partly.
    Repeated(Entry),
    /// An entry that removes what another one calls memory.
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
                "a reservation of {size:#x} bytes has no address yet, not loaded"
            ),
            Problem::Alignment { size, alignment } => write!(
                f,
                "a reservation of {size:#x} bytes has alignment {alignment:#x}, which is not a power of two, ignored"
            ),
            Problem::Empty(e) => entry("empty entry, ignored", e),
            Problem::Wraps(e) => entry("passes the end of the address space, ignored", e),
            Problem::Absurd(e) => entry("reaches beyond what any machine addresses, ignored", e),
            Problem::Repeated(e) => entry("overlaps earlier memory", e),
            Problem::Contradicts(e) => entry("removes memory", e),
        }
    }
}

impl core::error::Error for Problem {}

/// The result of parsing one entry.
pub type Item = Result<Entry, Problem>;

/// A memory map that can be iterated several times: any iterator of [`Item`]s that can be cloned,
/// or a device tree.
pub trait Source {
    /// Calls `give` with each item.
    fn each(&self, give: &mut dyn FnMut(Item));
}

impl<I: Iterator<Item = Item> + Clone> Source for I {
    fn each(&self, give: &mut dyn FnMut(Item)) {
        self.clone().for_each(give);
    }
}

/// Loads a memory map into a memblock, and calls `report` with each anomaly.
///
/// The items are iterated three times (memory, holes, reservations), so that their order does not
/// matter. At the end memory is trimmed to whole pages, as kernels do.
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
///
/// [`Error::ArrayFull`] if an array has no capacity for the map. The entries before are loaded.
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

/// Iterates over a source and checks its entries, until a call fails.
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

/// Adds a valid entry if it is memory.
fn add<M: PhysMap>(
    e: &Entry,
    memblock: &mut Memblock<'_, M>,
    report: &mut impl FnMut(Problem),
) -> Result<(), Error> {
    let flags = match e.usage {
        Use::Ram => Flags::NONE,
        Use::Hotplug => Flags::HOTPLUG,
        // An unmapped range stays unmapped even where it is not memory otherwise: device trees use
        // such reservations for parts of their memory.
        Use::NoMap | Use::Reserved | Use::Hole => return Ok(()),
    };
    if memblock.memory().overlaps(e.base, e.size) {
        report(Problem::Repeated(*e));
    }
    memblock.add_node(e.base, e.size, e.nid, flags)
}

//! What an entry says, apart from how a processor writes it down.

use bitflags::bitflags;

/// Bytes of the smallest page.
pub const PAGE_SIZE: u64 = 4096;
/// Bits of an address that choose an entry of a table. The model checker has small tables.
const BITS: usize = if cfg!(samara_loom) { 2 } else { 9 };
/// Entries of a table, at every level of every format here.
pub const ENTRIES: usize = 1 << BITS;

bitflags! {
    /// What a page allows, and what is known of it.
    ///
    /// A page without [`READ`](Self::READ), [`WRITE`](Self::WRITE) and [`EXEC`](Self::EXEC) is there, but the processor does not find it
    /// (`PROT_NONE`).
    ///
    /// The bits stand where x86-64 has them, but for [`EXEC`](Self::EXEC), which is a prohibition there, and the key.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Attrs: u32 {
        /// Loads succeed. Formats that cannot refuse loads alone report it with any other access.
        const READ = 1 << 0;
        /// Stores succeed; implies loads.
        const WRITE = 1 << 1;
        /// Instructions are fetched.
        const EXEC = 1 << 12;
        /// Programs may use it, not the kernel alone.
        const USER = 1 << 2;
        /// Was used since the bit was last cleared.
        const ACCESSED = 1 << 5;
        /// Was written since the bit was last cleared.
        const DIRTY = 1 << 6;
        /// Was written since a tracker last asked (`clear_refs`): a software bit.
        const SOFT_DIRTY = 1 << 11;
        /// Not counted: device memory, pages mapped by number, the zero page. A software bit.
        const SPECIAL = 1 << 9;
        /// The same in all address spaces.
        const GLOBAL = 1 << 8;
        /// Device memory: neither cached nor reordered.
        const DEVICE = 1 << 4;
        /// The protection key, x86-64 only; the other formats drop it.
        const PKEY = 0xf << 16;
        /// All three accesses.
        const ACCESS = Self::READ.bits() | Self::WRITE.bits() | Self::EXEC.bits();
    }
}

impl Attrs {
    /// The same with this protection key (0 to 15).
    pub const fn with_pkey(self, key: u8) -> Self {
        Self::from_bits_retain((self.bits() & !Self::PKEY.bits()) | ((key as u32 & 0xf) << 16))
    }

    /// The protection key.
    pub const fn pkey(self) -> u8 {
        ((self.bits() & Self::PKEY.bits()) >> 16) as u8
    }
}

/// The sizes of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PageSize {
    /// 4 KiB.
    Small,
    /// 2 MiB.
    Large,
    /// 1 GiB.
    Giant,
}

impl PageSize {
    /// Of a leaf at this level of the tables; 0 is the last level.
    pub(crate) const fn of(level: usize) -> Self {
        match level {
            0 => Self::Small,
            1 => Self::Large,
            _ => Self::Giant,
        }
    }

    /// The level whose entries map pages of this size; 0 is the last.
    pub(crate) const fn level(self) -> usize {
        self as usize
    }

    /// Length in bytes.
    pub const fn bytes(self) -> u64 {
        span(self.level())
    }

    /// Length in frames, as a power of two.
    pub const fn order(self) -> u32 {
        9 * self as u32
    }

    /// Length in frames of 4 KiB.
    pub const fn frames(self) -> u64 {
        1 << self.order()
    }
}

/// What stands at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Nothing.
    Empty,
    /// A page.
    Page {
        /// Its first byte in physical memory.
        phys: u64,
        /// What it allows.
        attrs: Attrs,
        /// How much of the address space this entry maps.
        size: PageSize,
    },
    /// Not a page, but something that the owner of the tables has put here: a guard, a place in swap.
    Marker(u32),
}

/// Bytes that an entry of this level stands for.
pub(crate) const fn span(level: usize) -> u64 {
    1 << (12 + BITS * level)
}

/// The place of an address in a table of this level.
pub(crate) const fn index(addr: u64, level: usize) -> usize {
    (addr >> (12 + BITS * level)) as usize & (ENTRIES - 1)
}

/// The first address after `addr` that another entry of this level stands for; saturates at the end of the address space.
pub(crate) const fn next(addr: u64, level: usize) -> u64 {
    (addr | (span(level) - 1)).saturating_add(1)
}

/// Bits of entries that the processor does not look at because they are not valid. Of several, the first in this list counts, since a
/// page without access keeps the software bits of its format.
pub(crate) mod tag {
    /// Bit 0 makes an entry valid in all formats here.
    pub(crate) const VALID: u64 = 1;
    /// A page without any access.
    pub(crate) const NONE: u64 = 1 << 54;
    /// Something of the owner's: see [`Entry::Marker`](super::Entry::Marker).
    pub(crate) const MARKER: u64 = 1 << 55;
    /// In the first entry of a table that is in no tree: the next of its list.
    pub(crate) const LINK: u64 = 1 << 56;

    /// Whether a page is here, be it accessible or not.
    #[inline]
    pub(crate) const fn is_page(raw: u64) -> bool {
        raw & (VALID | NONE) != 0
    }

    pub(crate) const fn marker(payload: u32) -> u64 {
        MARKER | (payload as u64) << 1
    }

    pub(crate) const fn marker_payload(raw: u64) -> Option<u32> {
        if !is_page(raw) && raw & MARKER != 0 {
            Some((raw >> 1) as u32)
        } else {
            None
        }
    }
}

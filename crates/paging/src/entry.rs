//! The contents of an entry, independent of the processor's format.

use bitflags::bitflags;

/// Bytes of the smallest page.
pub const PAGE_SIZE: u64 = 4096;
/// Bits of an address that select an entry of a table. The model checker has small tables.
const BITS: usize = if cfg!(samara_loom) { 2 } else { 9 };
/// Entries of a table, at every level of every format.
pub const ENTRIES: usize = 1 << BITS;

bitflags! {
    /// The access rights and the state of a page.
    ///
    /// A page without [`READ`](Self::READ), [`WRITE`](Self::WRITE) and [`EXEC`](Self::EXEC) is
    /// present in the tables, but not for the processor (`PROT_NONE`).
    ///
    /// The bits are at x86-64's positions, except [`EXEC`](Self::EXEC), which is a prohibition
    /// there, and the protection key.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Attrs: u32 {
        /// Loads succeed. A format that cannot refuse loads alone reports it with any other access.
        const READ = 1 << 0;
        /// Stores succeed; implies loads.
        const WRITE = 1 << 1;
        /// Instructions can be fetched.
        const EXEC = 1 << 12;
        /// User mode has access, not only the kernel.
        const USER = 1 << 2;
        /// The page was used since the bit was last cleared.
        const ACCESSED = 1 << 5;
        /// The page was written since the bit was last cleared.
        const DIRTY = 1 << 6;
        /// The page was written since a tracker last cleared the bit (`clear_refs`). A software
        /// bit.
        const SOFT_DIRTY = 1 << 11;
        /// The frame is not counted: device memory, pages mapped by PFN, the zero page. A software
        /// bit.
        const SPECIAL = 1 << 9;
        /// The translation is the same in all address spaces.
        const GLOBAL = 1 << 8;
        /// Device memory, neither cached nor reordered.
        const DEVICE = 1 << 4;
        /// The protection key, on x86-64 only; the other formats drop it.
        const PKEY = 0xf << 16;
        /// All three kinds of access.
        const ACCESS = Self::READ.bits() | Self::WRITE.bits() | Self::EXEC.bits();
    }
}

impl Attrs {
    /// Returns these attributes with another protection key (0 to 15).
    pub const fn with_pkey(self, key: u8) -> Self {
        Self::from_bits_retain((self.bits() & !Self::PKEY.bits()) | ((key as u32 & 0xf) << 16))
    }

    /// Returns the protection key.
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
    /// Returns the size of a leaf at this level; 0 is the last level.
    pub(crate) const fn of(level: usize) -> Self {
        match level {
            0 => Self::Small,
            1 => Self::Large,
            _ => Self::Giant,
        }
    }

    /// Returns the level whose entries map pages of this size; 0 is the last.
    pub(crate) const fn level(self) -> usize {
        self as usize
    }

    /// Returns the length in bytes.
    pub const fn bytes(self) -> u64 {
        span(self.level())
    }

    /// Returns the binary logarithm of the length in frames.
    pub const fn order(self) -> u32 {
        9 * self as u32
    }

    /// Returns the length in frames of 4 KiB.
    pub const fn frames(self) -> u64 {
        1 << self.order()
    }
}

/// The decoded entry of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Nothing.
    Empty,
    /// A page.
    Page {
        /// The physical address of its first byte.
        phys: u64,
        /// Its attributes.
        attrs: Attrs,
        /// The part of the address space that this entry maps.
        size: PageSize,
    },
    /// Not a page, but a value of the tables' owner: a guard or a swap entry, for example.
    Marker(u32),
}

/// Returns the number of bytes that an entry of this level maps.
pub(crate) const fn span(level: usize) -> u64 {
    1 << (12 + BITS * level)
}

/// Returns the index of an address in a table of this level.
pub(crate) const fn index(addr: u64, level: usize) -> usize {
    (addr >> (12 + BITS * level)) as usize & (ENTRIES - 1)
}

/// Returns the first address after `addr` that another entry of this level maps. Saturates at the
/// end of the address space.
pub(crate) const fn next(addr: u64, level: usize) -> u64 {
    (addr | (span(level) - 1)).saturating_add(1)
}

/// Bits of invalid entries, which the processor ignores. If several are set, the first in this list
/// counts, because a page without access keeps the software bits of its format.
pub(crate) mod tag {
    /// Valid: bit 0 in every format. [`Format`](crate::Format) requires it.
    pub(crate) const VALID: u64 = 1;
    /// A page without any access.
    pub(crate) const NONE: u64 = 1 << 54;
    /// A value of the tables' owner: see [`Entry::Marker`](super::Entry::Marker).
    pub(crate) const MARKER: u64 = 1 << 55;
    /// In the first entry of a table that is in no tree: the next table of its list.
    pub(crate) const LINK: u64 = 1 << 56;

    /// Returns `true` if the entry maps a page, accessible or not.
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

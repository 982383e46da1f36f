//! AArch64, 4 KiB granule, four levels: Arm ARM, D8 (VMSAv8-64 descriptors).
//!
//! A writable page that has not been written is read-only with the dirty-bit modifier (DBM) set. A
//! processor that manages dirty bits in hardware lifts the protection at the first store; another
//! processor raises a permission fault. A page is dirty if it is not read-only, or if the software
//! dirty bit is set. The software bit preserves the state when write access is removed.

use super::Format;
use crate::entry::{Attrs, tag};

const PHYS: u64 = 0x0000_ffff_ffff_f000;
const VALID: u64 = tag::VALID;
/// A table, or a page at the last level; clear in blocks.
const TYPE: u64 = 1 << 1;
/// Index 0 of MAIR is device memory, index 1 is normal memory.
const NORMAL: u64 = 1 << 2;
const AP_EL0: u64 = 1 << 6;
const READ_ONLY: u64 = 1 << 7;
const INNER_SHAREABLE: u64 = 0b11 << 8;
const ACCESS: u64 = 1 << 10;
const NOT_GLOBAL: u64 = 1 << 11;
/// Dirty-bit modifier: the page is writable, although it may still be read-only to the hardware.
const DBM: u64 = 1 << 51;
const PXN: u64 = 1 << 53;
const UXN: u64 = 1 << 54;
/// Software bits, at the positions that Linux uses.
const DIRTY: u64 = 1 << 55;
const SPECIAL: u64 = 1 << 56;
const SOFT_DIRTY: u64 = 1 << 58;
/// In an entry that points to a table: no write access to anything below (APTable).
const NO_WRITE_TABLE: u64 = 1 << 62;

/// AArch64 with a granule of 4 KiB and 48 address bits, lower half (TTBR0).
#[derive(Clone, Copy, Debug)]
pub struct Aarch64;

impl Format for Aarch64 {
    const NAME: &'static str = "AArch64 4 KiB";
    const LEVELS: usize = 4;
    const TABLES_FORBID_WRITES: bool = true;
    const BREAK_BEFORE_MAKE: bool = true;

    fn is_canonical(addr: u64) -> bool {
        addr >> 48 == 0
    }

    #[inline]
    fn frame_bits(phys: u64) -> u64 {
        phys & PHYS
    }

    #[inline]
    fn attr_bits(raw: u64) -> u64 {
        raw & !PHYS
    }

    #[inline]
    fn leaf(phys: u64, attrs: Attrs, level: usize) -> u64 {
        let mut raw = phys & PHYS | READ_ONLY;
        if level == 0 {
            raw |= TYPE;
        }
        if !attrs.contains(Attrs::DEVICE) {
            raw |= NORMAL | INNER_SHAREABLE;
        }
        if !attrs.contains(Attrs::GLOBAL) {
            raw |= NOT_GLOBAL;
        }
        for (attr, bit) in [
            (Attrs::USER, AP_EL0),
            (Attrs::ACCESSED, ACCESS),
            (Attrs::SPECIAL, SPECIAL),
            (Attrs::SOFT_DIRTY, SOFT_DIRTY),
            (Attrs::DIRTY, DIRTY),
        ] {
            if attrs.contains(attr) {
                raw |= bit;
            }
        }
        if !attrs.intersects(Attrs::ACCESS) {
            return raw & !DBM | tag::NONE;
        }
        if attrs.contains(Attrs::WRITE) {
            raw |= DBM;
            if attrs.contains(Attrs::DIRTY) {
                raw &= !READ_ONLY;
            }
        }
        let exec = attrs.contains(Attrs::EXEC);
        let user = attrs.contains(Attrs::USER);
        // The kernel never executes user pages, and user mode never executes kernel pages.
        if user || !exec {
            raw |= PXN;
        }
        if !user || !exec {
            raw |= UXN;
        }
        raw | VALID
    }

    #[inline]
    fn table_entry(phys: u64, shared: bool) -> u64 {
        let guard = if shared { NO_WRITE_TABLE } else { 0 };
        (phys & PHYS) | VALID | TYPE | guard
    }

    #[inline]
    fn is_table(raw: u64) -> bool {
        raw & (VALID | TYPE) == VALID | TYPE
    }

    #[inline]
    fn is_shared(raw: u64) -> bool {
        raw & NO_WRITE_TABLE != 0
    }

    #[inline]
    fn phys(raw: u64) -> u64 {
        raw & PHYS
    }

    #[inline]
    fn attrs(raw: u64) -> Attrs {
        let mut attrs = Attrs::empty();
        let user = raw & AP_EL0 != 0;
        if user {
            attrs |= Attrs::USER;
        }
        if raw & ACCESS != 0 {
            attrs |= Attrs::ACCESSED;
        }
        if raw & DIRTY != 0 || raw & READ_ONLY == 0 {
            attrs |= Attrs::DIRTY;
        }
        if raw & SPECIAL != 0 {
            attrs |= Attrs::SPECIAL;
        }
        if raw & SOFT_DIRTY != 0 {
            attrs |= Attrs::SOFT_DIRTY;
        }
        if raw & NOT_GLOBAL == 0 {
            attrs |= Attrs::GLOBAL;
        }
        if raw & NORMAL == 0 {
            attrs |= Attrs::DEVICE;
        }
        if raw & VALID != 0 {
            attrs |= Attrs::READ;
            if raw & DBM != 0 {
                attrs |= Attrs::WRITE;
            }
            if raw & (if user { UXN } else { PXN }) == 0 {
                attrs |= Attrs::EXEC;
            }
        }
        attrs
    }

    #[inline]
    fn is_writable(raw: u64) -> bool {
        raw & DBM != 0
    }

    #[inline]
    fn write_protected(raw: u64) -> u64 {
        let dirty = if raw & READ_ONLY == 0 { DIRTY } else { 0 };
        raw & !DBM | READ_ONLY | dirty
    }

    #[inline]
    fn without_accessed(raw: u64) -> u64 {
        raw & !ACCESS
    }

    #[inline]
    fn without_dirty(raw: u64) -> u64 {
        raw & !DIRTY | READ_ONLY
    }

    #[inline]
    fn is_special(raw: u64) -> bool {
        raw & SPECIAL != 0
    }

    #[inline]
    fn is_hw_stable(raw: u64) -> bool {
        raw & VALID == 0 || raw & ACCESS != 0 && (raw & DBM == 0 || raw & READ_ONLY == 0)
    }
}

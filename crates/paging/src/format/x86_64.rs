//! x86-64, four and five levels: Intel SDM volume 3, chapter 5; AMD64 APM volume 2, chapter 5.

use x86_64::structures::paging::PageTableFlags as Bits;

use super::{Format, is_sign_extended};
use crate::entry::{Attrs, tag};

const PHYS: u64 = 0x000f_ffff_ffff_f000;
/// The positions that Linux uses.
const SPECIAL: u64 = Bits::BIT_9.bits();
const SOFT_DIRTY: u64 = Bits::BIT_11.bits();
const PKEY_SHIFT: u32 = 59;
const EXEC_SHIFT: u32 = Attrs::EXEC.bits().trailing_zeros();

const PRESENT: u64 = Bits::PRESENT.bits();
const WRITE: u64 = Bits::WRITABLE.bits();
const USER: u64 = Bits::USER_ACCESSIBLE.bits();
const UNCACHED: u64 = Bits::NO_CACHE.bits() | Bits::WRITE_THROUGH.bits();
const ACCESSED: u64 = Bits::ACCESSED.bits();
const DIRTY: u64 = Bits::DIRTY.bits();
const HUGE: u64 = Bits::HUGE_PAGE.bits();
const GLOBAL: u64 = Bits::GLOBAL.bits();
const NO_EXEC: u64 = Bits::NO_EXECUTE.bits();

/// Attributes with the same bit position in `Attrs` and in an entry.
const SAME: Attrs = Attrs::WRITE
    .union(Attrs::USER)
    .union(Attrs::ACCESSED)
    .union(Attrs::DIRTY)
    .union(Attrs::SOFT_DIRTY)
    .union(Attrs::SPECIAL)
    .union(Attrs::GLOBAL)
    .union(Attrs::DEVICE);
/// The attributes that a write adds.
const SAME_WRITTEN: Attrs = Attrs::WRITE
    .union(Attrs::DIRTY)
    .union(Attrs::ACCESSED)
    .union(Attrs::SOFT_DIRTY);
const PKEY: u64 = (Attrs::PKEY.bits() as u64) << (PKEY_SHIFT - 16);

const _: () = assert!(
    SAME.bits() as u64
        == WRITE | USER | ACCESSED | DIRTY | SOFT_DIRTY | SPECIAL | GLOBAL | Bits::NO_CACHE.bits()
);

macro_rules! x86 {
    ($(#[$doc:meta])* $name:ident, $text:literal, $levels:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl Format for $name {
            const NAME: &'static str = $text;
            const LEVELS: usize = $levels;
            const TABLES_FORBID_WRITES: bool = true;
            // The processor does not cache invalid entries, sees stores to entries, and keeps its
            // instruction caches coherent.
            const NOTIFIES_MAPPED: bool = false;

            fn is_canonical(addr: u64) -> bool {
                is_sign_extended(addr, $levels)
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
                let access = attrs.intersects(Attrs::ACCESS);
                let mut raw = phys & PHYS | u64::from((attrs & SAME).bits());
                raw |= u64::from((attrs & Attrs::PKEY).bits()) << (PKEY_SHIFT - 16);
                if attrs.contains(Attrs::DEVICE) {
                    raw |= UNCACHED;
                }
                if level > 0 {
                    raw |= HUGE;
                }
                if !attrs.contains(Attrs::EXEC) {
                    raw |= NO_EXEC;
                }
                raw | if access { PRESENT } else { tag::NONE }
            }

            #[inline]
            fn table_entry(phys: u64, shared: bool) -> u64 {
                let write = if shared { 0 } else { WRITE };
                // Accessed from the start, so that the processor does not write to this entry.
                (phys & PHYS) | PRESENT | USER | ACCESSED | write
            }

            #[inline]
            fn is_table(raw: u64) -> bool {
                raw & (PRESENT | HUGE) == PRESENT
            }

            #[inline]
            fn is_shared(raw: u64) -> bool {
                raw & WRITE == 0
            }

            #[inline]
            fn phys(raw: u64) -> u64 {
                raw & PHYS
            }

            #[inline]
            fn attrs(raw: u64) -> Attrs {
                let same = raw as u32 & SAME.bits();
                let key = ((raw & PKEY) >> (PKEY_SHIFT - 16)) as u32;
                let present = raw & PRESENT;
                let exec = (!raw >> 63 & present) << EXEC_SHIFT;
                Attrs::from_bits_retain(same | key | (present | exec) as u32)
            }

            #[inline]
            fn after_write(raw: u64, level: usize) -> u64 {
                // A page without access becomes accessible.
                let attrs = Self::attrs(raw) | SAME_WRITTEN;
                if raw & PRESENT == 0 {
                    return Self::leaf(Self::phys(raw), attrs, level);
                }
                raw | u64::from(SAME_WRITTEN.bits())
            }

            bit_for_bit! { WRITE, ACCESSED, DIRTY, SPECIAL }
        }
    };
}

x86! {
    /// x86-64 with four levels: 48 address bits.
    X86_64, "x86-64", 4
}
x86! {
    /// x86-64 with five levels (LA57): 57 address bits.
    X86_64La57, "x86-64 LA57", 5
}

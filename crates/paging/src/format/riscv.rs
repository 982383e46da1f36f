//! RISC-V, three and four levels: the privileged architecture, "Sv39" and "Sv48", with the memory
//! types of Svpbmt.
//!
//! An entry that points to a table cannot forbid anything. Sharing a table therefore write-protects
//! its leaves, and one of the two software bits of the entry above marks the table as shared.

use super::{Format, is_sign_extended};
use crate::entry::{Attrs, tag};

const VALID: u64 = tag::VALID;
const READ: u64 = 1 << 1;
const WRITE: u64 = 1 << 2;
const EXEC: u64 = 1 << 3;
const USER: u64 = 1 << 4;
const GLOBAL: u64 = 1 << 5;
const ACCESSED: u64 = 1 << 6;
const DIRTY: u64 = 1 << 7;
/// The two software bits (RSW), at the positions that Linux uses. In an entry that points to a
/// table, the first marks it as shared.
const SPECIAL: u64 = 1 << 8;
const SOFT_DIRTY: u64 = 1 << 9;
const SHARED: u64 = 1 << 8;
/// Svpbmt: not cached, strongly ordered, I/O.
const IO: u64 = 2 << 61;
const PPN: u64 = ((1 << 44) - 1) << 10;

const SAME: [(Attrs, u64); 7] = [
    (Attrs::USER, USER),
    (Attrs::GLOBAL, GLOBAL),
    (Attrs::ACCESSED, ACCESSED),
    (Attrs::DIRTY, DIRTY),
    (Attrs::SPECIAL, SPECIAL),
    (Attrs::SOFT_DIRTY, SOFT_DIRTY),
    (Attrs::DEVICE, IO),
];

macro_rules! riscv {
    ($(#[$doc:meta])* $name:ident, $text:literal, $levels:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl Format for $name {
            const NAME: &'static str = $text;
            const LEVELS: usize = $levels;
            const TABLES_FORBID_WRITES: bool = false;

            fn is_canonical(addr: u64) -> bool {
                is_sign_extended(addr, $levels)
            }

            #[inline]
            fn frame_bits(phys: u64) -> u64 {
                (phys >> 2) & PPN
            }

            #[inline]
            fn attr_bits(raw: u64) -> u64 {
                raw & !PPN
            }

            #[inline]
            fn leaf(phys: u64, attrs: Attrs, _level: usize) -> u64 {
                let mut raw = (phys >> 2) & PPN;
                for (attr, bit) in SAME {
                    if attrs.contains(attr) {
                        raw |= bit;
                    }
                }
                if attrs.contains(Attrs::EXEC) {
                    raw |= EXEC;
                }
                // The encoding of write access without read access is reserved.
                if attrs.intersects(Attrs::READ | Attrs::WRITE) {
                    raw |= READ;
                }
                if attrs.contains(Attrs::WRITE) {
                    raw |= WRITE;
                }
                raw | if attrs.intersects(Attrs::ACCESS) { VALID } else { tag::NONE }
            }

            #[inline]
            fn table_entry(phys: u64, shared: bool) -> u64 {
                (phys >> 2) & PPN | VALID | if shared { SHARED } else { 0 }
            }

            #[inline]
            fn is_table(raw: u64) -> bool {
                raw & (VALID | READ | WRITE | EXEC) == VALID
            }

            #[inline]
            fn is_shared(raw: u64) -> bool {
                raw & SHARED != 0
            }

            #[inline]
            fn phys(raw: u64) -> u64 {
                (raw & PPN) << 2
            }

            #[inline]
            fn attrs(raw: u64) -> Attrs {
                let mut attrs = Attrs::empty();
                for (attr, bit) in SAME {
                    if raw & bit == bit {
                        attrs |= attr;
                    }
                }
                for (attr, bit) in [(Attrs::READ, READ), (Attrs::WRITE, WRITE), (Attrs::EXEC, EXEC)] {
                    if raw & bit != 0 {
                        attrs |= attr;
                    }
                }
                attrs
            }

            bit_for_bit! { WRITE, ACCESSED, DIRTY, SPECIAL }
        }
    };
}

riscv! {
    /// RISC-V with three levels: 39 address bits.
    Sv39, "RISC-V Sv39", 3
}
riscv! {
    /// RISC-V with four levels: 48 address bits.
    Sv48, "RISC-V Sv48", 4
}

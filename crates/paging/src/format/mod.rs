//! The formats in which processors encode page-table entries.
//!
//! The x86-64 format uses the bit definitions of the `x86_64` crate; the others are our own. The
//! `page_table_entry` crate was rejected: it has only the format of the target machine, so that the
//! others could not be tested here. It also lacks what Linux-like tables need: exact accessed and
//! dirty bits, software bits (soft-dirty, special), pages without access, and tables that are
//! write-protected because they are shared.

/// Functions shared by the formats that keep each of these properties in a bit of its own.
macro_rules! bit_for_bit {
    ($write:ident, $accessed:ident, $dirty:ident, $special:ident) => {
        #[inline]
        fn is_writable(raw: u64) -> bool {
            raw & $write != 0
        }

        #[inline]
        fn write_protected(raw: u64) -> u64 {
            raw & !$write
        }

        #[inline]
        fn without_accessed(raw: u64) -> u64 {
            raw & !$accessed
        }

        #[inline]
        fn without_dirty(raw: u64) -> u64 {
            raw & !$dirty
        }

        #[inline]
        fn is_special(raw: u64) -> bool {
            raw & $special != 0
        }

        #[inline]
        fn is_hw_stable(raw: u64) -> bool {
            let written = raw & $dirty != 0 || raw & $write == 0;
            raw & tag::VALID == 0 || raw & $accessed != 0 && written
        }

        #[inline(always)]
        fn is_common(raw: u64) -> bool {
            const SET: u64 = tag::VALID | $accessed | $dirty;
            raw & (SET | $special) == SET
        }
    };
}

mod aarch64;
mod riscv;
mod x86_64;

pub use aarch64::Aarch64;
pub use riscv::{Sv39, Sv48};
pub use x86_64::{X86_64, X86_64La57};

use crate::entry::{Attrs, Entry, PageSize, tag};

/// The most levels of a format.
pub const MAX_LEVELS: usize = 5;

/// A format of page tables: tables of 512 entries of eight bytes, with pages of 4 KiB, 2 MiB and 1
/// GiB.
///
/// Levels count from the leaves: an entry of level 0 maps 4 KiB. A function without a `level`
/// argument takes a leaf.
///
/// # Requirements
///
/// The library itself tests and sets some bits of entries. An implementation must therefore keep
/// these rules:
///
/// - Bit 0 means valid: the processor uses an entry if and only if bit 0 is set. The library tests
///   this bit directly to decide whether a TLB may hold a translation.
/// - [`leaf`](Self::leaf) without [`Attrs::ACCESS`] clears bit 0 and sets bit 54, which marks a
///   page without access. The processor must ignore all other bits of an invalid entry.
/// - An entry of all zeroes is empty. In other invalid entries, bits 55 and 56 are the library's,
///   and a marker is kept in bits 1 to 32.
/// - An entry that points to a table is valid, and a leaf of a level above 0 is not mistaken for
///   one.
/// - The frame number is in contiguous bits: [`frame_bits`](Self::frame_bits) is linear in the
///   address, and every entry is the union of its frame bits and its
///   [`attr_bits`](Self::attr_bits).
pub trait Format: Copy + Send + Sync + 'static {
    /// The common name of the format.
    const NAME: &'static str;
    /// The number of levels of tables.
    const LEVELS: usize;
    /// `true` if an entry that points to a table can forbid stores to everything below it.
    /// Otherwise, sharing a table write-protects its leaves.
    const TABLES_FORBID_WRITES: bool;

    /// `true` if an entry must be made invalid and its translations be invalidated before it maps
    /// with another size (Arm's break-before-make).
    const BREAK_BEFORE_MAKE: bool = false;

    /// `true` if the library calls [`Invalidate::notify_mapped`](crate::Invalidate::notify_mapped).
    /// Processors that need the call may otherwise miss an entry that has just become valid, or
    /// execute stale bytes there. If it is `false`, the calls compile to nothing.
    const NOTIFIES_MAPPED: bool = true;

    /// Returns `true` if the processor translates this address through one root table.
    fn is_canonical(addr: u64) -> bool;

    /// Returns the first address above the [canonical](Self::is_canonical) addresses of the lower
    /// half, which is the half of user programs.
    fn lower_end() -> u64 {
        let all = 1 << (12 + 9 * Self::LEVELS);
        if Self::is_canonical(all - 1) {
            all
        } else {
            all >> 1
        }
    }

    /// Returns the first address of the kernel's half, which extends to the highest address. It is
    /// [canonical](Self::is_canonical) if the root of the running program translates it as well
    /// (x86-64, RISC-V). Otherwise the kernel has a root of its own (AArch64's TTBR1).
    fn kernel_start() -> u64 {
        Self::lower_end().wrapping_neg()
    }

    /// Returns the bits of an entry that encode this frame.
    fn frame_bits(phys: u64) -> u64;
    /// Returns the other bits of an entry.
    fn attr_bits(raw: u64) -> u64;
    /// Returns a leaf. A leaf without access is invalid, but still a page to the library.
    fn leaf(phys: u64, attrs: Attrs, level: usize) -> u64;
    /// Returns an entry that points to a table. With `shared`, it forbids stores if the format can.
    fn table_entry(phys: u64, shared: bool) -> u64;
    /// Returns `true` if this entry of a level above 0 points to a table.
    fn is_table(raw: u64) -> bool;
    /// Returns `true` if an entry that points to a table was created as shared.
    fn is_shared(raw: u64) -> bool;
    /// Returns the table that an entry points to, or the first frame of a leaf.
    fn phys(raw: u64) -> u64;
    /// Returns the attributes of a leaf.
    fn attrs(raw: u64) -> Attrs;

    /// Returns `true` if stores succeed, perhaps after the processor has set the dirty bit. A set
    /// bit must encode this, because the library also applies the function to the union of several
    /// leaves, to learn if one of them is writable.
    fn is_writable(raw: u64) -> bool;
    /// Returns the leaf without write access. A dirty page stays dirty.
    fn write_protected(raw: u64) -> u64;
    /// Returns the leaf with the accessed bit cleared.
    fn without_accessed(raw: u64) -> u64;
    /// Returns the leaf with the dirty bit cleared.
    fn without_dirty(raw: u64) -> u64;
    /// Returns the leaf of this level with write access and after a write.
    #[inline]
    fn after_write(raw: u64, level: usize) -> u64 {
        let add = Attrs::WRITE | Attrs::DIRTY | Attrs::ACCESSED | Attrs::SOFT_DIRTY;
        Self::leaf(Self::phys(raw), Self::attrs(raw) | add, level)
    }
    /// Returns `true` if the frame of the leaf is not counted.
    fn is_special(raw: u64) -> bool;
    /// Returns `true` if the leaf is an accessible page whose frame is counted, as most are.
    #[inline(always)]
    fn is_counted(raw: u64) -> bool {
        raw & tag::VALID != 0 && !Self::is_special(raw)
    }
    /// Returns `true` if the processor will not change this entry by itself, because its accessed
    /// and dirty bits are final. Software that holds the table's lock may then use a plain store.
    fn is_hw_stable(raw: u64) -> bool;
    /// Returns `true` if the leaf is [counted](Self::is_counted) and [stable](Self::is_hw_stable),
    /// as leaves are that were written. May return `false` for other leaves of this kind.
    #[inline(always)]
    fn is_common(raw: u64) -> bool {
        Self::is_counted(raw) && Self::is_hw_stable(raw)
    }

    /// Decodes an entry.
    fn decode(raw: u64, level: usize) -> Entry {
        if tag::is_page(raw) {
            Entry::Page {
                phys: Self::phys(raw),
                attrs: Self::attrs(raw),
                size: PageSize::of(level),
            }
        } else {
            tag::marker_payload(raw).map_or(Entry::Empty, Entry::Marker)
        }
    }
}

/// Returns `true` if all bits above those translated by `levels` levels equal the highest
/// translated bit.
fn is_sign_extended(addr: u64, levels: usize) -> bool {
    let unused = 64 - (12 + 9 * levels);
    ((addr << unused) as i64 >> unused) as u64 == addr
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::span;

    fn all_attrs<F: Format>() {
        for bits in 0..1u32 << 10 {
            let attrs = Attrs::from_bits_retain(bits);
            for level in 0..3 {
                let phys = 3 * span(level);
                let raw = F::leaf(phys, attrs, level);
                assert!(tag::is_page(raw));
                assert!(level == 0 || !F::is_table(raw), "{} {raw:#x}", F::NAME);
                assert_eq!(F::phys(raw), phys);
                let back = F::attrs(raw);
                let kept = Attrs::ACCESSED | Attrs::DIRTY | Attrs::SOFT_DIRTY | Attrs::SPECIAL;
                assert_eq!(back & kept, attrs & kept, "{} {raw:#x}", F::NAME);
                let access = attrs & Attrs::ACCESS;
                assert_eq!(
                    raw & tag::VALID != 0,
                    !access.is_empty(),
                    "{} {attrs:?}",
                    F::NAME
                );
                assert!(
                    (back & Attrs::ACCESS).contains(access),
                    "{} {attrs:?} {back:?}",
                    F::NAME
                );
                assert_eq!(back.contains(Attrs::WRITE), access.contains(Attrs::WRITE));
                assert_eq!(back.contains(Attrs::EXEC), access.contains(Attrs::EXEC));
                assert_eq!(F::is_writable(raw), access.contains(Attrs::WRITE));
                assert_eq!(F::is_special(raw), attrs.contains(Attrs::SPECIAL));
                assert_eq!(
                    F::attrs(F::write_protected(raw)) & !Attrs::READ,
                    back & !(Attrs::WRITE | Attrs::READ)
                );
                assert_eq!(F::attrs(F::without_accessed(raw)), back - Attrs::ACCESSED);
                assert_eq!(F::attrs(F::without_dirty(raw)), back - Attrs::DIRTY);
                // Encoding the decoded attributes gives the same entry.
                assert_eq!(F::leaf(phys, back, level), raw, "{} {attrs:?}", F::NAME);
                if attrs.contains(Attrs::ACCESSED | Attrs::DIRTY) {
                    assert!(F::is_hw_stable(raw));
                }
                assert!(!F::is_common(raw) || F::is_counted(raw) && F::is_hw_stable(raw));
                assert_eq!(F::is_hw_stable(raw) || access.is_empty(), {
                    access.is_empty()
                        || attrs.contains(Attrs::ACCESSED)
                            && (attrs.contains(Attrs::DIRTY) || !attrs.contains(Attrs::WRITE))
                });
            }
        }
        for shared in [false, true] {
            let raw = F::table_entry(0x1234_5000, shared);
            assert!(F::is_table(raw) && raw & tag::VALID != 0);
            assert_eq!(F::phys(raw), 0x1234_5000);
            assert_eq!(F::is_shared(raw), shared);
        }
        for marker in [0, 1, 7, u32::MAX] {
            let raw = tag::marker(marker);
            assert_eq!(F::decode(raw, 0), Entry::Marker(marker));
            assert!(!F::is_table(raw));
        }
        assert_eq!(F::decode(0, 0), Entry::Empty);
        assert!(F::is_canonical(0) && F::is_canonical(0x1f_ffff_f000));
        assert!(F::is_canonical(F::lower_end() - 1) && !F::is_canonical(F::lower_end()));
        let below = F::kernel_start() - 1;
        assert!(!F::is_canonical(below));
        assert_eq!(
            F::is_canonical(F::kernel_start()),
            F::NAME != Aarch64::NAME,
            "{}",
            F::NAME
        );
    }

    #[test]
    fn every_attribute_round_trips() {
        all_attrs::<X86_64>();
        all_attrs::<X86_64La57>();
        all_attrs::<Aarch64>();
        all_attrs::<Sv39>();
        all_attrs::<Sv48>();
    }
}

//! How processors write entries down.
//!
//! The formats are our own, but for x86-64's, whose bits are those of the `x86_64` crate. `page_table_entry` has only that of the machine it
//! is compiled for, so that nothing of the others could be tested here, and none has what tables need that follow Linux: accessed and dirty
//! bits as they are, software bits (soft-dirty, special), pages without access, tables that are write-protected because they are shared.

/// What formats have in common that keep each of these marks in a bit of its own.
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

/// A format of page tables: tables of 512 entries of eight bytes, pages of 4 KiB and, above, of 2 MiB and 1 GiB.
///
/// Levels count from the leaves: an entry of level 0 stands for 4 KiB. Of the functions that take an entry, those without `level` mean a leaf.
pub trait Format: Copy + Send + Sync + 'static {
    /// What people call it.
    const NAME: &'static str;
    /// Levels of tables.
    const LEVELS: usize;
    /// Whether an entry that points to a table can forbid stores to all that is below. Where it cannot, sharing a table protects its leaves.
    const TABLES_FORBID_WRITES: bool;

    /// Whether an entry in use must be made invalid, and forgotten, before it maps with another size (Arm's break-before-make).
    const BREAK_BEFORE_MAKE: bool = false;

    /// Whether [`Invalidate::notify_mapped`](crate::Invalidate::notify_mapped) is called: processors may not find, without being told, an entry that has just become valid, or
    /// execute stale bytes there. Where it is `false`, no instruction is spent on it.
    const NOTIFIES_MAPPED: bool = true;

    /// Whether the processor translates this address by one root table.
    fn is_canonical(addr: u64) -> bool;

    /// The first address above those that are [canonical](Self::is_canonical) from 0 on, as those of programs are.
    fn lower_end() -> u64 {
        let all = 1 << (12 + 9 * Self::LEVELS);
        if Self::is_canonical(all - 1) {
            all
        } else {
            all >> 1
        }
    }

    /// The first address of the kernel's half, which reaches to the highest address of all. It is [canonical](Self::is_canonical) if the root of the running
    /// program translates it, too (x86-64, RISC-V); otherwise the kernel has a root of its own (AArch64's TTBR1).
    fn kernel_start() -> u64 {
        Self::lower_end().wrapping_neg()
    }

    /// The bits of an entry that say which frame.
    fn frame_bits(phys: u64) -> u64;
    /// All other bits of an entry.
    fn attr_bits(raw: u64) -> u64;
    /// A leaf. Without any access it is not valid, and still a page to us.
    fn leaf(phys: u64, attrs: Attrs, level: usize) -> u64;
    /// An entry that points to a table; `shared`: it is not to be written through.
    fn table_entry(phys: u64, shared: bool) -> u64;
    /// Whether this entry of a level above 0 points to a table.
    fn is_table(raw: u64) -> bool;
    /// Whether an entry that points to a table has been made as shared.
    fn is_shared(raw: u64) -> bool;
    /// The table that an entry points to, or the first frame of a leaf.
    fn phys(raw: u64) -> u64;
    /// What a leaf allows.
    fn attrs(raw: u64) -> Attrs;

    /// Whether stores succeed, perhaps after the processor has set the dirty bit. A bit says so that is set: of all bits of several leaves, it tells whether
    /// one is.
    fn is_writable(raw: u64) -> bool;
    /// The leaf without permission to store; a dirty page stays dirty.
    fn write_protected(raw: u64) -> u64;
    /// The leaf as if it had not been used.
    fn without_accessed(raw: u64) -> u64;
    /// The leaf as if it had not been written.
    fn without_dirty(raw: u64) -> u64;
    /// The leaf of this level after a write that is allowed from now on.
    #[inline]
    fn after_write(raw: u64, level: usize) -> u64 {
        let add = Attrs::WRITE | Attrs::DIRTY | Attrs::ACCESSED | Attrs::SOFT_DIRTY;
        Self::leaf(Self::phys(raw), Self::attrs(raw) | add, level)
    }
    /// Whether the leaf is not counted.
    fn is_special(raw: u64) -> bool;
    /// Whether this is an accessible page whose frame is counted: most are.
    #[inline(always)]
    fn is_counted(raw: u64) -> bool {
        raw & tag::VALID != 0 && !Self::is_special(raw)
    }
    /// Whether the processor has nothing left to write into this entry by itself, so that software that holds the table's lock may store.
    fn is_hw_stable(raw: u64) -> bool;
    /// Whether the leaf is [plain](Self::is_counted) and [settled](Self::is_hw_stable): those that were written are. May say no of others that are, too.
    #[inline(always)]
    fn is_common(raw: u64) -> bool {
        Self::is_counted(raw) && Self::is_hw_stable(raw)
    }

    /// What an entry says.
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

/// Whether the bits above those that so many levels translate are all as the highest of these.
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
                // Encoding what was read gives the same entry.
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
    fn what_is_written_is_read() {
        all_attrs::<X86_64>();
        all_attrs::<X86_64La57>();
        all_attrs::<Aarch64>();
        all_attrs::<Sv39>();
        all_attrs::<Sv48>();
    }
}

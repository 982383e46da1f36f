//! The layout of the blocks of one size.

use core::alloc::Layout;

/// Returns the largest power of two that divides a number.
const fn largest_power_of_two(size: usize) -> usize {
    1 << size.trailing_zeros()
}

/// Returns the layout of blocks of `SIZE` bytes, aligned to the largest power of two that divides
/// their size. Such blocks can lie next to each other.
///
/// Sizes that cannot hold two links, or in which links would not be aligned, do not compile.
pub(crate) const fn layout<const SIZE: usize>() -> Layout {
    const {
        assert!(
            SIZE != 0 && SIZE.is_multiple_of(2 * size_of::<usize>()),
            "a block holds two links and is a multiple of them"
        );
        match Layout::from_size_align(SIZE, largest_power_of_two(SIZE)) {
            Ok(layout) => layout,
            Err(_) => unreachable!(),
        }
    }
}

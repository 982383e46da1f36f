//! The index types that a tree can be built over.

use core::fmt::{Debug, Display, LowerHex};
use core::hash::Hash;

mod sealed {
    pub trait Sealed {}
}

/// An index: `u32`, `u64`, `usize` or `u128`.
///
/// The trait is sealed: the layout of a node is derived from the width of the key, and only these
/// widths have been laid out and tested.
pub trait Key:
    sealed::Sealed
    + Copy
    + Ord
    + Debug
    + Display
    + LowerHex
    + Hash
    + Default
    + Send
    + Sync
    + Unpin
    + 'static
{
    /// The smallest index, 0.
    const MIN: Self;
    /// The largest index; it can be stored at, like any other.
    const MAX: Self;
    /// The number 1.
    const ONE: Self;

    /// `self + 1`, or `None` at [`Key::MAX`].
    fn successor(self) -> Option<Self>;
    /// `self - 1`, or `None` at [`Key::MIN`].
    fn predecessor(self) -> Option<Self>;
    /// `self + other`, or `None` if that is larger than [`Key::MAX`].
    fn checked_add(self, other: Self) -> Option<Self>;
    /// `self - other`, or `None` if `other` is larger.
    fn checked_sub(self, other: Self) -> Option<Self>;
    /// `self + other` modulo 2 to the width.
    fn wrapping_add(self, other: Self) -> Self;
    /// `self - other` modulo 2 to the width.
    fn wrapping_sub(self, other: Self) -> Self;
    /// The largest multiple of `align` that is not above `self`; `align` is not 0.
    fn align_down(self, align: Self) -> Self;

    /// How many indices `first..=last` holds; [`Key::MAX`] for the whole of the key space, whose
    /// true size does not fit.
    #[inline]
    fn span(first: Self, last: Self) -> Self {
        let less_one = last.wrapping_sub(first);
        less_one.successor().unwrap_or(less_one)
    }

    /// The smallest multiple of `align` that is not below `self`, or `None` if there is none.
    #[inline]
    fn align_up(self, align: Self) -> Option<Self> {
        let down = self.align_down(align);
        if down == self {
            Some(self)
        } else {
            down.checked_add(align)
        }
    }
}

macro_rules! keys {
    ($($t:ty),*) => {$(
        impl sealed::Sealed for $t {}
        impl Key for $t {
            const MIN: Self = 0;
            const MAX: Self = <$t>::MAX;
            const ONE: Self = 1;
            #[inline]
            fn successor(self) -> Option<Self> {
                <$t>::checked_add(self, 1)
            }
            #[inline]
            fn predecessor(self) -> Option<Self> {
                <$t>::checked_sub(self, 1)
            }
            #[inline]
            fn checked_add(self, other: Self) -> Option<Self> {
                <$t>::checked_add(self, other)
            }
            #[inline]
            fn checked_sub(self, other: Self) -> Option<Self> {
                <$t>::checked_sub(self, other)
            }
            #[inline]
            fn wrapping_add(self, other: Self) -> Self {
                <$t>::wrapping_add(self, other)
            }
            #[inline]
            fn wrapping_sub(self, other: Self) -> Self {
                <$t>::wrapping_sub(self, other)
            }
            #[inline]
            fn align_down(self, align: Self) -> Self {
                self - self % align
            }
        }
    )*};
}

keys!(u32, u64, usize, u128);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_saturate_at_the_whole_key_space() {
        assert_eq!(<u32 as Key>::span(0, u32::MAX), u32::MAX);
        assert_eq!(<u32 as Key>::span(1, u32::MAX), u32::MAX);
        assert_eq!(<u32 as Key>::span(5, 5), 1);
    }

    #[test]
    fn alignment_up_fails_where_no_multiple_is_left() {
        assert_eq!(Key::align_up(5u64, 4), Some(8));
        assert_eq!(Key::align_up(8u64, 4), Some(8));
        assert_eq!(Key::align_up(u64::MAX, 4), None);
        assert_eq!(Key::align_down(u64::MAX, 4), u64::MAX - 3);
    }
}

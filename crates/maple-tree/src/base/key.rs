//! The index types that a tree can be built over.

use core::fmt::{Debug, Display, LowerHex};
use core::hash::Hash;

/// An index: an integer of 8 to 128 bits, with or without a sign.
///
/// The trait is sealed: the layout of a node is derived from the width of the key, and only these widths have been laid out and tested.
///
/// ```
/// use maple_tree::MapleTree;
///
/// let mut degrees: MapleTree<i16, &'static &'static str> = MapleTree::with_gaps();
/// degrees.store_range(..0, &"ice")?;
/// degrees.store_range(0..100, &"water")?;
/// assert_eq!(degrees.get(-40), Some(&"ice"));
/// assert_eq!(degrees.gap_up(.., 10), Some(100));
/// assert_eq!(degrees.last(), Some((0..=99, &"water")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Key:
    sealed::Offset<Number = <Self as Key>::Size>
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
    /// How many indices there are in a range, and how far apart two of them are: the integer without a sign that is as wide.
    type Size: Key<Size = Self::Size>;

    /// The smallest index: 0, or the largest negative number.
    const MIN: Self;
    /// The largest index; it can be stored at, like any other.
    const MAX: Self;

    /// `self + 1`, or `None` at [`Key::MAX`].
    fn successor(self) -> Option<Self>;
    /// `self - 1`, or `None` at [`Key::MIN`].
    fn predecessor(self) -> Option<Self>;
}

pub(crate) mod sealed {
    /// Indices as the tree reckons with them: a number stands for the index that is so far above the smallest one. Sizes of ranges and
    /// holes therefore are indices, too, and one arithmetic serves keys with and without a sign.
    pub trait Offset: Sized {
        /// As [`Key::Size`](super::Key::Size).
        type Number;

        /// The index above the smallest one.
        const ONE: Self;

        /// How far above the smallest index this one is.
        fn number(self) -> Self::Number;
        /// The index that is so far above the smallest one.
        fn at(number: Self::Number) -> Self;
        /// What multiples of `align` plus `offset`, counted from 0, are above multiples of `align`, counted from the smallest index.
        /// An `offset` that is not below `align` stays what it is.
        fn phase(align: Self::Number, offset: Self::Number) -> Self;

        /// The sum, or `None` if that is above the largest index.
        fn checked_add(self, other: Self) -> Option<Self>;
        /// The difference, or `None` if `other` is larger.
        fn checked_sub(self, other: Self) -> Option<Self>;
        /// The sum modulo 2 to the width.
        fn wrapping_add(self, other: Self) -> Self;
        /// The difference modulo 2 to the width.
        fn wrapping_sub(self, other: Self) -> Self;
        /// The largest multiple of `align` that is not above `self`; `align` is not the smallest index.
        fn align_down(self, align: Self) -> Self;
        /// The smallest multiple of `align` that is not below `self`, or `None` if there is none.
        fn align_up(self, align: Self) -> Option<Self>;
        /// How many indices `first..=last` holds; the largest index for the whole of the key space, whose true size does not fit.
        fn span(first: Self, last: Self) -> Self;
    }
}

macro_rules! keys {
    ($($key:ty: $size:ty),*) => {$(
        impl sealed::Offset for $key {
            type Number = $size;
            const ONE: Self = <$key>::MIN + 1;
            #[inline(always)]
            fn number(self) -> $size {
                (self ^ <$key>::MIN) as $size
            }
            #[inline(always)]
            fn at(number: $size) -> Self {
                number as $key ^ <$key>::MIN
            }
            #[inline]
            fn phase(align: $size, offset: $size) -> Self {
                let zero = (0 as $key).number();
                if zero == 0 || offset >= align {
                    return Self::at(offset);
                }
                let to_zero = zero % align;
                let rest = align - to_zero;
                Self::at(if offset < rest { offset + to_zero } else { offset - rest })
            }
            #[inline]
            fn checked_add(self, other: Self) -> Option<Self> {
                self.number().checked_add(other.number()).map(Self::at)
            }
            #[inline]
            fn checked_sub(self, other: Self) -> Option<Self> {
                self.number().checked_sub(other.number()).map(Self::at)
            }
            #[inline]
            fn wrapping_add(self, other: Self) -> Self {
                Self::at(self.number().wrapping_add(other.number()))
            }
            #[inline]
            fn wrapping_sub(self, other: Self) -> Self {
                Self::at(self.number().wrapping_sub(other.number()))
            }
            #[inline]
            fn align_down(self, align: Self) -> Self {
                Self::at(self.number() - self.number() % align.number())
            }
            #[inline]
            fn align_up(self, align: Self) -> Option<Self> {
                let down = sealed::Offset::align_down(self, align);
                if down == self {
                    Some(self)
                } else {
                    sealed::Offset::checked_add(down, align)
                }
            }
            #[inline]
            fn span(first: Self, last: Self) -> Self {
                let less_one = sealed::Offset::wrapping_sub(last, first);
                less_one.successor().unwrap_or(less_one)
            }
        }

        impl Key for $key {
            type Size = $size;
            const MIN: Self = <$key>::MIN;
            const MAX: Self = <$key>::MAX;
            #[inline]
            fn successor(self) -> Option<Self> {
                <$key>::checked_add(self, 1)
            }
            #[inline]
            fn predecessor(self) -> Option<Self> {
                <$key>::checked_sub(self, 1)
            }
        }
    )*};
}

keys!(u8: u8, u16: u16, u32: u32, u64: u64, usize: usize, u128: u128);
keys!(i8: u8, i16: u16, i32: u32, i64: u64, isize: usize, i128: u128);

#[cfg(test)]
mod tests {
    use super::sealed::Offset;

    #[test]
    fn spans_saturate_at_the_whole_key_space() {
        assert_eq!(<u32 as Offset>::span(0, u32::MAX), u32::MAX);
        assert_eq!(<u32 as Offset>::span(1, u32::MAX), u32::MAX);
        assert_eq!(<u32 as Offset>::span(5, 5), 1);
        assert_eq!(<i32 as Offset>::span(i32::MIN, i32::MAX), i32::MAX);
        assert_eq!(<i32 as Offset>::span(-5, 4).number(), 10);
    }

    #[test]
    fn alignment_up_fails_where_no_multiple_is_left() {
        assert_eq!(Offset::align_up(5u64, 4), Some(8));
        assert_eq!(Offset::align_up(8u64, 4), Some(8));
        assert_eq!(Offset::align_up(u64::MAX, 4), None);
        assert_eq!(Offset::align_down(u64::MAX, 4), u64::MAX - 3);
    }

    /// Every pair of 8-bit indices, beside numbers that are wide enough.
    #[test]
    fn signed_indices_reckon_from_the_smallest_one() {
        for a in i8::MIN..=i8::MAX {
            assert_eq!(i8::at(a.number()), a);
            assert_eq!(i16::from(a.number()), i16::from(a) + 128);
            for b in i8::MIN..=i8::MAX {
                let (x, y) = (a.number(), b.number());
                assert_eq!(a.cmp(&b), x.cmp(&y));
                assert_eq!(Offset::checked_add(a, b), x.checked_add(y).map(i8::at));
                assert_eq!(Offset::checked_sub(a, b), x.checked_sub(y).map(i8::at));
                assert_eq!(Offset::wrapping_add(a, b).number(), x.wrapping_add(y));
                assert_eq!(Offset::wrapping_sub(a, b).number(), x.wrapping_sub(y));
            }
        }
    }

    /// Multiples are those of the numbers themselves, wherever the smallest index is.
    #[test]
    fn alignment_counts_from_zero() {
        for align in 1..=u8::MAX {
            for offset in 0..align {
                let phase = i8::phase(align, offset).number();
                assert!(phase < align);
                for key in i8::MIN..=i8::MAX {
                    let expected = i16::from(key).rem_euclid(align.into()) == offset.into();
                    assert_eq!(key.number() % align == phase, expected);
                }
                assert_eq!(u8::phase(align, offset), offset);
            }
        }
        assert_eq!((i8::phase(0, 0).number(), i8::phase(3, 7).number()), (0, 7));
    }
}

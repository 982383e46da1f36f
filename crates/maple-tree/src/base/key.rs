//! The index types of trees, and their arithmetic.

use core::fmt::{Debug, Display, LowerHex};
use core::hash::Hash;
use core::mem::MaybeUninit;

use crate::base::shape::{MOST_SLOTS, NODE_BYTES};
use sealed::Arithmetic;

/// An index: an integer of 8 to 128 bits, signed or unsigned.
///
/// The trait is sealed: the layout of a node is derived from the width of the key, and only these
/// widths have been laid out and tested.
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
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the key of a maple tree",
    note = "keys are integers of 8 to 128 bits, with or without a sign; no other type can be one: map yours to one of these"
)]
pub trait Key:
    Copy + Ord + Debug + Display + LowerHex + Hash + Default + Send + Sync + Unpin + 'static
{
    /// The type for numbers of indices and for distances: the unsigned integer of the same width.
    type Size: Key<Size = Self::Size> + sealed::Arithmetic<Self>;

    /// The smallest index: 0, or the most negative number.
    const MIN: Self;
    /// The largest index. An entry may contain it, like any other.
    const MAX: Self;

    /// Returns `self + 1`, or `None` at [`Key::MAX`].
    fn successor(self) -> Option<Self>;
    /// Returns `self - 1`, or `None` at [`Key::MIN`].
    fn predecessor(self) -> Option<Self>;
}

mod sealed {
    use core::mem::MaybeUninit;

    /// Numbers that represent indices `K`, and the arithmetic on them. Its functions are not
    /// methods of the indices, so that they do not conflict with those of a client's own traits.
    pub trait Arithmetic<K>: Copy {
        /// The index after the smallest one.
        const ONE: K;

        /// Returns the distance of an index from the smallest one.
        fn of(index: K) -> Self;
        /// Returns the index at this distance from the smallest one.
        fn index(number: Self) -> K;
        /// Returns the sum modulo 2 to the width, and `true` if it overflowed.
        fn sum(a: Self, b: Self) -> (Self, bool);
        /// Returns the difference modulo 2 to the width, and `true` if it overflowed.
        fn difference(a: Self, b: Self) -> (Self, bool);
        /// Returns the remainder of `a` by `b`, which is not 0.
        fn remainder(a: Self, b: Self) -> Self;

        /// Returns an array with one `T` for each slot that a node with these keys can have.
        type Slots<T>: AsRef<[T]> + AsMut<[T]>;
        /// Returns such an array, uninitialised.
        fn no_slots<T>() -> Self::Slots<MaybeUninit<T>>;
    }
}

/// Indices with arithmetic: a number stands for the index at that distance from the smallest one.
/// Sizes of ranges and holes are therefore indices, too, and one arithmetic serves signed and
/// unsigned keys.
pub(crate) trait Offset: Key {
    const ONE: Self = <Self::Size as Arithmetic<Self>>::ONE;

    /// Returns the array type of [`Arithmetic::Slots`].
    type Slots<T>: AsRef<[T]> + AsMut<[T]>;
    /// Returns what [`Arithmetic::no_slots`] does.
    fn no_slots<T>() -> Self::Slots<MaybeUninit<T>>;

    /// Returns what [`Arithmetic::of`] does.
    #[inline(always)]
    fn number(self) -> Self::Size {
        Self::Size::of(self)
    }

    /// Returns what [`Arithmetic::index`] does.
    #[inline(always)]
    fn at(number: Self::Size) -> Self {
        Self::Size::index(number)
    }

    /// Converts an alignment offset: multiples of `align` plus `offset`, counted from 0, are
    /// multiples of `align` plus the result, counted from the smallest index. An `offset` that is
    /// not below `align` stays unchanged.
    #[inline]
    fn phase(align: Self::Size, offset: Self::Size) -> Self {
        let zero = Self::default().number();
        if zero == Self::Size::MIN || offset >= align {
            return Self::at(offset);
        }
        let to_zero = zero.wrapping_sub(zero.align_down(align));
        let rest = align.wrapping_sub(to_zero);
        Self::at(if offset < rest {
            offset.wrapping_add(to_zero)
        } else {
            offset.wrapping_sub(rest)
        })
    }

    /// Returns the sum, or `None` if it is above the largest index.
    #[inline]
    fn checked_add(self, other: Self) -> Option<Self> {
        let (sum, other_than_that) = Self::Size::sum(self.number(), other.number());
        (!other_than_that).then_some(Self::at(sum))
    }

    /// Returns the difference, or `None` if `other` is larger.
    #[inline]
    fn checked_sub(self, other: Self) -> Option<Self> {
        let (difference, other_than_that) = Self::Size::difference(self.number(), other.number());
        (!other_than_that).then_some(Self::at(difference))
    }

    /// Returns the sum modulo 2 to the width.
    #[inline]
    fn wrapping_add(self, other: Self) -> Self {
        Self::at(Self::Size::sum(self.number(), other.number()).0)
    }

    /// Returns the difference modulo 2 to the width.
    #[inline]
    fn wrapping_sub(self, other: Self) -> Self {
        Self::at(Self::Size::difference(self.number(), other.number()).0)
    }

    /// Returns the index after this one, or before it unless `UP`. Returns `None` at the end.
    #[inline(always)]
    fn next<const UP: bool>(self) -> Option<Self> {
        if UP {
            self.successor()
        } else {
            self.predecessor()
        }
    }

    /// Returns the largest multiple of `align` that is not above `self`. `align` is not the
    /// smallest index.
    #[inline]
    fn align_down(self, align: Self) -> Self {
        let above = Self::Size::remainder(self.number(), align.number());
        self.wrapping_sub(Self::at(above))
    }

    /// Returns the smallest multiple of `align` that is not below `self`, or `None` if there is
    /// none.
    #[inline]
    fn align_up(self, align: Self) -> Option<Self> {
        let down = self.align_down(align);
        if down == self {
            Some(self)
        } else {
            down.checked_add(align)
        }
    }

    /// Returns the number of indices in `first..=last`. For the whole key space, whose true size
    /// does not fit, returns the largest index.
    #[inline]
    fn span(first: Self, last: Self) -> Self {
        let less_one = last.wrapping_sub(first);
        less_one.successor().unwrap_or(less_one)
    }
}

impl<K: Key> Offset for K {
    type Slots<T> = <K::Size as Arithmetic<K>>::Slots<T>;

    #[inline(always)]
    fn no_slots<T>() -> Self::Slots<MaybeUninit<T>> {
        <K::Size as Arithmetic<K>>::no_slots()
    }
}

/// Returns the most slots of a node with keys of `key` bytes. A node is a word, the slots, and one
/// pivot fewer than slots.
const fn most_slots(key: usize) -> usize {
    let word = size_of::<*mut ()>();
    let slots = (NODE_BYTES - word + key) / (key + word);
    if slots < MOST_SLOTS {
        slots
    } else {
        MOST_SLOTS
    }
}

macro_rules! keys {
    ($($key:ty: $size:ty),*) => {$(
        impl Arithmetic<$key> for $size {
            const ONE: $key = <$key>::MIN + 1;
            #[inline(always)]
            fn of(index: $key) -> Self {
                (index ^ <$key>::MIN) as $size
            }
            #[inline(always)]
            fn index(number: Self) -> $key {
                number as $key ^ <$key>::MIN
            }
            #[inline(always)]
            fn sum(a: Self, b: Self) -> (Self, bool) {
                a.overflowing_add(b)
            }
            #[inline(always)]
            fn difference(a: Self, b: Self) -> (Self, bool) {
                a.overflowing_sub(b)
            }
            #[inline(always)]
            fn remainder(a: Self, b: Self) -> Self {
                a % b
            }
            type Slots<T> = [T; most_slots(size_of::<$key>())];
            #[inline(always)]
            fn no_slots<T>() -> Self::Slots<MaybeUninit<T>> {
                [const { MaybeUninit::uninit() }; most_slots(size_of::<$key>())]
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

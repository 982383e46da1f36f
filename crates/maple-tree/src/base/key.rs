//! The index types that a tree can be built over.

use core::fmt::{Debug, Display, LowerHex};
use core::hash::Hash;
use core::mem::MaybeUninit;

use crate::base::shape::{MOST_SLOTS, NODE_BYTES};
use sealed::Reckon;

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
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the key of a maple tree",
    note = "keys are integers of 8 to 128 bits, with or without a sign; no other type can be one: map yours to one of these"
)]
pub trait Key:
    Copy + Ord + Debug + Display + LowerHex + Hash + Default + Send + Sync + Unpin + 'static
{
    /// The number of indices in a range, and the distance of two: the unsigned integer of the same
    /// width.
    type Size: Key<Size = Self::Size> + sealed::Reckon<Self>;

    /// The smallest index: 0, or the largest negative number.
    const MIN: Self;
    /// The largest index; it can be stored at, like any other.
    const MAX: Self;

    /// `self + 1`, or `None` at [`Key::MAX`].
    fn successor(self) -> Option<Self>;
    /// `self - 1`, or `None` at [`Key::MIN`].
    fn predecessor(self) -> Option<Self>;
}

mod sealed {
    use core::mem::MaybeUninit;

    /// Numbers that stand for indices `K`, and what the machine reckons with them. A trait of the numbers, of functions that are not methods: what a client's
    /// own traits call their methods of indices is left to the client.
    pub trait Reckon<K>: Copy {
        /// The index above the smallest one.
        const ONE: K;

        /// Returns the distance of this index from the smallest one.
        fn of(index: K) -> Self;
        /// The index that is so far above the smallest one.
        fn index(number: Self) -> K;
        /// The sum modulo 2 to the width, and whether that is another than the sum.
        fn sum(a: Self, b: Self) -> (Self, bool);
        /// The difference modulo 2 to the width, and whether that is another than the difference.
        fn difference(a: Self, b: Self) -> (Self, bool);
        /// The remainder of `a` by `b`, which is not 0.
        fn remainder(a: Self, b: Self) -> Self;

        /// An array with one `T` for each slot that a node with these keys can have.
        type Slots<T>: AsRef<[T]> + AsMut<[T]>;
        /// Returns such an array, uninitialised.
        fn no_slots<T>() -> Self::Slots<MaybeUninit<T>>;
    }
}

/// Indices as the tree reckons with them: a number stands for the index that is so far above the smallest one. Sizes of ranges and
/// holes therefore are indices, too, and one arithmetic serves keys with and without a sign.
pub(crate) trait Offset: Key {
    const ONE: Self = <Self::Size as Reckon<Self>>::ONE;

    /// As [`Reckon::Slots`].
    type Slots<T>: AsRef<[T]> + AsMut<[T]>;
    /// As [`Reckon::no_slots`].
    fn no_slots<T>() -> Self::Slots<MaybeUninit<T>>;

    /// As [`Reckon::of`].
    #[inline(always)]
    fn number(self) -> Self::Size {
        Self::Size::of(self)
    }

    /// As [`Reckon::index`].
    #[inline(always)]
    fn at(number: Self::Size) -> Self {
        Self::Size::index(number)
    }

    /// Converts an offset from multiples of `align` counted from 0 to one from multiples counted
    /// from the smallest index. An `offset` that is not below `align` stays unchanged.
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

    /// The sum, or `None` if that is above the largest index.
    #[inline]
    fn checked_add(self, other: Self) -> Option<Self> {
        let (sum, other_than_that) = Self::Size::sum(self.number(), other.number());
        (!other_than_that).then_some(Self::at(sum))
    }

    /// The difference, or `None` if `other` is larger.
    #[inline]
    fn checked_sub(self, other: Self) -> Option<Self> {
        let (difference, other_than_that) = Self::Size::difference(self.number(), other.number());
        (!other_than_that).then_some(Self::at(difference))
    }

    /// The sum modulo 2 to the width.
    #[inline]
    fn wrapping_add(self, other: Self) -> Self {
        Self::at(Self::Size::sum(self.number(), other.number()).0)
    }

    /// The difference modulo 2 to the width.
    #[inline]
    fn wrapping_sub(self, other: Self) -> Self {
        Self::at(Self::Size::difference(self.number(), other.number()).0)
    }

    /// The index after this one, or before it unless `UP`; `None` at the end.
    #[inline(always)]
    fn next<const UP: bool>(self) -> Option<Self> {
        if UP {
            self.successor()
        } else {
            self.predecessor()
        }
    }

    /// The largest multiple of `align` that is not above `self`; `align` is not the smallest index.
    #[inline]
    fn align_down(self, align: Self) -> Self {
        let above = Self::Size::remainder(self.number(), align.number());
        self.wrapping_sub(Self::at(above))
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

    /// Returns the number of indices of `first..=last`, or the largest number for the whole key
    /// space, whose size does not fit.
    #[inline]
    fn span(first: Self, last: Self) -> Self {
        let less_one = last.wrapping_sub(first);
        less_one.successor().unwrap_or(less_one)
    }
}

impl<K: Key> Offset for K {
    type Slots<T> = <K::Size as Reckon<K>>::Slots<T>;

    #[inline(always)]
    fn no_slots<T>() -> Self::Slots<MaybeUninit<T>> {
        <K::Size as Reckon<K>>::no_slots()
    }
}

/// Returns how many slots a node has at most, with keys of `key` bytes. A node is a word, the slots, and one pivot fewer than slots.
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
        impl Reckon<$key> for $size {
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

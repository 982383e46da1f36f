//! Arithmetic on the keys of any width, by numbers that are wide enough: nothing of it is the trees' own.

use maple_tree::Key;

/// A key as a number: how far above the smallest one it is.
pub trait Index: Key {
    /// The key above the smallest one.
    const ONE: Self;

    /// Returns the distance from the smallest key.
    fn number(self) -> Self::Size;
    /// … in a number that is wide enough for all.
    fn far(self) -> u128;
    /// The key that is so far above the smallest one, modulo 2 to the width.
    fn at(far: u128) -> Self;

    fn wrapping_add(self, other: Self) -> Self {
        Self::at(self.far().wrapping_add(other.far()))
    }

    fn wrapping_sub(self, other: Self) -> Self {
        Self::at(self.far().wrapping_sub(other.far()))
    }

    fn checked_add(self, other: Self) -> Option<Self> {
        let sum = self.far().checked_add(other.far());
        sum.filter(|&sum| sum <= Self::MAX.far()).map(Self::at)
    }

    fn checked_sub(self, other: Self) -> Option<Self> {
        self.far().checked_sub(other.far()).map(Self::at)
    }

    /// Returns the number of keys of `first..=last`, less one.
    fn distance(first: Self, last: Self) -> u128 {
        last.far() - first.far()
    }

    fn align_down(self, align: Self) -> Self {
        Self::at(self.far() - self.far() % align.far())
    }
}

macro_rules! indices {
    ($($key:ty: $size:ty),*) => {$(
        impl Index for $key {
            const ONE: Self = <$key>::MIN + 1;

            fn far(self) -> u128 {
                self.number() as u128
            }

            fn at(far: u128) -> Self {
                <$key>::MIN.wrapping_add(far as $key)
            }

            fn number(self) -> $size {
                self.wrapping_sub(<$key>::MIN) as $size
            }
        }
    )*};
}

indices!(u8: u8, u16: u16, u32: u32, u64: u64, usize: usize, u128: u128);
indices!(i8: u8, i16: u16, i32: u32, i64: u64, isize: usize, i128: u128);

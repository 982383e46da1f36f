//! Conversion of ranges to the inclusive ones of the tree.

use core::ops::{Bound, Range, RangeBounds, RangeInclusive};

use crate::base::{Key, Offset};

/// Returns `first..=last` of a range, or `None` if it contains no index.
#[inline]
pub(crate) fn inclusive<K: Key>(range: &impl RangeBounds<K>) -> Option<(K, K)> {
    let first = match range.start_bound() {
        Bound::Included(&first) => first,
        Bound::Excluded(&before) => before.successor()?,
        Bound::Unbounded => K::MIN,
    };
    let last = match range.end_bound() {
        Bound::Included(&last) => last,
        Bound::Excluded(&after) => after.predecessor()?,
        Bound::Unbounded => K::MAX,
    };
    (first <= last).then_some((first, last))
}

/// Half-open views of inclusive ranges, as `BTreeMap` and page tables use them.
pub trait HalfOpen<K: Key> {
    /// Returns the same indices as a half-open range, or `None` if the last one is the largest key,
    /// which has no successor.
    ///
    /// ```
    /// use maple_tree::{HalfOpen, MapleTree};
    ///
    /// let map = MapleTree::from([(0x1000..0x5000u64, 'a')]);
    /// let areas: Vec<_> = map.ranges().filter_map(|range| range.half_open()).collect();
    /// assert_eq!(areas, [0x1000..0x5000]);
    /// assert_eq!((5..=u32::MAX).half_open(), None);
    /// ```
    fn half_open(&self) -> Option<Range<K>>;

    /// Returns the number of indices. For the whole key space, whose true size does not fit,
    /// returns the largest number.
    ///
    /// ```
    /// use maple_tree::HalfOpen;
    ///
    /// assert_eq!((10..=19u32).span(), 10);
    /// ```
    fn span(&self) -> K::Size;
}

impl<K: Key> HalfOpen<K> for RangeInclusive<K> {
    #[inline]
    fn half_open(&self) -> Option<Range<K>> {
        Some(*self.start()..self.end().successor()?)
    }

    #[inline]
    fn span(&self) -> K::Size {
        match inclusive(self) {
            Some((first, last)) => K::span(first, last).number(),
            None => K::Size::MIN,
        }
    }
}

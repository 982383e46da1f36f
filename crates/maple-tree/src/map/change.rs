//! Inserting, storing, erasing: changes of single ranges.

use core::ops::{RangeBounds, RangeInclusive};

use crate::alloc::NodeAlloc;
use crate::bounds::inclusive;
use crate::error::{EraseError, InsertError, StoreError};
use crate::key::Key;
use crate::map::MapleTree;
use crate::reserve::AllocError;
use crate::shape::Shape;
use crate::value::Value;
use crate::write::{self, Host, Lowest};

impl<K: Key, V: Value, A: NodeAlloc, S: Shape> MapleTree<K, V, A, S> {
    /// Stores `value` at `range` if that is a hole, or part of one. O(log n).
    ///
    /// ```
    /// use maple_tree::MapleTree;
    ///
    /// let mut map: MapleTree<u32, u32> = MapleTree::with_gaps();
    /// map.insert_range(10..20, 1)?;
    /// let refused = map.insert_range(15..25, 2).unwrap_err();
    /// assert_eq!(refused.into_value(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The value comes back if an entry intersects the range, if there is no memory, or if the range is empty.
    pub fn insert_range(
        &mut self,
        range: impl RangeBounds<K>,
        value: V,
    ) -> Result<(), InsertError<V>> {
        write::insert(self, inclusive(&range), value)
    }

    /// Stores `value` at the one index `key`, if that is in a hole. O(log n).
    ///
    /// ```
    /// use maple_tree::MapleTree;
    ///
    /// let mut map: MapleTree<u32, u32> = MapleTree::with_gaps();
    /// map.insert(7, 1)?;
    /// assert_eq!(map.get_range(7), Some((7..=7, 1)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`insert_range`](MapleTree::insert_range).
    pub fn insert(&mut self, key: K, value: V) -> Result<(), InsertError<V>> {
        self.insert_range(key..=key, value)
    }

    /// Stores `value` at the lowest gap of `size` indices within `bounds`, and gives its first index. O(log n) if the map tracks
    /// gaps.
    ///
    /// ```
    /// use maple_tree::MapleTree;
    ///
    /// let mut map: MapleTree<u32, u32> = MapleTree::with_gaps();
    /// map.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
    /// assert_eq!(map.alloc_range(10.., 5, 9)?, 30);
    /// assert_eq!(map.get_range(30), Some((30..=34, 9)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The value comes back if there is no such gap ([`InsertError::Occupied`]), if there is no memory, or if `bounds` holds no
    /// index or `size` is 0.
    pub fn alloc_range(
        &mut self,
        bounds: impl RangeBounds<K>,
        size: K,
        value: V,
    ) -> Result<K, InsertError<V>> {
        write::allocate(self, inclusive(&bounds), size, Lowest::Lowest, value)
    }

    /// As [`alloc_range`](Self::alloc_range), at the highest gap.
    ///
    /// ```
    /// use maple_tree::MapleTree;
    ///
    /// let mut map: MapleTree<u32, u32> = MapleTree::with_gaps();
    /// map.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
    /// assert_eq!(map.alloc_rrange(..50, 5, 9)?, 35);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`alloc_range`](Self::alloc_range).
    pub fn alloc_rrange(
        &mut self,
        bounds: impl RangeBounds<K>,
        size: K,
        value: V,
    ) -> Result<K, InsertError<V>> {
        write::allocate(self, inclusive(&bounds), size, Lowest::Highest, value)
    }

    /// Stores `value` at one free index within `bounds`: the lowest at or after `next`, or, if there is none, the lowest of all. `next`
    /// becomes the index after it, so that indices are reused late. Gives the index, and whether the search started over.
    ///
    /// ```
    /// use maple_tree::MapleTree;
    ///
    /// let mut map: MapleTree<u32, u32> = MapleTree::with_gaps();
    /// let mut next = 8;
    /// for expected in [(8, false), (9, false), (0, true)] {
    ///     assert_eq!(map.alloc_cyclic(0..10, &mut next, 1)?, expected);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`alloc_range`](Self::alloc_range); `next` stays as it was.
    pub fn alloc_cyclic(
        &mut self,
        bounds: impl RangeBounds<K>,
        next: &mut K,
        value: V,
    ) -> Result<(K, bool), InsertError<V>> {
        write::allocate_cyclic(self, inclusive(&bounds), next, value)
    }

    /// Stores `value` at `range`. Entries within the range are dropped, entries that overlap one end of
    /// it keep what is outside.
    ///
    /// ```
    /// use maple_tree::MapleTree;
    ///
    /// let mut map: MapleTree<u32, u32> = MapleTree::with_gaps();
    /// map.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
    /// map.store_range(15..45, 9)?;
    /// assert_eq!(map.ranges().collect::<Vec<_>>(), [10..=14, 15..=44, 45..=49]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The value comes back if the range lies strictly within one entry (which would have to be on both sides; see
    /// [`store_range_splitting`](MapleTree::store_range_splitting)), if there is no memory, or if the
    /// range is empty.
    pub fn store_range(
        &mut self,
        range: impl RangeBounds<K>,
        value: V,
    ) -> Result<(), StoreError<V>> {
        write::store(self, inclusive(&range), value, |_, _, word| {
            Self::discard(word)
        })
    }

    /// As [`store_range`](MapleTree::store_range); hands the entries within the range to `displaced`, in no
    /// particular order, with the ranges that they had.
    ///
    /// ```
    /// use maple_tree::MapleTree;
    ///
    /// let mut map: MapleTree<u32, u32> = MapleTree::with_gaps();
    /// map.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
    /// let mut gone = Vec::new();
    /// map.store_range_with(15..45, 9, |range, value| gone.push((range, value)))?;
    /// assert_eq!(gone, [(20..=29, 2)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`store_range`](MapleTree::store_range).
    pub fn store_range_with(
        &mut self,
        range: impl RangeBounds<K>,
        value: V,
        displaced: impl FnMut(RangeInclusive<K>, V),
    ) -> Result<(), StoreError<V>> {
        write::store(self, inclusive(&range), value, Self::owned(displaced))
    }

    /// As [`store_range`](MapleTree::store_range); if the range lies strictly within an entry, the part above gets
    /// the value that `split` makes from that entry and the range of that part.
    ///
    /// ```
    /// use maple_tree::MapleTree;
    ///
    /// let mut map: MapleTree<u32, u32> = MapleTree::with_gaps();
    /// map.insert_range(0..100, 1)?;
    /// map.store_range_splitting(40..50, 2, |_, around| Some(around))?;
    /// assert_eq!(map.iter().collect::<Vec<_>>(), [(0..=39, 1), (40..=49, 2), (50..=99, 1)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The value comes back if there is no memory, if the range is empty, or (as
    /// [`StoreError::Splits`]) if `split` gives `None`.
    pub fn store_range_splitting(
        &mut self,
        range: impl RangeBounds<K>,
        value: V,
        split: impl FnOnce(RangeInclusive<K>, V::Ref<'_>) -> Option<V>,
    ) -> Result<(), StoreError<V>> {
        write::store_splitting(self, inclusive(&range), value, split)
    }

    /// As [`store_range`](MapleTree::store_range); neighbours that touch the range, or reach into it from outside, and that are the `same` as the
    /// new value, become one entry with it. Gives the range of that. The values of the neighbours are dropped, the new one stays. `same` is
    /// asked about each of the (at most two) neighbours. O(log n).
    ///
    /// Nothing is ever joined unless a call asks for it; other entries, though they may touch and be equal, stay as they are.
    ///
    /// ```
    /// use maple_tree::MapleTree;
    ///
    /// let mut map: MapleTree<u32, u32> = MapleTree::from([(0..10, 1), (20..30, 1), (30..40, 1)]);
    /// assert_eq!(map.store_range_coalescing(10..20, 1, |a, b| a == b)?, 0..=29);
    /// assert_eq!(map.iter().collect::<Vec<_>>(), [(0..=29, 1), (30..=39, 1)]);
    /// # Ok::<(), maple_tree::StoreError<u32>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`store_range`](MapleTree::store_range); within an entry that is the same, nothing is split.
    pub fn store_range_coalescing(
        &mut self,
        range: impl RangeBounds<K>,
        value: V,
        same: impl FnMut(V::Ref<'_>, V::Ref<'_>) -> bool,
    ) -> Result<RangeInclusive<K>, StoreError<V>> {
        write::store_coalescing(self, inclusive(&range), value, same, |_, _, word| {
            Self::discard(word)
        })
    }

    /// As [`insert_range`](MapleTree::insert_range); neighbours that touch the range and are the `same` as the new value become one entry
    /// with it, as for [`store_range_coalescing`](MapleTree::store_range_coalescing). O(log n).
    ///
    /// ```
    /// use maple_tree::MapleTree;
    ///
    /// let mut free: MapleTree<u32, u8> = MapleTree::from([(0..10, 0), (20..30, 0)]);
    /// assert_eq!(free.insert_range_coalescing(10..15, 0, |a, b| a == b)?, 0..=14);
    /// # Ok::<(), maple_tree::InsertError<u8>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`insert_range`](MapleTree::insert_range).
    pub fn insert_range_coalescing(
        &mut self,
        range: impl RangeBounds<K>,
        value: V,
        same: impl FnMut(V::Ref<'_>, V::Ref<'_>) -> bool,
    ) -> Result<RangeInclusive<K>, InsertError<V>> {
        write::insert_coalescing(self, inclusive(&range), value, same, |_, _, word| {
            Self::discard(word)
        })
    }

    /// Makes `range` a hole. Entries within it are dropped, entries that overlap one end of it keep
    /// what is outside.
    ///
    /// ```
    /// use maple_tree::MapleTree;
    ///
    /// let mut map: MapleTree<u32, u32> = MapleTree::with_gaps();
    /// map.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
    /// map.erase_range(15..45)?;
    /// assert_eq!(map.ranges().collect::<Vec<_>>(), [10..=14, 45..=49]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the range lies strictly within one entry, if there is no memory (joining nodes that have become too small
    /// may take some), or if the range is empty. Nothing has changed then.
    pub fn erase_range(&mut self, range: impl RangeBounds<K>) -> Result<(), EraseError> {
        write::erase(self, inclusive(&range), |_, _, word| Self::discard(word))
    }

    /// As [`erase_range`](MapleTree::erase_range); hands the entries within the range to `displaced`, in no particular
    /// order, with the ranges that they had.
    ///
    /// ```
    /// use maple_tree::MapleTree;
    ///
    /// let mut map: MapleTree<u32, u32> = MapleTree::with_gaps();
    /// map.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
    /// let mut gone = Vec::new();
    /// map.erase_range_with(15..45, |range, value| gone.push((range, value)))?;
    /// assert_eq!(gone, [(20..=29, 2)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`erase_range`](MapleTree::erase_range).
    pub fn erase_range_with(
        &mut self,
        range: impl RangeBounds<K>,
        displaced: impl FnMut(RangeInclusive<K>, V),
    ) -> Result<(), EraseError> {
        write::erase(self, inclusive(&range), Self::owned(displaced))
    }

    /// As [`erase_range`](MapleTree::erase_range); if the range lies strictly within an entry, the part above gets the
    /// value that `split` makes from that entry and the range of that part.
    ///
    /// ```
    /// use maple_tree::MapleTree;
    ///
    /// let mut map: MapleTree<u32, u32> = MapleTree::with_gaps();
    /// map.insert_range(0..100, 1)?;
    /// map.erase_range_splitting(40..50, |_, around| Some(around))?;
    /// assert_eq!(map.ranges().collect::<Vec<_>>(), [0..=39, 50..=99]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory, if the range is empty, or (as [`EraseError::Splits`]) if `split` gives
    /// `None`.
    pub fn erase_range_splitting(
        &mut self,
        range: impl RangeBounds<K>,
        split: impl FnOnce(RangeInclusive<K>, V::Ref<'_>) -> Option<V>,
    ) -> Result<(), EraseError> {
        write::erase_splitting(self, inclusive(&range), split)
    }

    /// Removes the whole entry at `key`, and gives its range and value. O(log n).
    ///
    /// ```
    /// use maple_tree::MapleTree;
    ///
    /// let mut map: MapleTree<u32, u32> = MapleTree::with_gaps();
    /// map.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
    /// assert_eq!(map.remove(15)?, Some((10..=19, 1)));
    /// assert_eq!(map.remove(15)?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory (joining nodes that have become too small may take some); the entry is still there
    /// then.
    pub fn remove(&mut self, key: K) -> Result<Option<(RangeInclusive<K>, V)>, AllocError> {
        Ok(write::remove(self, key)?.map(|(range, raw)| {
            // SAFETY: the entry has been removed from the tree, which owned its value.
            (range, unsafe { V::from_raw(raw) })
        }))
    }

    /// Exchanges the value of the entry at `key`, whose range stays as it is, and gives the old one. O(log n).
    ///
    /// ```
    /// use maple_tree::MapleTree;
    ///
    /// let mut map: MapleTree<u32, u32> = MapleTree::with_gaps();
    /// map.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
    /// assert_eq!(map.replace(25, 9), Ok(2));
    /// assert_eq!(map.replace(35, 9), Err(9));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The value comes back if there is no entry. It also does if there is no memory, which is needed in one
    /// case only: the entry is the map's only one, is at index 0, and the word of the new value has a bit
    /// pattern that cannot stand alone in a root.
    pub fn replace(&mut self, key: K, value: V) -> Result<V, V> {
        // SAFETY: the tree gave the old word up.
        write::replace(self, key, value).map(|old| unsafe { V::from_raw(old) })
    }

    /// Lets the entry at `key` grow to `range`, which contains all that it covers now. Other entries within the range
    /// are handed to `displaced`, entries that overlap one end of it keep what is outside. (To let an entry shrink, erase
    /// what it is to lose.)
    ///
    /// ```
    /// use maple_tree::MapleTree;
    ///
    /// let mut map: MapleTree<u32, u32> = MapleTree::with_gaps();
    /// map.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
    /// assert!(map.grow(25, 15..35, |_, _| ())?);
    /// assert_eq!(map.ranges().collect::<Vec<_>>(), [10..=14, 15..=34, 40..=49]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory. `Ok(false)`, with nothing changed, if there is no entry at `key`, or
    /// `range` does not contain its range.
    pub fn grow(
        &mut self,
        key: K,
        range: impl RangeBounds<K>,
        displaced: impl FnMut(RangeInclusive<K>, V),
    ) -> Result<bool, AllocError> {
        write::grow(self, key, inclusive(&range), Self::owned(displaced))
    }
}

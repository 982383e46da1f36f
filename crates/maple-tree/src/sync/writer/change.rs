//! Changes: each becomes visible to readers with one store.

use core::ops::{RangeBounds, RangeInclusive};

use lock_api::RawMutex;

use crate::alloc::NodeAlloc;
use crate::bounds::inclusive;
use crate::error::{EraseError, InsertError, StoreError};
use crate::key::Key;
use crate::reclaim::Reclaim;
use crate::reserve::AllocError;
use crate::shape::Shape;
use crate::sync::writer::Writer;
use crate::value::Value;
use crate::write::{self, Lowest};

impl<K, V, R, A, L, S> Writer<'_, K, V, R, A, L, S>
where
    K: Key,
    V: Value + Send + Sync + 'static,
    R: Reclaim,
    A: NodeAlloc + Clone + Send + 'static,
    L: RawMutex,
    S: Shape,
{
    /// Stores `value` at `range` if that is a hole, or part of one. O(log n).
    ///
    /// ```
    /// use maple_tree::{SyncMapleTree, Waiting};
    ///
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// let mut writer = map.write();
    /// writer.insert_range(10..20, 1)?;
    /// assert_eq!(map.read().get(15), Some(1));
    /// assert_eq!(writer.insert_range(15..25, 2).unwrap_err().into_value(), 2);
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
    /// use maple_tree::{SyncMapleTree, Waiting};
    ///
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// let mut writer = map.write();
    /// writer.insert(7, 1)?;
    /// assert_eq!(map.read().get_range(7), Some((7..=7, 1)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`insert_range`](Writer::insert_range).
    pub fn insert(&mut self, key: K, value: V) -> Result<(), InsertError<V>> {
        self.insert_range(key..=key, value)
    }

    /// Stores `value` at the lowest gap of `size` indices within `bounds`, and gives its first index. O(log n) if the map tracks
    /// gaps.
    ///
    /// ```
    /// use maple_tree::{SyncMapleTree, Waiting};
    ///
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// let mut writer = map.write();
    /// writer.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
    /// assert_eq!(writer.alloc_range(10.., 5, 9)?, 30);
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
    /// use maple_tree::{SyncMapleTree, Waiting};
    ///
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// let mut writer = map.write();
    /// writer.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
    /// assert_eq!(writer.alloc_rrange(..50, 5, 9)?, 35);
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
    /// use maple_tree::{SyncMapleTree, Waiting};
    ///
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// let mut writer = map.write();
    /// let mut next = 9;
    /// assert_eq!(writer.alloc_cyclic(0..10, &mut next, 1)?, (9, false));
    /// assert_eq!(writer.alloc_cyclic(0..10, &mut next, 1)?, (0, true));
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

    /// Stores `value` at `range`, and retires the entries within it. Entries that overlap one end of it keep what is outside. Readers see
    /// all of the old or all of the new.
    ///
    /// ```
    /// use maple_tree::{SyncMapleTree, Waiting};
    ///
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// let mut writer = map.write();
    /// writer.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
    /// writer.store_range(15..45, 9)?;
    /// assert_eq!(map.read().ranges().collect::<Vec<_>>(), [10..=14, 15..=44, 45..=49]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The value comes back if the range lies strictly within one entry, if there is no memory, or if the range is empty.
    pub fn store_range(
        &mut self,
        range: impl RangeBounds<K>,
        value: V,
    ) -> Result<(), StoreError<V>> {
        write::store(self, inclusive(&range), value, |_, _, _| {})
    }

    /// As [`store_range`](Writer::store_range); shows the entries within the range to `displaced`, in no particular order,
    /// with the ranges that they had.
    ///
    /// ```
    /// use maple_tree::{SyncMapleTree, Waiting};
    ///
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// let mut writer = map.write();
    /// writer.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
    /// let mut gone = Vec::new();
    /// writer.store_range_with(15..45, 9, |range, value| gone.push((range, value)))?;
    /// assert_eq!(gone, [(20..=29, 2)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`store_range`](Writer::store_range).
    pub fn store_range_with(
        &mut self,
        range: impl RangeBounds<K>,
        value: V,
        displaced: impl FnMut(RangeInclusive<K>, V::Ref<'_>),
    ) -> Result<(), StoreError<V>> {
        write::store(self, inclusive(&range), value, Self::shown(displaced))
    }

    /// As [`store_range`](Writer::store_range); if the range lies strictly within an entry, the part above gets the value
    /// that `split` makes from that entry and the range of that part.
    ///
    /// ```
    /// use maple_tree::{SyncMapleTree, Waiting};
    ///
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// let mut writer = map.write();
    /// writer.insert_range(0..100, 1)?;
    /// writer.store_range_splitting(40..50, 2, |_, around| Some(around))?;
    /// assert_eq!(map.read().values().collect::<Vec<_>>(), [1, 2, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The value comes back if there is no memory, if the range is empty, or (as [`StoreError::Splits`]) if
    /// `split` gives `None`.
    pub fn store_range_splitting(
        &mut self,
        range: impl RangeBounds<K>,
        value: V,
        split: impl FnOnce(RangeInclusive<K>, V::Ref<'_>) -> Option<V>,
    ) -> Result<(), StoreError<V>> {
        write::store_splitting(self, inclusive(&range), value, split)
    }

    /// As [`store_range`](Writer::store_range); neighbours that touch the range, or reach into it from outside, and that are the `same` as
    /// the new value, become one entry with it. Gives the range of that. The values of the neighbours are retired, the new one stays. O(log n).
    ///
    /// Readers see the neighbours and what was between them, or the one entry, and nothing else: it becomes visible with one store.
    ///
    /// ```
    /// use maple_tree::{SyncMapleTree, Waiting};
    ///
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::new(Waiting::new());
    /// let mut writer = map.write();
    /// writer.insert_range(0..10, 1)?;
    /// assert_eq!(writer.store_range_coalescing(10..20, 1, |a, b| a == b)?, 0..=19);
    /// assert_eq!(map.read().get_range(3), Some((0..=19, 1)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`store_range`](Writer::store_range); within an entry that is the same, nothing is split.
    pub fn store_range_coalescing(
        &mut self,
        range: impl RangeBounds<K>,
        value: V,
        same: impl FnMut(V::Ref<'_>, V::Ref<'_>) -> bool,
    ) -> Result<RangeInclusive<K>, StoreError<V>> {
        write::store_coalescing(self, inclusive(&range), value, same, |_, _, _| {})
    }

    /// As [`insert_range`](Writer::insert_range); neighbours that touch the range and are the `same` as the new value become one
    /// entry with it, as for [`store_range_coalescing`](Writer::store_range_coalescing). O(log n).
    ///
    /// ```
    /// use maple_tree::{SyncMapleTree, Waiting};
    ///
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// let mut writer = map.write();
    /// writer.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
    /// assert_eq!(writer.insert_range_coalescing(30..40, 3, |a, b| a == b)?, 30..=49);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`insert_range`](Writer::insert_range).
    pub fn insert_range_coalescing(
        &mut self,
        range: impl RangeBounds<K>,
        value: V,
        same: impl FnMut(V::Ref<'_>, V::Ref<'_>) -> bool,
    ) -> Result<RangeInclusive<K>, InsertError<V>> {
        write::insert_coalescing(self, inclusive(&range), value, same, |_, _, _| {})
    }

    /// Makes `range` a hole, and retires the entries within it. Entries that overlap one end of it keep what is outside.
    ///
    /// ```
    /// use maple_tree::{SyncMapleTree, Waiting};
    ///
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// let mut writer = map.write();
    /// writer.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
    /// writer.erase_range(15..45)?;
    /// assert_eq!(map.read().ranges().collect::<Vec<_>>(), [10..=14, 45..=49]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the range lies strictly within one entry, if there is no memory, or if the range is empty. Nothing has changed
    /// then.
    pub fn erase_range(&mut self, range: impl RangeBounds<K>) -> Result<(), EraseError> {
        write::erase(self, inclusive(&range), |_, _, _| {})
    }

    /// As [`erase_range`](Writer::erase_range); shows the entries within the range to `displaced`, in no particular order,
    /// with the ranges that they had.
    ///
    /// ```
    /// use maple_tree::{SyncMapleTree, Waiting};
    ///
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// let mut writer = map.write();
    /// writer.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
    /// let mut gone = Vec::new();
    /// writer.erase_range_with(15..45, |range, value| gone.push((range, value)))?;
    /// assert_eq!(gone, [(20..=29, 2)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`erase_range`](Writer::erase_range).
    pub fn erase_range_with(
        &mut self,
        range: impl RangeBounds<K>,
        displaced: impl FnMut(RangeInclusive<K>, V::Ref<'_>),
    ) -> Result<(), EraseError> {
        write::erase(self, inclusive(&range), Self::shown(displaced))
    }

    /// As [`erase_range`](Writer::erase_range); if the range lies strictly within an entry, the part above gets the value
    /// that `split` makes from that entry and the range of that part.
    ///
    /// ```
    /// use maple_tree::{SyncMapleTree, Waiting};
    ///
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// let mut writer = map.write();
    /// writer.insert_range(0..100, 1)?;
    /// writer.erase_range_splitting(40..50, |_, around| Some(around))?;
    /// assert_eq!(map.read().ranges().collect::<Vec<_>>(), [0..=39, 50..=99]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory, if the range is empty, or (as [`EraseError::Splits`]) if `split` gives `None`.
    pub fn erase_range_splitting(
        &mut self,
        range: impl RangeBounds<K>,
        split: impl FnOnce(RangeInclusive<K>, V::Ref<'_>) -> Option<V>,
    ) -> Result<(), EraseError> {
        write::erase_splitting(self, inclusive(&range), split)
    }

    /// Removes the whole entry at `key`, retires its value, and gives its range. O(log n).
    ///
    /// ```
    /// use maple_tree::{SyncMapleTree, Waiting};
    ///
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// let mut writer = map.write();
    /// writer.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
    /// assert_eq!(writer.remove(15)?, Some(10..=19));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory; the entry is still there then.
    pub fn remove(&mut self, key: K) -> Result<Option<RangeInclusive<K>>, AllocError> {
        Ok(write::remove(self, key)?.map(|(range, _)| range))
    }

    /// Exchanges the value of the entry at `key`, whose range stays as it is, with one store, and retires the old one.
    ///
    /// ```
    /// use maple_tree::{SyncMapleTree, Waiting};
    ///
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// let mut writer = map.write();
    /// writer.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
    /// assert_eq!(writer.replace(25, 9), Ok(()));
    /// assert_eq!(map.read().get(25), Some(9));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The value comes back if there is no entry, or if there is no memory (which is needed only for an entry that is the only one,
    /// at index 0, and whose word cannot stand alone in a root).
    pub fn replace(&mut self, key: K, value: V) -> Result<(), V> {
        write::replace(self, key, value).map(|_| ())
    }

    /// Lets the entry at `key` grow to `range`, which contains all that it covers now. Other entries within the range are
    /// retired, entries that overlap one end of it keep what is outside.
    ///
    /// ```
    /// use maple_tree::{SyncMapleTree, Waiting};
    ///
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// let mut writer = map.write();
    /// writer.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
    /// assert!(writer.grow(25, 15..35)?);
    /// assert_eq!(map.read().ranges().collect::<Vec<_>>(), [10..=14, 15..=34, 40..=49]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory. `Ok(false)`, with nothing changed, if there is no entry at `key`, or `range` does not contain
    /// its range.
    pub fn grow(&mut self, key: K, range: impl RangeBounds<K>) -> Result<bool, AllocError> {
        write::grow(self, key, inclusive(&range), |_, _, _| {})
    }
}

//! Looking things up, and changing values where they are.

use core::ops::{Bound, ControlFlow, RangeBounds, RangeInclusive};

use crate::alloc::NodeAlloc;
use crate::api::{Iter, IterMut, MapleTree, Values, Writing, all_asked};
use crate::base::{Key, Mut, Ref, Shape, Value, inclusive};

impl<K: Key, V: Value, A: NodeAlloc, S: Shape> MapleTree<K, V, A, S> {
    all_asked!(
        "# let map = maple_tree::MapleTree::from([(10..20u64, 1u32), (20..30, 2), (40..50, 3)]);
// 1 at 10..20, 2 at 20..30, 3 at 40..50"
    );

    /// Returns the value at `key`, for changing. O(log n).
    ///
    /// ```
    /// let mut map = maple_tree::MapleTree::from([(0..10u32, 1u32)]);
    /// *map.get_mut(3).unwrap() += 1;
    /// assert_eq!(map.get(9), Some(2));
    /// ```
    #[inline]
    pub fn get_mut(&mut self, key: K) -> Option<Mut<'_, V>> {
        // SAFETY: words in the tree are values, and `self` is exclusively borrowed for the view.
        self.raw
            .slot_memory(key)
            .map(|slot| unsafe { V::borrow_mut(slot) })
    }

    /// Returns the entry at `key`, with its range, for changing. O(log n).
    ///
    /// ```
    /// let mut map = maple_tree::MapleTree::from([(0..10u32, 1u32)]);
    /// let (range, value) = map.get_range_mut(3).unwrap();
    /// *value += range.end();
    /// assert_eq!(map.get(0), Some(10));
    /// ```
    pub fn get_range_mut(&mut self, key: K) -> Option<(RangeInclusive<K>, Mut<'_, V>)> {
        let found = self.raw.lookup(key);
        let value = self.get_mut(key)?;
        Some((found.first..=found.last, value))
    }

    /// Returns the first entry that intersects `bounds`, for changing. O(log n).
    ///
    /// ```
    /// let mut map = maple_tree::MapleTree::from([(0..10u32, 1u32), (20..30, 2)]);
    /// *map.find_mut(15..).unwrap().1 = 7;
    /// assert_eq!(map.get(20), Some(7));
    /// ```
    pub fn find_mut(
        &mut self,
        bounds: impl RangeBounds<K>,
    ) -> Option<(RangeInclusive<K>, Mut<'_, V>)> {
        self.range_mut(bounds).next()
    }

    /// Returns the last entry that intersects `bounds`, for changing. O(log n).
    ///
    /// ```
    /// let mut map = maple_tree::MapleTree::from([(0..10u32, 1u32), (20..30, 2)]);
    /// *map.find_rev_mut(..15).unwrap().1 = 7;
    /// assert_eq!(map.get(0), Some(7));
    /// ```
    pub fn find_rev_mut(
        &mut self,
        bounds: impl RangeBounds<K>,
    ) -> Option<(RangeInclusive<K>, Mut<'_, V>)> {
        self.range_mut(bounds).next_back()
    }
    /// Returns the entry with the lowest range, for changing. O(log n).
    ///
    /// ```
    /// let mut map = maple_tree::MapleTree::from([(5..9u32, 2u32)]);
    /// *map.first_mut().unwrap().1 += 10;
    /// assert_eq!(map.get(7), Some(12));
    /// ```
    pub fn first_mut(&mut self) -> Option<(RangeInclusive<K>, Mut<'_, V>)> {
        self.iter_mut().next()
    }

    /// Returns the entry with the highest range, for changing. O(log n).
    ///
    /// ```
    /// let mut map = maple_tree::MapleTree::from([(0..5u32, 1u32), (5..9, 2)]);
    /// *map.last_mut().unwrap().1 += 10;
    /// assert_eq!(map.get(7), Some(12));
    /// ```
    pub fn last_mut(&mut self) -> Option<(RangeInclusive<K>, Mut<'_, V>)> {
        self.iter_mut().next_back()
    }

    /// Returns the values in the order of their ranges, for changing.
    ///
    /// ```
    /// let mut map = maple_tree::MapleTree::from([(0..5u32, Box::new(1u32)), (5..9, Box::new(2))]);
    /// map.values_mut().for_each(|value| *value *= 2);
    /// assert_eq!(map.into_values().map(|value| *value).collect::<Vec<_>>(), [2, 4]);
    /// ```
    pub fn values_mut(&mut self) -> Values<IterMut<'_, K, V, S>> {
        Values(self.iter_mut())
    }

    /// Returns all entries in order, for changing.
    ///
    /// ```
    /// let mut map = maple_tree::MapleTree::from([(0..5u32, Box::new(0u32)), (5..9, Box::new(0))]);
    /// for (range, value) in map.iter_mut() {
    ///     *value = range.end() - range.start() + 1;
    /// }
    /// assert_eq!(map.get(6), Some(&4));
    /// ```
    pub fn iter_mut(&mut self) -> IterMut<'_, K, V, S> {
        self.range_mut(..)
    }

    /// Returns the entries that intersect `bounds`, in order, for changing.
    ///
    /// ```
    /// let mut map = maple_tree::MapleTree::from([(0..5u32, Box::new(1u32)), (5..9, Box::new(2))]);
    /// map.range_mut(6..).for_each(|(_, value)| *value = 0);
    /// assert_eq!((map.get(0), map.get(5)), (Some(&1), Some(&0)));
    /// ```
    pub fn range_mut(&mut self, bounds: impl RangeBounds<K>) -> IterMut<'_, K, V, S> {
        IterMut::new(&mut self.raw, inclusive(&bounds))
    }
}

/// A position in a [`MapleTree`] that changes it, and nodes set aside for that.
///
/// What a [`store`](CursorMut::store) covers is dropped. After a failed allocation the cursor keeps the nodes that it could get.
///
/// ```
/// use maple_tree::MapleTree;
///
/// let mut ids: MapleTree<u32, u32> = MapleTree::with_gaps();
/// let mut cursor = ids.cursor_mut(..);
/// cursor.empty_area(100..200, 4)?; // the lowest four free ids
/// assert_eq!(cursor.range(), 100..=103);
/// cursor.preallocate()?;
/// cursor.store(7)?; // takes no memory
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type CursorMut<'h, K, V, A, S> = Writing<'h, K, V, S, A, MapleTree<K, V, A, S>>;

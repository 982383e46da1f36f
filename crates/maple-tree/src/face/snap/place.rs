//! Storing where there is room.

use core::ops::{RangeBounds, RangeInclusive};

use crate::base::{Duplicate, InsertError, Key, Ref, Shape, inclusive};
use crate::face::allocs::allocs;
use crate::face::snap::{CowMapleTree, SharedAlloc};
use crate::face::store;

impl<K: Key, V: Duplicate, A: SharedAlloc, S: Shape> CowMapleTree<K, V, A, S> {
    /// As [`insert_range`](CowMapleTree::insert_range); neighbours that touch the range and are the `same` as the new value become one entry with it, as
    /// for [`store_range_coalescing`](CowMapleTree::store_range_coalescing). O(log n).
    ///
    /// ```
    /// # use maple_tree::CowMapleTree;
    /// let mut map: CowMapleTree<u64, u32> = CowMapleTree::new();
    /// map.try_extend([(0..10, 1), (20..30, 1)])?;
    /// assert!(map.insert_range_coalescing(15..25, 1, |a, b| a == b).is_err());
    /// assert_eq!(map.insert_range_coalescing(10..20, 1, |a, b| a == b)?, 0..=29);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`insert_range`](CowMapleTree::insert_range).
    pub fn insert_range_coalescing(
        &mut self,
        range: impl RangeBounds<K>,
        value: V,
        same: impl FnMut(Ref<'_, V>, Ref<'_, V>) -> bool,
    ) -> Result<RangeInclusive<K>, InsertError<V>> {
        let Some((first, last)) = inclusive(&range) else {
            return Err(InsertError::EmptyRange(value));
        };
        if !store::is_free(&self.raw, (first, last)) {
            return Err(InsertError::Occupied(value));
        }
        self.store_range_coalescing(first..=last, value, same)
            .map_err(store::into_insert)
    }

    allocs!(
        gap_up_from_above,
        gap_down_from_above,
        "use maple_tree::CowMapleTree;

let mut map: CowMapleTree<u32, u32> = CowMapleTree::with_gaps();"
    );
}

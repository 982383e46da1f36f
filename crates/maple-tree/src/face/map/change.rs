//! Inserting, storing, erasing: changes of single ranges.

use core::ops::{RangeBounds, RangeInclusive};

use crate::alloc::{AllocError, NodeAlloc};
use crate::base::{EraseError, InsertError, Key, Shape, StoreError, Value, inclusive};
use crate::face::changes::all_changes;
use crate::face::host::{Host, Touch};
use crate::face::map::MapleTree;
use crate::face::store;

impl<K: Key, V: Value, A: NodeAlloc, S: Shape> MapleTree<K, V, A, S> {
    all_changes!(
        V,
        owned,
        "dropped",
        "",
        "use maple_tree::MapleTree;

let mut map: MapleTree<u32, u32> = MapleTree::with_gaps();"
    );

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
        Ok(store::remove(self, key)?.map(|(range, raw)| {
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
        store::replace(self, key, value).map(|old| unsafe { V::from_raw(old) })
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
        store::grow(self, key, inclusive(&range), Self::owned(displaced))
    }
}

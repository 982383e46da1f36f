//! Inserting, storing, erasing: changes of single ranges; at once, and in place where that is possible.

use core::ops::{RangeBounds, RangeInclusive};
use core::ptr::NonNull;

use crate::alloc::{AllocError, NodeAlloc};
use crate::api::{Host, MapleTree, Touch, all_changes, store};
use crate::base::{EraseError, InsertError, Key, Shape, StoreError, Value, inclusive};
use crate::node::{RawTree, Word};
use crate::write::{Immediate, Sink};

impl<K: Key, V: Value, A: NodeAlloc, S: Shape> MapleTree<K, V, A, S> {
    all_changes!(
        crate::CursorMut<'_, K, V, A, S>,
        V,
        owned,
        "dropped",
        "",
        "# use maple_tree::MapleTree;
let mut map: MapleTree<u32, u32> = MapleTree::with_gaps();"
    );

    /// Removes the whole entry at `key`, and gives its range and value. O(log n).
    ///
    /// ```
    /// let mut map = maple_tree::MapleTree::from([(10..20u32, 1u32), (20..30, 2), (40..50, 3)]);
    /// assert_eq!(map.remove(15), Ok(Some((10..=19, 1))));
    /// assert_eq!(map.remove(15), Ok(None));
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory (joining nodes that have become too small may take some); the entry is still there then.
    pub fn remove(&mut self, key: K) -> Result<Option<(RangeInclusive<K>, V)>, AllocError> {
        Ok(store::remove(self, key)?.map(|(range, raw)| {
            // SAFETY: the entry has been removed from the tree, which owned its value.
            (range, unsafe { V::from_raw(raw) })
        }))
    }

    /// Replaces the value of the entry at `key`, whose range stays unchanged, and returns the old
    /// one. O(log n).
    ///
    /// ```
    /// let mut map = maple_tree::MapleTree::from([(10..20u32, 1u32), (20..30, 2), (40..50, 3)]);
    /// assert_eq!(map.replace(25, 9), Ok(2));
    /// assert_eq!(map.replace(35, 9), Err(9));
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the value if there is no entry, or if there is no memory. Memory is needed in one
    /// case only: the entry is the map's only one, is at index 0, and the word of the new value has
    /// a bit pattern that cannot stand alone in a root.
    pub fn replace(&mut self, key: K, value: V) -> Result<V, V> {
        // SAFETY: the tree gave the old word up.
        store::replace(self, key, value.into_raw()).map(|old| unsafe { V::from_raw(old) })
    }

    /// Lets the entry at `key` grow to `range`, which contains all that it covers now. Other entries within the range are handed to `displaced`,
    /// entries that overlap one end of it keep what is outside. (To let an entry shrink, erase what it is to lose.)
    ///
    /// ```
    /// let mut map = maple_tree::MapleTree::from([(10..20u32, 1u32), (20..30, 2), (40..50, 3)]);
    /// assert!(map.grow(25, 15..35, |_, _| ())?);
    /// assert_eq!(map.ranges().collect::<Vec<_>>(), [10..=14, 15..=34, 40..=49]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory. `Ok(false)`, with nothing changed, if there is no entry at `key`, or `range` does not contain its range.
    pub fn grow(
        &mut self,
        key: K,
        range: impl RangeBounds<K>,
        displaced: impl FnMut(RangeInclusive<K>, V),
    ) -> Result<bool, AllocError> {
        store::grow(self, key, inclusive(&range), Self::owned(displaced))
    }

    /// Turns a taker of values into a taker of words. One that has panicked is not called again: what comes after that is dropped.
    pub(super) fn owned(mut take: impl FnMut(RangeInclusive<K>, V)) -> impl FnMut(K, K, Word) {
        let mut called = false;
        move |first, last, word| {
            if let Some(raw) = NonNull::new(word) {
                // SAFETY: the word has been removed from the tree, which owned the value.
                let value = unsafe { V::from_raw(raw) };
                if !called {
                    called = true;
                    take(first..=last, value);
                    called = false;
                }
            }
        }
    }
}

// SAFETY: the map owns its values. Its exclusive borrower is the only writer, and there are no
// readers. Its nodes come from its allocator.
unsafe impl<K: Key, V: Value, A: NodeAlloc, S: Shape> Host<K, V, S> for MapleTree<K, V, A, S> {
    type Alloc = A;

    #[inline]
    fn tree(&self) -> &RawTree<K, S> {
        &self.raw
    }

    #[inline]
    fn nodes(&self) -> &A {
        &self.alloc
    }

    #[inline(always)]
    fn alone(&self) -> bool {
        true
    }

    #[inline(always)]
    fn sink(&self, kept: Option<K>, mut taken: impl FnMut(K, K, Word)) -> impl Sink<K> {
        Immediate {
            alloc: &self.alloc,
            entry: move |first, last, word| {
                // The entry itself is covered by its own range.
                if kept != Some(first) {
                    taken(first, last, word);
                }
            },
        }
    }
}

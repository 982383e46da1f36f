//! Taking a map apart.

use core::mem;
use core::ops::RangeInclusive;
use core::ptr::NonNull;

use crate::alloc::{NodeAlloc, Pool};
use crate::base::{Key, Native, Shape, Value, opaque};
use crate::face::iter::{Ranges, Values, both_ways};
use crate::face::map::MapleTree;
use crate::read::iterate::by_leaf::Scan;

/// The entries of a map, which is no more: values with their ranges, in order, from both ends. Those that are not taken are dropped with
/// it. Made by [`into_iter`](MapleTree::into_iter).
pub struct IntoIter<K: Key, V: Value, A: NodeAlloc = Pool, S: Shape = Native> {
    /// Its nodes and its allocator are whole; the values before and behind what `at` has left are gone.
    map: mem::ManuallyDrop<MapleTree<K, V, A, S>>,
    at: Scan<K, S>,
    /// How many entries `at` has left.
    left: usize,
}

impl<K: Key, V: Value, A: NodeAlloc, S: Shape> IntoIterator for MapleTree<K, V, A, S> {
    type Item = (RangeInclusive<K>, V);
    type IntoIter = IntoIter<K, V, A, S>;

    /// The entries, in order, as values. O(1) for each, amortised, and a pass over the leaves to count them; allocates nothing.
    ///
    /// ```
    /// let mut entries = maple_tree::MapleTree::from([(0..10u32, Box::new("low")), (90..99, Box::new("high"))]).into_iter();
    /// assert_eq!(entries.next_back(), Some((90..=98, Box::new("high"))));
    /// ```
    fn into_iter(self) -> IntoIter<K, V, A, S> {
        IntoIter {
            left: self.len(),
            map: mem::ManuallyDrop::new(self),
            at: Scan::new(Some((K::MIN, K::MAX))),
        }
    }
}

impl<K: Key, V: Value, A: NodeAlloc, S: Shape> MapleTree<K, V, A, S> {
    /// The values, in the order of their ranges, from both ends.
    ///
    /// ```
    /// let map = maple_tree::MapleTree::from([(0..10u32, 7u32), (90..99, 8)]);
    /// assert_eq!(map.into_values().collect::<Vec<_>>(), [7, 8]);
    /// ```
    pub fn into_values(self) -> Values<IntoIter<K, V, A, S>> {
        Values(self.into_iter())
    }

    /// The ranges that entries covered, in order, from both ends; the values are dropped.
    ///
    /// ```
    /// let map = maple_tree::MapleTree::from([(0..10u32, 7u32), (90..99, 8)]);
    /// assert_eq!(map.into_ranges().collect::<Vec<_>>(), [0..=9, 90..=98]);
    /// ```
    pub fn into_ranges(self) -> Ranges<IntoIter<K, V, A, S>> {
        Ranges(self.into_iter())
    }
}

impl<K: Key, V: Value, A: NodeAlloc, S: Shape> IntoIter<K, V, A, S> {
    #[inline(always)]
    fn step<const UP: bool>(&mut self) -> Option<(RangeInclusive<K>, V)> {
        // SAFETY: nobody else has the map, and nothing writes it any more.
        let found = unsafe { self.at.next::<UP>(&self.map.raw) }?;
        let raw = NonNull::new(found.word)?;
        self.left -= 1;
        // SAFETY: words in the tree are values; a scan yields each once.
        Some((found.first..=found.last, unsafe { V::from_raw(raw) }))
    }
}

both_ways!([K: Key, V: Value, A: NodeAlloc, S: Shape] IntoIter<K, V, A, S>,
    (RangeInclusive<K>, V), {
    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
});

impl<K: Key, V: Value, A: NodeAlloc, S: Shape> ExactSizeIterator for IntoIter<K, V, A, S> {}

impl<K: Key, V: Value, A: NodeAlloc, S: Shape> Drop for IntoIter<K, V, A, S> {
    fn drop(&mut self) {
        /// Goes on where dropping a value has panicked, and frees the nodes.
        struct Finish<'a, K: Key, V: Value, A: NodeAlloc, S: Shape>(&'a mut IntoIter<K, V, A, S>);

        impl<K: Key, V: Value, A: NodeAlloc, S: Shape> Drop for Finish<'_, K, V, A, S> {
            fn drop(&mut self) {
                self.0.by_ref().for_each(drop);
                self.0.map.free_nodes();
                // SAFETY: the iterator is being dropped, and its map is not used again. Without nodes there is nothing left in it but the
                // allocator.
                unsafe { mem::ManuallyDrop::drop(&mut self.0.map) };
            }
        }

        let finish = Finish(self);
        finish.0.by_ref().for_each(drop);
    }
}

opaque!([K: Key, V: Value, A: NodeAlloc, S: Shape] IntoIter<K, V, A, S>, "IntoIter");

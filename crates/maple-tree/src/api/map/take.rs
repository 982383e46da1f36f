//! Taking entries out: one after the other those of which a closure says so, or all of a map that is no more.

use core::iter::FusedIterator;
use core::mem;
use core::ops::{RangeBounds, RangeInclusive};
use core::ptr::NonNull;

use crate::alloc::{AllocError, NodeAlloc, Pool};
use crate::api::{MapleTree, Ranges, Values, both_ways};
use crate::base::{Key, Mut, Native, Shape, Value, inclusive, opaque};
use crate::read::iterate::by_leaf::Scan;

/// An iterator that takes entries out of a map on demand. Made by
/// [`extract_if`](MapleTree::extract_if).
#[must_use = "iterators are lazy and do nothing unless consumed; `retain` drops what is not kept"]
pub struct ExtractIf<'a, K: Key, V: Value, F, A: NodeAlloc = Pool, S: Shape = Native> {
    map: &'a mut MapleTree<K, V, A, S>,
    /// The entries that have not been examined.
    entries: Scan<K, S>,
    hi: K,
    take: F,
}

impl<K: Key, V: Value, A: NodeAlloc, S: Shape> MapleTree<K, V, A, S> {
    /// Takes the entries that intersect `bounds` and for which `take` says yes out of the map, in order, and gives them; each is taken when the iterator
    /// is asked for it. Those that it has not come to when it is dropped stay. O(1) for each that stays, O(log n) for each that goes.
    ///
    /// ```
    /// let mut map = maple_tree::MapleTree::from([(0..10u32, 1u32), (10..20, 2), (20..30, 3)]);
    /// let odd: Vec<_> = map.extract_if(.., |_, value| *value % 2 == 1).collect::<Result<_, _>>()?;
    /// assert_eq!(odd, [(0..=9, 1), (20..=29, 3)]);
    /// assert_eq!(map.len(), 1);
    /// # Ok::<(), maple_tree::AllocError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The iterator yields an error, and ends, if there is no memory (as for [`remove`](MapleTree::remove)); the entry is still there then.
    pub fn extract_if<F>(
        &mut self,
        bounds: impl RangeBounds<K>,
        take: F,
    ) -> ExtractIf<'_, K, V, F, A, S>
    where
        F: FnMut(RangeInclusive<K>, Mut<'_, V>) -> bool,
    {
        let bounds = inclusive(&bounds);
        ExtractIf {
            map: self,
            entries: Scan::new(bounds),
            hi: bounds.map_or(K::MIN, |(_, hi)| hi),
            take,
        }
    }
}

impl<K: Key, V: Value, F, A: NodeAlloc, S: Shape> Iterator for ExtractIf<'_, K, V, F, A, S>
where
    F: FnMut(RangeInclusive<K>, Mut<'_, V>) -> bool,
{
    type Item = Result<(RangeInclusive<K>, V), AllocError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            // SAFETY: the map is exclusively borrowed, and what is written to it ends the scan.
            let (found, slot) = unsafe { self.entries.next_mut::<true>(&self.map.raw) }?;
            // SAFETY: the word is in the tree; a scan yields each entry once, and does not read its slot again.
            let view = unsafe { V::borrow_mut(slot) };
            if !(self.take)(found.first..=found.last, view) {
                continue;
            }
            // Anew: there may be other nodes after this. After a failure there is nothing more.
            let rest = found.last.successor().filter(|&first| first <= self.hi);
            self.entries = Scan::new(None);
            let removed = match self.map.remove(found.first) {
                Ok(removed) => removed,
                Err(error) => return Some(Err(error)),
            };
            self.entries = Scan::new(rest.map(|first| (first, self.hi)));
            return removed.map(Ok);
        }
    }
}

impl<K: Key, V: Value, F, A: NodeAlloc, S: Shape> FusedIterator for ExtractIf<'_, K, V, F, A, S> where
    F: FnMut(RangeInclusive<K>, Mut<'_, V>) -> bool
{
}

opaque!([K: Key, V: Value, F, A: NodeAlloc, S: Shape] ExtractIf<'_, K, V, F, A, S>, "ExtractIf");

/// The entries of a map, which is no more: values with their ranges, in order, from both ends. Those that are not taken are dropped with
/// it. Made by [`into_iter`](MapleTree::into_iter).
pub struct IntoIter<K: Key, V: Value, A: NodeAlloc = Pool, S: Shape = Native> {
    /// Its nodes and its allocator are whole; the values before and behind what `at` has left are gone.
    map: mem::ManuallyDrop<MapleTree<K, V, A, S>>,
    at: Scan<K, S>,
    /// The number of entries that `at` has left.
    left: usize,
}

impl<K: Key, V: Value, A: NodeAlloc, S: Shape> IntoIterator for MapleTree<K, V, A, S> {
    type Item = (RangeInclusive<K>, V);
    type IntoIter = IntoIter<K, V, A, S>;

    /// Returns the entries, in order, as values. O(1) for each, amortised, and a pass over the
    /// leaves to count them; allocates nothing.
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
    /// Returns the values, in the order of their ranges, from both ends.
    ///
    /// ```
    /// let map = maple_tree::MapleTree::from([(0..10u32, 7u32), (90..99, 8)]);
    /// assert_eq!(map.into_values().collect::<Vec<_>>(), [7, 8]);
    /// ```
    pub fn into_values(self) -> Values<IntoIter<K, V, A, S>> {
        Values(self.into_iter())
    }

    /// Returns the ranges that entries covered, in order, from both ends; the values are dropped.
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
        // SAFETY: no other code has the map, and nothing writes it any more.
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

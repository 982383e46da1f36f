//! Making maps out of iterators, and adding what iterators give.

use core::ops::{RangeBounds, RangeInclusive};
use core::ptr::NonNull;

use crate::alloc::{NodeAlloc, Pool};
use crate::api::{Host, MapleTree};
use crate::base::{Duplicate, InsertError, Key, Shape, SortedError, StoreError, Value, inclusive};
use crate::node::LAYOUT;
use crate::write::build::{Builder, Refused};

impl<K: Key, V: Value> MapleTree<K, V> {
    /// Returns a map of entries that come in ascending order and do not overlap. O(n), with
    /// full leaves: the fastest way to make a map. ([`try_extend`](MapleTree::try_extend) of an
    /// empty map does the same, with another allocator, or with gaps.)
    ///
    /// ```
    /// # use maple_tree::{MapleTree, SortedError};
    /// let map = MapleTree::try_from_sorted((0..1000u32).map(|i| (10 * i..10 * i + 4, i)))?;
    /// assert_eq!((map.len(), map.get(9993)), (1000, Some(999)));
    ///
    /// let overlapping = MapleTree::try_from_sorted([(0..5u32, 1u32), (4..9, 2)]);
    /// assert_eq!(overlapping.err(), Some(SortedError::OutOfOrder(2)));
    /// # Ok::<(), SortedError<u32>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The value at which it ended comes back, if its range overlaps the one before or comes before it, if there is no memory, or if the
    /// range is empty. The values before have been dropped.
    pub fn try_from_sorted<R: RangeBounds<K>>(
        entries: impl IntoIterator<Item = (R, V)>,
    ) -> Result<Self, SortedError<V>> {
        Self::try_from_sorted_in(entries, Pool::new())
    }

    /// Returns a map of entries that do not overlap. O(n) if they come in ascending order, else
    /// O(log n) for each from the first that does not.
    ///
    /// ```
    /// let map = maple_tree::MapleTree::try_from_iter([(40..50u32, 4u32), (10..20, 1)])?;
    /// assert_eq!(map.first(), Some((10..=19, 1)));
    /// # Ok::<(), maple_tree::InsertError<u32>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The value at which it ended comes back, if an entry is in its way, if there is no memory, or if the range is empty. Others have been dropped.
    pub fn try_from_iter<R: RangeBounds<K>>(
        entries: impl IntoIterator<Item = (R, V)>,
    ) -> Result<Self, InsertError<V>> {
        Self::try_from_iter_in(entries, Pool::new())
    }
}

impl<K: Key, V: Value, A: NodeAlloc, S: Shape> MapleTree<K, V, A, S> {
    /// As [`try_from_sorted`](MapleTree::try_from_sorted), with nodes from `alloc`.
    ///
    /// ```
    /// use maple_tree::alloc::Global;
    /// # use maple_tree::{MapleTree, SortedError};
    /// let map: MapleTree<u32, u32, Global> = MapleTree::try_from_sorted_in([(0..5, 1), (5..9, 2)], Global)?;
    /// assert_eq!(map.len(), 2);
    /// # Ok::<(), SortedError<u32>>(())
    /// ```
    pub fn try_from_sorted_in<R: RangeBounds<K>>(
        entries: impl IntoIterator<Item = (R, V)>,
        alloc: A,
    ) -> Result<Self, SortedError<V>> {
        let mut map = Self::new_in(alloc);
        let mut entries = entries.into_iter();
        let filled = map.fill(&mut entries);
        // Here, and not on return: if this panics, the value that would be given back is dropped.
        drop(entries);
        match filled {
            Ok(()) => Ok(map),
            Err((_, refused)) => {
                // As above.
                drop(map);
                Err(refused)
            }
        }
    }

    /// As [`try_from_iter`](MapleTree::try_from_iter), with nodes from `alloc`.
    ///
    /// ```
    /// use maple_tree::alloc::Global;
    /// let map = maple_tree::MapleTree::<u32, u32, Global>::try_from_iter_in([(5..9, 2), (0..5, 1)], Global)?;
    /// assert_eq!(map.len(), 2);
    /// # Ok::<(), maple_tree::InsertError<u32>>(())
    /// ```
    pub fn try_from_iter_in<R: RangeBounds<K>>(
        entries: impl IntoIterator<Item = (R, V)>,
        alloc: A,
    ) -> Result<Self, InsertError<V>> {
        let mut map = Self::new_in(alloc);
        match map.try_extend(entries) {
            Ok(()) => Ok(map),
            Err(refused) => {
                // As above.
                drop(map);
                Err(refused)
            }
        }
    }

    /// Inserts entries until one cannot be inserted. In ascending order into an empty map they take O(1) each and fill the leaves, else O(log n).
    /// Fails as [`insert_range`](MapleTree::insert_range), for the first that could not be inserted; those before it have been.
    ///
    /// ```
    /// # use maple_tree::{InsertError, MapleTree};
    /// let mut map: MapleTree<u32, u32> = MapleTree::with_gaps();
    /// assert_eq!(map.try_extend([(10..20, 1), (15..25, 2), (30..40, 3)]), Err(InsertError::Occupied(2)));
    /// assert_eq!(map.len(), 1);
    /// ```
    pub fn try_extend<R: RangeBounds<K>>(
        &mut self,
        entries: impl IntoIterator<Item = (R, V)>,
    ) -> Result<(), InsertError<V>> {
        let mut entries = entries.into_iter();
        let done = self.extend_from(&mut entries);
        // As in `try_from_sorted_in`.
        drop(entries);
        done
    }

    /// As [`try_extend`](Self::try_extend), of entries whose iterator is the caller's to drop.
    fn extend_from<R: RangeBounds<K>>(
        &mut self,
        entries: &mut impl Iterator<Item = (R, V)>,
    ) -> Result<(), InsertError<V>> {
        if self.is_empty() {
            let Err((range, refused)) = self.fill(entries) else {
                return Ok(());
            };
            match refused {
                SortedError::OutOfOrder(value) => self.insert_range(range, value)?,
                SortedError::EmptyRange(value) => return Err(InsertError::EmptyRange(value)),
                SortedError::Alloc(value) => return Err(InsertError::Alloc(value)),
            }
        }
        for (range, value) in entries {
            self.insert_range(range, value)?;
        }
        Ok(())
    }

    /// Fills the map, which is empty, for as long as entries come in ascending order. Gives the range and the value of the first that is refused.
    pub(super) fn fill<R: RangeBounds<K>>(
        &mut self,
        entries: &mut impl Iterator<Item = (R, V)>,
    ) -> Result<(), (RangeInclusive<K>, SortedError<V>)> {
        let mut builder = Builder::new(self.raw.inner_kind(), &self.alloc, |word| {
            Self::discard(K::MIN, K::MIN, word)
        });
        let mut filled = Ok(());
        let refused = builder.extend(|| {
            let (range, value) = entries.next()?;
            let Some((first, last)) = inclusive(&range) else {
                filled = Err((K::MAX..=K::MIN, SortedError::EmptyRange(value)));
                return None;
            };
            Some((first, last, value.into_raw().as_ptr()))
        });
        if let Some((first, last, word, refused)) = refused
            && let Some(raw) = NonNull::new(word)
        {
            // SAFETY: made above, and not taken.
            let value = unsafe { V::from_raw(raw) };
            let refused = match refused {
                Refused::Order => SortedError::OutOfOrder(value),
                Refused::Alloc => SortedError::Alloc(value),
            };
            filled = Err((first..=last, refused));
        }
        builder.finish(&self.raw);
        filled
    }

    /// Stores an entry over what is there, as `Extend` does.
    fn put(&mut self, range: impl RangeBounds<K>, value: V)
    where
        V: Duplicate,
    {
        match self.store_range_splitting(range, value, |_, around| V::duplicate(around)) {
            // An empty range covers nothing.
            Ok(()) | Err(StoreError::EmptyRange(_)) => {}
            Err(StoreError::Alloc(_) | StoreError::Splits(_)) => no_memory(),
        }
    }
}

/// Ends the program as a collection of the standard library does when there is no memory.
pub(super) fn no_memory() -> ! {
    std_alloc::alloc::handle_alloc_error(LAYOUT)
}

/// Stores each entry over what is there, as `BTreeMap` does; an entry that ends up on both sides of another is
/// [duplicated](Duplicate). Empty ranges are passed over. In O(1) each if the map is empty and they come in ascending order, without overlap.
///
/// Where there is no memory this ends the program, as `BTreeMap` does; [`try_extend`](MapleTree::try_extend) gives an error.
///
/// ```
/// let mut map = maple_tree::MapleTree::<u32, u32>::new();
/// map.extend([(0..100, 1), (40..50, 2)]);
/// assert_eq!(map.iter().collect::<Vec<_>>(), [(0..=39, 1), (40..=49, 2), (50..=99, 1)]);
/// ```
impl<K: Key, V: Duplicate, A: NodeAlloc, S: Shape, R: RangeBounds<K>> Extend<(R, V)>
    for MapleTree<K, V, A, S>
{
    fn extend<I: IntoIterator<Item = (R, V)>>(&mut self, entries: I) {
        let mut entries = entries.into_iter();
        // Empty ranges before the first entry are passed over.
        while self.is_empty() {
            match self.fill(&mut entries) {
                Ok(()) => return,
                Err((_, SortedError::EmptyRange(_))) => {}
                Err((range, SortedError::OutOfOrder(value))) => self.put(range, value),
                Err((_, SortedError::Alloc(_))) => no_memory(),
            }
        }
        for (range, value) in entries {
            self.put(range, value);
        }
    }
}

/// As `extend` of an empty map. Where there is no memory this ends the program; [`try_from_iter`](MapleTree::try_from_iter) gives an error.
///
/// ```
/// # use maple_tree::MapleTree;
/// let map: MapleTree<u64, u32> = (0..5).map(|i| (10 * i..10 * i + 5, i as u32)).collect();
/// assert_eq!(map.get(32), Some(3));
/// ```
impl<K: Key, V: Duplicate, A: NodeAlloc + Default, S: Shape, R: RangeBounds<K>> FromIterator<(R, V)>
    for MapleTree<K, V, A, S>
{
    fn from_iter<I: IntoIterator<Item = (R, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        map.extend(entries);
        map
    }
}

/// As `from_iter`.
///
/// ```
/// let map = maple_tree::MapleTree::from([(0..10u64, 'a'), (10..20, 'b')]);
/// assert_eq!(map.get(15), Some('b'));
/// ```
impl<K, V, R, const N: usize> From<[(R, V); N]> for MapleTree<K, V>
where
    K: Key,
    V: Duplicate,
    R: RangeBounds<K>,
{
    fn from(entries: [(R, V); N]) -> Self {
        entries.into_iter().collect()
    }
}

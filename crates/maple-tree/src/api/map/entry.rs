//! A position in the map that is first examined and then filled, changed or emptied.

use core::fmt;
use core::ops::{RangeBounds, RangeInclusive};

use crate::alloc::{AllocError, NodeAlloc, Pool};
use crate::api::{MapleTree, store};
use crate::base::{InsertError, Key, Mut, Native, Offset, Ref, Shape, Slot, Value, inclusive};
use crate::node::Node;
use crate::read::InSlot;

/// The contents of a map at a range: made by [`entry`](MapleTree::entry) and
/// [`entry_range`](MapleTree::entry_range).
///
/// A range is *vacant* if all of it is a hole, or part of one; then an entry can be stored just there. It is *occupied* if any entry intersects it;
/// then the first of those is shown, with its whole range, which may be larger or smaller than the one asked for.
#[derive(Debug)]
pub enum Entry<'a, K: Key, V: Value, A: NodeAlloc = Pool, S: Shape = Native> {
    /// An entry is there.
    Occupied(OccupiedEntry<'a, K, V, A, S>),
    /// It is a hole.
    Vacant(VacantEntry<'a, K, V, A, S>),
}

/// An entry that is there.
pub struct OccupiedEntry<'a, K: Key, V: Value, A: NodeAlloc = Pool, S: Shape = Native> {
    map: &'a mut MapleTree<K, V, A, S>,
    range: (K, K),
    /// The leaf and the slot that its word is in. `None` if that is in the map itself: to move the entry is to lend the map anew, and a pointer into it
    /// would not outlive that.
    slot: Option<(Node<K, S>, usize)>,
}

/// A range where nothing is.
pub struct VacantEntry<'a, K: Key, V: Value, A: NodeAlloc = Pool, S: Shape = Native> {
    map: &'a mut MapleTree<K, V, A, S>,
    /// `None` for a range that holds no index.
    range: Option<(K, K)>,
}

impl<K: Key, V: Value, A: NodeAlloc, S: Shape> MapleTree<K, V, A, S> {
    /// Returns the contents at `key`: an entry that contains it, or a hole, in which an entry for
    /// `key` alone can be stored. O(log n).
    ///
    /// ```
    /// let mut seen = maple_tree::MapleTree::<u32, Box<u32>>::new();
    /// for key in [3, 4, 3] {
    ///     seen.entry(key).and_modify(|n| *n += 1).or_insert(Box::new(1))?;
    /// }
    /// assert_eq!(seen.get(3), Some(&2));
    /// # Ok::<(), maple_tree::InsertError<Box<u32>>>(())
    /// ```
    pub fn entry(&mut self, key: K) -> Entry<'_, K, V, A, S> {
        self.entry_range(key..=key)
    }

    /// Returns the contents at `range`: the first entry that intersects it, or a hole that contains
    /// all of it. O(log n).
    ///
    /// ```
    /// # use maple_tree::{Entry, InsertError, MapleTree};
    /// let mut areas = MapleTree::from([(10..20u32, 1u32)]);
    /// assert!(matches!(areas.entry_range(15..40), Entry::Occupied(there) if there.range() == (10..=19)));
    /// assert_eq!(*areas.entry_range(20..40).or_insert(2)?, 2);
    /// assert_eq!(areas.get_range(39), Some((20..=39, 2)));
    /// # Ok::<(), InsertError<u32>>(())
    /// ```
    ///
    /// A range that holds no index is vacant, and inserting there fails with [`InsertError::EmptyRange`].
    pub fn entry_range(&mut self, range: impl RangeBounds<K>) -> Entry<'_, K, V, A, S> {
        let range = inclusive(&range);
        match range.and_then(|range| self.raw.find_slot::<true>(range)) {
            Some(at) => Entry::Occupied(OccupiedEntry::found(self, at)),
            None => Entry::Vacant(VacantEntry { map: self, range }),
        }
    }

    /// Returns the entry with the lowest range, for reading, changing or removing it. O(log n).
    ///
    /// ```
    /// let mut map = maple_tree::MapleTree::from([(0..10u32, 1u32), (10..20, 2)]);
    /// if let Some(mut entry) = map.first_entry() {
    ///     *entry.get_mut() += 5;
    /// }
    /// assert_eq!(map.first(), Some((0..=9, 6)));
    /// ```
    pub fn first_entry(&mut self) -> Option<OccupiedEntry<'_, K, V, A, S>> {
        let at = self.raw.find_slot::<true>((K::MIN, K::MAX))?;
        Some(OccupiedEntry::found(self, at))
    }

    /// Returns the entry with the highest range, for reading, changing or removing it. O(log n).
    ///
    /// ```
    /// let mut map = maple_tree::MapleTree::from([(0..10u32, 1u32), (10..20, 2)]);
    /// let removed = map.last_entry().map(|entry| entry.remove_entry());
    /// assert_eq!((removed, map.len()), (Some(Ok((10..=19, 2))), 1));
    /// ```
    pub fn last_entry(&mut self) -> Option<OccupiedEntry<'_, K, V, A, S>> {
        let at = self.raw.find_slot::<false>((K::MIN, K::MAX))?;
        Some(OccupiedEntry::found(self, at))
    }
}

impl<'a, K: Key, V: Value + 'a, A: NodeAlloc, S: Shape> Entry<'a, K, V, A, S> {
    /// Returns the range of the entry that is there, or the one that was asked for.
    pub fn range(&self) -> RangeInclusive<K> {
        match self {
            Self::Occupied(entry) => entry.range(),
            Self::Vacant(entry) => entry.range(),
        }
    }

    /// Shows the present value, to be changed, to `change`.
    #[must_use]
    pub fn and_modify(mut self, change: impl FnOnce(Mut<'_, V>)) -> Self {
        if let Self::Occupied(entry) = &mut self {
            change(entry.get_mut());
        }
        self
    }

    /// Returns the present value, or `value`, stored at the requested range. O(log
    /// n).
    ///
    /// # Errors
    ///
    /// The value comes back if it was to be stored and there is no memory, or the range is empty.
    pub fn or_insert(self, value: V) -> Result<Mut<'a, V>, InsertError<V>> {
        self.or_insert_with(|| value)
    }

    /// Returns the present value, or the result of `make`, stored at the range that was asked
    /// for. O(log n). Fails as [`or_insert`](Entry::or_insert).
    pub fn or_insert_with(self, make: impl FnOnce() -> V) -> Result<Mut<'a, V>, InsertError<V>> {
        self.or_insert_with_key(|_| make())
    }

    /// As [`or_insert_with`](Entry::or_insert_with); `make` gets the requested range. O(log n). Fails as [`or_insert`](Entry::or_insert).
    ///
    /// ```
    /// let mut map = maple_tree::MapleTree::<u32, u32>::new();
    /// map.entry_range(10..20).or_insert_with_key(|range| *range.end())?;
    /// assert_eq!(map.get(10), Some(19));
    /// # Ok::<(), maple_tree::InsertError<u32>>(())
    /// ```
    pub fn or_insert_with_key(
        self,
        make: impl FnOnce(&RangeInclusive<K>) -> V,
    ) -> Result<Mut<'a, V>, InsertError<V>> {
        match self {
            Self::Occupied(entry) => Ok(entry.into_mut()),
            Self::Vacant(entry) => {
                let value = make(&entry.range());
                entry.insert(value)
            }
        }
    }

    /// Returns the present value, or the default one, stored at the requested range.
    /// O(log n). Fails as [`or_insert`](Entry::or_insert).
    ///
    /// ```
    /// let mut seen = maple_tree::MapleTree::<u32, u32>::new();
    /// for key in [3, 4, 3] {
    ///     *seen.entry(key).or_default()? += 1;
    /// }
    /// assert_eq!(seen.get(3), Some(2));
    /// # Ok::<(), maple_tree::InsertError<u32>>(())
    /// ```
    pub fn or_default(self) -> Result<Mut<'a, V>, InsertError<V>>
    where
        V: Default,
    {
        self.or_insert_with(V::default)
    }

    /// Stores `value`: at the range of the entry that is there, whose value is dropped, or at the requested range. Gives the entry that
    /// is there now. O(log n). Fails as [`or_insert`](Entry::or_insert).
    ///
    /// ```
    /// let mut map = maple_tree::MapleTree::from([(0..10u32, 1u32)]);
    /// assert_eq!(map.entry(3).insert_entry(7)?.range(), 0..=9);
    /// assert_eq!(map.entry(30).insert_entry(8)?.get(), 8);
    /// # Ok::<(), maple_tree::InsertError<u32>>(())
    /// ```
    pub fn insert_entry(self, value: V) -> Result<OccupiedEntry<'a, K, V, A, S>, InsertError<V>> {
        match self {
            Self::Occupied(mut entry) => {
                entry.insert(value).map_err(InsertError::Alloc)?;
                Ok(entry)
            }
            Self::Vacant(entry) => entry.insert_entry(value),
        }
    }
}

impl<'a, K: Key, V: Value, A: NodeAlloc, S: Shape> OccupiedEntry<'a, K, V, A, S> {
    /// Returns the position of an entry that has been found.
    fn found(map: &'a mut MapleTree<K, V, A, S>, (found, slot): InSlot<K, S>) -> Self {
        let range = (found.first, found.last);
        Self { map, range, slot }
    }

    /// Looks for the word anew: it may have come to be in a node, or was in one and no longer is.
    fn seek(&mut self) {
        let at = self.map.raw.slot_at(self.range.0);
        self.slot = at.map(|at| (at.path.place.leaf, at.slot));
    }

    /// Returns the address of the word.
    fn slot(&self) -> Slot {
        match self.slot {
            Some((leaf, slot)) => leaf.slot_memory(slot),
            None => self.map.raw.root_memory(),
        }
    }
}

impl<'a, K: Key, V: Value + 'a, A: NodeAlloc, S: Shape> OccupiedEntry<'a, K, V, A, S> {
    /// Returns the range that the entry covers.
    pub fn range(&self) -> RangeInclusive<K> {
        self.range.0..=self.range.1
    }

    /// Returns the value.
    pub fn get(&self) -> Ref<'_, V> {
        // SAFETY: the value is in the map, which is borrowed; its word is in its slot.
        unsafe { V::borrow(self.slot().read()) }
    }

    /// Returns the value, for changing.
    pub fn get_mut(&mut self) -> Mut<'_, V> {
        // SAFETY: the value is in the map, which is exclusively borrowed by way of `self`.
        unsafe { V::borrow_mut(self.slot()) }
    }

    /// Returns the value, for changing it for as long as the map is borrowed.
    pub fn into_mut(self) -> Mut<'a, V> {
        // SAFETY: the value is in the map, which is exclusively borrowed for `'a`.
        unsafe { V::borrow_mut(self.slot()) }
    }

    /// Exchanges the value, and gives the old one. O(log n).
    ///
    /// # Errors
    ///
    /// The value comes back if there is no memory, as for [`replace`](MapleTree::replace).
    pub fn insert(&mut self, value: V) -> Result<V, V> {
        // The word itself is stored: made a value once more, it would become another pointer, and this one a stale one.
        let new = value.into_raw();
        let old = store::replace(self.map, self.range.0, new)?;
        self.seek();
        // SAFETY: the tree gave the old word up.
        Ok(unsafe { V::from_raw(old) })
    }

    /// Removes the entry, and gives its value. O(log n). Fails as [`remove_entry`](OccupiedEntry::remove_entry).
    pub fn remove(self) -> Result<V, AllocError> {
        self.remove_entry().map(|(_, value)| value)
    }

    /// Removes the entry, and gives its range and value. O(log n).
    ///
    /// ```
    /// # use maple_tree::{Entry, MapleTree};
    /// let mut map = MapleTree::from([(0..10u32, 1u32)]);
    /// if let Entry::Occupied(entry) = map.entry(3) {
    ///     assert_eq!(entry.remove_entry(), Ok((0..=9, 1)));
    /// }
    /// assert!(map.is_empty());
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory (joining nodes that have become too small may take some); the entry is still there then.
    pub fn remove_entry(self) -> Result<(RangeInclusive<K>, V), AllocError> {
        // SAFETY: as in `get`.
        let there = (self.range(), unsafe { self.slot().read() });
        let (range, raw) = store::remove(self.map, self.range.0)?.unwrap_or(there);
        // SAFETY: the entry has been removed from the tree, which owned its value.
        Ok((range, unsafe { V::from_raw(raw) }))
    }
}

impl<'a, K: Key, V: Value + 'a, A: NodeAlloc, S: Shape> VacantEntry<'a, K, V, A, S> {
    /// Returns the requested range.
    pub fn range(&self) -> RangeInclusive<K> {
        match self.range {
            Some((first, last)) => first..=last,
            None => K::ONE..=K::MIN,
        }
    }

    /// Returns the whole hole that the range is in. O(log n).
    ///
    /// ```
    /// # use maple_tree::{Entry, MapleTree};
    /// let mut map = MapleTree::from([(10..20u32, 1u32)]);
    /// if let Entry::Vacant(hole) = map.entry(50) {
    ///     assert_eq!(hole.hole(), 20..=u32::MAX);
    /// }
    /// ```
    pub fn hole(&self) -> RangeInclusive<K> {
        match self.range {
            Some((first, _)) => {
                let found = self.map.raw.lookup(first);
                found.first..=found.last
            }
            None => self.range(),
        }
    }

    /// Stores `value` at the range, and gives the entry that is there now. O(log n). Fails as [`insert`](VacantEntry::insert).
    ///
    /// ```
    /// # use maple_tree::{Entry, MapleTree};
    /// let mut map: MapleTree<u32, u32> = MapleTree::new();
    /// if let Entry::Vacant(hole) = map.entry_range(10..20) {
    ///     let entry = hole.insert_entry(7)?;
    ///     assert_eq!((entry.range(), entry.get()), (10..=19, 7));
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn insert_entry(self, value: V) -> Result<OccupiedEntry<'a, K, V, A, S>, InsertError<V>> {
        let Self { map, range } = self;
        let Some(range) = range else {
            return Err(InsertError::EmptyRange(value));
        };
        store::insert(map, Some(range), value)?;
        let slot = None;
        let mut entry = OccupiedEntry { map, range, slot };
        entry.seek();
        Ok(entry)
    }

    /// Stores `value` at the range. O(log n).
    ///
    /// # Errors
    ///
    /// The value comes back if there is no memory, or the range is empty.
    pub fn insert(self, value: V) -> Result<Mut<'a, V>, InsertError<V>> {
        self.insert_entry(value).map(OccupiedEntry::into_mut)
    }
}

impl<K: Key, V: Value, A: NodeAlloc, S: Shape> fmt::Debug for OccupiedEntry<'_, K, V, A, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OccupiedEntry")
            .field("range", &self.range())
            .finish_non_exhaustive()
    }
}

impl<K: Key, V: Value, A: NodeAlloc, S: Shape> fmt::Debug for VacantEntry<'_, K, V, A, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VacantEntry")
            .field("range", &self.range.map(|(first, last)| first..=last))
            .finish_non_exhaustive()
    }
}

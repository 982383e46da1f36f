//! Changing a map.

use core::ops::{RangeBounds, RangeInclusive};
use core::ptr::NonNull;

use crate::alloc::AllocError;
use crate::base::{
    Duplicate, EraseError, InsertError, Key, Mut, Ref, Shape, StoreError, inclusive,
};
use crate::face::host::Host;
use crate::face::snap::own::{At, NO_COPIES, Owning};
use crate::face::snap::{CowMapleTree, SharedAlloc};
use crate::face::store;
use crate::node::Word;

impl<K: Key, V: Duplicate, A: SharedAlloc, S: Shape> CowMapleTree<K, V, A, S> {
    /// Lets `make` make a write to `range`, what it touches being the map's own. It gets `new`; without memory that goes to `refuse`.
    #[inline]
    fn change<N, T, E>(
        &mut self,
        range: Option<(K, K)>,
        erases: bool,
        new: N,
        make: impl FnOnce(&mut Owning<'_, K, V, S, A>, N) -> Result<T, E>,
        refuse: impl FnOnce(N) -> E,
    ) -> Result<T, E> {
        let mut copies = NO_COPIES;
        // SAFETY: the map is exclusively borrowed; its words are values, its nodes are given back to its allocator.
        let mut tree = unsafe { Owning::new(&self.raw, &self.alloc, &mut copies) };
        let done = match range.map_or(Ok(()), |range| tree.range(range, erases)) {
            Ok(()) => make(&mut tree, new),
            Err(AllocError) => Err(refuse(new)),
        };
        // Here, and not on return: if it panics, what is to be given back is dropped.
        drop(tree);
        done
    }

    /// The slot of the entry at `key`, if there is one, in a leaf that is now the map's own.
    #[inline]
    fn own_slot(&mut self, key: K) -> Result<Option<At<K, S>>, AllocError> {
        // Nothing is copied in vain.
        if self.raw.load(key).is_null() {
            return Ok(None);
        }
        let mut copies = NO_COPIES;
        // SAFETY: as in `change`.
        let mut tree = unsafe { Owning::<K, V, S, A>::new(&self.raw, &self.alloc, &mut copies) };
        let place = tree.path(key, 0)?;
        tree.made = true;
        Ok(place.map(|place| (place.leaf, place.leaf.search(key))))
    }

    /// Stores `value` at `range` if that is a hole, or part of one. O(log n).
    ///
    /// ```
    /// # use maple_tree::{CowMapleTree, InsertError};
    /// let mut map: CowMapleTree<u64, u32> = CowMapleTree::new();
    /// map.insert_range(10..20, 1)?;
    /// assert_eq!(map.insert_range(15..25, 2), Err(InsertError::Occupied(2)));
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
        let range = inclusive(&range);
        if let Some((first, last)) = range {
            // Nothing is copied in vain.
            if !store::is_free(&self.raw, (first, last)) {
                return Err(InsertError::Occupied(value));
            }
        }
        self.change(
            range,
            false,
            value,
            |tree, value| store::insert(tree, range, value),
            InsertError::Alloc,
        )
    }

    /// Stores `value` at the one index `key`, if that is in a hole. O(log n).
    ///
    /// ```
    /// # use maple_tree::CowMapleTree;
    /// let mut map: CowMapleTree<u64, u32> = CowMapleTree::new();
    /// map.insert(7, 1)?;
    /// let before = map.snapshot();
    /// map.insert(8, 2)?;
    /// assert_eq!((before.len(), map.len()), (1, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`insert_range`](CowMapleTree::insert_range).
    pub fn insert(&mut self, key: K, value: V) -> Result<(), InsertError<V>> {
        self.insert_range(key..=key, value)
    }

    /// Stores `value` at `range`. Entries within the range are given up, entries that overlap it keep what is outside; one that is on both
    /// sides is [duplicated](Duplicate). O(log n), and the time to give up what was there.
    ///
    /// ```
    /// # use maple_tree::CowMapleTree;
    /// let mut map: CowMapleTree<u64, u32> = CowMapleTree::new();
    /// map.store_range(10..20, 1)?;
    /// map.store_range(12..14, 2)?;
    /// assert_eq!(map.iter().collect::<Vec<_>>(), [(10..=11, 1), (12..=13, 2), (14..=19, 1)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The value comes back if there is no memory, or if the range is empty.
    pub fn store_range(
        &mut self,
        range: impl RangeBounds<K>,
        value: V,
    ) -> Result<(), StoreError<V>> {
        self.store_range_splitting(range, value, |_, value| V::duplicate(value))
            .map_err(|error| match error {
                StoreError::Splits(value) => StoreError::Alloc(value),
                other => other,
            })
    }

    /// As [`store_range`](CowMapleTree::store_range); if the range lies strictly within an entry, the part above gets the value that `split`
    /// makes from that entry and the range of that part.
    ///
    /// ```
    /// # use maple_tree::CowMapleTree;
    /// let mut map: CowMapleTree<u64, u32> = CowMapleTree::new();
    /// map.insert_range(0..100, 1)?;
    /// map.store_range_splitting(40..50, 2, |above, value| Some(value + *above.start() as u32))?;
    /// assert_eq!(map.iter().collect::<Vec<_>>(), [(0..=39, 1), (40..=49, 2), (50..=99, 51)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The value comes back if there is no memory, if the range is empty, or (as [`StoreError::Splits`]) if `split` gives `None`.
    pub fn store_range_splitting(
        &mut self,
        range: impl RangeBounds<K>,
        value: V,
        split: impl FnOnce(RangeInclusive<K>, Ref<'_, V>) -> Option<V>,
    ) -> Result<(), StoreError<V>> {
        let range = inclusive(&range);
        self.change(
            range,
            false,
            value,
            |tree, value| store::store_splitting(tree, range, value, split, discard::<K, V, S, A>),
            StoreError::Alloc,
        )
    }

    /// As [`store_range`](CowMapleTree::store_range); neighbours that touch the range, or reach into it from outside, and that are the `same` as
    /// the new value, become one entry with it. Gives the range of that; the new value stays. `same` is asked about each of the (at most two)
    /// neighbours. O(log n), and the time to give up what was there.
    ///
    /// ```
    /// # use maple_tree::CowMapleTree;
    /// let mut map: CowMapleTree<u64, u32> = CowMapleTree::new();
    /// map.try_extend([(0..10, 1), (20..30, 1)])?;
    /// let before = map.snapshot();
    /// assert_eq!(map.store_range_coalescing(10..20, 1, |a, b| a == b)?, 0..=29);
    /// assert_eq!(map.store_range_coalescing(12..14, 2, |a, b| a == b)?, 12..=13);
    /// assert_eq!((before.len(), map.len()), (2, 3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`store_range`](CowMapleTree::store_range).
    pub fn store_range_coalescing(
        &mut self,
        range: impl RangeBounds<K>,
        value: V,
        same: impl FnMut(Ref<'_, V>, Ref<'_, V>) -> bool,
    ) -> Result<RangeInclusive<K>, StoreError<V>> {
        let (range, value) = self.joined(range, value, same)?;
        self.store_range(range.clone(), value)?;
        Ok(range)
    }

    /// As [`store_range_coalescing`](CowMapleTree::store_range_coalescing); an entry around the range that is not the `same` is split as by
    /// [`store_range_splitting`](CowMapleTree::store_range_splitting).
    ///
    /// ```
    /// # use maple_tree::CowMapleTree;
    /// let mut map: CowMapleTree<u64, u32> = CowMapleTree::new();
    /// map.insert_range(0..100, 1)?;
    /// let mut paint = |range: std::ops::Range<u64>, colour| {
    ///     map.store_range_coalescing_splitting(range, colour, |a, b| a == b, |_, around| Some(around))
    /// };
    /// assert_eq!(paint(40..50, 2)?, 40..=49); // splits
    /// assert_eq!(paint(50..60, 2)?, 40..=59); // joins
    /// assert_eq!(paint(40..60, 1)?, 0..=99); // joins on both sides
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`store_range_splitting`](CowMapleTree::store_range_splitting).
    pub fn store_range_coalescing_splitting(
        &mut self,
        range: impl RangeBounds<K>,
        value: V,
        same: impl FnMut(Ref<'_, V>, Ref<'_, V>) -> bool,
        split: impl FnOnce(RangeInclusive<K>, Ref<'_, V>) -> Option<V>,
    ) -> Result<RangeInclusive<K>, StoreError<V>> {
        let (range, value) = self.joined(range, value, same)?;
        self.store_range_splitting(range.clone(), value, split)?;
        Ok(range)
    }

    /// The range with the neighbours that are to become one entry with it, and the value. What a write touches is made the map's own first.
    fn joined(
        &self,
        range: impl RangeBounds<K>,
        value: V,
        same: impl FnMut(Ref<'_, V>, Ref<'_, V>) -> bool,
    ) -> Result<(RangeInclusive<K>, V), StoreError<V>> {
        let Some(range) = inclusive(&range) else {
            return Err(StoreError::EmptyRange(value));
        };
        let ((first, last), value) = store::joined(&self.raw, range, value, same);
        Ok((first..=last, value))
    }

    /// Makes `range` a hole. Entries within it are given up, entries that overlap it keep what is outside; one that is on both sides is
    /// [duplicated](Duplicate). O(log n), and the time to give up what was there.
    ///
    /// ```
    /// # use maple_tree::CowMapleTree;
    /// let mut map: CowMapleTree<u64, u32> = CowMapleTree::new();
    /// map.store_range(10..20, 1)?;
    /// map.erase_range(12..14)?;
    /// assert_eq!(map.iter().collect::<Vec<_>>(), [(10..=11, 1), (14..=19, 1)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory, or if the range is empty. Nothing has changed then.
    pub fn erase_range(&mut self, range: impl RangeBounds<K>) -> Result<(), EraseError> {
        self.erase_range_splitting(range, |_, value| V::duplicate(value))
            .map_err(|error| match error {
                EraseError::Splits => EraseError::Alloc,
                other => other,
            })
    }

    /// As [`erase_range`](CowMapleTree::erase_range); if the range lies strictly within an entry, the part above gets the value that `split`
    /// makes from that entry and the range of that part.
    ///
    /// ```
    /// # use maple_tree::CowMapleTree;
    /// let mut map: CowMapleTree<u64, u32> = CowMapleTree::new();
    /// map.insert_range(0..100, 1)?;
    /// assert!(map.erase_range_splitting(40..50, |_, _| None).is_err());
    /// map.erase_range_splitting(40..50, |_, value| Some(value))?;
    /// assert_eq!(map.ranges().collect::<Vec<_>>(), [0..=39, 50..=99]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory, if the range is empty, or (as [`EraseError::Splits`]) if `split` gives `None`.
    pub fn erase_range_splitting(
        &mut self,
        range: impl RangeBounds<K>,
        split: impl FnOnce(RangeInclusive<K>, Ref<'_, V>) -> Option<V>,
    ) -> Result<(), EraseError> {
        let range = inclusive(&range);
        self.change(
            range,
            true,
            (),
            |tree, ()| store::erase_splitting(tree, range, split, discard::<K, V, S, A>),
            |()| EraseError::Alloc,
        )
    }

    /// Removes the whole entry at `key`, and gives its range and its value (another one of it, if a snapshot holds it too). O(log n).
    ///
    /// ```
    /// # use maple_tree::CowMapleTree;
    /// let mut map: CowMapleTree<u64, u32> = CowMapleTree::new();
    /// map.insert_range(10..20, 1)?;
    /// let before = map.snapshot();
    /// assert_eq!(map.remove(15)?, Some((10..=19, 1)));
    /// assert_eq!(map.remove(15)?, None);
    /// assert_eq!(before.get(15), Some(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory; the entry is still there then.
    pub fn remove(&mut self, key: K) -> Result<Option<(RangeInclusive<K>, V)>, AllocError> {
        let found = self.raw.lookup(key);
        if found.word.is_null() {
            return Ok(None);
        }
        let range = Some((found.first, found.last));
        self.change(
            range,
            true,
            (),
            |tree, ()| {
                let removed = store::remove(tree, key)?;
                // SAFETY: the entry has been removed from the tree, which owned its value.
                Ok(removed.map(|(range, raw)| (range, unsafe { V::from_raw(raw) })))
            },
            |()| AllocError,
        )
    }

    /// Exchanges the value of the entry at `key`, whose range stays as it is, and gives the old one (another one of it, if a snapshot holds it
    /// too). O(log n).
    ///
    /// ```
    /// # use maple_tree::CowMapleTree;
    /// let mut map: CowMapleTree<u64, u32> = CowMapleTree::new();
    /// map.insert_range(10..20, 1)?;
    /// let before = map.snapshot();
    /// assert_eq!(map.replace(15, 2), Ok(1));
    /// assert_eq!(map.replace(25, 3), Err(3));
    /// assert_eq!((before.get(15), map.get(15)), (Some(1), Some(2)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The value comes back if there is no entry, or no memory to copy what is shared.
    pub fn replace(&mut self, key: K, value: V) -> Result<V, V> {
        let Ok(Some((leaf, slot))) = self.own_slot(key) else {
            return Err(value);
        };
        let Some(old) = NonNull::new(leaf.slot(slot)) else {
            return Err(value);
        };
        leaf.publish(slot, value.into_raw().as_ptr());
        // SAFETY: the value is no longer in the map.
        Ok(unsafe { V::from_raw(old) })
    }

    /// The value at `key`, to be changed; snapshots keep what they have. O(log n).
    ///
    /// ```
    /// # use maple_tree::CowMapleTree;
    /// let mut map: CowMapleTree<u64, Box<u32>> = CowMapleTree::new();
    /// map.insert_range(10..20, Box::new(1))?;
    /// let before = map.snapshot();
    /// if let Some(value) = map.get_mut(15)? {
    ///     *value += 1;
    /// }
    /// assert_eq!((before.get(15), map.get(15)), (Some(&1), Some(&2)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory to copy what is shared.
    pub fn get_mut(&mut self, key: K) -> Result<Option<Mut<'_, V>>, AllocError> {
        let found = self.own_slot(key)?;
        // SAFETY: words in the tree are values; the leaf is owned now, and the map exclusively borrowed for the view.
        Ok(found.map(|(leaf, slot)| unsafe { V::borrow_mut(leaf.slot_memory(slot)) }))
    }

    /// Inserts entries until one cannot be inserted. O(log n) each.
    ///
    /// ```
    /// # use maple_tree::CowMapleTree;
    /// let mut map: CowMapleTree<u64, u32> = CowMapleTree::new();
    /// map.try_extend([(10..20, 1), (20..30, 2)])?;
    /// // The second of these cannot be inserted.
    /// assert!(map.try_extend([(0..5, 3), (25..35, 4), (40..50, 5)]).is_err());
    /// assert_eq!(map.ranges().collect::<Vec<_>>(), [0..=4, 10..=19, 20..=29]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`insert_range`](CowMapleTree::insert_range), for the first that could not be inserted; those before it have been.
    pub fn try_extend<R: RangeBounds<K>>(
        &mut self,
        entries: impl IntoIterator<Item = (R, V)>,
    ) -> Result<(), InsertError<V>> {
        for (range, value) in entries {
            self.insert_range(range, value)?;
        }
        Ok(())
    }
}

/// Drops the value of an entry that a write has removed.
fn discard<K: Key, V: Duplicate, S: Shape, A: SharedAlloc>(_: K, _: K, word: Word) {
    Owning::<K, V, S, A>::discard(word);
}

//! Changing a map.

use core::ops::{RangeBounds, RangeInclusive};
use core::ptr::NonNull;

use crate::alloc::AllocError;
use crate::base::{
    Duplicate, EraseError, InsertError, Key, Mut, Ref, Shape, StoreError, inclusive,
};
use crate::face::snap::new::{Failure, Hole, New, Stored};
use crate::face::snap::path::{Path, Step};
use crate::face::snap::rewrite::Rewrite;
use crate::face::snap::{CowMapleTree, SharedAlloc};
use crate::node::Root;

/// The slot of an entry, and its value's word.
type Place<K, S> = (Step<K, S>, NonNull<()>);

impl<K: Key, V: Duplicate, A: SharedAlloc, S: Shape> CowMapleTree<K, V, A, S> {
    fn rewrite(&mut self) -> Rewrite<'_, K, S, A> {
        Rewrite {
            raw: &self.raw,
            alloc: &self.alloc,
        }
    }

    /// The path down to `key`, or `None` if there are no nodes.
    #[inline(always)]
    fn path(&self, key: K) -> Option<Path<K, S>> {
        match self.raw.root() {
            Root::Node(root) => Some(Path::down(root, self.raw.height() as usize, key)),
            Root::Empty | Root::Single(_) => None,
        }
    }

    /// The path down to the entry at `key`, and its value's word.
    #[inline(always)]
    fn entry(&self, key: K) -> Option<(Path<K, S>, NonNull<()>)> {
        let path = self.path(key)?;
        let step = path.at(0);
        let raw = NonNull::new(step.node.slot(step.slot))?;
        Some((path, raw))
    }

    fn put<N: New<V>>(
        &mut self,
        first: K,
        last: K,
        new: N,
        split: impl FnOnce(RangeInclusive<K>, Ref<'_, V>) -> Option<V>,
    ) -> Result<(), (Failure, N)> {
        let Some(mut path) = self.path(first) else {
            return self.rewrite().first_leaf(first, last, new);
        };
        // SAFETY: the map is exclusively borrowed; its words are values.
        let put = unsafe {
            self.rewrite()
                .put(&mut path, (first, last), new, false, split)
        };
        put.map(|_| ())
    }

    /// The slot of the entry at `key`, in a leaf that is now owned, and its value's word.
    #[inline]
    fn own_entry(&mut self, key: K) -> Result<Option<Place<K, S>>, AllocError> {
        let Some((mut path, raw)) = self.entry(key) else {
            return Ok(None);
        };
        if path.at(0).owned {
            return Ok(Some((*path.at(0), raw)));
        }
        // SAFETY: the map is exclusively borrowed; its words are values.
        drop(unsafe { self.rewrite().copy_path::<V>(&mut path, |_| true) }?);
        let step = *path.at(0);
        Ok(NonNull::new(step.node.slot(step.slot)).map(|raw| (step, raw)))
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
        let Some((first, last)) = inclusive(&range) else {
            return Err(InsertError::EmptyRange(value));
        };
        let Some(mut path) = self.path(first) else {
            return self.store_range(range, value).map_err(|error| match error {
                StoreError::EmptyRange(value) => InsertError::EmptyRange(value),
                StoreError::Alloc(value) | StoreError::Splits(value) => InsertError::Alloc(value),
            });
        };
        let step = path.at_mut(0);
        if !step.node.slot(step.slot).is_null() || step.last() < last {
            return Err(InsertError::Occupied(value));
        }
        // SAFETY: the map is exclusively borrowed; its words are values.
        let put = unsafe {
            self.rewrite()
                .put(&mut path, (first, last), Stored(value), false, |_, _| None)
        };
        put.map(|_| ())
            .map_err(|(_, Stored(value))| InsertError::Alloc(value))
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
        let Some((first, last)) = inclusive(&range) else {
            return Err(StoreError::EmptyRange(value));
        };
        self.put(first, last, Stored(value), split).map_err(
            |(failure, Stored(value))| match failure {
                Failure::Alloc => StoreError::Alloc(value),
                Failure::Splits => StoreError::Splits(value),
            },
        )
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
        let (first, last) = inclusive(&range).ok_or(EraseError::EmptyRange)?;
        self.put(first, last, Hole, split)
            .map_err(|(failure, Hole)| match failure {
                Failure::Alloc => EraseError::Alloc,
                Failure::Splits => EraseError::Splits,
            })
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
        let Some((mut path, _)) = self.entry(key) else {
            return Ok(None);
        };
        let (first, last) = (path.at(0).first(), path.at(0).last());
        // SAFETY: the map is exclusively borrowed; its words are values; the range is that of an entry.
        let taken = unsafe {
            self.rewrite()
                .put(&mut path, (first, last), Hole, true, |_, _| None)
        };
        taken
            .map(|value| value.map(|value| (first..=last, value)))
            .map_err(|_| AllocError)
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
        let Ok(Some((step, old))) = self.own_entry(key) else {
            return Err(value);
        };
        // SAFETY: the leaf is owned: nobody else sees it. The old value is no longer in it.
        unsafe {
            step.node
                .write()
                .set_slot(step.slot, value.into_raw().as_ptr());
            Ok(V::from_raw(old))
        }
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
        let found = self.own_entry(key)?;
        // SAFETY: words in the tree are values; the leaf is owned now, and the map exclusively borrowed for the view.
        Ok(found.map(|(at, _)| unsafe { V::borrow_mut(at.node.slot_memory(at.slot)) }))
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

//! Changing a map.

use core::ops::{RangeBounds, RangeInclusive};
use core::ptr::NonNull;

use crate::alloc::AllocError;
use crate::base::{Duplicate, EraseError, InsertError, Key, Mut, Shape, StoreError, inclusive};
use crate::face::allocs::allocs;
use crate::face::changes::changes;
use crate::face::host::{Host, Touch};
use crate::face::snap::own::{At, NO_COPIES, Owning};
use crate::face::snap::{CowMapleTree, SharedAlloc};
use crate::face::store;
use crate::node::Word;

impl<K: Key, V: Duplicate, A: SharedAlloc, S: Shape> CowMapleTree<K, V, A, S> {
    /// Lets `make` make a write to `range`, what it touches being the map's own.
    #[inline]
    fn change<T>(
        &mut self,
        range: Option<(K, K)>,
        touch: Touch,
        make: impl FnOnce(Result<&mut Owning<'_, K, V, S, A>, AllocError>) -> T,
    ) -> T {
        let mut copies = NO_COPIES;
        // SAFETY: the map is exclusively borrowed; its words are values, its nodes are given back to its allocator.
        let mut tree = unsafe { Owning::new(&self.raw, &self.alloc, &mut copies) };
        // Nothing is copied in vain.
        let touched = range
            .filter(|&range| touch != Touch::Fills || store::is_free(&self.raw, range))
            .map_or(Ok(()), |range| tree.range(range, touch == Touch::Erases));
        let done = make(touched.map(|()| &mut tree));
        // Here, and not on return: if it panics, what is to be given back is dropped.
        drop(tree);
        done
    }

    /// Drops the value of an entry that a write has removed.
    fn discard(first: K, last: K, word: Word) {
        Owning::<K, V, S, A>::discard(first, last, word);
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

    changes!(
        "given up",
        "",
        "# use maple_tree::CowMapleTree;
let mut map: CowMapleTree<u32, u32> = CowMapleTree::with_gaps();"
    );

    allocs!(
        gap_from_above,
        "# use maple_tree::CowMapleTree;
let mut map: CowMapleTree<u32, u32> = CowMapleTree::with_gaps();"
    );

    /// Stores `value` at `range`. Entries within the range are given up, entries that overlap it keep what is outside; one that is on both
    /// sides is [duplicated](Duplicate). O(log n), and the time to give up what was there.
    ///
    /// ```
    /// let mut map = maple_tree::CowMapleTree::<u64, u32>::new();
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

    /// Makes `range` a hole. Entries within it are given up, entries that overlap it keep what is outside; one that is on both sides is
    /// [duplicated](Duplicate). O(log n), and the time to give up what was there.
    ///
    /// ```
    /// let mut map = maple_tree::CowMapleTree::<u64, u32>::new();
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

    /// Removes the whole entry at `key`, and gives its range and its value (another one of it, if a snapshot holds it too). O(log n).
    ///
    /// ```
    /// let mut map = maple_tree::CowMapleTree::<u64, u32>::new();
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
        self.change(range, Touch::Erases, |tree| {
            let removed = store::remove(tree?, key)?;
            // SAFETY: the entry has been removed from the tree, which owned its value.
            Ok(removed.map(|(range, raw)| (range, unsafe { V::from_raw(raw) })))
        })
    }

    /// Exchanges the value of the entry at `key`, whose range stays, and gives the old one (another one of it, if a snapshot holds it too). O(log n).
    ///
    /// ```
    /// let mut map = maple_tree::CowMapleTree::<u64, u32>::new();
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
    /// let mut map = maple_tree::CowMapleTree::<u64, Box<u32>>::new();
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
}

//! Single changes and single looks, for who has nothing else to do under the lock or the guard.

use core::ops::{RangeBounds, RangeInclusive};

use lock_api::RawMutex;

use crate::alloc::AllocError;
use crate::base::{EraseError, InsertError, Key, Ref, Shape, StoreError};
use crate::face::sync::{SyncAlloc, SyncMapleTree, SyncValue};
use crate::reclaim::Reclaim;

/// Each of these takes the lock, or enters as a reader, for its own duration. To do several things as one, ask for a
/// [writer](SyncMapleTree::write) or a [reader](SyncMapleTree::read).
impl<K: Key, V: SyncValue, R: Reclaim, A: SyncAlloc, L: RawMutex, S: Shape>
    SyncMapleTree<K, V, R, A, L, S>
{
    /// What `look` makes of the entry at `key`; `None` if there is none. Takes no lock. O(log n).
    ///
    /// ```
    /// use maple_tree::{SyncMapleTree, Waiting};
    ///
    /// let names: SyncMapleTree<u32, Box<String>, Waiting> = SyncMapleTree::new(Waiting::new());
    /// names.insert_range(0..10, Box::new("low".to_string()))?;
    /// assert_eq!(names.with(4, |range, name| (range, name.len())), Some((0..=9, 3)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with<T>(
        &self,
        key: K,
        look: impl FnOnce(RangeInclusive<K>, Ref<'_, V>) -> T,
    ) -> Option<T> {
        let reader = self.read();
        let (range, value) = reader.get_range(key)?;
        Some(look(range, value))
    }

    /// Whether `key` is within an entry at this moment. Takes no lock. O(log n).
    ///
    /// ```
    /// use maple_tree::{SyncMapleTree, Waiting};
    ///
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// map.insert(7, 1)?;
    /// assert!(map.contains(7) && !map.contains(8));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn contains(&self, key: K) -> bool {
        self.read().contains(key)
    }

    /// Whether there are no entries at this moment. Takes no lock. O(1).
    ///
    /// ```
    /// use maple_tree::{SyncMapleTree, Waiting};
    ///
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// map.insert(7, 1)?;
    /// assert!(!map.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.read().is_empty()
    }

    /// [`Writer::insert_range`](crate::Writer::insert_range) under the lock.
    ///
    /// ```
    /// use maple_tree::{SyncMapleTree, Waiting};
    ///
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// map.insert_range(0..10, 1)?;
    /// assert!(map.contains(9));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The value comes back if an entry intersects the range, if there is no memory, or if the range is empty.
    pub fn insert_range(&self, range: impl RangeBounds<K>, value: V) -> Result<(), InsertError<V>> {
        self.write().insert_range(range, value)
    }

    /// [`Writer::insert`](crate::Writer::insert) under the lock.
    ///
    /// ```
    /// use maple_tree::{SyncMapleTree, Waiting};
    ///
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// map.insert(7, 1)?;
    /// assert!(map.insert(7, 2).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The value comes back if an entry is at `key`, or if there is no memory.
    pub fn insert(&self, key: K, value: V) -> Result<(), InsertError<V>> {
        self.write().insert(key, value)
    }

    /// [`Writer::store_range`](crate::Writer::store_range) under the lock.
    ///
    /// ```
    /// use maple_tree::{SyncMapleTree, Waiting};
    ///
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::new(Waiting::new());
    /// map.store_range(0..10, 1)?;
    /// map.store_range(5..20, 2)?;
    /// assert_eq!(map.with(4, |range, value| (range, value)), Some((0..=4, 1)));
    /// assert_eq!(map.remove(7), Ok(Some(5..=19)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The value comes back if the range lies strictly within one entry, if there is no memory, or if the range is empty.
    pub fn store_range(&self, range: impl RangeBounds<K>, value: V) -> Result<(), StoreError<V>> {
        self.write().store_range(range, value)
    }

    /// [`Writer::erase_range`](crate::Writer::erase_range) under the lock.
    ///
    /// ```
    /// use maple_tree::{SyncMapleTree, Waiting};
    ///
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// map.insert_range(0..10, 1)?;
    /// map.erase_range(5..)?;
    /// assert!(map.contains(4) && !map.contains(5));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the range lies strictly within one entry, if there is no memory, or if the range is empty. Nothing has changed then.
    pub fn erase_range(&self, range: impl RangeBounds<K>) -> Result<(), EraseError> {
        self.write().erase_range(range)
    }

    /// [`Writer::remove`](crate::Writer::remove) under the lock.
    ///
    /// ```
    /// use maple_tree::{SyncMapleTree, Waiting};
    ///
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// map.insert_range(0..10, 1)?;
    /// assert_eq!(map.remove(5)?, Some(0..=9));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory; the entry is still there then.
    pub fn remove(&self, key: K) -> Result<Option<RangeInclusive<K>>, AllocError> {
        self.write().remove(key)
    }

    /// [`Writer::replace`](crate::Writer::replace) under the lock.
    ///
    /// ```
    /// use maple_tree::{SyncMapleTree, Waiting};
    ///
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// map.insert_range(0..10, 1)?;
    /// assert_eq!(map.replace(5, 2), Ok(()));
    /// assert_eq!(map.replace(15, 2), Err(2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The value comes back if there is no entry, or if there is no memory where that takes some.
    pub fn replace(&self, key: K, value: V) -> Result<(), V> {
        self.write().replace(key, value)
    }

    /// [`Writer::alloc_range`](crate::Writer::alloc_range) under the lock.
    ///
    /// ```
    /// use maple_tree::{SyncMapleTree, Waiting};
    ///
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// map.insert_range(0..10, 1)?;
    /// assert_eq!(map.alloc_range(.., 5, 2)?, 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The value comes back if there is no such gap ([`InsertError::Occupied`]), if there is no memory, or if `bounds` holds no index or
    /// `size` is 0.
    pub fn alloc_range(
        &self,
        bounds: impl RangeBounds<K>,
        size: K::Size,
        value: V,
    ) -> Result<K, InsertError<V>> {
        self.write().alloc_range(bounds, size, value)
    }

    /// [`Writer::clear`](crate::Writer::clear) under the lock. Never fails.
    ///
    /// ```
    /// use maple_tree::{SyncMapleTree, Waiting};
    ///
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// map.insert_range(0..10, 1)?;
    /// map.clear();
    /// assert!(map.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clear(&self) {
        self.write().clear();
    }
}

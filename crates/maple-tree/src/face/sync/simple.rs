//! Single changes and single looks, for who has nothing else to do under the lock or the guard.

use core::ops::{RangeBounds, RangeInclusive};

use lock_api::RawMutex;

use crate::alloc::AllocError;
use crate::base::{EraseError, InsertError, Key, Ref, Shape, StoreError};
use crate::face::sync::{SyncAlloc, SyncMapleTree, SyncValue};
use crate::reclaim::Reclaim;

/// A call of the [writer](crate::Writer)'s under the lock: when it fails, its name, its arguments, what it gives, and an example on an empty `map`.
macro_rules! locked {
    ($(#[$errors:meta])* $name:ident($($argument:ident: $type:ty),*) -> $given:ty $(, $example:literal)+) => {
        #[doc = concat!("[`Writer::", stringify!($name), "`](crate::Writer::", stringify!($name), ") under the lock.")]
        ///
        /// ```
        /// # use maple_tree::{SyncMapleTree, Waiting};
        /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
        $(#[doc = $example])+
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ///
        /// # Errors
        ///
        $(#[$errors])*
        pub fn $name(&self, $($argument: $type),*) -> $given {
            self.write().$name($($argument),*)
        }
    };
}

/// Each of these takes the lock, or enters as a reader, for its own duration. To do several things as one, ask for a
/// [writer](SyncMapleTree::write) or a [reader](SyncMapleTree::read).
impl<K: Key, V: SyncValue, R: Reclaim, A: SyncAlloc, L: RawMutex, S: Shape>
    SyncMapleTree<K, V, R, A, L, S>
{
    /// What `look` makes of the entry at `key`; `None` if there is none. Takes no lock. O(log n).
    ///
    /// ```
    /// # use maple_tree::{SyncMapleTree, Waiting};
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
    /// # use maple_tree::{SyncMapleTree, Waiting};
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// map.insert(7, 1)?;
    /// assert!(!map.is_empty() && map.contains(7) && !map.contains(8));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn contains(&self, key: K) -> bool {
        self.read().contains(key)
    }

    /// Whether there are no entries at this moment. Takes no lock. O(1). For an example see [`contains`](Self::contains).
    pub fn is_empty(&self) -> bool {
        self.read().is_empty()
    }

    locked! {
        /// The value comes back if an entry intersects the range, if there is no memory, or if the range is empty.
        insert_range(range: impl RangeBounds<K>, value: V) -> Result<(), InsertError<V>>,
        "map.insert_range(0..10, 1)?;",
        "assert!(map.contains(9));"
    }

    locked! {
        /// The value comes back if an entry is at `key`, or if there is no memory.
        insert(key: K, value: V) -> Result<(), InsertError<V>>,
        "map.insert(7, 1)?;",
        "assert!(map.insert(7, 2).is_err());"
    }

    locked! {
        /// The value comes back if the range lies strictly within one entry, if there is no memory, or if the range is empty.
        store_range(range: impl RangeBounds<K>, value: V) -> Result<(), StoreError<V>>,
        "map.store_range(0..10, 1)?;",
        "map.store_range(5..20, 2)?;",
        "assert_eq!(map.with(4, |range, value| (range, value)), Some((0..=4, 1)));",
        "assert_eq!(map.remove(7), Ok(Some(5..=19)));"
    }

    locked! {
        /// If the range lies strictly within one entry, if there is no memory, or if the range is empty. Nothing has changed then.
        erase_range(range: impl RangeBounds<K>) -> Result<(), EraseError>,
        "map.insert_range(0..10, 1)?;",
        "map.erase_range(5..)?;",
        "assert!(map.contains(4) && !map.contains(5));"
    }

    locked! {
        /// If there is no memory; the entry is still there then.
        remove(key: K) -> Result<Option<RangeInclusive<K>>, AllocError>,
        "map.insert_range(0..10, 1)?;",
        "assert_eq!(map.remove(5)?, Some(0..=9));"
    }

    locked! {
        /// The value comes back if there is no entry, or if there is no memory where that takes some.
        replace(key: K, value: V) -> Result<(), V>,
        "map.insert_range(0..10, 1)?;",
        "assert_eq!(map.replace(5, 2), Ok(()));",
        "assert_eq!(map.replace(15, 2), Err(2));"
    }

    locked! {
        /// The value comes back if there is no such gap ([`InsertError::Occupied`]), if there is no memory, or if `bounds` holds no index or
        /// `size` is 0.
        alloc_range(bounds: impl RangeBounds<K>, size: K::Size, value: V) -> Result<K, InsertError<V>>,
        "map.insert_range(0..10, 1)?;",
        "assert_eq!(map.alloc_range(.., 5, 2)?, 10);"
    }

    /// [`Writer::clear`](crate::Writer::clear) under the lock. Never fails.
    ///
    /// ```
    /// # use maple_tree::{SyncMapleTree, Waiting};
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

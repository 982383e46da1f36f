//! Changes: each becomes visible to readers with one store.

use core::ops::{RangeBounds, RangeInclusive};

use lock_api::RawMutex;

use crate::alloc::AllocError;
use crate::base::{EraseError, InsertError, Key, Ref, Shape, StoreError, inclusive};
use crate::face::changes::all_changes;
use crate::face::host::{Host, Touch};
use crate::face::store;
use crate::face::sync::writer::Writer;
use crate::face::sync::{SyncAlloc, SyncValue};
use crate::reclaim::Reclaim;

impl<K: Key, V: SyncValue, R: Reclaim, A: SyncAlloc, L: RawMutex, S: Shape>
    Writer<'_, K, V, R, A, L, S>
{
    all_changes!(
        Ref<'_, V>,
        shown,
        "retired",
        "Readers see all of the old or all of the new, and never a part of it.",
        "use maple_tree::{SyncMapleTree, Waiting};

let shared: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
let mut map = shared.write();"
    );

    /// Removes the whole entry at `key`, retires its value, and gives its range. O(log n).
    ///
    /// ```
    /// use maple_tree::{SyncMapleTree, Waiting};
    ///
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// let mut writer = map.write();
    /// writer.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
    /// assert_eq!(writer.remove(15)?, Some(10..=19));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory; the entry is still there then.
    pub fn remove(&mut self, key: K) -> Result<Option<RangeInclusive<K>>, AllocError> {
        Ok(store::remove(self, key)?.map(|(range, _)| range))
    }

    /// Exchanges the value of the entry at `key`, whose range stays as it is, with one store, and retires the old one.
    ///
    /// ```
    /// use maple_tree::{SyncMapleTree, Waiting};
    ///
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// let mut writer = map.write();
    /// writer.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
    /// assert_eq!(writer.replace(25, 9), Ok(()));
    /// assert_eq!(map.read().get(25), Some(9));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The value comes back if there is no entry, or if there is no memory (which is needed only for an entry that is the only one,
    /// at index 0, and whose word cannot stand alone in a root).
    pub fn replace(&mut self, key: K, value: V) -> Result<(), V> {
        store::replace(self, key, value).map(|_| ())
    }

    /// Lets the entry at `key` grow to `range`, which contains all that it covers now. Other entries within the range are
    /// retired, entries that overlap one end of it keep what is outside.
    ///
    /// ```
    /// use maple_tree::{SyncMapleTree, Waiting};
    ///
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// let mut writer = map.write();
    /// writer.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
    /// assert!(writer.grow(25, 15..35)?);
    /// assert_eq!(map.read().ranges().collect::<Vec<_>>(), [10..=14, 15..=34, 40..=49]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory. `Ok(false)`, with nothing changed, if there is no entry at `key`, or `range` does not contain
    /// its range.
    pub fn grow(&mut self, key: K, range: impl RangeBounds<K>) -> Result<bool, AllocError> {
        store::grow(self, key, inclusive(&range), |_, _, _| {})
    }
}

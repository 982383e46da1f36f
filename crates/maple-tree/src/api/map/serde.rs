//! Maps by `serde`: a sequence of `(first, last, value)`, ends included, in ascending order.

use core::fmt;
use core::iter;
use core::ops::RangeInclusive;

use lock_api::RawMutex;
use samara_rcu::Reclaim;
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeSeq, Serializer};

use crate::alloc::NodeAlloc;
use crate::api::{MapleTree, SyncAlloc, SyncMapleTree, SyncValue};
use crate::base::{ArcRef, Key, Ref, Shape, SortedError, Value};

/// As a sequence of `(first, last, value)`, whose length is told beforehand. O(n).
impl<K: Key + Serialize, V: Value, A: NodeAlloc, S: Shape> Serialize for MapleTree<K, V, A, S>
where
    for<'a> Ref<'a, V>: Serialize,
{
    fn serialize<T: Serializer>(&self, serializer: T) -> Result<T::Ok, T::Error> {
        sequence(serializer, Some(self.len()), self)
    }
}

/// As a map without concurrent readers, with the entries as a reader's iterator finds them. How many there are is not told
/// beforehand: a format that must know is better given a duplicate.
impl<K: Key + Serialize, V: SyncValue, R: Reclaim, A: SyncAlloc, L: RawMutex, S: Shape> Serialize
    for SyncMapleTree<K, V, R, A, L, S>
where
    for<'a> Ref<'a, V>: Serialize,
{
    fn serialize<T: Serializer>(&self, serializer: T) -> Result<T::Ok, T::Error> {
        sequence(serializer, None, self.read().iter())
    }
}

fn sequence<T: Serializer, K: Serialize, V: Serialize>(
    serializer: T,
    len: Option<usize>,
    entries: impl IntoIterator<Item = (RangeInclusive<K>, V)>,
) -> Result<T::Ok, T::Error> {
    let mut sequence = serializer.serialize_seq(len)?;
    for (range, value) in entries {
        sequence.serialize_element(&(range.start(), range.end(), value))?;
    }
    sequence.end()
}

impl<T: Serialize> Serialize for ArcRef<'_, T> {
    fn serialize<U: Serializer>(&self, serializer: U) -> Result<U::Ok, U::Error> {
        (***self).serialize(serializer)
    }
}

/// From a sequence of `(first, last, value)` in ascending order, with full leaves. O(n). A range whose last index is below the first, or that
/// begins before the one before has ended, is an error, and so is want of memory; what had been read has been dropped then.
///
/// The map does not track gaps: see [`deserialize_into`](MapleTree::deserialize_into).
///
/// ```
/// # use maple_tree::MapleTree;
/// let map: MapleTree<u32, u32> = serde_json::from_str("[[0, 9, 7], [20, 29, 8]]")?;
/// assert_eq!(map.get_range(25), Some((20..=29, 8)));
/// assert_eq!(serde_json::to_string(&map)?, "[[0,9,7],[20,29,8]]");
/// assert!(serde_json::from_str::<MapleTree<u32, u32>>("[[0, 9, 7], [9, 12, 8]]").is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
impl<'de, K: Key + Deserialize<'de>, V: Value + Deserialize<'de>, A: NodeAlloc + Default, S: Shape>
    Deserialize<'de> for MapleTree<K, V, A, S>
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut map = Self::default();
        map.deserialize_into(deserializer)?;
        Ok(map)
    }
}

/// As for [`MapleTree`].
impl<'de, K, V, R: Reclaim + Default, A: SyncAlloc + Default, L: RawMutex, S: Shape>
    Deserialize<'de> for SyncMapleTree<K, V, R, A, L, S>
where
    K: Key + Deserialize<'de>,
    V: SyncValue + Deserialize<'de>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let map = MapleTree::deserialize(deserializer)?;
        Ok(Self::from_exclusive(map, R::default()))
    }
}

impl<K: Key, V: Value, A: NodeAlloc, S: Shape> MapleTree<K, V, A, S> {
    /// Replaces the content by what a deserializer has; the map keeps its mode and its allocator. O(n).
    ///
    /// ```
    /// let mut map = maple_tree::MapleTree::<u64, u32>::with_gaps();
    /// map.deserialize_into(&mut serde_json::Deserializer::from_str("[[0, 9, 7]]"))?;
    /// assert!(map.tracks_gaps());
    /// assert_eq!(map.gap_up(.., 5), Some(10));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The deserializer's, or if the entries are not in ascending order without overlap, or if there is no memory. The map is empty then.
    pub fn deserialize_into<'de, D>(&mut self, deserializer: D) -> Result<(), D::Error>
    where
        K: Deserialize<'de>,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        self.clear();
        let result = deserializer.deserialize_seq(Into(self));
        if result.is_err() {
            self.clear();
        }
        result
    }
}

/// Fills a map, which is empty.
struct Into<'m, K: Key, V: Value, A: NodeAlloc, S: Shape>(&'m mut MapleTree<K, V, A, S>);

impl<'de, K: Key + Deserialize<'de>, V: Value + Deserialize<'de>, A: NodeAlloc, S: Shape>
    Visitor<'de> for Into<'_, K, V, A, S>
{
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence of (first, last, value) in ascending order")
    }

    fn visit_seq<T: SeqAccess<'de>>(self, mut access: T) -> Result<(), T::Error> {
        // The entries end at the first error.
        let mut read = Ok(());
        let mut entries = iter::from_fn(|| match access.next_element::<(K, K, V)>() {
            Ok(next) => next.map(|(first, last, value)| (first..=last, value)),
            Err(error) => {
                read = Err(error);
                None
            }
        });
        let filled = self.0.fill(&mut entries);
        read?;
        filled.map_err(|(range, refused)| match refused {
            SortedError::OutOfOrder(_) => T::Error::custom(format_args!(
                "the range {}..={} begins before the one before it has ended",
                range.start(),
                range.end()
            )),
            SortedError::EmptyRange(_) => {
                T::Error::custom("a range whose last index is below its first")
            }
            SortedError::Alloc(_) => T::Error::custom("no memory for a tree node"),
        })
    }
}

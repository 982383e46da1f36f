//! Maps as values: equal, ordered, hashed, shown.

use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::ops::{Index, RangeInclusive};
use std_alloc::boxed::Box;

use crate::alloc::NodeAlloc;
use crate::base::{Key, Ref, Shape, Value};
use crate::face::map::MapleTree;
use crate::inspect::dump::Format;

/// Maps are equal if they have equal entries at the same ranges. (Two entries that touch are not equal to one entry over both
/// ranges, whatever they hold.) O(n).
impl<K: Key, V: Value, A: NodeAlloc, S: Shape> PartialEq for MapleTree<K, V, A, S>
where
    for<'a> Ref<'a, V>: PartialEq,
{
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<K: Key, V: Value, A: NodeAlloc, S: Shape> Eq for MapleTree<K, V, A, S> where
    for<'a> Ref<'a, V>: Eq
{
}

/// By the first entries that differ, as sequences are compared: by where they begin, then by where they end, then by their values. O(n).
impl<K: Key, V: Value, A: NodeAlloc, S: Shape> PartialOrd for MapleTree<K, V, A, S>
where
    for<'a> Ref<'a, V>: PartialOrd,
{
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.iter().map(flat).partial_cmp(other.iter().map(flat))
    }
}

impl<K: Key, V: Value, A: NodeAlloc, S: Shape> Ord for MapleTree<K, V, A, S>
where
    for<'a> Ref<'a, V>: Ord,
{
    fn cmp(&self, other: &Self) -> Ordering {
        self.iter().map(flat).cmp(other.iter().map(flat))
    }
}

/// An entry as something that has an order.
fn flat<K: Copy, T>((range, value): (RangeInclusive<K>, T)) -> (K, K, T) {
    (*range.start(), *range.end(), value)
}

/// The value at a key, for boxed values.
///
/// # Panics
///
/// If no entry is there, as the index of every collection does; [`get`](MapleTree::get) does not.
///
/// ```
/// use maple_tree::MapleTree;
///
/// let map = MapleTree::from([(0..10u32, Box::new("low"))]);
/// assert_eq!(map[3], "low");
/// ```
impl<K: Key, T, A: NodeAlloc, S: Shape> Index<K> for MapleTree<K, Box<T>, A, S> {
    type Output = T;

    #[expect(clippy::expect_used, reason = "an index has no other way to say so")]
    fn index(&self, key: K) -> &T {
        self.get(key).expect("no entry is at this key")
    }
}

impl<K: Key, V: Value, A: NodeAlloc, S: Shape> Hash for MapleTree<K, V, A, S>
where
    for<'a> Ref<'a, V>: Hash,
{
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut entries: usize = 0;
        for (range, value) in self {
            range.hash(state);
            value.hash(state);
            entries += 1;
        }
        // As the length of a slice does: maps one after the other do not run into each other.
        entries.hash(state);
    }
}

impl<K: Key, V: Value, A: NodeAlloc, S: Shape> fmt::Display for MapleTree<K, V, A, S> {
    /// The nodes as text, in decimal; in hexadecimal with `{:#}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let format = if f.alternate() {
            Format::Hexadecimal
        } else {
            Format::Decimal
        };
        self.dump(format).fmt(f)
    }
}

impl<K: Key, V: Value, A: NodeAlloc, S: Shape> fmt::Debug for MapleTree<K, V, A, S>
where
    for<'a> Ref<'a, V>: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

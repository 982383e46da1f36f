//! Maps as values: equal, hashed, cloned, shown.

use core::fmt;
use core::hash::{Hash, Hasher};

use crate::alloc::NodeAlloc;
use crate::base::key::Key;
use crate::base::shape::Shape;
use crate::base::value::{Ref, Value};
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

//! The exclusive face: a map from ranges to values, with the conventions of `BTreeMap`.

mod build;
mod change;
mod entry;
mod halves;
mod look;
#[cfg(feature = "serde")]
mod serde;
mod take;
mod whole;

pub(crate) use whole::demolish;

use core::marker::PhantomData;

use crate::alloc::{NodeAlloc, Pool};
use crate::api::makers;
use crate::base::{Key, Native, Shape, Value};
use crate::node::{RawTree, flags};

pub use entry::{Entry, OccupiedEntry, VacantEntry};
pub use look::CursorMut;
pub use take::{ExtractIf, IntoIter};

/// A map from ranges of `K` to values, which never overlap.
///
/// Each entry covers the indices of a range, ends included, and holds one value that is one pointer wide
/// (see [`Value`]). Between entries are *holes*. Entries that touch stay apart, even if they hold the same.
///
/// Writes that need memory give an error if there is none and leave the map as it was; no method
/// aborts or panics (unless dropping a value panics).
///
/// If dropping a value panics, or a closure or an iterator of the caller's does, nothing leaks. The
/// map is valid and holds the effects of the call so far. Whatever the call still had to hand over
/// or to drop is dropped while the panic unwinds. A closure that has panicked is not called again.
/// A second panic during the unwinding aborts the program, as with the collections of the standard
/// library.
///
/// Finding, inserting, erasing an entry, and finding a gap in a tree [`with_gaps`](MapleTree::with_gaps),
/// take O(log n). A store over several entries takes that and the time to drop them.
///
/// ```
/// use maple_tree::MapleTree;
///
/// let mut areas: MapleTree<u64, Box<&str>> = MapleTree::with_gaps();
/// areas.insert_range(0x1000..0x5000, Box::new("text"))?;
/// areas.insert_range(0x8000..0x9000, Box::new("data"))?;
///
/// assert_eq!(areas.get(0x4fff), Some(&"text"));
/// assert_eq!(areas.get(0x5000), None);
/// // The lowest free place for 0x2000 bytes, from 0x1000 up.
/// assert_eq!(areas.gap_up(0x1000.., 0x2000), Some(0x5000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MapleTree<K: Key, V: Value, A: NodeAlloc = Pool, S: Shape = Native> {
    raw: RawTree<K, S>,
    alloc: A,
    marker: PhantomData<V>,
}

makers!(
    MapleTree,
    NodeAlloc,
    Pool::new(),
    "The map's nodes are a [`Pool`]'s, and as large as they are meant to be; [`new_in`](MapleTree::new_in) makes others.",
    "use maple_tree::MapleTree;

let mut map = MapleTree::new();",
    "assert_eq!(map.get(1), Some(1));"
);

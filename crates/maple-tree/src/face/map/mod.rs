//! The exclusive face: a map from ranges to values, with the conventions of `BTreeMap`.

mod build;
mod change;
mod cursor;
mod duplicate;
mod entry;
mod extract;
mod host;
mod into_iter;
mod look;
#[cfg(feature = "serde")]
mod serde;
mod whole;

pub(crate) use whole::demolish;

use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr;

use crate::alloc::{NodeAlloc, Pool};
use crate::base::{Key, Native, Shape, Value};
use crate::node::RawTree;
use crate::node::tree::flags;

pub use cursor::CursorMut;
pub use entry::{Entry, OccupiedEntry, VacantEntry};
pub use extract::ExtractIf;
pub use into_iter::IntoIter;

/// A map from ranges of `K` to values, which never overlap.
///
/// Each entry covers the indices of a range, ends included, and holds one value that is one pointer wide
/// (see [`Value`]). Between entries are *holes*. Entries that touch stay apart, even if they hold the same.
///
/// Writes that need memory give an error if there is none and leave the map as it was; no method
/// aborts or panics (unless dropping a value panics).
///
/// If dropping a value panics, or a closure or an iterator of the caller's does, nothing leaks, and the map is whole and holds what the call had come
/// to. What the call had still to hand over or to drop is dropped while the panic unwinds; a closure that has panicked is not called
/// again. A second panic meanwhile ends the program, as with the collections of the standard library.
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

// SAFETY: the map owns its values and its nodes; moving it to another thread moves them.
unsafe impl<K: Key, V: Value + Send, A: NodeAlloc + Send, S: Shape> Send for MapleTree<K, V, A, S> {}
// SAFETY: through a shared map values can only be viewed.
unsafe impl<K: Key, V: Value + Sync, A: NodeAlloc + Sync, S: Shape> Sync for MapleTree<K, V, A, S> {}

impl<K: Key, V: Value> MapleTree<K, V> {
    const_unless_loom! {
        /// An empty map. Allocates nothing.
        ///
        /// The map's nodes are a [`Pool`]'s, and as large as they are meant to be; [`new_in`](MapleTree::new_in) makes others.
        ///
        /// ```
        /// use maple_tree::MapleTree;
        ///
        /// let mut map = MapleTree::new();
        /// map.insert(1u64, 1u32)?;
        /// assert_eq!(map.get(1), Some(1));
        /// # Ok::<(), maple_tree::InsertError<u32>>(())
        /// ```
        #[must_use]
        pub const fn new() -> Self {
            Self::new_in(Pool::new())
        }
    }

    const_unless_loom! {
        /// An empty map that keeps the sizes of its holes, so that a gap is found in O(log n). Its inner nodes have
        /// fewer slots, and writes take a little longer. Allocates nothing.
        #[must_use]
        pub const fn with_gaps() -> Self {
            Self::with_gaps_in(Pool::new())
        }
    }
}

impl<K: Key, V: Value, A: NodeAlloc, S: Shape> MapleTree<K, V, A, S> {
    const_unless_loom! {
        /// An empty map whose nodes come from `alloc`. Allocates nothing.
        #[must_use]
        pub const fn new_in(alloc: A) -> Self {
            Self {
                raw: RawTree::new(0),
                alloc,
                marker: PhantomData,
            }
        }
    }

    const_unless_loom! {
        /// As [`with_gaps`](MapleTree::with_gaps), with nodes from `alloc`.
        #[must_use]
        pub const fn with_gaps_in(alloc: A) -> Self {
            Self {
                raw: RawTree::new(flags::GAPS),
                alloc,
                marker: PhantomData,
            }
        }
    }

    /// Where the nodes come from.
    pub fn allocator(&self) -> &A {
        &self.alloc
    }

    /// The tree and its allocator.
    pub(crate) fn into_parts(self) -> (RawTree<K, S>, A) {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used again, nor dropped.
        unsafe {
            (
                ptr::read(&raw const this.raw),
                ptr::read(&raw const this.alloc),
            )
        }
    }

    /// A map out of a tree whose words are values of `V`, and the allocator of its nodes.
    pub(crate) fn from_parts(raw: RawTree<K, S>, alloc: A) -> Self {
        Self {
            raw,
            alloc,
            marker: PhantomData,
        }
    }

    pub(crate) fn raw(&self) -> &RawTree<K, S> {
        &self.raw
    }
}

impl<K: Key, V: Value, A: NodeAlloc, S: Shape> Drop for MapleTree<K, V, A, S> {
    fn drop(&mut self) {
        self.clear();
    }
}

impl<K: Key, V: Value, A: NodeAlloc + Default, S: Shape> Default for MapleTree<K, V, A, S> {
    fn default() -> Self {
        Self::new_in(A::default())
    }
}

//! Changes of the map as a whole, and duplicates.

use core::convert::Infallible;
use core::mem::{needs_drop, swap};
use core::ops::{RangeBounds, RangeInclusive};

use crate::alloc::{AllocError, Fork, NodeAlloc};
use crate::api::map::build::no_memory;
use crate::api::{Host, MapleTree, appends, cut, merge};
use crate::base::{Duplicate, EraseError, Key, Mut, Ref, Shape, Value, inclusive};
use crate::node::{NULL, RawTree, Root};
use crate::write::duplicate::{CloneError, Copier, Verbatim};
use crate::write::{Immediate, retire_subtree};

impl<K: Key, V: Value, A: NodeAlloc, S: Shape> MapleTree<K, V, A, S> {
    /// Removes the entry with the lowest range, and gives it. O(log n).
    ///
    /// ```
    /// let mut queue = maple_tree::MapleTree::from([(5..9u32, 1u32), (20..30, 2)]);
    /// assert_eq!(queue.pop_first(), Ok(Some((5..=8, 1))));
    /// assert_eq!(queue.pop_last(), Ok(Some((20..=29, 2))));
    /// assert_eq!(queue.pop_last(), Ok(None));
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory (joining nodes that have become too small may take some); the entry is still there then.
    pub fn pop_first(&mut self) -> Result<Option<(RangeInclusive<K>, V)>, AllocError> {
        let first = self.raw.find::<true>((K::MIN, K::MAX));
        first.map_or(Ok(None), |found| self.remove(found.first))
    }

    /// Removes the entry with the highest range, and gives it. O(log n). Fails as [`pop_first`](MapleTree::pop_first).
    ///
    /// ```
    /// let mut map = maple_tree::MapleTree::from([(5..9u32, 1u32), (20..30, 2)]);
    /// assert_eq!(map.pop_last(), Ok(Some((20..=29, 2))));
    /// ```
    pub fn pop_last(&mut self) -> Result<Option<(RangeInclusive<K>, V)>, AllocError> {
        let last = self.raw.find::<false>((K::MIN, K::MAX));
        last.map_or(Ok(None), |found| self.remove(found.first))
    }

    /// Drops the entries for which `keep` says no. O(n), and O(log n) for each that is dropped.
    ///
    /// ```
    /// let mut map = maple_tree::MapleTree::from([(0..10u32, 1u32), (10..20, 2), (20..30, 3)]);
    /// map.retain(|range, value| range.contains(&5) || *value == 3)?;
    /// assert_eq!(map.iter().collect::<Vec<_>>(), [(0..=9, 1), (20..=29, 3)]);
    /// # Ok::<(), maple_tree::AllocError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory (joining nodes that have become too small may take some); the entries before have been looked at, the others,
    /// and the one that could not be dropped, are still there.
    pub fn retain(
        &mut self,
        mut keep: impl FnMut(RangeInclusive<K>, Mut<'_, V>) -> bool,
    ) -> Result<(), AllocError> {
        self.extract_if(.., |range, value| !keep(range, value))
            .try_for_each(|gone| gone.map(drop))
    }

    /// Takes the entries from `key` on out of the map, as a map with the same modes and a [fork](Fork) of the allocator. O(log n), as a
    /// [`cut`](MapleTree::cut).
    ///
    /// ```
    /// # use maple_tree::{EraseError, MapleTree};
    /// let mut low: MapleTree<u32, u32> = MapleTree::from([(0..10, 1), (10..20, 2)]);
    /// let high = low.split_off(10)?;
    /// assert_eq!((low.last(), high.first()), (Some((0..=9, 1)), Some((10..=19, 2))));
    /// assert_eq!(low.split_off(5).err(), Some(EraseError::Splits));
    /// # Ok::<(), EraseError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If an entry would have to be in both maps ([`EraseError::Splits`]; see [`split_off_splitting`](MapleTree::split_off_splitting)), or if
    /// there is no memory ([`EraseError::Alloc`]). The map is as it was then.
    pub fn split_off(&mut self, key: K) -> Result<Self, EraseError>
    where
        A: Fork,
    {
        self.split_off_splitting(key, |_, _| None)
    }

    /// As [`split_off`](MapleTree::split_off); if an entry reaches from below `key` to it, the new map has there the value that `split` makes
    /// from that entry and the range of its upper part.
    ///
    /// ```
    /// # use maple_tree::{EraseError, MapleTree};
    /// let mut low: MapleTree<u32, Box<u32>> = MapleTree::from([(0..100, Box::new(7))]);
    /// let high = low.split_off_splitting(40, |range, value| Some(Box::new(*value + *range.start())))?;
    /// assert_eq!((low.last(), high.first()), (Some((0..=39, &7)), Some((40..=99, &47))));
    /// # Ok::<(), EraseError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory, or (as [`EraseError::Splits`]) if `split` gives `None`. The map is as it was then.
    pub fn split_off_splitting(
        &mut self,
        key: K,
        split: impl FnOnce(RangeInclusive<K>, Ref<'_, V>) -> Option<V>,
    ) -> Result<Self, EraseError>
    where
        A: Fork,
    {
        // Only one entry can begin before `key`.
        let mut split = Some(split);
        self.cut(key.., |range, value| split.take()?(range, value))
    }

    /// Removes the entries within `range` and returns them as a map with the same modes and a
    /// [fork](Fork) of the allocator. It is an erase that hands over what it removes, including the
    /// pieces of entries that reach beyond an end. These entries keep the part outside. The piece
    /// within gets the value that `split` makes from the entry and the range of the piece. For an
    /// entry that goes on at both ends, `split` first makes the value of the part above, too.
    ///
    /// O(log n): the nodes go with the entries, and the two maps have the memory of a [`Pool`](crate::alloc::Pool) in common from then on, which is given back with
    /// the last of them. Up to two leaves of entries at either end of the map
    /// are copied into nodes of their own, and the maps have nothing in common. O(m) in what is taken if that is no more than a leaf holds, or if the allocator is one that cannot be
    /// [split](NodeAlloc::split).
    ///
    /// ```
    /// # use maple_tree::{EraseError, MapleTree};
    /// let mut map: MapleTree<u32, u32> = MapleTree::from([(0..10, 1), (10..20, 2), (20..30, 3)]);
    /// let cut = map.cut(5..25, |_, value| Some(value))?;
    /// assert_eq!(cut.iter().collect::<Vec<_>>(), [(5..=9, 1), (10..=19, 2), (20..=24, 3)]);
    /// assert_eq!(map.iter().collect::<Vec<_>>(), [(0..=4, 1), (25..=29, 3)]);
    /// # Ok::<(), EraseError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory, if the range is empty, or (as [`EraseError::Splits`]) if `split` gives `None`. The map is as it was then; what `split` had
    /// made has been dropped.
    pub fn cut(
        &mut self,
        range: impl RangeBounds<K>,
        split: impl FnMut(RangeInclusive<K>, Ref<'_, V>) -> Option<V>,
    ) -> Result<Self, EraseError>
    where
        A: Fork,
    {
        let mut split = split;
        let (first, last) = inclusive(&range).ok_or(EraseError::EmptyRange)?;
        if last == K::MAX
            && let Some(high) = self.split_few(first).map_err(|_| EraseError::Alloc)?
        {
            return Ok(high);
        }
        if let Some(low) = self.few_below(first).filter(|_| last == K::MAX) {
            // The other way round: what stays is made anew, and the nodes go with the rest.
            let mut low = cut::<true, _, _, _, _, _>(self, (K::MIN, low), split)?;
            swap(self, &mut low);
            return Ok(low);
        }
        if let Some(cut) = self.take_out((first, last), &mut split)? {
            return Ok(cut);
        }
        cut::<true, _, _, _, _, _>(self, (first, last), split)
    }

    appends!(
        Self::take_over,
        "O(log n) if all of `other` lies before, after, or between two entries of this map (and the allocators can be [joined](NodeAlloc::join), as pools can): the nodes go with the entries. Else O(n + m): the map is built anew, with full leaves, and the nodes of both are given up when that has succeeded.",
        "dropped",
        "",
        "# use maple_tree::MapleTree;
let mut map: MapleTree<u32, u32> = MapleTree::new();
let mut other: MapleTree<u32, u32> = MapleTree::new();"
    );

    /// Moves all entries of `other` into this map. Where one meets an entry of this map, the part
    /// that both cover gets the value that `resolve` makes of its range and the two values, this
    /// map's first. If others cut an entry into several parts, each part except the lowest one that
    /// is left gets the value that `split` makes from that entry and the range of the part. An
    /// entry of which nothing is left is dropped. O(n + m).
    ///
    /// ```
    /// # use maple_tree::{EraseError, MapleTree};
    /// let mut map: MapleTree<u32, u32> = MapleTree::from([(0..10, 1), (10..20, 2)]);
    /// let mut other = MapleTree::from([(5..12, 10), (30..40, 20)]);
    /// map.merge(&mut other, |_, ours, theirs| Some(ours + theirs), |_, value| Some(value))?;
    /// let entries: Vec<_> = map.iter().collect();
    /// assert_eq!(entries, [(0..=4, 1), (5..=9, 11), (10..=11, 12), (12..=19, 2), (30..=39, 20)]);
    /// assert!(other.is_empty());
    /// # Ok::<(), EraseError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory, or (as [`EraseError::Splits`]) if `resolve` or `split` gives `None`. Both maps are as they were then; what the closures had
    /// made has been dropped.
    pub fn merge(
        &mut self,
        other: &mut Self,
        resolve: impl FnMut(RangeInclusive<K>, Ref<'_, V>, Ref<'_, V>) -> Option<V>,
        split: impl FnMut(RangeInclusive<K>, Ref<'_, V>) -> Option<V>,
    ) -> Result<(), EraseError> {
        merge::<false, _, _, _, _, _>(self, other, resolve, split)
    }

    /// Returns a duplicate of a tree, with its modes, and with words that `copier` makes.
    ///
    /// # Safety
    ///
    /// No thread writes the tree during the call, and the copier makes words of values.
    pub(crate) unsafe fn duplicate_of<C: Copier<K>>(
        raw: &RawTree<K, S>,
        alloc: A,
        copier: &mut C,
    ) -> Result<Self, CloneError<C::Error>> {
        let mut new = Self::from_parts(raw.empty_like(), alloc);
        // SAFETY: the caller's promise. No other code uses the new map, which tracks gaps if the
        // tree does.
        let done = unsafe { raw.dup_into(&new.raw, &mut new.alloc, copier) };
        #[cfg(feature = "tracing")]
        crate::base::events::duplicate(raw.height(), done.is_ok());
        done.map(|()| new)
    }

    /// Returns a duplicate of the map, with [duplicates](Duplicate) of the values, in one pass over
    /// the nodes. O(n).
    ///
    /// ```
    /// let map = maple_tree::MapleTree::from([(0..10u64, Box::new(1u32))]);
    /// assert_eq!(map.try_clone(), Ok(map));
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory for a node or for a value. What had been made has been dropped.
    pub fn try_clone(&self) -> Result<Self, AllocError>
    where
        V: Duplicate,
        A: Fork,
    {
        if V::PLAIN {
            // SAFETY: the map is borrowed, so no thread writes. A copy of a value's word is a value
            // (promise of `PLAIN`).
            let copy = unsafe { Self::duplicate_of(&self.raw, self.alloc.fork(), &mut Verbatim) };
            return copy.map_err(|_: CloneError<Infallible>| AllocError);
        }
        self.try_clone_with(|_, value| V::duplicate(value).map(Some).ok_or(AllocError))
    }

    /// Drops all entries and nodes. Never fails. The map keeps its mode. O(n).
    ///
    /// ```
    /// let mut map = maple_tree::MapleTree::<u32, u32>::with_gaps();
    /// map.insert(7, 1)?;
    /// map.clear();
    /// assert!(map.is_empty() && map.tracks_gaps());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clear(&mut self) {
        // SAFETY: `self` is exclusively borrowed: there are no other writers and no readers.
        unsafe { demolish::<true, K, V, A, S>(&self.raw, &self.alloc) }
    }

    /// Gives all nodes back, and leaves the map empty. The values belong to other code.
    pub(crate) fn free_nodes(&mut self) {
        // SAFETY: as above.
        unsafe { demolish::<false, K, V, A, S>(&self.raw, &self.alloc) }
    }
}

/// Empties a tree: gives the nodes back, and drops the `VALUES` if they are the tree's.
///
/// # Safety
///
/// The words in the tree are values of `V`, its nodes are all that came from `alloc`, and no other
/// code uses it.
pub(crate) unsafe fn demolish<const VALUES: bool, K: Key, V: Value, A: NodeAlloc, S: Shape>(
    raw: &RawTree<K, S>,
    alloc: &A,
) {
    let root = raw.root();
    raw.publish_root(NULL, 0);
    let entry = MapleTree::<K, V, A, S>::discard;
    match root {
        Root::Single(word) if VALUES => entry(K::MIN, K::MIN, word),
        Root::Empty | Root::Single(_) => {}
        Root::Node(node) => {
            let drops = VALUES && needs_drop::<V>();
            // SAFETY: nothing leads to the nodes any more.
            if drops || !unsafe { alloc.deallocate_all() } {
                let gone = if drops {
                    (K::MIN, K::MAX)
                } else {
                    (K::MAX, K::MIN)
                };
                retire_subtree(node, K::MIN, K::MAX, gone, &mut Immediate { alloc, entry });
            }
        }
    }
}

/// As [`try_clone`](MapleTree::try_clone); where there is no memory this ends the program, as the clone of a `BTreeMap` does.
impl<K: Key, V: Duplicate, A: Fork, S: Shape> Clone for MapleTree<K, V, A, S> {
    fn clone(&self) -> Self {
        match self.try_clone() {
            Ok(map) => map,
            Err(AllocError) => no_memory(),
        }
    }
}

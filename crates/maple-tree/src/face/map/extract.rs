//! Taking out what a closure says, one after the other.

use core::iter::FusedIterator;
use core::ops::{RangeBounds, RangeInclusive};

use crate::alloc::{AllocError, NodeAlloc, Pool};
use crate::base::{Key, Mut, Native, Shape, Value, inclusive, opaque};
use crate::face::map::MapleTree;
use crate::read::iterate::by_leaf::Scan;

/// Takes entries out of a map as it is asked for them. Made by [`extract_if`](MapleTree::extract_if).
#[must_use = "iterators are lazy and do nothing unless consumed; `retain` drops what is not kept"]
pub struct ExtractIf<'a, K: Key, V: Value, F, A: NodeAlloc = Pool, S: Shape = Native> {
    map: &'a mut MapleTree<K, V, A, S>,
    /// What has not been looked at.
    entries: Scan<K, S>,
    hi: K,
    take: F,
}

impl<K: Key, V: Value, A: NodeAlloc, S: Shape> MapleTree<K, V, A, S> {
    /// Takes the entries that intersect `bounds` and for which `take` says yes out of the map, in order, and gives them; each is taken when the iterator
    /// is asked for it. Those that it has not come to when it is dropped stay. O(1) for each that stays, O(log n) for each that goes.
    ///
    /// ```
    /// let mut map = maple_tree::MapleTree::from([(0..10u32, 1u32), (10..20, 2), (20..30, 3)]);
    /// let odd: Vec<_> = map.extract_if(.., |_, value| *value % 2 == 1).collect::<Result<_, _>>()?;
    /// assert_eq!(odd, [(0..=9, 1), (20..=29, 3)]);
    /// assert_eq!(map.len(), 1);
    /// # Ok::<(), maple_tree::AllocError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The iterator yields an error, and ends, if there is no memory (as for [`remove`](MapleTree::remove)); the entry is still there then.
    pub fn extract_if<F>(
        &mut self,
        bounds: impl RangeBounds<K>,
        take: F,
    ) -> ExtractIf<'_, K, V, F, A, S>
    where
        F: FnMut(RangeInclusive<K>, Mut<'_, V>) -> bool,
    {
        let bounds = inclusive(&bounds);
        ExtractIf {
            map: self,
            entries: Scan::new(bounds),
            hi: bounds.map_or(K::MIN, |(_, hi)| hi),
            take,
        }
    }
}

impl<K: Key, V: Value, F, A: NodeAlloc, S: Shape> Iterator for ExtractIf<'_, K, V, F, A, S>
where
    F: FnMut(RangeInclusive<K>, Mut<'_, V>) -> bool,
{
    type Item = Result<(RangeInclusive<K>, V), AllocError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            // SAFETY: the map is exclusively borrowed, and what is written to it ends the scan.
            let (found, slot) = unsafe { self.entries.next_mut::<true>(&self.map.raw) }?;
            // SAFETY: the word is in the tree; a scan yields each entry once, and does not read its slot again.
            let view = unsafe { V::borrow_mut(slot) };
            if !(self.take)(found.first..=found.last, view) {
                continue;
            }
            // Anew: there may be other nodes after this. After a failure there is nothing more.
            let rest = found.last.successor().filter(|&first| first <= self.hi);
            self.entries = Scan::new(None);
            let removed = match self.map.remove(found.first) {
                Ok(removed) => removed,
                Err(error) => return Some(Err(error)),
            };
            self.entries = Scan::new(rest.map(|first| (first, self.hi)));
            return removed.map(Ok);
        }
    }
}

impl<K: Key, V: Value, F, A: NodeAlloc, S: Shape> FusedIterator for ExtractIf<'_, K, V, F, A, S> where
    F: FnMut(RangeInclusive<K>, Mut<'_, V>) -> bool
{
}

opaque!([K: Key, V: Value, F, A: NodeAlloc, S: Shape] ExtractIf<'_, K, V, F, A, S>, "ExtractIf");

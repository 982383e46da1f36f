//! Places between entries.

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Bound, RangeInclusive};

use crate::api::entry;
use crate::base::{Key, Native, Ref, Shape, Value, inclusive};
use crate::node::RawTree;
use crate::read::Found;

/// A place between two entries, or before the first, or after the last. Made by [`lower_bound`](crate::MapleTree::lower_bound) and
/// [`upper_bound`](crate::MapleTree::upper_bound).
///
/// Each look-up is O(log n), and concurrently with a writer it reads the current state. To go
/// through many entries, use an iterator. To look at holes, too, or to change entries, use a
/// [`Cursor`](crate::Cursor).
pub struct Between<'a, K: Key, V: Value, S: Shape = Native> {
    tree: &'a RawTree<K, S>,
    /// The entries that end before this index come before the place; `None`: all do.
    at: Option<K>,
    marker: PhantomData<&'a V>,
}

fn entry_at<K: Key, S: Shape>(tree: &RawTree<K, S>, key: K) -> Option<Found<K>> {
    Some(tree.lookup(key)).filter(|found| !found.word.is_null())
}

impl<'a, K: Key, V: Value, S: Shape> Between<'a, K, V, S> {
    fn new(tree: &'a RawTree<K, S>, at: Option<K>) -> Self {
        let marker = PhantomData;
        Self { tree, at, marker }
    }

    /// Returns the position before the first entry that ends at or after the bound.
    pub(crate) fn before(tree: &'a RawTree<K, S>, bound: Bound<K>) -> Self {
        let from = inclusive(&(bound, Bound::Unbounded));
        let start = |(key, _)| entry_at(tree, key).map_or(key, |found| found.first);
        Self::new(tree, from.map(start))
    }

    /// Returns the position after the last entry that begins at or before the bound.
    pub(crate) fn after(tree: &'a RawTree<K, S>, bound: Bound<K>) -> Self {
        let to = inclusive(&(Bound::Unbounded, bound));
        let last = |(_, key)| entry_at(tree, key).map_or(key, |found| found.last);
        Self::new(tree, to.map_or(Some(K::MIN), |to| last(to).successor()))
    }

    fn found_next(&self) -> Option<Found<K>> {
        self.tree.find::<true>((self.at?, K::MAX))
    }

    fn found_prev(&self) -> Option<Found<K>> {
        let last = match self.at {
            Some(at) => at.predecessor()?,
            None => K::MAX,
        };
        self.tree.find::<false>((K::MIN, last))
    }

    fn show(found: Found<K>) -> Option<(RangeInclusive<K>, Ref<'a, V>)> {
        // SAFETY: words in the tree are values; what lent itself for `'a`, a map or a reader, keeps them.
        unsafe { entry::<K, V>(found) }
    }

    /// Returns the entry after the place.
    pub fn peek_next(&self) -> Option<(RangeInclusive<K>, Ref<'a, V>)> {
        Self::show(self.found_next()?)
    }

    /// Returns the entry before the place.
    pub fn peek_prev(&self) -> Option<(RangeInclusive<K>, Ref<'a, V>)> {
        Self::show(self.found_prev()?)
    }

    /// Goes over the entry after the place, and shows it. At the end it stays.
    #[expect(
        clippy::should_implement_trait,
        reason = "the place goes both ways, as the standard library's cursors do"
    )]
    pub fn next(&mut self) -> Option<(RangeInclusive<K>, Ref<'a, V>)> {
        let found = self.found_next()?;
        self.at = found.last.successor();
        Self::show(found)
    }

    /// Goes back over the entry before the place, and shows it. At the beginning it stays.
    pub fn prev(&mut self) -> Option<(RangeInclusive<K>, Ref<'a, V>)> {
        let found = self.found_prev()?;
        self.at = Some(found.first);
        Self::show(found)
    }

    /// Returns the hole that contains the position: the range between the entries around it, if it
    /// is not empty.
    pub fn hole(&self) -> Option<RangeInclusive<K>> {
        let first = match self.found_prev() {
            Some(found) => found.last.successor()?,
            None => K::MIN,
        };
        let last = match self.found_next() {
            Some(found) => found.first.predecessor()?,
            None => K::MAX,
        };
        (first <= last).then_some(first..=last)
    }
}

impl<K: Key, V: Value, S: Shape> Clone for Between<'_, K, V, S> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

impl<K: Key, V: Value, S: Shape> fmt::Debug for Between<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let range = |found: Option<Found<K>>| found.map(|found| found.first..=found.last);
        f.debug_struct("Between")
            .field("before", &range(self.found_prev()))
            .field("after", &range(self.found_next()))
            .finish()
    }
}

//! Readers: views of entries that live as long as the reader does.

use core::marker::PhantomData;
use core::ops::{RangeBounds, RangeInclusive};
use core::ptr::NonNull;

use lock_api::RawMutex;

use crate::alloc::{Global, NodeAlloc};
use crate::bounds::inclusive;
use crate::cursor::Cursor;
use crate::key::Key;
use crate::reclaim::Reclaim;
use crate::shape::{Native, Shape};
use crate::sync::SyncMapleTree;
use crate::traverse::Traverse;
use crate::tree::{RawTree, Root};
use crate::value::Value;
use crate::write::view;

/// A reader of a [`SyncMapleTree`]: views of entries live as long as this.
pub struct Reader<'t, K, V, R, A = Global, L = spin::Mutex<()>, S = Native>
where
    K: Key,
    V: Value + Send + Sync + 'static,
    R: Reclaim,
    A: NodeAlloc + Clone + Send + 'static,
    L: RawMutex,
    S: Shape,
{
    pub(super) tree: &'t SyncMapleTree<K, V, R, A, L, S>,
    #[expect(dead_code, reason = "its presence is what it is for")]
    pub(super) guard: R::Guard<'t>,
}

impl<K, V, R, A, L, S> Reader<'_, K, V, R, A, L, S>
where
    K: Key,
    V: Value + Send + Sync + 'static,
    R: Reclaim,
    A: NodeAlloc + Clone + Send + 'static,
    L: RawMutex,
    S: Shape,
{
    /// The value at `key`. O(log n).
    #[inline]
    pub fn get(&self, key: K) -> Option<V::Ref<'_>> {
        // SAFETY: words in the tree are values; those found under the guard live as long as it.
        unsafe { view::<V>(self.tree.raw.load(key)) }
    }

    /// Whether `key` is within an entry. O(log n).
    #[inline]
    pub fn contains(&self, key: K) -> bool {
        !self.tree.raw.load(key).is_null()
    }

    /// The entry at `key`, with its range. O(log n).
    #[inline]
    pub fn get_range(&self, key: K) -> Option<(RangeInclusive<K>, V::Ref<'_>)> {
        let found = self.tree.raw.lookup(key);
        // SAFETY: as in `get`.
        Some((found.first..=found.last, unsafe { view::<V>(found.word) }?))
    }

    /// The range of the hole at `key`, or `None` if an entry is there. O(log n).
    pub fn hole_at(&self, key: K) -> Option<RangeInclusive<K>> {
        let found = self.tree.raw.lookup(key);
        found.word.is_null().then_some(found.first..=found.last)
    }

    /// Whether there are no entries. O(1).
    pub fn is_empty(&self) -> bool {
        matches!(self.tree.raw.root(), Root::Empty)
    }

    /// The first entry that intersects `bounds`, with its whole range. O(log n).
    pub fn find(&self, bounds: impl RangeBounds<K>) -> Option<(RangeInclusive<K>, V::Ref<'_>)> {
        self.range(bounds).next()
    }

    /// The last entry that intersects `bounds`, with its whole range. O(log n).
    pub fn find_rev(&self, bounds: impl RangeBounds<K>) -> Option<(RangeInclusive<K>, V::Ref<'_>)> {
        self.range(bounds).next_back()
    }

    /// A position in the map, with a range to look for. Each move shows what is there when it is made.
    pub fn cursor(&self, range: impl RangeBounds<K>) -> Cursor<'_, K, V, S> {
        Cursor::new(&self.tree.raw, inclusive(&range))
    }

    /// All entries in order, from both ends.
    pub fn iter(&self) -> SyncIter<'_, K, V, S> {
        self.range(..)
    }

    /// The entries that intersect `bounds`, in order, from both ends, with their whole ranges.
    pub fn range(&self, bounds: impl RangeBounds<K>) -> SyncIter<'_, K, V, S> {
        let at = Traverse::new(inclusive(&bounds));
        SyncIter {
            tree: &self.tree.raw,
            at,
            marker: PhantomData,
        }
    }
}

/// Entries in order, beside a writer. Made by [`Reader::range`].
pub struct SyncIter<'a, K: Key, V: Value, S: Shape = Native> {
    tree: &'a RawTree<K, S>,
    at: Traverse<K, S, true>,
    marker: PhantomData<&'a V>,
}

impl<'a, K: Key, V: Value + 'a, S: Shape> Iterator for SyncIter<'a, K, V, S> {
    type Item = (RangeInclusive<K>, V::Ref<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let found = self.at.next(self.tree)?;
        let raw = NonNull::new(found.word)?;
        // SAFETY: words in the tree are values; the reader that lent itself for `'a` keeps them.
        Some((found.first..=found.last, unsafe { V::borrow(raw) }))
    }
}

impl<'a, K: Key, V: Value + 'a, S: Shape> DoubleEndedIterator for SyncIter<'a, K, V, S> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        let found = self.at.next_back(self.tree)?;
        let raw = NonNull::new(found.word)?;
        // SAFETY: as in `next`.
        Some((found.first..=found.last, unsafe { V::borrow(raw) }))
    }
}

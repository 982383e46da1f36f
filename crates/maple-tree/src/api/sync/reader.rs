//! Readers: views of entries that live as long as the reader does.

use core::marker::PhantomData;
use core::ops::{Bound, ControlFlow, RangeBounds, RangeInclusive};

use lock_api::RawMutex;
use samara_rcu::Reclaim;

use crate::alloc::SharedPool;
use crate::api::{State, SyncAlloc, SyncMapleTree, SyncValue, both_ways, view, views};
use crate::base::{Key, Native, Offset, Ref, Shape, Value, either, inclusive, opaque};
use crate::node::RawTree;

/// A reader of a [`SyncMapleTree`]: views of entries live as long as this.
///
/// It is no snapshot. Each call shows the map in its state at some moment of the call. A reader
/// that has seen the effect of a write never sees an earlier state, neither of that place nor of
/// another that the same call of the writer changed. It never sees a hole where one entry replaced
/// another, a torn range, or a value that belonged to another range. [Cursors](Reader::cursor) and
/// [iterators](Reader::iter) are sequences of such calls. They go in order, yield each entry that
/// stays throughout exactly once, and may or may not yield entries that are added or removed.
///
/// No call waits or takes a lock. A look-up executes no loop that a writer could prolong. A step of
/// an iterator or a cursor looks up again if its leaf was replaced concurrently. While a reader
/// exists, nothing that it may have found is freed: keep readers short.
///
/// ```
/// use maple_tree::{SyncMapleTree, Waiting};
///
/// let map: SyncMapleTree<u32, Box<u32>, Waiting> = SyncMapleTree::new(Waiting::new());
/// map.insert_range(0..10, Box::new(1))?;
/// let reader = map.read();
/// let view = reader.get(5);
/// assert_eq!(view, Some(&1)); // valid for as long as `reader` is, whatever becomes of the entry
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Reader<'t, K, V, R, A = SharedPool, L = spin::Mutex<()>, S = Native>
where
    K: Key,
    V: SyncValue,
    R: Reclaim,
    A: SyncAlloc,
    L: RawMutex,
    S: Shape,
{
    pub(super) tree: &'t SyncMapleTree<K, V, R, A, L, S>,
    #[expect(dead_code, reason = "its presence is what it is for")]
    pub(super) guard: R::Guard<'t>,
}

impl<K: Key, V: SyncValue, R: Reclaim, A: SyncAlloc, L: RawMutex, S: Shape>
    Reader<'_, K, V, R, A, L, S>
{
    /// Returns the tree; what is found in it under the guard lives as long as the guard.
    #[inline]
    fn raw(&self) -> &RawTree<K, S> {
        &self.tree.raw
    }

    views!(
        SyncIter,
        "# use maple_tree::{SyncMapleTree, Waiting};
# let tree: SyncMapleTree<u64, u32, Waiting> = SyncMapleTree::new(Waiting::new());
# tree.write().try_extend([(10..20, 1), (20..30, 2), (40..50, 3)]).unwrap();
let map = tree.read();
// 1 at 10..20, 2 at 20..30, 3 at 40..50"
    );
}

/// An iterator over entries in order, concurrently with a writer. Made by [`Reader::range`].
pub struct SyncIter<'a, K: Key, V: Value, S: Shape = Native> {
    tree: &'a RawTree<K, S>,
    /// The range that is left.
    left: Option<(K, K)>,
    front: State<K, S>,
    back: State<K, S>,
    marker: PhantomData<&'a V>,
}

impl<'a, K: Key, V: Value, S: Shape> SyncIter<'a, K, V, S> {
    fn new(tree: &'a RawTree<K, S>, bounds: Option<(K, K)>) -> Self {
        Self {
            tree,
            left: bounds,
            front: State::new(bounds.map(|(lo, _)| (lo, lo))),
            back: State::new(bounds.map(|(_, hi)| (hi, hi))),
            marker: PhantomData,
        }
    }

    #[inline(always)]
    fn step<const UP: bool>(&mut self) -> Option<(RangeInclusive<K>, Ref<'a, V>)>
    where
        V: 'a,
    {
        let (lo, hi) = self.left.take()?;
        let (end, limit) = either::<UP, _>((&mut self.front, hi), (&mut self.back, lo));
        let word = end.seek::<UP, false>(self.tree, limit, false);
        // SAFETY: words in the tree are values; the reader that lent itself for `'a` keeps them.
        let value = unsafe { view::<V>(word) }?;
        let (first, last) = (end.index, end.last);
        // Each end moves its bound, so that no entry comes twice.
        self.left = if UP {
            (last < hi).then(|| (last.wrapping_add(K::ONE), hi))
        } else {
            (lo < first).then(|| (lo, first.wrapping_sub(K::ONE)))
        };
        Some((first..=last, value))
    }
}

impl<K: Key, V: Value, S: Shape> Clone for SyncIter<'_, K, V, S> {
    /// Returns another one that goes on from here.
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

opaque!([K: Key, V: Value, S: Shape] SyncIter<'_, K, V, S>, "SyncIter");

both_ways!(['a, K: Key, V: Value + 'a, S: Shape] SyncIter<'a, K, V, S>,
    (RangeInclusive<K>, Ref<'a, V>), {});

//! The writer: one at a time, concurrently with any number of readers. One store makes each change
//! visible to them, and removed nodes and values are retired.

use core::marker::PhantomData;
use core::mem::{ManuallyDrop, needs_drop};
use core::ops::{Bound, ControlFlow, RangeBounds, RangeInclusive};
use core::ptr::NonNull;

use lock_api::RawMutex;
use samara_rcu::Reclaim;

use crate::alloc::{AllocError, Fork, Reserve, SharedPool};
use crate::api::sync::limbo::Limbo;
use crate::api::{
    Held, Host, Iter, MapleTree, SyncAlloc, SyncMapleTree, SyncValue, Touch, Writing, all_asked,
    all_changes, appends, cut, merge, one_by_one, store, view,
};
use crate::base::{
    EraseError, Finally, InsertError, Key, Native, Ref, Shape, StoreError, inclusive,
};
use crate::node::{NULL, RawTree, Word};
use crate::write::{Immediate, Sink};

/// A position in a [`SyncMapleTree`] that changes it under its lock.
pub type SharedCursorMut<'h, 't, K, V, R, A, L, S> =
    Writing<'h, K, V, S, A, Writer<'t, K, V, R, A, L, S>>;

/// The writer of a [`SyncMapleTree`]: holds its lock.
///
/// # What readers see
///
/// Each call that changes one range ([`insert_range`](Writer::insert_range), [`store_range`](Writer::store_range) and its variants, coalescing,
/// [`erase_range`](Writer::erase_range), [`remove`](Writer::remove), [`replace`](Writer::replace), [`grow`](Writer::grow)) becomes visible with one
/// store to memory, however many entries and nodes it touches; so do [`append`](Writer::append), [`split_off_with`](Writer::split_off_with)
/// and [`clear`](Writer::clear). Readers find all of the old or all of the new. [`try_extend`](Writer::try_extend) and
/// [`retain`](Writer::retain) are many such changes, one after the other. A call that fails has changed nothing that readers could see.
///
/// Look-ups of the writer find what it has written, because no other thread changes the map while
/// it exists. Values that it removes are *retired*: they are dropped when the readers that may have
/// found them have left, as the map's [`Reclaim`] decides. They are not given back, and closures
/// get views of them.
///
/// A closure that panics is not called again. What the call still had to retire is retired while
/// the panic unwinds. The same holds for a value whose drop panics, if a [`Reclaim`] drops retired
/// values at once. The map is then valid, and holds the effects of the call so far. A second panic
/// during the unwinding aborts the program.
///
/// A writer that is dropped releases the lock.
pub struct Writer<'t, K, V, R, A = SharedPool, L = spin::Mutex<()>, S = Native>
where
    K: Key,
    V: SyncValue,
    R: Reclaim,
    A: SyncAlloc,
    L: RawMutex,
    S: Shape,
{
    pub(super) tree: &'t SyncMapleTree<K, V, R, A, L, S>,
    /// `true` if the map's own lock must be released.
    pub(super) locked: bool,
    /// Some locks must be released by the thread that took them.
    pub(super) marker: PhantomData<L::GuardMarker>,
}

impl<K: Key, V: SyncValue, R: Reclaim, A: SyncAlloc, L: RawMutex, S: Shape> Drop
    for Writer<'_, K, V, R, A, L, S>
{
    fn drop(&mut self) {
        if self.locked {
            // SAFETY: `write` or `try_write` has taken it.
            unsafe { self.tree.own.lock.unlock() };
        }
    }
}

impl<'t, K: Key, V: SyncValue, R: Reclaim, A: SyncAlloc, L: RawMutex, S: Shape>
    Writer<'t, K, V, R, A, L, S>
{
    /// Returns the tree, which only this writer changes.
    fn raw(&self) -> &RawTree<K, S> {
        &self.tree.raw
    }

    all_asked!(
        "# use maple_tree::{SyncMapleTree, Waiting};
# let tree: SyncMapleTree<u64, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
# let mut map = tree.write();
# map.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)]).unwrap();
// 1 at 10..20, 2 at 20..30, 3 at 40..50"
    );

    all_changes!(
        SharedCursorMut<'_, 't, K, V, R, A, L, S>,
        Ref<'_, V>,
        shown,
        "retired",
        "Readers see all of the old or all of the new, and never a part of it.",
        "# use maple_tree::{SyncMapleTree, Waiting};
let shared: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
let mut map = shared.write();"
    );

    /// Removes the whole entry at `key`, retires its value, and gives its range. O(log n).
    ///
    /// ```
    /// # use maple_tree::{SyncMapleTree, Waiting};
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// let mut writer = map.write();
    /// writer.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
    /// assert_eq!(writer.remove(15)?, Some(10..=19));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory; the entry is still there then.
    pub fn remove(&mut self, key: K) -> Result<Option<RangeInclusive<K>>, AllocError> {
        Ok(store::remove(self, key)?.map(|(range, _)| range))
    }

    /// Replaces the value of the entry at `key`, whose range stays unchanged, with one store, and
    /// retires the old one.
    ///
    /// ```
    /// # use maple_tree::{SyncMapleTree, Waiting};
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// let mut writer = map.write();
    /// writer.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
    /// assert_eq!(writer.replace(25, 9), Ok(()));
    /// assert_eq!(map.read().get(25), Some(9));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The value comes back if there is no entry, or if there is no memory (which is needed only for an entry that is the only one,
    /// at index 0, and whose word cannot stand alone in a root).
    pub fn replace(&mut self, key: K, value: V) -> Result<(), V> {
        store::replace(self, key, value.into_raw()).map(|_| ())
    }

    /// Lets the entry at `key` grow to `range`, which contains all that it covers now. Other entries within the range are
    /// retired, entries that overlap one end of it keep what is outside.
    ///
    /// ```
    /// # use maple_tree::{SyncMapleTree, Waiting};
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// let mut writer = map.write();
    /// writer.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
    /// assert!(writer.grow(25, 15..35)?);
    /// assert_eq!(map.read().ranges().collect::<Vec<_>>(), [10..=14, 15..=34, 40..=49]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory. `Ok(false)`, with nothing changed, if there is no entry at `key`, or `range` does not contain its range.
    pub fn grow(&mut self, key: K, range: impl RangeBounds<K>) -> Result<bool, AllocError> {
        store::grow(self, key, inclusive(&range), |_, _, _| {})
    }

    /// Turns a closure over views into one over words. One that has panicked is not called again.
    fn shown(mut show: impl FnMut(RangeInclusive<K>, Ref<'_, V>)) -> impl FnMut(K, K, Word) {
        let mut called = false;
        move |first, last, word| {
            if called {
                return;
            }
            // SAFETY: the word was in the tree, and has not been retired yet.
            if let Some(value) = unsafe { view::<V>(word) } {
                called = true;
                show(first..=last, value);
                called = false;
            }
        }
    }

    one_by_one!(
        "Retires",
        "Readers see one after the other come.",
        "Readers see one after the other go.",
        "# use maple_tree::{SyncMapleTree, Waiting};
let shared: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::new(Waiting::new());
let mut map = shared.write();"
    );

    appends!(
        // With concurrent readers the nodes of a map are not changed in place.
        |_: &mut Self, _: &mut _| Ok::<_, AllocError>(false),
        "O(n + m): the map is built anew, with full leaves, and the nodes of both maps are given up when that has succeeded.",
        "retired",
        "Readers see all of it at once: every look-up finds the map as it was, or as it is with everything of `other` in it.",
        "# use maple_tree::alloc::SharedPool;
# use maple_tree::{MapleTree, SyncMapleTree, Waiting};
let shared: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::new(Waiting::new());
let mut map = shared.write();
let mut other = MapleTree::new_in(SharedPool::new());"
    );

    /// Takes the entries from `key` on out of the map, and gives a map with what `copy` makes of each: readers may still view the values, so
    /// that these cannot be moved, and are retired. Of an entry that reaches from below `key` to it, the upper part is copied, the lower
    /// one stays. The new map has the same modes. O(n) in what is taken.
    ///
    /// Readers see all of them go at once.
    ///
    /// ```
    /// use std::sync::Arc;
    /// # use maple_tree::{SyncMapleTree, Waiting};
    /// let map: SyncMapleTree<u32, Arc<&str>, Waiting> = SyncMapleTree::new(Waiting::new());
    /// map.write().try_extend([(0..10, Arc::new("low")), (10..30, Arc::new("both"))])?;
    /// let high = map.write().split_off_with(20, |_, value| Some(Arc::clone(&value)))?;
    /// assert_eq!(map.read().last().map(|(range, _)| range), Some(10..=19));
    /// assert_eq!(high.first().map(|(range, _)| range), Some(20..=29));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory ([`EraseError::Alloc`]), or `copy` gives `None` ([`EraseError::Splits`]). The map is as it was, and copies have been dropped.
    pub fn split_off_with(
        &mut self,
        key: K,
        copy: impl FnMut(RangeInclusive<K>, Ref<'_, V>) -> Option<V>,
    ) -> Result<MapleTree<K, V, A, S>, EraseError>
    where
        A: Fork,
    {
        cut::<false, _, _, _, _, _>(self, (key, K::MAX), copy)
    }

    /// Removes all entries at once, and retires them.
    ///
    /// ```
    /// # use maple_tree::{SyncMapleTree, Waiting};
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// let mut writer = map.write();
    /// writer.insert(7, 1)?;
    /// writer.clear();
    /// assert!(map.read().is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clear(&mut self) {
        // A hole over everything takes no node, so that it cannot fail.
        let mut plan = self.tree.raw.plan_store(K::MIN, K::MAX, NULL);
        debug_assert_eq!(plan.nodes, 0);
        let _ = self.carry_out(&mut plan, None, |_, _, _| {});
    }
}

// SAFETY: the map's words are values. There is one writer at a time, and either the tree is in RCU
// mode or no thread reads. Its nodes come from the map's allocator.
unsafe impl<K: Key, V: SyncValue, R: Reclaim, A: SyncAlloc, L: RawMutex, S: Shape> Host<K, V, S>
    for Writer<'_, K, V, R, A, L, S>
{
    type Alloc = A;

    #[inline]
    fn tree(&self) -> &RawTree<K, S> {
        &self.tree.raw
    }

    #[inline]
    fn nodes(&self) -> &A {
        &self.tree.own.alloc
    }

    fn fill(&mut self, reserve: &mut Reserve, count: usize) -> Result<(), AllocError> {
        let own = &*self.tree.own;
        // SAFETY: this is the only writer, and it is borrowed.
        let limbo = unsafe { &mut *own.limbo.get() };
        limbo.fill(reserve, count, &own.alloc)
    }

    #[inline(always)]
    fn alone(&self) -> bool {
        !self.tree.raw.in_rcu()
    }

    #[inline]
    fn sink(&self, kept: Option<K>, taken: impl FnMut(K, K, Word)) -> impl Sink<K> {
        Deferred {
            map: self.tree,
            // SAFETY: only the writer uses it, and there is one sink at a time.
            limbo: unsafe { &mut *self.tree.own.limbo.get() },
            displaced: taken,
            announced: false,
            kept,
        }
    }

    #[inline(always)]
    fn sink_alone(&self, mut taken: impl FnMut(K, K, Word)) -> impl Sink<K> {
        Immediate {
            alloc: &self.tree.own.alloc,
            entry: move |first, last, word| {
                // Dropped also if the closure panics.
                let _value = NonNull::new(word).map(Held::<V>::of);
                taken(first, last, word);
            },
        }
    }

    fn discard(_: K, _: K, _: Word) {
        // It has been retired.
    }
}

/// Shows removed entries to a closure, and retires them and the nodes.
struct Deferred<'a, K: Key, V: SyncValue, R: Reclaim, A: SyncAlloc, L: RawMutex, S: Shape, F> {
    map: &'a SyncMapleTree<K, V, R, A, L, S>,
    limbo: &'a mut Limbo<K, S>,
    displaced: F,
    announced: bool,
    /// The entry that began here is stored over itself, and stays.
    kept: Option<K>,
}

impl<K: Key, V: SyncValue, R: Reclaim, A: SyncAlloc, L: RawMutex, S: Shape, F> Sink<K>
    for Deferred<'_, K, V, R, A, L, S, F>
where
    F: FnMut(K, K, Word),
{
    fn entry(&mut self, first: K, last: K, word: Word) {
        if self.kept == Some(first) {
            return;
        }
        // Also if the closure panics.
        let _retire = Finally(|| {
            if needs_drop::<V>()
                && let Some(raw) = NonNull::new(word)
            {
                // A reclaimer that leaks what is retired drops no value.
                let value = ManuallyDrop::new(Held::<V>::of(raw));
                if !self.map.raw.in_rcu() {
                    // No thread reads.
                    drop(ManuallyDrop::into_inner(value));
                    return;
                }
                if !self.announced {
                    self.announced = true;
                    self.map.reclaim.published();
                }
                let free = move || drop(ManuallyDrop::into_inner(value));
                // SAFETY: the tree no longer leads to the value; readers that found it entered before.
                unsafe { self.map.reclaim.retire(free) };
            }
        });
        (self.displaced)(first, last, word);
    }

    fn node(&mut self, block: NonNull<u8>) {
        // SAFETY: the tree hands over the block of a node that it has replaced.
        unsafe { self.limbo.push(block) };
    }
}

impl<K: Key, V: SyncValue, R: Reclaim, A: SyncAlloc, L: RawMutex, S: Shape, F> Drop
    for Deferred<'_, K, V, R, A, L, S, F>
{
    #[inline]
    fn drop(&mut self) {
        let (height, own) = (self.map.raw.height(), &*self.map.own);
        // SAFETY: this is the map's writer, and the tree no longer leads to the nodes that it has handed over.
        unsafe { self.limbo.settle(height, &*self.map.reclaim, &own.alloc) };
    }
}

//! The writer: one at a time, beside any number of readers.

use core::marker::PhantomData;
use core::ops::{RangeBounds, RangeInclusive};

use lock_api::RawMutex;

use crate::alloc::{Global, NodeAlloc};
use crate::bounds::inclusive;
use crate::check::Damage;
use crate::cursor::{Cursor, Reserved, SharedCursorMut};
use crate::dup::{CloneError, CopyWith};
use crate::error::{EraseError, InsertError, StoreError};
use crate::gap::Want;
use crate::key::Key;
use crate::map::MapleTree;
use crate::node::{NULL, Word};
use crate::reclaim::Reclaim;
use crate::reserve::{AllocError, Reserve};
use crate::shape::{Native, Shape};
use crate::stats::Stats;
use crate::store::plan::Plan;
use crate::sync::SyncMapleTree;
use crate::sync::retire::Deferred;
use crate::traverse::Traverse;
use crate::tree::{RawTree, Root, flags};
use crate::value::Value;
use crate::write::{self, Host, Lowest, view};

/// The writer of a [`SyncMapleTree`]: holds its lock.
pub struct Writer<'t, K, V, R, A = Global, L = spin::Mutex<()>, S = Native>
where
    K: Key,
    V: Value + Send + Sync + 'static,
    R: Reclaim,
    A: NodeAlloc + Clone + Send + 'static,
    L: RawMutex,
    S: Shape,
{
    pub(super) tree: &'t SyncMapleTree<K, V, R, A, L, S>,
    /// The map's own lock is to be released.
    pub(super) locked: bool,
    /// Some locks are to be released by the thread that took them.
    pub(super) marker: PhantomData<L::GuardMarker>,
}

impl<K, V, R, A, L, S> Drop for Writer<'_, K, V, R, A, L, S>
where
    K: Key,
    V: Value + Send + Sync + 'static,
    R: Reclaim,
    A: NodeAlloc + Clone + Send + 'static,
    L: RawMutex,
    S: Shape,
{
    fn drop(&mut self) {
        if self.locked {
            // SAFETY: `write` or `try_write` has taken it.
            unsafe { self.tree.lock.unlock() };
        }
    }
}

impl<'t, K, V, R, A, L, S> Writer<'t, K, V, R, A, L, S>
where
    K: Key,
    V: Value + Send + Sync + 'static,
    R: Reclaim,
    A: NodeAlloc + Clone + Send + 'static,
    L: RawMutex,
    S: Shape,
{
    // ----- looking -------------------------------------------------------------------------

    /// The value at `key`. O(log n).
    pub fn get(&self, key: K) -> Option<V::Ref<'_>> {
        // SAFETY: words in the tree are values; only this writer could remove them.
        unsafe { view::<V>(self.tree.raw.load(key)) }
    }

    /// The entry at `key`, with its range. O(log n).
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

    /// All entries in order, from both ends.
    pub fn iter(&self) -> crate::Iter<'_, K, V, S> {
        self.range(..)
    }

    /// The entries that intersect `bounds`, in order, from both ends, with their whole ranges.
    pub fn range(&self, bounds: impl RangeBounds<K>) -> crate::Iter<'_, K, V, S> {
        crate::Iter::new(&self.tree.raw, Traverse::new(inclusive(&bounds)))
    }

    /// A position in the map, with a range to look for.
    pub fn cursor(&self, range: impl RangeBounds<K>) -> Cursor<'_, K, V, S> {
        Cursor::new(&self.tree.raw, inclusive(&range))
    }

    /// A position in the map that changes it, with a range to look for or to store at.
    pub fn cursor_mut(
        &mut self,
        range: impl RangeBounds<K>,
    ) -> SharedCursorMut<'_, 't, K, V, R, A, L, S> {
        let alloc = self.tree.alloc.clone();
        SharedCursorMut::new(self, alloc, inclusive(&range))
    }

    /// The lowest index at which `size` indices in a row are free, all of them within `bounds`. O(log n) if the map tracks
    /// gaps, else O(n). `None` also if `size` is 0.
    pub fn gap_up(&self, bounds: impl RangeBounds<K>, size: K) -> Option<K> {
        self.tree
            .raw
            .gap_up(&Want::new(inclusive(&bounds)?, size, K::ONE, K::MIN)?)
    }

    /// The highest index at which `size` indices in a row are free, all of them within `bounds`. O(log n) if the map tracks
    /// gaps, else O(n). `None` also if `size` is 0.
    pub fn gap_down(&self, bounds: impl RangeBounds<K>, size: K) -> Option<K> {
        self.tree
            .raw
            .gap_down(&Want::new(inclusive(&bounds)?, size, K::ONE, K::MIN)?)
    }

    /// As [`gap_up`](Writer::gap_up), of the indices that are a multiple of `align` plus `offset`.
    pub fn gap_up_aligned(
        &self,
        bounds: impl RangeBounds<K>,
        size: K,
        align: K,
        offset: K,
    ) -> Option<K> {
        self.tree
            .raw
            .gap_up(&Want::new(inclusive(&bounds)?, size, align, offset)?)
    }

    /// As [`gap_down`](Writer::gap_down), of the indices that are a multiple of `align` plus `offset`.
    pub fn gap_down_aligned(
        &self,
        bounds: impl RangeBounds<K>,
        size: K,
        align: K,
        offset: K,
    ) -> Option<K> {
        self.tree
            .raw
            .gap_down(&Want::new(inclusive(&bounds)?, size, align, offset)?)
    }

    /// Checks every rule of the structure. O(n). Meant for tests.
    ///
    /// # Errors
    ///
    /// The first rule that does not hold.
    pub fn check(&self) -> Result<(), Damage<K>> {
        self.tree.raw.check()
    }

    /// Figures about the nodes. O(n).
    pub fn stats(&self) -> Stats {
        self.tree.raw.stats()
    }

    // ----- changing ------------------------------------------------------------------------

    /// Turns a closure over views into one over words.
    fn shown(mut show: impl FnMut(RangeInclusive<K>, V::Ref<'_>)) -> impl FnMut(K, K, Word) {
        move |first, last, word| {
            // SAFETY: the word was in the tree, and has not been retired yet.
            if let Some(value) = unsafe { view::<V>(word) } {
                show(first..=last, value);
            }
        }
    }

    /// Stores `value` at `range` if that is a hole, or part of one. O(log n).
    ///
    /// # Errors
    ///
    /// The value comes back if an entry intersects the range, if there is no memory, or if the range is empty.
    pub fn insert_range(
        &mut self,
        range: impl RangeBounds<K>,
        value: V,
    ) -> Result<(), InsertError<V>> {
        write::insert(self, inclusive(&range), value)
    }

    /// Stores `value` at the lowest gap of `size` indices within `bounds`, and gives its first index. O(log n) if the map tracks
    /// gaps.
    ///
    /// # Errors
    ///
    /// The value comes back if there is no such gap ([`InsertError::Occupied`]), if there is no memory, or if `bounds` holds no
    /// index or `size` is 0.
    pub fn alloc_range(
        &mut self,
        bounds: impl RangeBounds<K>,
        size: K,
        value: V,
    ) -> Result<K, InsertError<V>> {
        write::allocate(self, inclusive(&bounds), size, Lowest::Lowest, value)
    }

    /// As [`alloc_range`](Self::alloc_range), at the highest gap.
    ///
    /// # Errors
    ///
    /// As [`alloc_range`](Self::alloc_range).
    pub fn alloc_rrange(
        &mut self,
        bounds: impl RangeBounds<K>,
        size: K,
        value: V,
    ) -> Result<K, InsertError<V>> {
        write::allocate(self, inclusive(&bounds), size, Lowest::Highest, value)
    }

    /// Stores `value` at one free index within `bounds`: the lowest at or after `next`, or, if there is none, the lowest of all. `next`
    /// becomes the index after it, so that indices are reused late. Gives the index, and whether the search started over.
    ///
    /// # Errors
    ///
    /// As [`alloc_range`](Self::alloc_range); `next` stays as it was.
    pub fn alloc_cyclic(
        &mut self,
        bounds: impl RangeBounds<K>,
        next: &mut K,
        value: V,
    ) -> Result<(K, bool), InsertError<V>> {
        write::allocate_cyclic(self, inclusive(&bounds), next, value)
    }

    /// Stores `value` at `range`, and retires the entries within it. Entries that overlap one end of it keep what is outside. Readers see
    /// all of the old or all of the new.
    ///
    /// # Errors
    ///
    /// The value comes back if the range lies strictly within one entry, if there is no memory, or if the range is empty.
    pub fn store_range(
        &mut self,
        range: impl RangeBounds<K>,
        value: V,
    ) -> Result<(), StoreError<V>> {
        write::store(self, inclusive(&range), value, |_, _, _| {})
    }

    /// As [`store_range`](Writer::store_range); shows the entries within the range to `displaced`, in no particular order,
    /// with the ranges that they had.
    ///
    /// # Errors
    ///
    /// As [`store_range`](Writer::store_range).
    pub fn store_range_with(
        &mut self,
        range: impl RangeBounds<K>,
        value: V,
        displaced: impl FnMut(RangeInclusive<K>, V::Ref<'_>),
    ) -> Result<(), StoreError<V>> {
        write::store(self, inclusive(&range), value, Self::shown(displaced))
    }

    /// As [`store_range`](Writer::store_range); if the range lies strictly within an entry, the part above gets the value
    /// that `split` makes from that entry and the range of that part.
    ///
    /// # Errors
    ///
    /// The value comes back if there is no memory, if the range is empty, or (as [`StoreError::Splits`]) if
    /// `split` gives `None`.
    pub fn store_range_splitting(
        &mut self,
        range: impl RangeBounds<K>,
        value: V,
        split: impl FnOnce(RangeInclusive<K>, V::Ref<'_>) -> Option<V>,
    ) -> Result<(), StoreError<V>> {
        write::store_splitting(self, inclusive(&range), value, split)
    }

    /// Makes `range` a hole, and retires the entries within it. Entries that overlap one end of it keep what is outside.
    ///
    /// # Errors
    ///
    /// If the range lies strictly within one entry, if there is no memory, or if the range is empty. Nothing has changed
    /// then.
    pub fn erase_range(&mut self, range: impl RangeBounds<K>) -> Result<(), EraseError> {
        write::erase(self, inclusive(&range), |_, _, _| {})
    }

    /// As [`erase_range`](Writer::erase_range); shows the entries within the range to `displaced`, in no particular order,
    /// with the ranges that they had.
    ///
    /// # Errors
    ///
    /// As [`erase_range`](Writer::erase_range).
    pub fn erase_range_with(
        &mut self,
        range: impl RangeBounds<K>,
        displaced: impl FnMut(RangeInclusive<K>, V::Ref<'_>),
    ) -> Result<(), EraseError> {
        write::erase(self, inclusive(&range), Self::shown(displaced))
    }

    /// As [`erase_range`](Writer::erase_range); if the range lies strictly within an entry, the part above gets the value
    /// that `split` makes from that entry and the range of that part.
    ///
    /// # Errors
    ///
    /// If there is no memory, if the range is empty, or (as [`EraseError::Splits`]) if `split` gives `None`.
    pub fn erase_range_splitting(
        &mut self,
        range: impl RangeBounds<K>,
        split: impl FnOnce(RangeInclusive<K>, V::Ref<'_>) -> Option<V>,
    ) -> Result<(), EraseError> {
        write::erase_splitting(self, inclusive(&range), split)
    }

    /// Removes the whole entry at `key`, retires its value, and gives its range. O(log n).
    ///
    /// # Errors
    ///
    /// If there is no memory; the entry is still there then.
    pub fn remove(&mut self, key: K) -> Result<Option<RangeInclusive<K>>, AllocError> {
        Ok(write::remove(self, key)?.map(|(range, _)| range))
    }

    /// Exchanges the value of the entry at `key`, whose range stays as it is, with one store, and retires the old one.
    ///
    /// # Errors
    ///
    /// The value comes back if there is no entry, or if there is no memory (which is needed only for an entry that is the only one,
    /// at index 0, and whose word cannot stand alone in a root).
    pub fn replace(&mut self, key: K, value: V) -> Result<(), V> {
        write::replace(self, key, value).map(|_| ())
    }

    /// Lets the entry at `key` grow to `range`, which contains all that it covers now. Other entries within the range are
    /// retired, entries that overlap one end of it keep what is outside.
    ///
    /// # Errors
    ///
    /// If there is no memory. `Ok(false)`, with nothing changed, if there is no entry at `key`, or `range` does not contain
    /// its range.
    pub fn grow(&mut self, key: K, range: impl RangeBounds<K>) -> Result<bool, AllocError> {
        write::grow(self, key, inclusive(&range), |_, _, _| {})
    }

    /// Removes all entries at once, and retires them.
    pub fn clear(&mut self) {
        // A hole over everything takes no node, so that it cannot fail.
        let plan = self.tree.raw.plan_store(K::MIN, K::MAX, NULL);
        debug_assert_eq!(plan.nodes, 0);
        let _ = self.carry_out(plan, |_, _, _| {});
    }

    /// A duplicate, in one pass over the nodes, as a map without concurrent readers. `copy` is shown each entry once, in order, and
    /// gives the value that the duplicate has there, or `None` to leave the entry out.
    ///
    /// # Errors
    ///
    /// If there is no memory for a node, or with the closure's error. What had been made has been dropped.
    pub fn try_clone_with<E>(
        &self,
        copy: impl FnMut(RangeInclusive<K>, V::Ref<'_>) -> Result<Option<V>, E>,
    ) -> Result<MapleTree<K, V, A, S>, CloneError<E>> {
        let modes = if self.tree.raw.tracks_gaps() {
            flags::GAPS
        } else {
            0
        };
        let new = MapleTree::from_parts(RawTree::new(modes), self.tree.alloc.clone());
        // SAFETY: this is the only writer, and it is borrowed; the maps have the same modes; the copier makes words out of
        // values.
        unsafe {
            self.tree
                .raw
                .dup_into(new.raw(), new.allocator(), &mut CopyWith::<_, V>::new(copy))
        }?;
        Ok(new)
    }
}

impl<K, V, R, A, L, S> Host<K, V, S> for Writer<'_, K, V, R, A, L, S>
where
    K: Key,
    V: Value + Send + Sync + 'static,
    R: Reclaim,
    A: NodeAlloc + Clone + Send + 'static,
    L: RawMutex,
    S: Shape,
{
    fn tree(&self) -> &RawTree<K, S> {
        &self.tree.raw
    }

    fn carry_out(
        &mut self,
        plan: Plan<K, S>,
        taken: impl FnMut(K, K, Word),
    ) -> Result<(), AllocError> {
        let alloc = &self.tree.alloc;
        let mut reserve = Reserve::new();
        if let Err(error) = reserve.fill(plan.nodes, alloc) {
            reserve.release(alloc);
            return Err(error);
        }
        self.carry_out_with(plan, &mut reserve, taken);
        Ok(())
    }

    fn carry_out_keeping(
        &mut self,
        plan: Plan<K, S>,
        kept: K,
        taken: impl FnMut(K, K, Word),
    ) -> Result<(), AllocError> {
        let SyncMapleTree {
            raw,
            reclaim,
            alloc,
            ..
        } = self.tree;
        let mut reserve = Reserve::new();
        if let Err(error) = reserve.fill(plan.nodes, alloc) {
            reserve.release(alloc);
            return Err(error);
        }
        let mut sink = Deferred::<K, V, R, A, S, _>::new(reclaim, alloc, Some(kept), taken);
        // SAFETY: as in `carry_out`.
        unsafe { raw.apply(plan, &mut reserve, &mut sink) }
        Ok(())
    }

    fn discard(_: Word) {
        // It has been retired.
    }
}

impl<K, V, R, A, L, S> Reserved<K, V, S> for Writer<'_, K, V, R, A, L, S>
where
    K: Key,
    V: Value + Send + Sync + 'static,
    R: Reclaim,
    A: NodeAlloc + Clone + Send + 'static,
    L: RawMutex,
    S: Shape,
{
    fn carry_out_with(
        &mut self,
        plan: Plan<K, S>,
        reserve: &mut Reserve,
        taken: impl FnMut(K, K, Word),
    ) {
        let SyncMapleTree {
            raw,
            reclaim,
            alloc,
            ..
        } = self.tree;
        let mut sink = Deferred::<K, V, R, A, S, _>::new(reclaim, alloc, None, taken);
        // SAFETY: this is the only writer; the plan was just made; its nodes are reserved; its word is a value's or NULL;
        // the tree is in RCU mode.
        unsafe { raw.apply(plan, reserve, &mut sink) }
    }
}

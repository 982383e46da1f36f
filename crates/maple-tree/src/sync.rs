//! The shared face: readers never wait, one writer at a time.

use core::fmt;
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, needs_drop};
use core::ops::{RangeBounds, RangeInclusive};
use core::ptr::{self, NonNull};

use lock_api::RawMutex;

use crate::alloc::{Global, NodeAlloc};
use crate::bounds::inclusive;
use crate::check::Damage;
use crate::dup::{CloneError, CopyWith};
use crate::error::{EraseError, InsertError, StoreError};
use crate::gap::Want;
use crate::key::Key;
use crate::map::{MapleTree, view};
use crate::node::{DeadNodes, NULL, Word};
use crate::reclaim::Reclaim;
use crate::reserve::{AllocError, Reserve};
use crate::shape::{Native, Shape};
use crate::stats::Stats;
use crate::store::Sink;
use crate::store::plan::Plan;
use crate::traverse::Traverse;
use crate::tree::{RawTree, Root, flags};
use crate::value::Value;

/// A map from ranges to values that is read while it is written.
///
/// Any number of [readers](SyncMapleTree::read) look things up without a lock; they never wait, whatever the one
/// [writer](SyncMapleTree::write) does. What is removed is freed when the readers that may have found it have left,
/// as [`Reclaim`] `R` decides.
///
/// # What readers are guaranteed
///
/// * A look-up gives the entry or the hole that was there at some moment between its call and its return, with the range and the
///   value that belonged together then.
/// * A store replaces all that it covers at once: no reader sees a hole, or a part of the old beside a part of the new, where
///   an entry was overwritten. A store across several nodes becomes visible with one pointer store, too.
/// * An iterator yields entries in ascending (or descending) order, each as it was when the iterator came to it, or later. An entry
///   that is there throughout is yielded exactly once. One that was stored, or made longer, after the iterator had
///   come that far may begin before the previous one ended.
/// * Views of values live as long as the reader.
///
/// ```
/// use maple_tree::{SyncMapleTree, Waiting};
///
/// static AREAS: SyncMapleTree<usize, Box<&str>, Waiting> = SyncMapleTree::new(Waiting::new());
///
/// AREAS.write().insert_range(0x1000..0x3000, Box::new("text"))?;
/// std::thread::scope(|s| {
///     s.spawn(|| assert!(AREAS.read().get(0x2000).is_some()));
///     s.spawn(|| AREAS.write().store_range(0x2000..0x4000, Box::new("data")));
/// });
/// assert_eq!(AREAS.read().get_range(0x2000), Some((0x2000..=0x3fff, &"data")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The writers' lock is `L`, a spin lock unless another is named: any [`lock_api::RawMutex`], that of `parking_lot` say. A
/// lock that guards more than the tree can take its place: see
/// [`write_locked`](SyncMapleTree::write_locked).
pub struct SyncMapleTree<K, V, R, A = Global, L = spin::Mutex<()>, S = Native>
where
    K: Key,
    V: Value + Send + Sync + 'static,
    R: Reclaim,
    A: NodeAlloc + Clone + Send + 'static,
    L: RawMutex,
    S: Shape,
{
    raw: RawTree<K, S>,
    lock: L,
    reclaim: R,
    alloc: A,
    marker: PhantomData<V>,
}

// SAFETY: the map owns its values, which may be moved, and its nodes.
unsafe impl<K, V, R, A, L, S> Send for SyncMapleTree<K, V, R, A, L, S>
where
    K: Key,
    V: Value + Send + Sync + 'static,
    R: Reclaim + Send,
    A: NodeAlloc + Clone + Send + 'static,
    L: RawMutex + Send,
    S: Shape,
{
}

// SAFETY: values may be viewed and dropped on any thread; one writer at a time is made sure of by the lock, and readers beside it by
// RCU mode.
unsafe impl<K, V, R, A, L, S> Sync for SyncMapleTree<K, V, R, A, L, S>
where
    K: Key,
    V: Value + Send + Sync + 'static,
    R: Reclaim + Sync,
    A: NodeAlloc + Clone + Send + Sync + 'static,
    L: RawMutex + Sync,
    S: Shape,
{
}

impl<K, V, R, L, S> SyncMapleTree<K, V, R, Global, L, S>
where
    K: Key,
    V: Value + Send + Sync + 'static,
    R: Reclaim,
    L: RawMutex,
    S: Shape,
{
    const_unless_loom! {
        /// An empty map. Allocates nothing.
        #[must_use]
        pub const fn new(reclaim: R) -> Self {
            Self::new_in(reclaim, Global)
        }
    }

    const_unless_loom! {
        /// An empty map that keeps the sizes of its holes, so that a gap is found in O(log n). Allocates nothing.
        #[must_use]
        pub const fn with_gaps(reclaim: R) -> Self {
            Self::with_gaps_in(reclaim, Global)
        }
    }
}

impl<K, V, R, A, L, S> SyncMapleTree<K, V, R, A, L, S>
where
    K: Key,
    V: Value + Send + Sync + 'static,
    R: Reclaim,
    A: NodeAlloc + Clone + Send + 'static,
    L: RawMutex,
    S: Shape,
{
    const_unless_loom! {
        /// An empty map whose nodes come from `alloc`. Allocates nothing.
        #[must_use]
        pub const fn new_in(reclaim: R, alloc: A) -> Self {
            Self { raw: RawTree::new(flags::RCU), lock: L::INIT, reclaim, alloc, marker: PhantomData }
        }
    }

    const_unless_loom! {
        /// As [`with_gaps`](SyncMapleTree::with_gaps), with nodes from `alloc`.
        #[must_use]
        pub const fn with_gaps_in(reclaim: R, alloc: A) -> Self {
            Self {
                raw: RawTree::new(flags::RCU | flags::GAPS),
                lock: L::INIT,
                reclaim,
                alloc,
                marker: PhantomData,
            }
        }
    }

    /// A map with the entries of another, which had been built without concurrent readers. O(1).
    pub fn from_exclusive(map: MapleTree<K, V, A, S>, reclaim: R) -> Self {
        let (raw, alloc) = map.into_parts();
        // SAFETY: nobody else has the tree.
        unsafe { raw.set_in_rcu(true) };
        Self {
            raw,
            lock: L::INIT,
            reclaim,
            alloc,
            marker: PhantomData,
        }
    }

    /// The entries as a map without concurrent readers, whose changes are made in place. O(1).
    pub fn into_exclusive(self) -> MapleTree<K, V, A, S> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used again, nor dropped; what is not moved out of it is dropped here.
        let (raw, alloc) = unsafe {
            ptr::drop_in_place(&raw mut this.lock);
            ptr::drop_in_place(&raw mut this.reclaim);
            (
                ptr::read(&raw const this.raw),
                ptr::read(&raw const this.alloc),
            )
        };
        // SAFETY: nobody else has the tree: readers and writers borrow the map.
        unsafe { raw.set_in_rcu(false) };
        MapleTree::from_parts(raw, alloc)
    }

    /// Enters as a reader. Never waits.
    #[inline]
    pub fn read(&self) -> Reader<'_, K, V, R, A, L, S> {
        Reader {
            guard: self.reclaim.enter(),
            tree: self,
        }
    }

    /// Takes the lock, to write.
    #[inline]
    pub fn write(&self) -> Writer<'_, K, V, R, A, L, S> {
        self.lock.lock();
        Writer {
            tree: self,
            locked: true,
            marker: PhantomData,
        }
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_write(&self) -> Option<Writer<'_, K, V, R, A, L, S>> {
        // Not `then_some`: dropping a writer releases the lock.
        self.lock.try_lock().then(|| Writer {
            tree: self,
            locked: true,
            marker: PhantomData,
        })
    }

    /// Writes under a lock of the caller's. The map's own is left alone.
    ///
    /// # Safety
    ///
    /// There is no other writer of this map, of either kind, while this one lives, and what such a writer did before happens
    /// before this call: a lock sees to both.
    #[inline]
    pub unsafe fn write_locked(&self) -> Writer<'_, K, V, R, A, L, S> {
        Writer {
            tree: self,
            locked: false,
            marker: PhantomData,
        }
    }

    /// How removed nodes and values are freed.
    pub fn reclaim(&self) -> &R {
        &self.reclaim
    }

    /// Where the nodes come from.
    pub fn allocator(&self) -> &A {
        &self.alloc
    }
}

impl<K, V, R, A, L, S> Drop for SyncMapleTree<K, V, R, A, L, S>
where
    K: Key,
    V: Value + Send + Sync + 'static,
    R: Reclaim,
    A: NodeAlloc + Clone + Send + 'static,
    L: RawMutex,
    S: Shape,
{
    fn drop(&mut self) {
        let raw = core::mem::replace(&mut self.raw, RawTree::new(0));
        // Readers borrow the map, so that there are none.
        drop(MapleTree::<K, V, A, S>::from_parts(raw, self.alloc.clone()));
    }
}

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
    tree: &'t SyncMapleTree<K, V, R, A, L, S>,
    #[expect(dead_code, reason = "its presence is what it is for")]
    guard: R::Guard<'t>,
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
    tree: &'t SyncMapleTree<K, V, R, A, L, S>,
    /// The map's own lock is to be released.
    locked: bool,
    /// Some locks are to be released by the thread that took them.
    marker: PhantomData<L::GuardMarker>,
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

/// A value's word, on its way to the thread that drops it.
struct Retired<V> {
    raw: NonNull<()>,
    marker: PhantomData<V>,
}

// SAFETY: it stands for a value, which may be sent.
unsafe impl<V: Send> Send for Retired<V> {}

impl<V: Value> Retired<V> {
    /// # Safety
    ///
    /// No view of the value is left, and the tree has given the word up.
    unsafe fn free(self) {
        // SAFETY: the caller's promise.
        drop(unsafe { V::from_raw(self.raw) });
    }
}

/// Shows removed entries to a closure, and retires them and the nodes.
struct Deferred<'a, K: Key, V, R: Reclaim, A: NodeAlloc + Clone + Send + 'static, S: Shape, F> {
    reclaim: &'a R,
    alloc: &'a A,
    dead: DeadNodes,
    displaced: F,
    announced: bool,
    marker: PhantomData<(K, V, S)>,
}

impl<K: Key, V, R: Reclaim, A: NodeAlloc + Clone + Send + 'static, S: Shape, F>
    Deferred<'_, K, V, R, A, S, F>
{
    fn announce(&mut self) {
        if !self.announced {
            self.announced = true;
            self.reclaim.published();
        }
    }
}

impl<K, V, R, A, S, F> Sink<K> for Deferred<'_, K, V, R, A, S, F>
where
    K: Key,
    S: Shape,
    V: Value + Send + Sync + 'static,
    R: Reclaim,
    A: NodeAlloc + Clone + Send + 'static,
    F: FnMut(K, K, Word),
{
    fn entry(&mut self, first: K, last: K, word: Word) {
        (self.displaced)(first, last, word);
        if needs_drop::<V>()
            && let Some(raw) = NonNull::new(word)
        {
            self.announce();
            let retired = Retired::<V> {
                raw,
                marker: PhantomData,
            };
            // SAFETY: the tree no longer leads to the value; readers that found it entered before.
            unsafe { self.reclaim.retire(move || retired.free()) };
        }
    }

    fn node(&mut self, block: NonNull<u8>) {
        // SAFETY: the tree hands over the block of a node that it has replaced.
        unsafe { self.dead.push::<K, S>(block) };
    }
}

impl<K: Key, V, R: Reclaim, A: NodeAlloc + Clone + Send + 'static, S: Shape, F> Drop
    for Deferred<'_, K, V, R, A, S, F>
{
    fn drop(&mut self) {
        let dead = core::mem::take(&mut self.dead);
        if !dead.is_empty() {
            self.announce();
            let alloc = self.alloc.clone();
            // SAFETY: the tree no longer leads to the nodes, which came from this allocator.
            unsafe { self.reclaim.retire(move || dead.free::<K, S>(&alloc)) };
        }
    }
}

impl<K, V, R, A, L, S> Writer<'_, K, V, R, A, L, S>
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

    /// Reserves what a plan needs and carries it out.
    fn carry_out(
        &mut self,
        plan: Plan<K, S>,
        displaced: impl FnMut(K, K, Word),
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
        let mut sink = Deferred::<K, V, R, A, S, _> {
            reclaim,
            alloc,
            dead: DeadNodes::new(),
            displaced,
            announced: false,
            marker: PhantomData,
        };
        // SAFETY: this is the only writer; the plan was just made; its nodes are reserved; its word is a value's or NULL;
        // the tree is in RCU mode.
        unsafe { raw.apply(plan, &mut reserve, &mut sink) }
        Ok(())
    }

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
        let Some((first, last)) = inclusive(&range) else {
            return Err(InsertError::EmptyRange(value));
        };
        let found = self.tree.raw.lookup(first);
        if !found.word.is_null() || found.last < last {
            return Err(InsertError::Occupied(value));
        }
        let raw = value.into_raw();
        let plan = self.tree.raw.plan_store(first, last, raw.as_ptr());
        // SAFETY: the word was made just now, and was not stored.
        self.carry_out(plan, |_, _, _| {})
            .map_err(|_| InsertError::Alloc(unsafe { V::from_raw(raw) }))
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
        self.store_range_with(range, value, |_, _| {})
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
        let Some((first, last)) = inclusive(&range) else {
            return Err(StoreError::EmptyRange(value));
        };
        let raw = value.into_raw();
        let plan = self.tree.raw.plan_store(first, last, raw.as_ptr());
        if plan.splits {
            // SAFETY: the word was made just now, and was not stored.
            return Err(StoreError::Splits(unsafe { V::from_raw(raw) }));
        }
        self.carry_out(plan, Self::shown(displaced))
            // SAFETY: as above.
            .map_err(|_| StoreError::Alloc(unsafe { V::from_raw(raw) }))
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
        let Some((first, last)) = inclusive(&range) else {
            return Err(StoreError::EmptyRange(value));
        };
        let raw = value.into_raw();
        self.store_splitting(first, last, raw.as_ptr(), split)
            .map_err(|error| {
                // SAFETY: the word was made just now, and was not stored.
                let value = unsafe { V::from_raw(raw) };
                match error {
                    EraseError::Splits => StoreError::Splits(value),
                    EraseError::Alloc => StoreError::Alloc(value),
                    EraseError::EmptyRange => StoreError::EmptyRange(value),
                }
            })
    }

    fn store_splitting(
        &mut self,
        first: K,
        last: K,
        word: Word,
        split: impl FnOnce(RangeInclusive<K>, V::Ref<'_>) -> Option<V>,
    ) -> Result<(), EraseError> {
        let mut plan = self.tree.raw.plan_store(first, last, word);
        let mut twin = None;
        if plan.splits
            && let Some(above) = plan.items.last_mut()
        {
            let range = last.wrapping_add(K::ONE)..=above.last;
            // SAFETY: the word is in the tree, which is not changed while the closure has the view.
            let value = unsafe { view::<V>(above.word) };
            let made = value
                .and_then(|value| split(range, value))
                .ok_or(EraseError::Splits)?;
            let raw = made.into_raw();
            above.word = raw.as_ptr();
            twin = Some(raw);
        }
        self.carry_out(plan, |_, _, _| {}).map_err(|AllocError| {
            if let Some(raw) = twin {
                // SAFETY: the word was made above, and was not stored.
                drop(unsafe { V::from_raw(raw) });
            }
            EraseError::Alloc
        })
    }

    /// Makes `range` a hole, and retires the entries within it. Entries that overlap one end of it keep what is outside.
    ///
    /// # Errors
    ///
    /// If the range lies strictly within one entry, if there is no memory, or if the range is empty. Nothing has changed
    /// then.
    pub fn erase_range(&mut self, range: impl RangeBounds<K>) -> Result<(), EraseError> {
        self.erase_range_with(range, |_, _| {})
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
        let (first, last) = inclusive(&range).ok_or(EraseError::EmptyRange)?;
        let plan = self.tree.raw.plan_store(first, last, NULL);
        if plan.splits {
            return Err(EraseError::Splits);
        }
        self.carry_out(plan, Self::shown(displaced))
            .map_err(|AllocError| EraseError::Alloc)
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
        let (first, last) = inclusive(&range).ok_or(EraseError::EmptyRange)?;
        self.store_splitting(first, last, NULL, split)
    }

    /// Removes the whole entry at `key`, retires its value, and gives its range. O(log n).
    ///
    /// # Errors
    ///
    /// If there is no memory; the entry is still there then.
    pub fn remove(&mut self, key: K) -> Result<Option<RangeInclusive<K>>, AllocError> {
        let found = self.tree.raw.lookup(key);
        if found.word.is_null() {
            return Ok(None);
        }
        let plan = self.tree.raw.plan_store(found.first, found.last, NULL);
        self.carry_out(plan, |_, _, _| {})?;
        Ok(Some(found.first..=found.last))
    }

    /// Exchanges the value of the entry at `key`, whose range stays as it is, with one store, and retires the old one.
    ///
    /// # Errors
    ///
    /// The value comes back if there is no entry, or if there is no memory (which is needed only for an entry that is the only one,
    /// at index 0, and whose word cannot stand alone in a root).
    pub fn replace(&mut self, key: K, value: V) -> Result<(), V> {
        let found = self.tree.raw.lookup(key);
        if found.word.is_null() {
            return Err(value);
        }
        let new = value.into_raw();
        let plan = self
            .tree
            .raw
            .plan_store(found.first, found.last, new.as_ptr());
        // SAFETY: the word was made just now, and was not stored.
        self.carry_out(plan, |_, _, _| {})
            .map_err(|AllocError| unsafe { V::from_raw(new) })
    }

    /// Lets the entry at `key` grow to `range`, which contains all that it covers now. Other entries within the range are
    /// retired, entries that overlap one end of it keep what is outside.
    ///
    /// # Errors
    ///
    /// If there is no memory. `Ok(false)`, with nothing changed, if there is no entry at `key`, or `range` does not contain
    /// its range.
    pub fn grow(&mut self, key: K, range: impl RangeBounds<K>) -> Result<bool, AllocError> {
        let found = self.tree.raw.lookup(key);
        let Some((first, last)) = inclusive(&range) else {
            return Ok(false);
        };
        if found.word.is_null() || found.first < first || last < found.last {
            return Ok(false);
        }
        let plan = self.tree.raw.plan_store(first, last, found.word);
        self.carry_out_keeping(plan, found.first)?;
        Ok(true)
    }

    /// As `carry_out`, for an entry that is stored over itself: the one that began at `kept` is not retired.
    fn carry_out_keeping(&mut self, plan: Plan<K, S>, kept: K) -> Result<(), AllocError> {
        struct Keeping<K, T> {
            inner: T,
            kept: K,
        }
        impl<K: Key, T: Sink<K>> Sink<K> for Keeping<K, T> {
            fn entry(&mut self, first: K, last: K, word: Word) {
                if first != self.kept {
                    self.inner.entry(first, last, word);
                }
            }
            fn node(&mut self, block: NonNull<u8>) {
                self.inner.node(block);
            }
        }
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
        let inner = Deferred::<K, V, R, A, S, _> {
            reclaim,
            alloc,
            dead: DeadNodes::new(),
            displaced: |_, _, _| {},
            announced: false,
            marker: PhantomData,
        };
        // SAFETY: as in `carry_out`.
        unsafe { raw.apply(plan, &mut reserve, &mut Keeping { inner, kept }) }
        Ok(())
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

impl<K, V, R, A, L, S> fmt::Debug for SyncMapleTree<K, V, R, A, L, S>
where
    K: Key,
    V: Value + Send + Sync + 'static,
    for<'a> V::Ref<'a>: fmt::Debug,
    R: Reclaim,
    A: NodeAlloc + Clone + Send + 'static,
    L: RawMutex,
    S: Shape,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.read().iter()).finish()
    }
}

//! The exclusive face: a map from ranges to values, with the conventions of `BTreeMap`.

use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::{RangeBounds, RangeInclusive};
use core::ptr::{self, NonNull};

use crate::alloc::{Global, NodeAlloc};
use crate::bounds::inclusive;
use crate::check::Damage;
use crate::cursor::{Cursor, CursorMut, Reserved};
use crate::dump::{Dump, Format};
use crate::dup::{CloneError, CopyWith};
use crate::error::{EraseError, InsertError, StoreError};
use crate::gap::Want;
use crate::iter::{Holes, Iter, IterMut};
use crate::key::Key;
use crate::node::{LAYOUT, NULL, Word};
use crate::reserve::{AllocError, Reserve};
use crate::shape::{Native, Shape};
use crate::stats::Stats;
use crate::store::Sink;
use crate::store::apply::bury;
use crate::store::plan::Plan;
use crate::traverse::Traverse;
use crate::tree::{RawTree, Root, flags};
use crate::value::Value;
use crate::write::{self, Host, Lowest, view};

/// A map from ranges of `K` to values, which never overlap.
///
/// Each entry covers the indices of a range, ends included, and holds one value that is one pointer wide
/// (see [`Value`]). Between entries are *holes*. Entries that touch stay apart, even if they hold the same.
///
/// Writes that need memory give an error if there is none and leave the map as it was; no method
/// aborts or panics (unless dropping a value panics).
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
pub struct MapleTree<K: Key, V: Value, A: NodeAlloc = Global, S: Shape = Native> {
    raw: RawTree<K, S>,
    alloc: A,
    marker: PhantomData<V>,
}

// SAFETY: the map owns its values and its nodes; moving it to another thread moves them.
unsafe impl<K: Key, V: Value + Send, A: NodeAlloc + Send, S: Shape> Send for MapleTree<K, V, A, S> {}
// SAFETY: through a shared map values can only be viewed.
unsafe impl<K: Key, V: Value + Sync, A: NodeAlloc + Sync, S: Shape> Sync for MapleTree<K, V, A, S> {}

/// Frees nodes at once, and hands entries to a closure.
struct Immediate<'a, A, F> {
    alloc: &'a A,
    entry: F,
}

impl<K, A: NodeAlloc, F: FnMut(K, K, Word)> Sink<K> for Immediate<'_, A, F> {
    #[inline]
    fn entry(&mut self, first: K, last: K, word: Word) {
        (self.entry)(first, last, word);
    }

    #[inline]
    fn node(&mut self, block: NonNull<u8>) {
        // SAFETY: the tree's nodes come from this allocator; this one has been replaced, and there are no
        // other users of a tree that is exclusively borrowed.
        unsafe { self.alloc.deallocate(block, LAYOUT) }
    }
}

impl<K: Key, V: Value, A: NodeAlloc, S: Shape> Host<K, V, S> for MapleTree<K, V, A, S> {
    #[inline]
    fn tree(&self) -> &RawTree<K, S> {
        &self.raw
    }

    #[inline]
    fn carry_out(
        &mut self,
        plan: Plan<K, S>,
        entry: impl FnMut(K, K, Word),
    ) -> Result<(), AllocError> {
        let mut reserve = Reserve::new();
        if let Err(error) = reserve.fill(plan.nodes, &self.alloc) {
            reserve.release(&self.alloc);
            return Err(error);
        }
        self.carry_out_with(plan, &mut reserve, entry);
        Ok(())
    }

    fn carry_out_keeping(
        &mut self,
        plan: Plan<K, S>,
        kept: K,
        mut entry: impl FnMut(K, K, Word),
    ) -> Result<(), AllocError> {
        self.carry_out(plan, |first, last, word| {
            // The entry itself is covered by its own range, and stays.
            if first != kept {
                entry(first, last, word);
            }
        })
    }

    fn discard(word: Word) {
        if let Some(raw) = NonNull::new(word) {
            // SAFETY: the word has been removed from the tree, which owned the value.
            drop(unsafe { V::from_raw(raw) });
        }
    }
}

impl<K: Key, V: Value, A: NodeAlloc, S: Shape> Reserved<K, V, S> for MapleTree<K, V, A, S> {
    #[inline]
    fn carry_out_with(
        &mut self,
        plan: Plan<K, S>,
        reserve: &mut Reserve,
        entry: impl FnMut(K, K, Word),
    ) {
        let mut sink = Immediate {
            alloc: &self.alloc,
            entry,
        };
        // SAFETY: `self` is exclusively borrowed, so that there are no other writers and no readers;
        // the plan was just made; its nodes are reserved; its word is a value's or NULL.
        unsafe { self.raw.apply(plan, reserve, &mut sink) }
    }
}

impl<K: Key, V: Value, S: Shape> MapleTree<K, V, Global, S> {
    const_unless_loom! {
        /// An empty map. Allocates nothing.
        #[must_use]
        pub const fn new() -> Self {
            Self::new_in(Global)
        }
    }

    const_unless_loom! {
        /// An empty map that keeps the sizes of its holes, so that a gap is found in O(log n). Its inner nodes have
        /// fewer slots, and writes take a little longer. Allocates nothing.
        #[must_use]
        pub const fn with_gaps() -> Self {
            Self::with_gaps_in(Global)
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

    /// Whether the map keeps the sizes of its holes.
    pub fn tracks_gaps(&self) -> bool {
        self.raw.tracks_gaps()
    }

    /// Whether there are no entries. O(1).
    pub fn is_empty(&self) -> bool {
        matches!(self.raw.root(), Root::Empty)
    }

    /// How many entries there are. O(n): they are counted.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Levels of nodes: 0 for an empty map, and for one whose only entry covers just index 0.
    pub fn height(&self) -> usize {
        self.raw.height() as usize
    }

    // ----- looking -------------------------------------------------------------------------

    /// The value at `key`. O(log n).
    #[inline]
    pub fn get(&self, key: K) -> Option<V::Ref<'_>> {
        // SAFETY: words in the tree are values, and `self` is borrowed for the view.
        unsafe { view::<V>(self.raw.load(key)) }
    }

    /// Whether `key` is within an entry. O(log n).
    #[inline]
    pub fn contains(&self, key: K) -> bool {
        !self.raw.load(key).is_null()
    }

    /// The value at `key`, to be changed. O(log n).
    #[inline]
    pub fn get_mut(&mut self, key: K) -> Option<V::Mut<'_>> {
        // SAFETY: words in the tree are values, and `self` is exclusively borrowed for the view.
        NonNull::new(self.raw.load(key)).map(|raw| unsafe { V::borrow_mut(raw) })
    }

    /// The entry at `key`, with its range. O(log n).
    #[inline]
    pub fn get_range(&self, key: K) -> Option<(RangeInclusive<K>, V::Ref<'_>)> {
        let found = self.raw.lookup(key);
        // SAFETY: as in `get`.
        let value = unsafe { view::<V>(found.word) }?;
        Some((found.first..=found.last, value))
    }

    /// The entry at `key`, with its range, to be changed. O(log n).
    pub fn get_range_mut(&mut self, key: K) -> Option<(RangeInclusive<K>, V::Mut<'_>)> {
        let found = self.raw.lookup(key);
        // SAFETY: as in `get_mut`.
        let value = NonNull::new(found.word).map(|raw| unsafe { V::borrow_mut(raw) })?;
        Some((found.first..=found.last, value))
    }

    /// The range of the hole at `key`, or `None` if an entry is there. O(log n).
    pub fn hole_at(&self, key: K) -> Option<RangeInclusive<K>> {
        let found = self.raw.lookup(key);
        found.word.is_null().then_some(found.first..=found.last)
    }

    /// The first entry that intersects `bounds`, with its whole range. O(log n).
    pub fn find(&self, bounds: impl RangeBounds<K>) -> Option<(RangeInclusive<K>, V::Ref<'_>)> {
        self.range(bounds).next()
    }

    /// The last entry that intersects `bounds`, with its whole range. O(log n).
    pub fn find_rev(&self, bounds: impl RangeBounds<K>) -> Option<(RangeInclusive<K>, V::Ref<'_>)> {
        self.range(bounds).next_back()
    }

    /// The first entry that intersects `bounds`, to be changed. O(log n).
    pub fn find_mut(
        &mut self,
        bounds: impl RangeBounds<K>,
    ) -> Option<(RangeInclusive<K>, V::Mut<'_>)> {
        self.range_mut(bounds).next()
    }

    /// The last entry that intersects `bounds`, to be changed. O(log n).
    pub fn find_rev_mut(
        &mut self,
        bounds: impl RangeBounds<K>,
    ) -> Option<(RangeInclusive<K>, V::Mut<'_>)> {
        self.range_mut(bounds).next_back()
    }

    /// The entry with the lowest range.
    pub fn first(&self) -> Option<(RangeInclusive<K>, V::Ref<'_>)> {
        self.iter().next()
    }

    /// The entry with the highest range.
    pub fn last(&self) -> Option<(RangeInclusive<K>, V::Ref<'_>)> {
        self.iter().next_back()
    }

    /// All entries in order, from both ends.
    pub fn iter(&self) -> Iter<'_, K, V, S> {
        self.range(..)
    }

    /// The entries that intersect `bounds`, in order, from both ends, with their whole ranges. None, if `bounds`
    /// holds no index.
    pub fn range(&self, bounds: impl RangeBounds<K>) -> Iter<'_, K, V, S> {
        Iter::new(&self.raw, Traverse::new(inclusive(&bounds)))
    }

    /// All entries in order, to be changed.
    pub fn iter_mut(&mut self) -> IterMut<'_, K, V, S> {
        self.range_mut(..)
    }

    /// The entries that intersect `bounds`, in order, to be changed.
    pub fn range_mut(&mut self, bounds: impl RangeBounds<K>) -> IterMut<'_, K, V, S> {
        IterMut::new(&mut self.raw, Traverse::new(inclusive(&bounds)))
    }

    /// A position in the map, with a range to look for.
    pub fn cursor(&self, range: impl RangeBounds<K>) -> Cursor<'_, K, V, S> {
        Cursor::new(&self.raw, inclusive(&range))
    }

    /// A position in the map that changes it, with a range to look for or to store at.
    pub fn cursor_mut(&mut self, range: impl RangeBounds<K>) -> CursorMut<'_, K, V, A, S>
    where
        A: Clone,
    {
        let alloc = self.alloc.clone();
        CursorMut::new(self, alloc, inclusive(&range))
    }

    /// The holes that intersect `bounds`, in order, each with its whole range. O(log n) for each.
    pub fn holes(&self, bounds: impl RangeBounds<K>) -> Holes<'_, K, S> {
        Holes::new(&self.raw, inclusive(&bounds))
    }

    // ----- gaps ----------------------------------------------------------------------------

    /// The lowest index at which `size` indices in a row are free, all of them within `bounds`.
    /// O(log n) if the map [tracks gaps](MapleTree::with_gaps), else O(n). `None` also if `size` is 0.
    pub fn gap_up(&self, bounds: impl RangeBounds<K>, size: K) -> Option<K> {
        self.gap_up_aligned(bounds, size, K::ONE, K::MIN)
    }

    /// The highest index at which `size` indices in a row are free, all of them within `bounds`.
    /// O(log n) if the map [tracks gaps](MapleTree::with_gaps), else O(n). `None` also if `size` is 0.
    pub fn gap_down(&self, bounds: impl RangeBounds<K>, size: K) -> Option<K> {
        self.gap_down_aligned(bounds, size, K::ONE, K::MIN)
    }

    /// As [`gap_up`](MapleTree::gap_up), of the indices that are a multiple of `align` plus `offset`. `None` also if
    /// `align` is 0 or `offset` not below it.
    ///
    /// Gaps that are large enough and not aligned are looked at one by one.
    pub fn gap_up_aligned(
        &self,
        bounds: impl RangeBounds<K>,
        size: K,
        align: K,
        offset: K,
    ) -> Option<K> {
        self.raw
            .gap_up(&Want::new(inclusive(&bounds)?, size, align, offset)?)
    }

    /// As [`gap_down`](MapleTree::gap_down), of the indices that are a multiple of `align` plus `offset`. `None` also
    /// if `align` is 0 or `offset` not below it.
    ///
    /// Gaps that are large enough and not aligned are looked at one by one.
    pub fn gap_down_aligned(
        &self,
        bounds: impl RangeBounds<K>,
        size: K,
        align: K,
        offset: K,
    ) -> Option<K> {
        self.raw
            .gap_down(&Want::new(inclusive(&bounds)?, size, align, offset)?)
    }

    // ----- changing ------------------------------------------------------------------------

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

    /// Stores `value` at the one index `key`, if that is in a hole. O(log n).
    ///
    /// # Errors
    ///
    /// As [`insert_range`](MapleTree::insert_range).
    pub fn insert(&mut self, key: K, value: V) -> Result<(), InsertError<V>> {
        self.insert_range(key..=key, value)
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

    /// Stores `value` at `range`. Entries within the range are dropped, entries that overlap one end of
    /// it keep what is outside.
    ///
    /// # Errors
    ///
    /// The value comes back if the range lies strictly within one entry (which would have to be on both sides; see
    /// [`store_range_splitting`](MapleTree::store_range_splitting)), if there is no memory, or if the
    /// range is empty.
    pub fn store_range(
        &mut self,
        range: impl RangeBounds<K>,
        value: V,
    ) -> Result<(), StoreError<V>> {
        write::store(self, inclusive(&range), value, |_, _, word| {
            Self::discard(word)
        })
    }

    /// As [`store_range`](MapleTree::store_range); hands the entries within the range to `displaced`, in no
    /// particular order, with the ranges that they had.
    ///
    /// # Errors
    ///
    /// As [`store_range`](MapleTree::store_range).
    pub fn store_range_with(
        &mut self,
        range: impl RangeBounds<K>,
        value: V,
        displaced: impl FnMut(RangeInclusive<K>, V),
    ) -> Result<(), StoreError<V>> {
        write::store(self, inclusive(&range), value, Self::owned(displaced))
    }

    /// As [`store_range`](MapleTree::store_range); if the range lies strictly within an entry, the part above gets
    /// the value that `split` makes from that entry and the range of that part.
    ///
    /// # Errors
    ///
    /// The value comes back if there is no memory, if the range is empty, or (as
    /// [`StoreError::Splits`]) if `split` gives `None`.
    pub fn store_range_splitting(
        &mut self,
        range: impl RangeBounds<K>,
        value: V,
        split: impl FnOnce(RangeInclusive<K>, V::Ref<'_>) -> Option<V>,
    ) -> Result<(), StoreError<V>> {
        write::store_splitting(self, inclusive(&range), value, split)
    }

    /// Turns a taker of values into a taker of words.
    fn owned(mut take: impl FnMut(RangeInclusive<K>, V)) -> impl FnMut(K, K, Word) {
        move |first, last, word| {
            if let Some(raw) = NonNull::new(word) {
                // SAFETY: the word has been removed from the tree, which owned the value.
                take(first..=last, unsafe { V::from_raw(raw) });
            }
        }
    }

    /// Makes `range` a hole. Entries within it are dropped, entries that overlap one end of it keep
    /// what is outside.
    ///
    /// # Errors
    ///
    /// If the range lies strictly within one entry, if there is no memory (joining nodes that have become too small
    /// may take some), or if the range is empty. Nothing has changed then.
    pub fn erase_range(&mut self, range: impl RangeBounds<K>) -> Result<(), EraseError> {
        write::erase(self, inclusive(&range), |_, _, word| Self::discard(word))
    }

    /// As [`erase_range`](MapleTree::erase_range); hands the entries within the range to `displaced`, in no particular
    /// order, with the ranges that they had.
    ///
    /// # Errors
    ///
    /// As [`erase_range`](MapleTree::erase_range).
    pub fn erase_range_with(
        &mut self,
        range: impl RangeBounds<K>,
        displaced: impl FnMut(RangeInclusive<K>, V),
    ) -> Result<(), EraseError> {
        write::erase(self, inclusive(&range), Self::owned(displaced))
    }

    /// As [`erase_range`](MapleTree::erase_range); if the range lies strictly within an entry, the part above gets the
    /// value that `split` makes from that entry and the range of that part.
    ///
    /// # Errors
    ///
    /// If there is no memory, if the range is empty, or (as [`EraseError::Splits`]) if `split` gives
    /// `None`.
    pub fn erase_range_splitting(
        &mut self,
        range: impl RangeBounds<K>,
        split: impl FnOnce(RangeInclusive<K>, V::Ref<'_>) -> Option<V>,
    ) -> Result<(), EraseError> {
        write::erase_splitting(self, inclusive(&range), split)
    }

    /// Removes the whole entry at `key`, and gives its range and value. O(log n).
    ///
    /// # Errors
    ///
    /// If there is no memory (joining nodes that have become too small may take some); the entry is still there
    /// then.
    pub fn remove(&mut self, key: K) -> Result<Option<(RangeInclusive<K>, V)>, AllocError> {
        Ok(write::remove(self, key)?.map(|(range, raw)| {
            // SAFETY: the entry has been removed from the tree, which owned its value.
            (range, unsafe { V::from_raw(raw) })
        }))
    }

    /// Exchanges the value of the entry at `key`, whose range stays as it is, and gives the old one. O(log n).
    ///
    /// # Errors
    ///
    /// The value comes back if there is no entry. It also does if there is no memory, which is needed in one
    /// case only: the entry is the map's only one, is at index 0, and the word of the new value has a bit
    /// pattern that cannot stand alone in a root.
    pub fn replace(&mut self, key: K, value: V) -> Result<V, V> {
        // SAFETY: the tree gave the old word up.
        write::replace(self, key, value).map(|old| unsafe { V::from_raw(old) })
    }

    /// Lets the entry at `key` grow to `range`, which contains all that it covers now. Other entries within the range
    /// are handed to `displaced`, entries that overlap one end of it keep what is outside. (To let an entry shrink, erase
    /// what it is to lose.)
    ///
    /// # Errors
    ///
    /// If there is no memory. `Ok(false)`, with nothing changed, if there is no entry at `key`, or
    /// `range` does not contain its range.
    pub fn grow(
        &mut self,
        key: K,
        range: impl RangeBounds<K>,
        displaced: impl FnMut(RangeInclusive<K>, V),
    ) -> Result<bool, AllocError> {
        write::grow(self, key, inclusive(&range), Self::owned(displaced))
    }

    // ----- as a whole ----------------------------------------------------------------------

    /// Checks every rule of the structure. O(n). Meant for tests.
    ///
    /// # Errors
    ///
    /// The first rule that does not hold.
    pub fn check(&self) -> Result<(), Damage<K>> {
        self.raw.check()
    }

    /// Figures about the nodes. O(n).
    pub fn stats(&self) -> Stats {
        self.raw.stats()
    }

    /// The nodes, to be shown as text or as a graph.
    pub fn dump(&self, format: Format) -> Dump<'_, K, S> {
        Dump {
            tree: &self.raw,
            format,
        }
    }

    /// A duplicate of the map, in one pass over the nodes. `copy` is shown each entry once, in order, and gives the value that
    /// the duplicate has there, or `None` to leave the entry out.
    ///
    /// ```
    /// use maple_tree::MapleTree;
    ///
    /// let mut parent: MapleTree<u64, Box<(&str, bool)>> = MapleTree::new();
    /// parent.insert_range(0..10, Box::new(("inherited", true)))?;
    /// parent.insert_range(10..20, Box::new(("private", false)))?;
    /// let child = parent.try_clone_with(|_, area| Ok::<_, ()>(area.1.then(|| Box::new(*area))));
    /// assert_eq!(child.map_err(|_| "no memory")?.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory for a node, or with the closure's error. What had been made has been dropped.
    pub fn try_clone_with<E>(
        &self,
        copy: impl FnMut(RangeInclusive<K>, V::Ref<'_>) -> Result<Option<V>, E>,
    ) -> Result<Self, CloneError<E>>
    where
        A: Clone,
    {
        let modes = if self.raw.tracks_gaps() {
            flags::GAPS
        } else {
            0
        };
        let new = Self {
            raw: RawTree::new(modes),
            alloc: self.alloc.clone(),
            marker: PhantomData,
        };
        let mut copier = CopyWith::<_, V>::new(copy);
        // SAFETY: both maps are borrowed, so that nobody writes; they have the same modes; the copier makes words out of
        // values.
        unsafe { self.raw.dup_into(&new.raw, &new.alloc, &mut copier) }?;
        Ok(new)
    }

    /// Drops the entries for which `keep` says no. O(n), and O(log n) for each that is dropped.
    ///
    /// # Errors
    ///
    /// If there is no memory; the entries before have been looked at, the others have not.
    pub fn retain(
        &mut self,
        mut keep: impl FnMut(RangeInclusive<K>, V::Ref<'_>) -> bool,
    ) -> Result<(), AllocError> {
        let mut next = Some(K::MIN);
        while let Some(from) = next {
            let Some((range, value)) = self.find(from..) else {
                break;
            };
            next = range.end().successor();
            let first = *range.start();
            if !keep(range, value) {
                self.remove(first)?;
            }
        }
        Ok(())
    }

    /// Inserts entries until one cannot be inserted.
    ///
    /// # Errors
    ///
    /// As [`insert_range`](MapleTree::insert_range), for the first that could not be inserted; those before it have been.
    pub fn try_extend<R: RangeBounds<K>>(
        &mut self,
        entries: impl IntoIterator<Item = (R, V)>,
    ) -> Result<(), InsertError<V>> {
        for (range, value) in entries {
            self.insert_range(range, value)?;
        }
        Ok(())
    }

    /// Drops all entries and nodes. Never fails. The map keeps its mode.
    pub fn clear(&mut self) {
        let root = self.raw.root();
        self.raw.publish_root(NULL, 0);
        let mut entry = Self::owned(|_, value| drop(value));
        match root {
            Root::Empty => {}
            Root::Single(word) => entry(K::MIN, K::MIN, word),
            Root::Node(node) => {
                let mut sink = Immediate {
                    alloc: &self.alloc,
                    entry,
                };
                bury(node, K::MIN, K::MAX, (K::MIN, K::MAX), &mut sink);
            }
        }
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

impl<K: Key, V: Value, A: NodeAlloc, S: Shape> fmt::Display for MapleTree<K, V, A, S> {
    /// The nodes as text, in decimal; in hexadecimal with `{:#}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let format = if f.alternate() {
            Format::Hexadecimal
        } else {
            Format::Decimal
        };
        self.dump(format).fmt(f)
    }
}

impl<K: Key, V: Value, A: NodeAlloc, S: Shape> fmt::Debug for MapleTree<K, V, A, S>
where
    for<'a> V::Ref<'a>: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

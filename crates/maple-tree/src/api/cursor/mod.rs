//! Positions in a tree: what Linux calls a maple state.
//!
//! A cursor holds a range, `index..=last`. Before the first move the range is the caller's: what to look for, or where to
//! store. After a move it is that of the entry or hole found. See [`Status`] for what else it may stand for.

mod state;

use core::fmt;
use core::marker::PhantomData;
use core::ops::{RangeBounds, RangeInclusive};
use core::ptr::NonNull;

use crate::alloc::{AllocError, NodeAlloc, Reserve};
use crate::api::{Host, Planned, Way, not_stored, view};
use crate::base::error::error_message;
use crate::base::{EraseError, Key, Native, Ref, Shape, StoreError, Value, inclusive};
use crate::node::{NULL, RawTree, Word};
use crate::read::{Found, GapRequest};
use crate::write::SlotAt;

pub(in crate::api) use state::State;
pub use state::Status;

/// A position in a map that is not changed while the cursor exists, or (made by a
/// [`Reader`](crate::Reader)) concurrently with a writer.
///
/// ```
/// use maple_tree::{MapleTree, Status};
///
/// let mut tree: MapleTree<u64, u32> = MapleTree::new();
/// tree.insert_range(10..20, 1)?;
/// tree.insert_range(30..40, 2)?;
///
/// let mut cursor = tree.cursor(0..=0);
/// assert_eq!(cursor.find(..), Some(1));
/// assert_eq!(cursor.range(), 10..=19);
/// assert_eq!(cursor.next(..25), None); // nothing more below 25: the hole is where the search ended
/// assert_eq!((cursor.status(), cursor.range()), (Status::Overflow, 20..=29));
/// assert_eq!(cursor.next(..), Some(2));
/// assert_eq!(cursor.prev(..), Some(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Cursor<'a, K: Key, V: Value, S: Shape = Native> {
    host: &'a RawTree<K, S>,
    at: State<K, S>,
    marker: PhantomData<&'a V>,
}

/// The moves of all cursors, which differ in the lifetime of what they show.
macro_rules! moves {
    ($show:lifetime) => {
        fn show(&self, word: Word) -> Option<Ref<$show, V>> {
            // SAFETY: words in the tree are values; what lent itself for the view's life keeps them: a map, a reader, or this cursor, through which alone
            // the tree is changed.
            unsafe { view::<V>(word) }
        }

        /// [`State::seek`]. Of a limit only the end counts that the cursor goes to; one that holds nothing is beyond everything.
        #[inline(always)]
        fn seek<const UP: bool, const STEPS: bool>(
            &mut self,
            limit: impl RangeBounds<K>,
            holes: bool,
        ) -> Option<Ref<$show, V>> {
            let (first, last) = inclusive(&limit).unwrap_or((K::MAX, K::MIN));
            let limit = if UP { last } else { first };
            let word = self.at.seek::<UP, STEPS>(self.host.tree(), limit, holes);
            self.show(word)
        }

        /// Returns the first index of the range.
        pub fn index(&self) -> K {
            self.at.index
        }

        /// Returns the last index of the range.
        pub fn last(&self) -> K {
            self.at.last
        }

        /// Returns the range.
        pub fn range(&self) -> RangeInclusive<K> {
            self.at.index..=self.at.last
        }

        /// Returns the meaning of the range.
        pub fn status(&self) -> Status {
            self.at.status
        }

        /// Goes back to the start, at index `key`.
        pub fn set(&mut self, key: K) {
            self.at.set(key, key);
        }

        /// Goes back to the start, with a range; an empty one is taken as its first index.
        pub fn set_range(&mut self, range: impl RangeBounds<K>) {
            self.at = State::new(inclusive(&range));
        }

        /// Goes back to the start, with the range that it has.
        pub fn reset(&mut self) {
            self.at.set(self.at.index, self.at.last);
        }

        /// Lets go of the place: the next move looks anew. [`find`](Self::find) and its like go on after (or before) the range, whatever has
        /// become of it; [`next`](Self::next) and [`prev`](Self::prev) after (or before) what is at the index by then.
        pub fn pause(&mut self) {
            self.at.pause();
        }

        /// Moves to the entry or hole at the index. O(log n), or O(1) in the same leaf.
        pub fn walk(&mut self) -> Option<Ref<$show, V>> {
            let word = self.at.walk(self.host.tree());
            self.show(word)
        }

        /// Moves to the first entry at or after the index; from an entry found before, to the next one. It starts by the end of `limit`.
        pub fn find(&mut self, limit: impl RangeBounds<K>) -> Option<Ref<$show, V>> {
            self.seek::<true, false>(limit, false)
        }

        /// As [`find`](Self::find), but stops at holes as well (and gives `None`; the range is the hole's).
        pub fn find_range(&mut self, limit: impl RangeBounds<K>) -> Option<Ref<$show, V>> {
            self.seek::<true, false>(limit, true)
        }

        /// Moves to the last entry at or before the index; from an entry found before, to the one before. It ends no lower than `limit` starts.
        pub fn find_rev(&mut self, limit: impl RangeBounds<K>) -> Option<Ref<$show, V>> {
            self.seek::<false, false>(limit, false)
        }

        /// As [`find_rev`](Self::find_rev), but stops at holes as well.
        pub fn find_range_rev(&mut self, limit: impl RangeBounds<K>) -> Option<Ref<$show, V>> {
            self.seek::<false, false>(limit, true)
        }

        /// Moves to the next entry after what is at the index, which is skipped. It starts within `limit`, of which only the end counts.
        pub fn next(&mut self, limit: impl RangeBounds<K>) -> Option<Ref<$show, V>> {
            self.seek::<true, true>(limit, false)
        }

        /// As [`next`](Self::next), but stops at holes as well.
        pub fn next_range(&mut self, limit: impl RangeBounds<K>) -> Option<Ref<$show, V>> {
            self.seek::<true, true>(limit, true)
        }

        /// Moves to the entry before what is at the index, which is skipped. It ends within `limit`, of which only the start counts.
        pub fn prev(&mut self, limit: impl RangeBounds<K>) -> Option<Ref<$show, V>> {
            self.seek::<false, true>(limit, false)
        }

        /// As [`prev`](Self::prev), but stops at holes as well.
        pub fn prev_range(&mut self, limit: impl RangeBounds<K>) -> Option<Ref<$show, V>> {
            self.seek::<false, true>(limit, true)
        }
    };
}

impl<'a, K: Key, V: Value + 'a, S: Shape> Cursor<'a, K, V, S> {
    pub(crate) fn new(host: &'a RawTree<K, S>, range: Option<(K, K)>) -> Self {
        Self {
            host,
            at: State::new(range),
            marker: PhantomData,
        }
    }

    moves!('a);
}

impl<K: Key, V: Value, S: Shape> Clone for Cursor<'_, K, V, S> {
    /// Returns another one at the same place, which moves by itself.
    ///
    /// ```
    /// let map = maple_tree::MapleTree::from([(10..20u32, 1u32), (30..40, 2)]);
    /// let mut cursor = map.cursor(..);
    /// cursor.find(..);
    /// let mut ahead = cursor.clone();
    /// assert_eq!(ahead.next(..), Some(2));
    /// assert_eq!((cursor.range(), ahead.range()), (10..=19, 30..=39));
    /// ```
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

/// No gap of the size is within the bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GapError;

error_message!(GapError, self => "no gap of this size is within the bounds");

/// A position that changes its map, `H`. See [`CursorMut`](crate::CursorMut).
#[expect(private_bounds, reason = "only the two maps of this crate are hosts")]
pub struct Writing<'h, K: Key, V: Value, S: Shape, A: NodeAlloc, H: Host<K, V, S>> {
    host: &'h mut H,
    at: State<K, S>,
    reserve: Reserve,
    marker: PhantomData<(V, fn() -> A)>,
}

impl<K: Key, V: Value, S: Shape, A: NodeAlloc, H: Host<K, V, S>> Drop
    for Writing<'_, K, V, S, A, H>
{
    fn drop(&mut self) {
        // SAFETY: the host filled it.
        unsafe { self.reserve.release(self.host.nodes()) };
    }
}

#[expect(private_bounds, reason = "only the two maps of this crate are hosts")]
impl<'h, K: Key, V: Value, S: Shape, A: NodeAlloc, H: Host<K, V, S>> Writing<'h, K, V, S, A, H> {
    pub(crate) fn new(host: &'h mut H, range: Option<(K, K)>) -> Self {
        Self {
            host,
            at: State::new(range),
            reserve: Reserve::new(),
            marker: PhantomData,
        }
    }

    fn tree(&self) -> &RawTree<K, S> {
        self.host.tree()
    }

    /// Exchanges a word of the leaf that the cursor is in; the one that was there is dropped or retired.
    #[inline(always)]
    fn exchange(&mut self, at: SlotAt<K, S>, raw: NonNull<()>) {
        let Found { first, last, .. } = at.found;
        // As in `put`.
        self.at.wrote((first, last), Some((at.path, at.slot)));
        self.host.exchange(at, raw, H::discard);
    }

    /// Makes a range, which begins in the slot `at`, hold `word` (NULL erases), and stands on it; what it covers is dropped or retired.
    fn put(
        &mut self,
        at: Option<SlotAt<K, S>>,
        (first, last): (K, K),
        word: Word,
    ) -> Result<(), EraseError> {
        let write = Planned::new(self.tree(), at, (first, last), word);
        if matches!(&write.way, Way::General(plan) if plan.splits) {
            return Err(EraseError::Splits);
        }
        let filled = self.host.fill(&mut self.reserve, write.nodes);
        filled.map_err(|AllocError| EraseError::Alloc)?;
        // Before dropping a value panics: the leaf that was looked at may be gone by then.
        self.at.wrote((first, last), write.stands());
        self.host.begins();
        let mut sink = self.host.sink(None, H::discard);
        // SAFETY: the host's promises; the write was just planned; its nodes are reserved; its word is a value's or NULL.
        unsafe { write.carry_out(self.host.tree(), &mut self.reserve, &mut sink) };
        Ok(())
    }

    /// Stores `value` at the range, over what is there: entries within it are dropped or retired, those that overlap one end of it keep what is
    /// outside. Takes no memory if [`preallocate`](Self::preallocate) has succeeded for this range, and nothing has changed since.
    ///
    /// # Errors
    ///
    /// The value comes back if the range lies strictly within one entry, or if there is no memory; nodes that could be had are kept.
    #[inline]
    pub fn store(&mut self, value: V) -> Result<(), StoreError<V>> {
        let raw = value.into_raw();
        if let Some(at) = self.at.own_entry() {
            self.exchange(at, raw);
            return Ok(());
        }
        self.store_anew(raw)
    }

    /// [`store`](Self::store) from any place. On failure the word is used up: the error has the value.
    #[inline(never)]
    fn store_anew(&mut self, raw: NonNull<()>) -> Result<(), StoreError<V>> {
        let (first, last) = (self.at.index, self.at.last);
        let at = self.at.path(self.tree());
        if let Some(at) = at {
            if at.is_entry(first, last) {
                self.exchange(at, raw);
                return Ok(());
            }
            if at.is_hole_around(last) && self.host.fill_hole(at, (first, last), raw) {
                let slot = at.slot + usize::from(at.found.first < first);
                self.at.wrote((first, last), Some((at.path, slot)));
                return Ok(());
            }
        }
        let done = self.put(at, (first, last), raw.as_ptr());
        // SAFETY: made just now; a write that fails stores nothing.
        done.map_err(|refused| not_stored(refused, unsafe { V::from_raw(raw) }))
    }

    /// Exchanges the value of the entry at the index, without restructuring. Needs no memory (except where
    /// [`MapleTree::replace`](crate::MapleTree::replace) does).
    ///
    /// # Errors
    ///
    /// The value comes back if there is no entry.
    pub fn replace(&mut self, value: V) -> Result<(), V> {
        if self.at.walk(self.host.tree()).is_null() {
            return Err(value);
        }
        self.store(value).map_err(StoreError::into_value)
    }

    /// Erases the whole entry at the index, which is dropped or retired, and gives its range. The cursor's range is then this.
    ///
    /// # Errors
    ///
    /// If there is no memory; nodes that could be had are kept for the next attempt.
    pub fn erase(&mut self) -> Result<Option<RangeInclusive<K>>, AllocError> {
        let tree = self.tree();
        let at = self.at.path(tree);
        let found = at.map_or_else(|| tree.lookup(self.at.index), |at| at.found);
        if found.word.is_null() {
            return Ok(None);
        }
        let Found { first, last, .. } = found;
        // A whole entry is not split.
        self.put(at, (first, last), NULL).map_err(|_| AllocError)?;
        Ok(Some(first..=last))
    }

    /// Sets aside the nodes that a [`store`](Self::store) at the range takes, so that it cannot fail for want of memory.
    ///
    /// # Errors
    ///
    /// If there is no memory; nodes that could be had are kept for the next attempt.
    pub fn preallocate(&mut self) -> Result<(), AllocError> {
        // Any word that is not NULL has the same plan; one that cannot stand in a root takes the most.
        let word = core::ptr::without_provenance_mut(usize::MAX - 1);
        let (tree, range) = (self.tree(), (self.at.index, self.at.last));
        let nodes = Planned::new(tree, self.at.path(tree), range, word).nodes;
        self.host.fill(&mut self.reserve, nodes)
    }

    /// Allocates in advance the nodes for `entries` stores in ascending order, after all existing
    /// entries, so that none of these stores allocates. It allocates as many as if each store left
    /// a hole before it, and with concurrent readers at least one for each. Nodes that are left
    /// over are given back when the cursor is dropped.
    ///
    /// # Errors
    ///
    /// If there is no memory; nodes that could be had are kept.
    pub fn expected_entries(&mut self, entries: usize) -> Result<(), AllocError> {
        let nodes = self.tree().bulk_nodes(entries);
        self.host.fill(&mut self.reserve, nodes)
    }

    /// Nodes set aside.
    pub fn reserved(&self) -> usize {
        self.reserve.count()
    }

    /// Finds the lowest `size` free indices in a row within `bounds`; they become the range, ready for
    /// [`store`](Self::store). O(log n) if the map tracks gaps.
    ///
    /// # Errors
    ///
    /// If there is no such gap. The cursor stays unchanged.
    pub fn empty_area(
        &mut self,
        bounds: impl RangeBounds<K>,
        size: K::Size,
    ) -> Result<(), GapError> {
        self.set_to_gap::<true>(bounds, size)
    }

    /// As [`empty_area`](Self::empty_area), the highest ones.
    ///
    /// # Errors
    ///
    /// If there is no such gap. The cursor stays unchanged.
    pub fn empty_area_rev(
        &mut self,
        bounds: impl RangeBounds<K>,
        size: K::Size,
    ) -> Result<(), GapError> {
        self.set_to_gap::<false>(bounds, size)
    }

    /// Makes the lowest gap, or the highest unless `UP`, the range.
    fn set_to_gap<const UP: bool>(
        &mut self,
        bounds: impl RangeBounds<K>,
        size: K::Size,
    ) -> Result<(), GapError> {
        let want = inclusive(&bounds)
            .and_then(|b| GapRequest::new(b, size))
            .ok_or(GapError)?;
        let first = self.tree().gap::<UP>(&want).ok_or(GapError)?;
        self.at.set(first, want.last(first));
        Ok(())
    }

    moves!('_);
}

impl<K: Key, V: Value, S: Shape, A: NodeAlloc, H: Host<K, V, S>> fmt::Debug
    for Writing<'_, K, V, S, A, H>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CursorMut")
            .field("index", &self.at.index)
            .field("last", &self.at.last)
            .field("status", &self.at.status)
            .field("reserved", &self.reserve.count())
            .finish()
    }
}

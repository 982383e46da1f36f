//! Looking things up, once for all faces: what a map, a reader and a writer show of the same tree differs in nothing but
//! how long the views last, which the borrow of `self` decides.
//!
//! The macros write the methods into each face, so that they stand in its documentation with an example that runs there. A face
//! has a method `raw` that gives its tree, whose words are values of `V` that are neither removed nor viewed exclusively while
//! `self` is borrowed.

use core::ops::RangeInclusive;
use core::ptr::NonNull;

use crate::base::{Key, Ref, Value};
use crate::node::Word;
use crate::read::Found;

/// Returns the view of a stored word.
///
/// # Safety
///
/// `word` is that of a value which is neither removed from its tree nor viewed exclusively for `'a`.
#[inline]
pub(crate) unsafe fn view<'a, V: Value + 'a>(word: Word) -> Option<Ref<'a, V>> {
    // SAFETY: the caller's promise.
    NonNull::new(word).map(|raw| unsafe { V::borrow(raw) })
}

/// Returns an entry with the range that it has in the tree.
///
/// # Safety
///
/// As for [`view`].
#[inline]
pub(crate) unsafe fn entry<'a, K: Key, V: Value + 'a>(
    found: Found<K>,
) -> Option<(RangeInclusive<K>, Ref<'a, V>)> {
    // SAFETY: the caller's promise.
    Some((found.first..=found.last, unsafe { view::<V>(found.word) }?))
}

/// Entries and holes, for every face. `$iter` is what goes through the entries, made by `$new`; `$setup` are the lines of the
/// examples that make `map`, whose entries are 1 at `10..20`, 2 at `20..30` and 3 at `40..50`.
macro_rules! look_ups {
    ($iter:ident, $setup:literal) => {
        /// Returns the value at `key`. O(log n).
        ///
        /// ```
        #[doc = $setup]
        /// assert_eq!(map.get(19), Some(1));
        /// assert_eq!(map.get(30), None);
        /// ```
        #[inline]
        pub fn get(&self, key: K) -> Option<Ref<'_, V>> {
            // SAFETY: words in the tree are values, which stay while `self` is borrowed.
            unsafe { $crate::api::look_ups::view::<V>(self.raw().load(key)) }
        }

        /// Returns the values at several keys, in any order: as [`get`](Self::get) for each, in
        /// less time where the tree is larger than the processor's caches, because the look-ups
        /// wait for memory together. 8 to 32 keys at a time make the most of it. O(`N` log n).
        ///
        /// ```
        #[doc = $setup]
        /// assert_eq!(map.get_many([45, 10, 30, 20]), [Some(3), Some(1), None, Some(2)]);
        /// ```
        #[inline]
        pub fn get_many<const N: usize>(&self, keys: [K; N]) -> [Option<Ref<'_, V>>; N] {
            self.raw()
                .load_many(&keys)
                // SAFETY: as in `get`.
                .map(|word| unsafe { $crate::api::look_ups::view::<V>(word) })
        }

        /// Returns `true` if `key` is within an entry. O(log n).
        ///
        /// ```
        #[doc = $setup]
        /// assert!(map.contains(45) && !map.contains(50));
        /// ```
        #[inline]
        pub fn contains(&self, key: K) -> bool {
            !self.raw().load(key).is_null()
        }

        /// As [`contains`](Self::contains), by the name that `BTreeMap` has for it.
        #[inline]
        pub fn contains_key(&self, key: K) -> bool {
            self.contains(key)
        }

        /// Returns the entry at `key`, with its range. O(log n).
        ///
        /// ```
        #[doc = $setup]
        /// assert_eq!(map.get_range(12), Some((10..=19, 1)));
        /// ```
        #[inline]
        pub fn get_range(&self, key: K) -> Option<(RangeInclusive<K>, Ref<'_, V>)> {
            // SAFETY: as in `get`.
            unsafe { $crate::api::look_ups::entry::<K, V>(self.raw().lookup(key)) }
        }

        /// Returns the range of the hole at `key`, or `None` if an entry is there. O(log n).
        ///
        /// ```
        #[doc = $setup]
        /// assert_eq!(map.hole_at(35), Some(30..=39));
        /// assert_eq!(map.hole_at(25), None);
        /// ```
        pub fn hole_at(&self, key: K) -> Option<RangeInclusive<K>> {
            let found = self.raw().lookup(key);
            found.word.is_null().then_some(found.first..=found.last)
        }

        /// Returns `true` if there are no entries. O(1).
        pub fn is_empty(&self) -> bool {
            matches!(self.raw().root(), $crate::node::tree::Root::Empty)
        }

        /// Returns the number of entries. O(n): they are counted.
        ///
        /// ```
        #[doc = $setup]
        /// assert_eq!(map.len(), 3);
        /// ```
        pub fn len(&self) -> usize {
            self.iter().count()
        }

        /// Returns the first entry that intersects `bounds`, with its whole range. O(log n).
        ///
        /// ```
        #[doc = $setup]
        /// assert_eq!(map.find(25..), Some((20..=29, 2)));
        /// ```
        pub fn find(&self, bounds: impl RangeBounds<K>) -> Option<(RangeInclusive<K>, Ref<'_, V>)> {
            let bounds = inclusive(&bounds)?;
            // SAFETY: as in `get`.
            unsafe { $crate::api::look_ups::entry::<K, V>(self.raw().find::<true>(bounds)?) }
        }

        /// Returns the last entry that intersects `bounds`, with its whole range. O(log n).
        ///
        /// ```
        #[doc = $setup]
        /// assert_eq!(map.find_rev(..40), Some((20..=29, 2)));
        /// ```
        pub fn find_rev(
            &self,
            bounds: impl RangeBounds<K>,
        ) -> Option<(RangeInclusive<K>, Ref<'_, V>)> {
            let bounds = inclusive(&bounds)?;
            // SAFETY: as in `get`.
            unsafe { $crate::api::look_ups::entry::<K, V>(self.raw().find::<false>(bounds)?) }
        }

        /// Shows the entry at `key`, or else the first one above it, and those that follow, upwards, with their whole ranges, until `show`
        /// breaks. For a few entries: less has to be set up than for [`range`](Self::range). O(log n) to begin, then
        /// O(1) for each, amortised.
        ///
        /// ```
        #[doc = $setup]
        /// use std::ops::ControlFlow::{Break, Continue};
        ///
        /// // The first entry that ends above 30, and how many come before.
        /// let mut before = 0;
        /// let found = map.visit_from(12, |range, value| {
        ///     if *range.end() > 30 {
        ///         return Break((range, value));
        ///     }
        ///     before += 1;
        ///     Continue(())
        /// });
        /// assert_eq!((before, found), (2, Break((40..=49, 3))));
        /// ```
        #[inline(always)]
        pub fn visit_from<'a, B>(
            &'a self,
            key: K,
            mut show: impl FnMut(RangeInclusive<K>, Ref<'a, V>) -> ControlFlow<B>,
        ) -> ControlFlow<B> {
            self.raw().visit_up(key, |found| {
                // SAFETY: as in `get`.
                match unsafe { $crate::api::look_ups::entry::<K, V>(found) } {
                    Some((range, value)) => show(range, value),
                    None => ControlFlow::Continue(()),
                }
            })
        }

        /// Returns the entry with the lowest range. O(log n).
        ///
        /// ```
        #[doc = $setup]
        /// assert_eq!(map.first(), Some((10..=19, 1)));
        /// ```
        pub fn first(&self) -> Option<(RangeInclusive<K>, Ref<'_, V>)> {
            self.find(..)
        }

        /// Returns the entry with the highest range. O(log n).
        ///
        /// ```
        #[doc = $setup]
        /// assert_eq!(map.last(), Some((40..=49, 3)));
        /// ```
        pub fn last(&self) -> Option<(RangeInclusive<K>, Ref<'_, V>)> {
            self.find_rev(..)
        }

        /// Returns all entries in order, from both ends. O(1) for each, amortised.
        ///
        /// ```
        #[doc = $setup]
        /// assert_eq!(map.iter().map(|(_, value)| value).collect::<Vec<_>>(), [1, 2, 3]);
        /// ```
        pub fn iter(&self) -> $iter<'_, K, V, S> {
            self.range(..)
        }

        /// Returns the entries that intersect `bounds`, in order, from both ends, with their whole
        /// ranges. None, if `bounds` holds no index. O(log n) to begin, then O(1) for each,
        /// amortised.
        ///
        /// ```
        #[doc = $setup]
        /// let mut some = map.range(25..45);
        /// assert_eq!(some.next_back(), Some((40..=49, 3)));
        /// assert_eq!(some.next(), Some((20..=29, 2)));
        /// assert_eq!(some.next(), None);
        /// ```
        pub fn range(&self, bounds: impl RangeBounds<K>) -> $iter<'_, K, V, S> {
            $iter::new(self.raw(), inclusive(&bounds))
        }

        /// As [`range`](Self::range), of each entry the part that is within `bounds`.
        ///
        /// ```
        #[doc = $setup]
        /// assert_eq!(map.range_clipped(25..45).collect::<Vec<_>>(), [(25..=29, 2), (40..=44, 3)]);
        /// ```
        pub fn range_clipped(
            &self,
            bounds: impl RangeBounds<K>,
        ) -> $crate::Clipped<$iter<'_, K, V, S>, K> {
            let bounds = inclusive(&bounds);
            $crate::Clipped::new($iter::new(self.raw(), bounds), bounds)
        }

        /// Returns the entries that a store or an erasure at `range` only shortens, with their
        /// whole ranges: the one that reaches into it from below, and the one that goes on above
        /// it. They are the same entry if that is around the range. O(log n).
        ///
        /// ```
        #[doc = $setup]
        /// assert_eq!(map.shortened_by(15..45), (Some((10..=19, 1)), Some((40..=49, 3))));
        /// assert_eq!(map.shortened_by(20..25), (None, Some((20..=29, 2))));
        /// ```
        pub fn shortened_by(
            &self,
            range: impl RangeBounds<K>,
        ) -> (
            Option<(RangeInclusive<K>, Ref<'_, V>)>,
            Option<(RangeInclusive<K>, Ref<'_, V>)>,
        ) {
            let Some((first, last)) = inclusive(&range) else {
                return (None, None);
            };
            let below = self
                .get_range(first)
                .filter(|(range, _)| *range.start() < first);
            let above = self
                .get_range(last)
                .filter(|(range, _)| *range.end() > last);
            (below, above)
        }

        /// Returns `true` if an entry intersects `bounds`. O(log n).
        ///
        /// ```
        #[doc = $setup]
        /// assert!(map.overlaps(29..40) && !map.overlaps(30..40));
        /// ```
        pub fn overlaps(&self, bounds: impl RangeBounds<K>) -> bool {
            self.find(bounds).is_some()
        }

        /// Returns `true` if entries cover all of `bounds`. Empty bounds are covered. O(log n) for
        /// each entry passed.
        ///
        /// ```
        #[doc = $setup]
        /// assert!(map.covers(15..30) && !map.covers(15..31));
        /// ```
        pub fn covers(&self, bounds: impl RangeBounds<K>) -> bool {
            self.holes(bounds).next().is_none()
        }

        /// Returns the place before the first entry that ends at or after `bound` (after it, if
        /// excluded): a cursor like `BTreeMap`'s. O(log n).
        ///
        /// ```
        /// use std::ops::Bound;
        #[doc = $setup]
        /// let mut place = map.lower_bound(Bound::Included(25));
        /// assert_eq!((place.peek_prev(), place.peek_next()), (Some((10..=19, 1)), Some((20..=29, 2))));
        /// place.next();
        /// assert_eq!(place.peek_next(), Some((40..=49, 3)));
        /// ```
        pub fn lower_bound(&self, bound: Bound<K>) -> $crate::Between<'_, K, V, S> {
            $crate::Between::before(self.raw(), bound)
        }

        /// Returns the place after the last entry that begins at or before `bound` (before it, if
        /// `bound` is excluded). O(log n).
        ///
        /// ```
        /// use std::ops::Bound;
        #[doc = $setup]
        /// let mut place = map.upper_bound(Bound::Included(25));
        /// assert_eq!((place.peek_prev(), place.peek_next()), (Some((20..=29, 2)), Some((40..=49, 3))));
        /// place.prev();
        /// assert_eq!(place.prev(), Some((10..=19, 1)));
        /// ```
        pub fn upper_bound(&self, bound: Bound<K>) -> $crate::Between<'_, K, V, S> {
            $crate::Between::after(self.raw(), bound)
        }

        /// Returns the values in the order of their ranges, from both ends.
        ///
        /// ```
        #[doc = $setup]
        /// assert_eq!(map.values().sum::<u32>(), 6);
        /// ```
        pub fn values(&self) -> $crate::Values<$iter<'_, K, V, S>> {
            $crate::Values(self.iter())
        }

        /// Returns the ranges that entries cover, in order, from both ends: what the keys are to a
        /// `BTreeMap`.
        ///
        /// ```
        #[doc = $setup]
        /// assert_eq!(map.ranges().collect::<Vec<_>>(), [10..=19, 20..=29, 40..=49]);
        /// ```
        pub fn ranges(&self) -> $crate::Ranges<$iter<'_, K, V, S>> {
            $crate::Ranges(self.iter())
        }

        /// Returns the holes that intersect `bounds`, in order, with their whole ranges. O(log n)
        /// for each entry or hole passed.
        ///
        /// ```
        #[doc = $setup]
        /// assert_eq!(map.holes(..50).collect::<Vec<_>>(), [0..=9, 30..=39]);
        /// assert_eq!(map.holes(..50).rev().next(), Some(30..=39));
        /// ```
        pub fn holes(&self, bounds: impl RangeBounds<K>) -> $crate::Holes<'_, K, S> {
            $crate::Holes::new(self.raw(), inclusive(&bounds))
        }

        /// As [`holes`](Self::holes), of each hole the part that is within `bounds`.
        ///
        /// ```
        #[doc = $setup]
        /// assert_eq!(map.holes_clipped(5..35).collect::<Vec<_>>(), [5..=9, 30..=34]);
        /// ```
        pub fn holes_clipped(
            &self,
            bounds: impl RangeBounds<K>,
        ) -> $crate::Clipped<$crate::Holes<'_, K, S>, K> {
            let bounds = inclusive(&bounds);
            $crate::Clipped::new($crate::Holes::new(self.raw(), bounds), bounds)
        }
    };
}

/// Cursors over trees whose nodes know their parents. `$setup` as in [`look_ups`].
macro_rules! cursors {
    ($setup:literal) => {
        /// Returns a position in the map, with a range to look for. Each move shows what is there
        /// when it is made.
        ///
        /// ```
        #[doc = $setup]
        /// let mut cursor = map.cursor(15..);
        /// assert_eq!((cursor.find(..), cursor.next(..)), (Some(1), Some(2)));
        /// ```
        pub fn cursor(&self, range: impl RangeBounds<K>) -> $crate::Cursor<'_, K, V, S> {
            $crate::Cursor::new(self.raw(), inclusive(&range))
        }
    };
}

/// Both. `$iter` and `$setup` as in [`look_ups`].
macro_rules! views {
    ($iter:ident, $setup:literal) => {
        $crate::api::look_ups::look_ups!($iter, $setup);
        $crate::api::look_ups::cursors!($setup);
    };
}

/// [`look_ups`] by `Iter`, and what only the holder of the right to write may ask: gaps, which writers change in place, and the
/// structure. `$setup` as there, of a map that tracks gaps; `$gap` is the search.
macro_rules! surveys {
    ($gap:ident, $setup:literal) => {
        $crate::api::look_ups::look_ups!(Iter, $setup);

        $crate::api::look_ups::gaps! {
            $gap, true, gap_up, gap_up_aligned, "lowest", $setup,
            "assert_eq!(map.gap_up(5.., 10), Some(30));",
            "assert_eq!(map.gap_up_aligned(5.., 4, 16, 0), Some(32));"
        }

        $crate::api::look_ups::gaps! {
            $gap, false, gap_down, gap_down_aligned, "highest", $setup,
            "assert_eq!(map.gap_down(..50, 4), Some(36));",
            "assert_eq!(map.gap_down_aligned(..40, 4, 16, 1), Some(33));"
        }

        /// Returns `true` if the map keeps the sizes of its holes. O(1).
        pub fn tracks_gaps(&self) -> bool {
            self.raw().tracks_gaps()
        }

        /// Levels of nodes: 0 for an empty map, and for one whose only entry covers just index 0. O(1).
        pub fn height(&self) -> usize {
            self.raw().height() as usize
        }

        /// Figures about the nodes. O(n).
        pub fn stats(&self) -> $crate::Stats {
            self.raw().stats()
        }

        /// Returns the nodes, to be shown as text or as a graph. O(n).
        pub fn dump(&self, format: $crate::Format) -> $crate::Dump<'_, K, S> {
            let tree = self.raw();
            $crate::Dump { tree, format }
        }
    };
}

/// Searching for a gap from one end, `$up` or down: `$name`, and `$aligned`. `$which` index it gives; the others are for the examples.
macro_rules! gaps {
    (
        $gap:ident, $up:literal, $name:ident, $aligned:ident, $which:literal, $setup:literal,
        $finds:literal, $finds_aligned:literal
    ) => {
        #[doc = concat!("The ", $which, " index at which `size` indices in a row are free, all of them within `bounds`.")]
        /// O(log n) if the map [tracks gaps](Self::tracks_gaps), else O(n). `None` also if `size` is 0.
        ///
        /// ```
        #[doc = $setup]
        #[doc = $finds]
        /// ```
        #[inline(always)]
        pub fn $name(&self, bounds: impl RangeBounds<K>, size: K::Size) -> Option<K> {
            let bounds = inclusive(&bounds)?;
            let want = $crate::read::gap::GapRequest::new(bounds, size)?;
            self.raw().$gap::<$up>(&want)
        }

        #[doc = concat!("As [`", stringify!($name), "`](Self::", stringify!($name), "), of the indices that are a multiple of `align` plus `offset`.")]
        /// `None` also if `align` is 0 or `offset` not below it.
        ///
        /// Gaps that are large enough and not aligned are looked at one by one.
        ///
        /// ```
        #[doc = $setup]
        #[doc = $finds_aligned]
        /// ```
        pub fn $aligned(
            &self,
            bounds: impl RangeBounds<K>,
            size: K::Size,
            align: K::Size,
            offset: K::Size,
        ) -> Option<K> {
            let bounds = inclusive(&bounds)?;
            let want = $crate::read::gap::GapRequest::aligned(bounds, size, align, offset)?;
            self.raw().$gap::<$up>(&want)
        }
    };
}

/// All queries of a writer of a tree whose nodes know their parents. `$setup` is as above.
macro_rules! all_asked {
    ($setup:literal) => {
        $crate::api::look_ups::surveys!(gap, $setup);
        $crate::api::look_ups::cursors!($setup);

        /// Checks every rule of the structure. O(n). Meant for tests.
        ///
        /// # Errors
        ///
        /// The first rule that does not hold.
        pub fn check(&self) -> Result<(), $crate::Damage<K>> {
            self.raw().check()
        }
    };
}

pub(crate) use {all_asked, cursors, gaps, look_ups, surveys, views};

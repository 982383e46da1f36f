//! Positions in a tree: what Linux calls a maple state.
//!
//! A cursor holds a range, `index..=last`. Before the first move the range is the caller's: what to look for, or where to
//! store. After a move it is that of the entry or hole found. See [`Status`] for what else it may stand for.

mod state;
mod write;

use core::marker::PhantomData;
use core::ops::{RangeBounds, RangeInclusive};

use crate::base::{Key, Native, Ref, Shape, Value, inclusive};
use crate::face::look_ups::view;
use crate::node::{RawTree, Word};

pub(in crate::face) use state::State;
pub use state::Status;
pub use write::{GapError, Writing};

/// A position in a map that is not changed meanwhile, or (made by a [`Reader`](crate::Reader)) beside a writer.
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

        /// The first index of the range.
        pub fn index(&self) -> K {
            self.at.index
        }

        /// The last index of the range.
        pub fn last(&self) -> K {
            self.at.last
        }

        /// The range.
        pub fn range(&self) -> RangeInclusive<K> {
            self.at.index..=self.at.last
        }

        /// What the range stands for.
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

        /// To the entry or hole at the index. O(log n), or O(1) in the same leaf.
        pub fn walk(&mut self) -> Option<Ref<$show, V>> {
            let word = self.at.walk(self.host.tree());
            self.show(word)
        }

        /// To the first entry at or after the index; from an entry found before, to the next one. It starts by the end of `limit`.
        pub fn find(&mut self, limit: impl RangeBounds<K>) -> Option<Ref<$show, V>> {
            self.seek::<true, false>(limit, false)
        }

        /// As [`find`](Self::find), but stops at holes as well (and gives `None`; the range is the hole's).
        pub fn find_range(&mut self, limit: impl RangeBounds<K>) -> Option<Ref<$show, V>> {
            self.seek::<true, false>(limit, true)
        }

        /// To the last entry at or before the index; from an entry found before, to the one before. It ends no lower than `limit` starts.
        pub fn find_rev(&mut self, limit: impl RangeBounds<K>) -> Option<Ref<$show, V>> {
            self.seek::<false, false>(limit, false)
        }

        /// As [`find_rev`](Self::find_rev), but stops at holes as well.
        pub fn find_range_rev(&mut self, limit: impl RangeBounds<K>) -> Option<Ref<$show, V>> {
            self.seek::<false, false>(limit, true)
        }

        /// To the next entry after what is at the index, which is skipped. It starts within `limit`, of which only the end counts.
        pub fn next(&mut self, limit: impl RangeBounds<K>) -> Option<Ref<$show, V>> {
            self.seek::<true, true>(limit, false)
        }

        /// As [`next`](Self::next), but stops at holes as well.
        pub fn next_range(&mut self, limit: impl RangeBounds<K>) -> Option<Ref<$show, V>> {
            self.seek::<true, true>(limit, true)
        }

        /// To the entry before what is at the index, which is skipped. It ends within `limit`, of which only the start counts.
        pub fn prev(&mut self, limit: impl RangeBounds<K>) -> Option<Ref<$show, V>> {
            self.seek::<false, true>(limit, false)
        }

        /// As [`prev`](Self::prev), but stops at holes as well.
        pub fn prev_range(&mut self, limit: impl RangeBounds<K>) -> Option<Ref<$show, V>> {
            self.seek::<false, true>(limit, true)
        }
    };
}
use moves;

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
    /// Another one at the same place, which moves by itself.
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

//! Neighbours that are equal, and entries that are to end where a range does: once for all faces.

use core::ops::ControlFlow;

use crate::api::view;
use crate::base::{Key, Offset, Ref, Shape, Value};
use crate::node::RawTree;
use crate::read::Found;

/// Several entries, each touching the one before, that are the same.
pub(crate) struct Run<K> {
    pub(crate) first: K,
    pub(crate) last: K,
    /// Entries after the first.
    pub(crate) more: usize,
}

/// Returns the first run of neighbours that are the `same`, among the entries that begin in `from ..= to`.
pub(crate) fn run<K: Key, V: Value, S: Shape>(
    tree: &RawTree<K, S>,
    (from, to): (K, K),
    same: &mut impl FnMut(Ref<'_, V>, Ref<'_, V>) -> bool,
) -> Option<Run<K>> {
    let mut run: Option<(Run<K>, Found<K>)> = None;
    let _ = tree.visit_up(from, |found| {
        if found.first > to {
            return ControlFlow::Break(());
        }
        let (first, last) = (found.first, found.last);
        if let Some((run, before)) = &mut run {
            let touches = run.last.wrapping_add(K::ONE) == first;
            // SAFETY: words in the tree are values, and the tree is not changed during the call.
            let views = unsafe { view::<V>(before.word).zip(view::<V>(found.word)) };
            if touches && views.is_some_and(|(before, after)| same(before, after)) {
                (run.last, run.more, *before) = (last, run.more + 1, found);
                return ControlFlow::Continue(());
            }
            if run.more > 0 {
                return ControlFlow::Break(());
            }
        }
        let more = 0;
        run = Some((Run { first, last, more }, found));
        ControlFlow::Continue(())
    });
    run.map(|(run, _)| run).filter(|run| run.more > 0)
}

/// The methods. `$fate` is what becomes of entries that go; `$seen` says what readers see; `$setup` are the lines of the examples that make an empty `map`.
macro_rules! equals {
    ($fate:literal, $seen:literal, $setup:literal) => {
        /// Stores `value` at `range`, over what is there, as `rangemap` does: equal neighbours become one entry with it, and an entry around the range that is
        /// not equal is split, its other part being [duplicated](crate::Duplicate). Gives the range of the entry. O(log n), and the time to give up the entries that go.
        ///
        #[doc = concat!("As [`store_range_coalescing_splitting`](Self::store_range_coalescing_splitting) without its closures. ", $seen)]
        ///
        /// ```
        #[doc = $setup]
        /// assert_eq!(map.paint(0..100, 1)?, 0..=99);
        /// assert_eq!(map.paint(40..50, 2)?, 40..=49); // splits
        /// assert_eq!(map.paint(50..60, 2)?, 40..=59); // joins
        /// assert_eq!(map.paint(40..60, 1)?, 0..=99); // joins on both sides
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ///
        /// # Errors
        ///
        /// The value comes back if there is no memory, or if the range is empty. Nothing has changed then.
        pub fn paint(
            &mut self,
            range: impl RangeBounds<K>,
            value: V,
        ) -> Result<RangeInclusive<K>, StoreError<V>>
        where
            V: $crate::Duplicate,
            for<'a> $crate::Ref<'a, V>: PartialEq,
        {
            let (range, value) = store::joined(self.raw(), inclusive(&range), value, |a, b| a == b)?;
            self.store_range_splitting(range.clone(), value, |_, around| V::duplicate(around))
                .map_err(|error| match error {
                    StoreError::Splits(value) => StoreError::Alloc(value),
                    other => other,
                })?;
            Ok(range)
        }

        #[doc = concat!("Joins entries that touch each other and are the `same`, if they are in `range` or touch it: of each run the first stays, the others are ", $fate, ".")]
        /// Gives how many went. `same` gets each two that touch, in order. O(n) in what is looked at, and O(log n) for each run.
        ///
        /// After [`merge`](crate::MapleTree::merge), or when [`range_mut`](crate::MapleTree::range_mut) has changed values, this joins what has become equal.
        ///
        /// ```
        #[doc = $setup]
        /// map.try_extend([(0..10, 1), (10..20, 1), (20..30, 2), (40..50, 2), (50..60, 2), (60..70, 2)])?;
        /// assert_eq!(map.coalesce(25..60, |a, b| a == b)?, 2);
        /// assert_eq!(map.ranges().collect::<Vec<_>>(), [0..=9, 10..=19, 20..=29, 40..=69]);
        /// assert_eq!(map.coalesce(.., |a, b| a == b)?, 1);
        /// assert_eq!(map.ranges().collect::<Vec<_>>(), [0..=19, 20..=29, 40..=69]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ///
        /// # Errors
        ///
        /// If there is no memory; the runs before have been joined, the others are as they were.
        pub fn coalesce(
            &mut self,
            range: impl RangeBounds<K>,
            mut same: impl FnMut($crate::Ref<'_, V>, $crate::Ref<'_, V>) -> bool,
        ) -> Result<usize, AllocError> {
            let Some((first, last)) = inclusive(&range) else {
                return Ok(0);
            };
            let to = last.successor().unwrap_or(last);
            let mut from = Some(first.predecessor().unwrap_or(first));
            let mut gone = 0;
            while let Some(begin) = from.filter(|&from| from <= to) {
                let run = $crate::api::equal::run::<K, V, S>(self.raw(), (begin, to), &mut same);
                let Some(run) = run else { break };
                let all = (run.first, run.last);
                self.change(Some(all), Touch::Stores, |host| {
                    store::grow(host?, run.first, Some(all), Self::discard)
                })?;
                gone += run.more;
                from = run.last.successor();
            }
            Ok(gone)
        }

        /// Makes two entries of one that reaches from below `key` to it, so that one ends and the other begins there; the upper one is
        /// [duplicated](crate::Duplicate). `false` if there is none. O(log n).
        ///
        /// To change the values of just the part of a map that is within a range, split it at both ends, change them, and [`coalesce`](Self::coalesce) if you like.
        ///
        /// ```
        #[doc = $setup]
        /// map.insert_range(0..100, 1)?;
        /// assert!(map.split_at(40)? && map.split_at(60)? && !map.split_at(60)?);
        /// assert_eq!(map.ranges().collect::<Vec<_>>(), [0..=39, 40..=59, 60..=99]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ///
        /// # Errors
        ///
        /// If there is no memory. Nothing has changed then.
        pub fn split_at(&mut self, key: K) -> Result<bool, AllocError>
        where
            V: $crate::Duplicate,
        {
            let Some((range, value)) = self.get_range(key).filter(|(range, _)| *range.start() < key) else {
                return Ok(false);
            };
            let upper = V::duplicate(value).ok_or(AllocError)?;
            self.store_range(key..=*range.end(), upper).map_err(|_| AllocError)?;
            Ok(true)
        }
    };
}

pub(crate) use equals;

//! Changes of single ranges, written once for all map types. The map types differ in what happens
//! to removed entries (dropped and handed over, or retired and shown, or given up to a snapshot),
//! and in what readers see.
//!
//! The macros write the methods into each face, so that they stand in its documentation with an example that runs there. Two faces are a
//! [`Host`](crate::api::host::Host) themselves; that whose trees share nodes makes one for each write, by its `change`.

/// Inserting, and all that asks a closure for the upper part of an entry that is split. `$fate` is what becomes of the entries that go; `$seen` says what
/// readers see. `$setup` are the lines of the examples that make an empty `map`, which tracks gaps.
macro_rules! changes {
    ($fate:literal, $seen:literal, $setup:literal) => {
        #[doc = concat!("Stores `value` at `range` if that is a hole, or part of one. ", $seen)]
        ///
        /// O(log n).
        ///
        /// ```
        #[doc = $setup]
        /// map.insert_range(10..20, 1)?;
        /// assert_eq!(map.insert_range(15..25, 2).unwrap_err().into_value(), 2);
        /// // Ends may be included, or left open.
        /// map.insert_range(30..=u32::MAX, 3)?;
        /// map.insert_range(..10, 4)?;
        /// assert_eq!(map.ranges().collect::<Vec<_>>(), [0..=9, 10..=19, 30..=u32::MAX]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ///
        /// # Errors
        ///
        /// The value comes back if an entry intersects the range, if there is no memory, or if the range is empty.
        pub fn insert_range(
            &mut self,
            range: impl RangeBounds<K>,
            value: V,
        ) -> Result<(), InsertError<V>> {
            let range = inclusive(&range);
            self.change(range, Touch::Fills, |host| match host {
                Ok(host) => store::insert(host, range, value),
                Err(_) => Err(InsertError::Alloc(value)),
            })
        }

        /// Stores `value` at the one index `key`, if that is in a hole. O(log n). Fails as [`insert_range`](Self::insert_range).
        ///
        /// ```
        #[doc = $setup]
        /// map.insert(7, 1)?;
        /// assert_eq!(map.get_range(7), Some((7..=7, 1)));
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub fn insert(&mut self, key: K, value: V) -> Result<(), InsertError<V>> {
            self.insert_range(key..=key, value)
        }

        /// As [`store_range`](Self::store_range); if the range lies strictly within an entry, the part above gets the value that `split`
        /// makes from that entry and the range of that part.
        ///
        /// ```
        #[doc = $setup]
        /// map.insert_range(0..100, 1)?;
        /// map.store_range_splitting(40..50, 2, |_, around| Some(around))?;
        /// assert_eq!(map.iter().collect::<Vec<_>>(), [(0..=39, 1), (40..=49, 2), (50..=99, 1)]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ///
        /// # Errors
        ///
        /// The value comes back if there is no memory, if the range is empty, or (as [`StoreError::Splits`]) if `split` gives `None`.
        pub fn store_range_splitting(
            &mut self,
            range: impl RangeBounds<K>,
            value: V,
            split: impl FnOnce(RangeInclusive<K>, $crate::Ref<'_, V>) -> Option<V>,
        ) -> Result<(), StoreError<V>> {
            let range = inclusive(&range);
            self.change(range, Touch::Stores, |host| match host {
                Ok(host) => store::store_splitting(host, range, value, split, Self::discard),
                Err(_) => Err(StoreError::Alloc(value)),
            })
        }

        /// As [`store_range`](Self::store_range); neighbours that touch the range, or reach into it from outside, and that are the `same` as
        #[doc = concat!("the new value, become one entry with it. Gives the range of that. The values of the neighbours are ", $fate, ", the new")]
        /// one stays. `same` gets a neighbour's value and the new one, in this order, for each of the (at most two) neighbours; an entry around the range
        /// is both. O(log n).
        /// Fails as [`store_range`](Self::store_range); within an entry that is the same, nothing is split.
        ///
        /// Nothing is ever joined unless a call asks for it; other entries, though they may touch and be equal, stay as they are.
        ///
        /// ```
        #[doc = $setup]
        /// map.try_extend([(0..10, 1), (20..30, 1), (30..40, 1)])?;
        /// assert_eq!(map.store_range_coalescing(10..20, 1, |a, b| a == b)?, 0..=29);
        /// assert_eq!(map.iter().collect::<Vec<_>>(), [(0..=29, 1), (30..=39, 1)]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub fn store_range_coalescing(
            &mut self,
            range: impl RangeBounds<K>,
            value: V,
            same: impl FnMut($crate::Ref<'_, V>, $crate::Ref<'_, V>) -> bool,
        ) -> Result<RangeInclusive<K>, StoreError<V>> {
            let (range, value) = store::joined(self.raw(), inclusive(&range), value, same)?;
            self.store_range(range.clone(), value)?;
            Ok(range)
        }

        /// As [`store_range_coalescing`](Self::store_range_coalescing); an entry around the range that is not the `same` is split as by
        /// [`store_range_splitting`](Self::store_range_splitting). So it succeeds wherever there is memory: painting a range, whatever is there.
        /// O(log n), and the time to give up the entries that go. Fails as [`store_range_splitting`](Self::store_range_splitting).
        ///
        /// ```
        #[doc = $setup]
        /// map.insert_range(0..100, 1)?;
        /// let mut paint = |range: std::ops::Range<u32>, colour| {
        ///     map.store_range_coalescing_splitting(range, colour, |a, b| a == b, |_, around| Some(around))
        /// };
        /// assert_eq!(paint(40..50, 2)?, 40..=49); // splits
        /// assert_eq!(paint(50..60, 2)?, 40..=59); // joins
        /// assert_eq!(paint(40..60, 1)?, 0..=99); // joins on both sides
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub fn store_range_coalescing_splitting(
            &mut self,
            range: impl RangeBounds<K>,
            value: V,
            same: impl FnMut($crate::Ref<'_, V>, $crate::Ref<'_, V>) -> bool,
            split: impl FnOnce(RangeInclusive<K>, $crate::Ref<'_, V>) -> Option<V>,
        ) -> Result<RangeInclusive<K>, StoreError<V>> {
            let (range, value) = store::joined(self.raw(), inclusive(&range), value, same)?;
            self.store_range_splitting(range.clone(), value, split)?;
            Ok(range)
        }

        /// As [`insert_range`](Self::insert_range); neighbours that touch the range and are the `same` as the new value become one
        /// entry with it, as for [`store_range_coalescing`](Self::store_range_coalescing). O(log n).
        ///
        /// ```
        #[doc = $setup]
        /// map.try_extend([(10..20, 1), (40..50, 3)])?;
        /// assert_eq!(map.insert_range_coalescing(30..40, 3, |a, b| a == b)?, 30..=49);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub fn insert_range_coalescing(
            &mut self,
            range: impl RangeBounds<K>,
            value: V,
            same: impl FnMut($crate::Ref<'_, V>, $crate::Ref<'_, V>) -> bool,
        ) -> Result<RangeInclusive<K>, InsertError<V>> {
            let Some((first, last)) = inclusive(&range) else {
                return Err(InsertError::EmptyRange(value));
            };
            if !store::is_free(self.raw(), (first, last)) {
                return Err(InsertError::Occupied(value));
            }
            let stored = self.store_range_coalescing(first..=last, value, same);
            stored.map_err(|error| match error {
                // Neighbours are taken in whole, so that none is split.
                StoreError::Splits(value) => InsertError::Occupied(value),
                StoreError::Alloc(value) => InsertError::Alloc(value),
                StoreError::EmptyRange(value) => InsertError::EmptyRange(value),
            })
        }

        /// As [`erase_range`](Self::erase_range); if the range lies strictly within an entry, the part above gets the value that `split`
        /// makes from that entry and the range of that part.
        ///
        /// ```
        #[doc = $setup]
        /// map.insert_range(0..100, 1)?;
        /// map.erase_range_splitting(40..50, |_, around| Some(around))?;
        /// assert_eq!(map.ranges().collect::<Vec<_>>(), [0..=39, 50..=99]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ///
        /// # Errors
        ///
        /// If there is no memory, if the range is empty, or (as [`EraseError::Splits`]) if `split` gives `None`.
        pub fn erase_range_splitting(
            &mut self,
            range: impl RangeBounds<K>,
            split: impl FnOnce(RangeInclusive<K>, $crate::Ref<'_, V>) -> Option<V>,
        ) -> Result<(), EraseError> {
            let range = inclusive(&range);
            self.change(range, Touch::Erases, |host| match host {
                Ok(host) => store::erase(host, range, split, Self::discard),
                Err(_) => Err(EraseError::Alloc),
            })
        }
    };
}

/// Further methods of the map types that are hosts themselves. `$cursor` is the cursor type that
/// changes the map. `$gone` is the form in which a closure gets a removed entry, made by `$taker`.
/// The others are as in [`changes`].
macro_rules! host_changes {
    ($cursor:ty, $gone:ty, $taker:ident, $fate:literal, $seen:literal, $setup:literal) => {
        #[doc = concat!("Stores `value` at `range`. Entries within the range are ", $fate, ", entries that overlap one end of it")]
        #[doc = concat!("keep what is outside. ", $seen)]
        ///
        /// O(log n), and the time to give up the entries that go.
        ///
        /// ```
        #[doc = $setup]
        /// map.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
        /// map.store_range(15..45, 9)?;
        /// assert_eq!(map.ranges().collect::<Vec<_>>(), [10..=14, 15..=44, 45..=49]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ///
        /// # Errors
        ///
        /// The value comes back if the range lies strictly within one entry (which would have to be on both sides; see
        /// [`store_range_splitting`](Self::store_range_splitting)), if there is no memory, or if the range is empty.
        pub fn store_range(
            &mut self,
            range: impl RangeBounds<K>,
            value: V,
        ) -> Result<(), StoreError<V>> {
            store::store(self, inclusive(&range), value, Self::discard)
        }

        /// As [`store_range`](Self::store_range); `displaced` gets the entries within the range, and their ranges, in no particular order.
        ///
        /// ```
        #[doc = $setup]
        /// map.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
        /// let mut gone = Vec::new();
        /// map.store_range_with(15..45, 9, |range, value| gone.push((range, value)))?;
        /// assert_eq!(gone, [(20..=29, 2)]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub fn store_range_with(
            &mut self,
            range: impl RangeBounds<K>,
            value: V,
            displaced: impl FnMut(RangeInclusive<K>, $gone),
        ) -> Result<(), StoreError<V>> {
            store::store(self, inclusive(&range), value, Self::$taker(displaced))
        }

        /// As [`store_range_splitting`](Self::store_range_splitting); `displaced` gets the entries within the range, and their ranges, in no
        /// particular order. Fails as [`store_range_splitting`](Self::store_range_splitting); `displaced` is not called then.
        ///
        /// ```
        #[doc = $setup]
        /// map.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
        /// let mut gone = Vec::new();
        /// map.store_range_splitting_with(15..45, 9, |_, v| Some(v), |range, value| gone.push((range, value)))?;
        /// assert_eq!(gone, [(20..=29, 2)]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub fn store_range_splitting_with(
            &mut self,
            range: impl RangeBounds<K>,
            value: V,
            split: impl FnOnce(RangeInclusive<K>, $crate::Ref<'_, V>) -> Option<V>,
            displaced: impl FnMut(RangeInclusive<K>, $gone),
        ) -> Result<(), StoreError<V>> {
            store::store_splitting(self, inclusive(&range), value, split, Self::$taker(displaced))
        }

        #[doc = concat!("Makes `range` a hole. Entries within it are ", $fate, ", entries that overlap one end of it keep")]
        #[doc = concat!("what is outside. ", $seen)]
        ///
        /// O(log n), and the time to give up the entries that go.
        ///
        /// ```
        #[doc = $setup]
        /// map.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
        /// map.erase_range(15..45)?;
        /// assert_eq!(map.ranges().collect::<Vec<_>>(), [10..=14, 45..=49]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ///
        /// # Errors
        ///
        /// If the range lies strictly within one entry (see [`erase_range_splitting`](Self::erase_range_splitting)), if there is no
        /// memory (joining nodes that have become too small may take some), or if the range is empty. Nothing has changed then.
        pub fn erase_range(&mut self, range: impl RangeBounds<K>) -> Result<(), EraseError> {
            store::erase(self, inclusive(&range), |_, _| None, Self::discard)
        }

        /// As [`erase_range`](Self::erase_range); `displaced` gets the entries within the range, and their ranges, in no particular order.
        ///
        /// ```
        #[doc = $setup]
        /// map.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
        /// let mut gone = Vec::new();
        /// map.erase_range_with(15..45, |range, value| gone.push((range, value)))?;
        /// assert_eq!(gone, [(20..=29, 2)]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub fn erase_range_with(
            &mut self,
            range: impl RangeBounds<K>,
            displaced: impl FnMut(RangeInclusive<K>, $gone),
        ) -> Result<(), EraseError> {
            store::erase(self, inclusive(&range), |_, _| None, Self::$taker(displaced))
        }

        /// As [`erase_range_splitting`](Self::erase_range_splitting); `displaced` gets the entries within the range, in no particular order, with
        /// the ranges that they had. What of others is trimmed off [`range_clipped`](Self::range_clipped) shows before.
        /// Fails as [`erase_range_splitting`](Self::erase_range_splitting); `displaced` is not called then.
        ///
        /// ```
        #[doc = $setup]
        /// map.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
        /// let pieces: Vec<_> = map.range_clipped(15..45).collect();
        /// assert_eq!(pieces, [(15..=19, 1), (20..=29, 2), (40..=44, 3)]);
        /// let mut gone = Vec::new();
        /// map.erase_range_splitting_with(15..45, |_, v| Some(v), |range, value| gone.push((range, value)))?;
        /// assert_eq!(gone, [(20..=29, 2)]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub fn erase_range_splitting_with(
            &mut self,
            range: impl RangeBounds<K>,
            split: impl FnOnce(RangeInclusive<K>, $crate::Ref<'_, V>) -> Option<V>,
            displaced: impl FnMut(RangeInclusive<K>, $gone),
        ) -> Result<(), EraseError> {
            store::erase(self, inclusive(&range), split, Self::$taker(displaced))
        }

        /// Returns a position in the map that changes it, with a range to look for or to store at.
        ///
        /// ```
        #[doc = $setup]
        /// map.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
        /// let mut cursor = map.cursor_mut(0..=0);
        /// while let Some(value) = cursor.find(..) {
        ///     if value == 1 {
        ///         cursor.erase()?;
        ///     }
        /// }
        /// drop(cursor);
        /// assert_eq!(map.first(), Some((20..=29, 2)));
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub fn cursor_mut(&mut self, range: impl RangeBounds<K>) -> $cursor {
            $crate::Writing::new(self, inclusive(&range))
        }

        /// Returns a duplicate, made in one pass over the nodes, as a `MapleTree` with an allocator like this map's. `copy` is shown each entry once, in order, and
        /// gives the value that the duplicate has there, or `Ok(None)` to leave the entry out. It fails where there is no memory for a value;
        /// [`try_clone_with_error`](Self::try_clone_with_error) takes closures that fail in other ways. O(n).
        ///
        /// ```
        #[doc = $setup]
        /// map.try_extend([(10..20, 1), (20..30, 2)])?;
        /// let copy = map.try_clone_with(|_, value| Ok((value > 1).then_some(value + 1)))?;
        /// assert_eq!(copy.iter().collect::<Vec<_>>(), [(20..=29, 3)]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ///
        /// Pointers are cloned from their views, and a failed `try_reserve` is passed on by `?`:
        ///
        /// ```
        /// use std::sync::Arc;
        /// use maple_tree::MapleTree;
        ///
        /// let shared = MapleTree::from([(0..10u64, Arc::new("text")), (10..20, Arc::new("data"))]);
        /// let copy = shared.try_clone_with(|_, value| Ok(Some(value.clone())))?;
        /// assert_eq!(copy.get(5).map(|value| Arc::strong_count(&value)), Some(2));
        ///
        /// let lists = MapleTree::from([(0..10u64, Box::new(vec![1, 2, 3]))]);
        /// let copy = lists.try_clone_with(|_, list| {
        ///     let mut copy = Vec::new();
        ///     copy.try_reserve_exact(list.len())?;
        ///     copy.extend_from_slice(list);
        ///     Ok(Some(Box::new(copy)))
        /// })?;
        /// assert_eq!(copy, lists);
        /// # Ok::<(), maple_tree::AllocError>(())
        /// ```
        ///
        /// # Errors
        ///
        /// If there is no memory for a node, or if the closure fails. What had been made has been dropped.
        pub fn try_clone_with(
            &self,
            copy: impl FnMut(RangeInclusive<K>, $crate::Ref<'_, V>) -> Result<Option<V>, $crate::AllocError>,
        ) -> Result<MapleTree<K, V, A, S>, $crate::AllocError>
        where
            A: $crate::alloc::Fork,
        {
            self.try_clone_with_error(copy).map_err(|_| $crate::AllocError)
        }

        /// Returns a duplicate, as [`try_clone_with`](Self::try_clone_with), with a closure that may fail with an error of its own.
        ///
        /// ```
        /// # use maple_tree::CloneError;
        #[doc = $setup]
        /// map.try_extend([(10..20, 1), (20..30, 2)])?;
        /// let copy = map.try_clone_with_error(|range, value| match value {
        ///     2 => Err(*range.start()),
        ///     value => Ok(Some(value)),
        /// });
        /// assert_eq!(copy.err(), Some(CloneError::Entry(20)));
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ///
        /// # Errors
        ///
        /// If there is no memory for a node, or with the closure's error. What had been made has been dropped.
        pub fn try_clone_with_error<E>(
            &self,
            copy: impl FnMut(RangeInclusive<K>, $crate::Ref<'_, V>) -> Result<Option<V>, E>,
        ) -> Result<MapleTree<K, V, A, S>, $crate::CloneError<E>>
        where
            A: $crate::alloc::Fork,
        {
            let mut copier = $crate::write::duplicate::CopyWith::<_, V>(copy, core::marker::PhantomData);
            // SAFETY: the map, or its only writer, is borrowed, so no thread writes. The copier
            // makes words out of values.
            unsafe { MapleTree::duplicate_of(self.raw(), self.nodes().fork(), &mut copier) }
        }
    };
}

/// Allocating ranges and indices: a search for a gap says where, the face's own `insert_range` (or its like) stores there. `$setup` are the lines of the examples that make an empty `map`, which tracks gaps; `$gap` searches.
macro_rules! allocs {
    ($gap:ident, $setup:literal) => {
        $crate::api::changes::alloc_at! {
            $gap, true, alloc_range, alloc_range_coalescing, "lowest", $setup,
            "assert_eq!(map.alloc_range(10.., 5, 9)?, 30);",
            "assert_eq!(map.get_range(30), Some((30..=34, 9)));",
            "assert_eq!(map.alloc_range_coalescing(10.., 5, 2, |a, b| a == b)?, (30, 20..=34));"
        }

        $crate::api::changes::alloc_at! {
            $gap, false, alloc_rrange, alloc_rrange_coalescing, "highest", $setup,
            "assert_eq!(map.alloc_rrange(..50, 5, 9)?, 35);",
            "assert_eq!(map.get_range(35), Some((35..=39, 9)));",
            "assert_eq!(map.alloc_rrange_coalescing(..50, 5, 3, |a, b| a == b)?, (35, 35..=49));"
        }

        /// Stores `value` at one free index within `bounds`: the lowest at or after `next`, or, if there is none, the lowest of all. `next`
        /// becomes the index after it, so that indices are reused late. Gives the index, and whether the search started over. O(log n) if
        /// the map tracks gaps, else O(n). Fails as [`alloc_range`](Self::alloc_range); `next` stays as it was.
        ///
        /// ```
        #[doc = $setup]
        /// let mut next = 8;
        /// for expected in [(8, false), (9, false), (0, true)] {
        ///     assert_eq!(map.alloc_cyclic(0..10, &mut next, 1)?, expected);
        /// }
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub fn alloc_cyclic(
            &mut self,
            bounds: impl RangeBounds<K>,
            next: &mut K,
            value: V,
        ) -> Result<(K, bool), InsertError<V>> {
            let bounds = inclusive(&bounds);
            let ((key, again), value) =
                store::place_cyclic(bounds, *next, value, |want| self.raw().$gap::<true>(want))?;
            self.insert(key, value)?;
            *next = key.successor().unwrap_or(K::MIN);
            Ok((key, again))
        }
    };
}

/// Allocating a range from one end, `$up` or down: `$name`, and `$coalescing`. `$which` gap it is; the others are for the examples.
macro_rules! alloc_at {
    (
        $gap:ident, $up:literal, $name:ident, $coalescing:ident, $which:literal, $setup:literal,
        $stores:literal, $shows:literal, $joins:literal
    ) => {
        #[doc = concat!("Stores `value` at the ", $which, " gap of `size` indices within `bounds`, and gives its first index. O(log n) if the map tracks")]
        /// gaps, else O(n).
        ///
        /// ```
        #[doc = $setup]
        /// map.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
        #[doc = $stores]
        #[doc = $shows]
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ///
        /// # Errors
        ///
        /// The value comes back if there is no such gap ([`InsertError::Occupied`]), if there is no memory, or if `bounds` holds no
        /// index or `size` is 0.
        pub fn $name(
            &mut self,
            bounds: impl RangeBounds<K>,
            size: K::Size,
            value: V,
        ) -> Result<K, InsertError<V>> {
            let bounds = inclusive(&bounds);
            let ((first, last), value) =
                store::place(bounds, size, value, |want| self.raw().$gap::<$up>(want))?;
            self.insert_range(first..=last, value)?;
            Ok(first)
        }

        #[doc = concat!("As [`", stringify!($name), "`](Self::", stringify!($name), "); neighbours that touch the range and are the `same` as the new value")]
        /// become one entry with it, as for [`insert_range_coalescing`](Self::insert_range_coalescing). Gives the first index of the range, and the range
        /// of that entry.
        ///
        /// ```
        #[doc = $setup]
        /// map.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
        #[doc = $joins]
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub fn $coalescing(
            &mut self,
            bounds: impl RangeBounds<K>,
            size: K::Size,
            value: V,
            same: impl FnMut($crate::Ref<'_, V>, $crate::Ref<'_, V>) -> bool,
        ) -> Result<(K, RangeInclusive<K>), InsertError<V>> {
            let bounds = inclusive(&bounds);
            let ((first, last), value) =
                store::place(bounds, size, value, |want| self.raw().$gap::<$up>(want))?;
            let whole = self.insert_range_coalescing(first..=last, value, same)?;
            Ok((first, whole))
        }
    };
}

/// All of these, and [`allocs`], of a face that is a host itself.
macro_rules! all_changes {
    ($cursor:ty, $gone:ty, $taker:ident, $fate:literal, $seen:literal, $setup:literal) => {
        $crate::api::changes::changes!($fate, $seen, $setup);
        $crate::api::changes::host_changes!($cursor, $gone, $taker, $fate, $seen, $setup);
        $crate::api::equals!($fate, $seen, $setup);
        $crate::api::changes::allocs!(gap, $setup);
    };
}

pub(crate) use {all_changes, alloc_at, allocs, changes, host_changes};

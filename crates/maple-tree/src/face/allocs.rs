//! Storing where there is room, once for all faces: a search for a gap says where, the face's own `insert_range` (or its like) stores there.
//!
//! The macro writes the methods into each face, as that of [`changes`](crate::face::changes) does.

/// Allocating ranges and indices. `$setup` are the lines of the examples that make an empty `map`, which tracks gaps; `$gap` searches.
macro_rules! allocs {
    ($setup:literal) => {
        $crate::face::allocs::allocs!(gap, $setup);
    };
    ($gap:ident, $setup:literal) => {
        $crate::face::allocs::alloc_at!(
            $gap,
            true,
            alloc_range,
            alloc_range_coalescing,
            "lowest",
            $setup,
            "assert_eq!(map.alloc_range(10.., 5, 9)?, 30);",
            "assert_eq!(map.get_range(30), Some((30..=34, 9)));",
            "assert_eq!(map.alloc_range_coalescing(10.., 5, 2, |a, b| a == b)?, (30, 20..=34));"
        );

        $crate::face::allocs::alloc_at!(
            $gap,
            false,
            alloc_rrange,
            alloc_rrange_coalescing,
            "highest",
            $setup,
            "assert_eq!(map.alloc_rrange(..50, 5, 9)?, 35);",
            "assert_eq!(map.get_range(35), Some((35..=39, 9)));",
            "assert_eq!(map.alloc_rrange_coalescing(..50, 5, 3, |a, b| a == b)?, (35, 35..=49));"
        );

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

pub(crate) use {alloc_at, allocs};

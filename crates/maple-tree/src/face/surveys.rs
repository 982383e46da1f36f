//! What writers ask beside look-ups, once for all faces: gaps, and the structure.
//!
//! The macros write the methods into each face, as those of [`look_ups`](crate::face::look_ups) do.

/// [`look_ups`](crate::face::look_ups) by `Iter`, and what only the holder of the right to write may ask: gaps, which writers change in place, and the
/// structure. `$setup` as there, of a map that tracks gaps; `$gap` is the search.
macro_rules! surveys {
    ($gap:ident, $setup:literal) => {
        $crate::face::look_ups::look_ups!(Iter, $setup);

        $crate::face::surveys::gaps!(
            $gap,
            true,
            gap_up,
            gap_up_aligned,
            "lowest",
            $setup,
            "assert_eq!(map.gap_up(5.., 10), Some(30));",
            "assert_eq!(map.gap_up_aligned(5.., 4, 16, 0), Some(32));"
        );

        $crate::face::surveys::gaps!(
            $gap,
            false,
            gap_down,
            gap_down_aligned,
            "highest",
            $setup,
            "assert_eq!(map.gap_down(..50, 4), Some(36));",
            "assert_eq!(map.gap_down_aligned(..40, 4, 16, 1), Some(33));"
        );

        /// Whether the map keeps the sizes of its holes. O(1).
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

        /// The nodes, to be shown as text or as a graph. O(n).
        pub fn dump(&self, format: $crate::Format) -> $crate::Dump<'_, K, S> {
            $crate::Dump {
                tree: self.raw(),
                format,
            }
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
        pub fn $name(&self, bounds: impl RangeBounds<K>, size: K::Size) -> Option<K> {
            let bounds = inclusive(&bounds)?;
            let want = $crate::read::gap::Want::new(bounds, size)?;
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
            let want = $crate::read::gap::Want::aligned(bounds, size, align, offset)?;
            self.raw().$gap::<$up>(&want)
        }
    };
}

/// All that whoever may write a tree whose nodes know their parents may ask. `$setup` as above.
macro_rules! all_asked {
    ($setup:literal) => {
        $crate::face::surveys::surveys!(gap, $setup);
        $crate::face::look_ups::cursors!($setup);

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

pub(crate) use {all_asked, gaps, surveys};

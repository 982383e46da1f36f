//! Changes of many entries, once for the faces that have them: what becomes of the entries that go differs, and what readers see of it.
//!
//! The macros write the methods into each face, as that of [`changes`](crate::api::changes) does.

/// Adding entries one after the other, and leaving some out, where values are shown. `$goes` begins what is said of leaving out; `$come` and `$go` say what
/// readers see. `$setup` are the lines of the examples that make an empty `map`.
macro_rules! one_by_one {
    ($goes:literal, $come:literal, $go:literal, $setup:literal) => {
        #[doc = concat!("Inserts entries until one cannot be inserted. O(log n) for each. ", $come)]
        /// Fails as [`insert_range`](Self::insert_range), for the first that could not be inserted; those before it have been.
        ///
        /// ```
        #[doc = $setup]
        /// map.try_extend([(10..20, 1), (20..30, 2)])?;
        /// // The second of these cannot be inserted.
        /// assert!(map.try_extend([(0..5, 3), (25..35, 4), (40..50, 5)]).is_err());
        /// assert_eq!(map.ranges().collect::<Vec<_>>(), [0..=4, 10..=19, 20..=29]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub fn try_extend<B: RangeBounds<K>>(
            &mut self,
            entries: impl IntoIterator<Item = (B, V)>,
        ) -> Result<(), InsertError<V>> {
            let mut entries = entries.into_iter();
            let done = entries.try_for_each(|(range, value)| self.insert_range(range, value));
            // Here, and not on return: if this panics, the value that would be given back is
            // dropped.
            drop(entries);
            done
        }

        #[doc = concat!($goes, " the entries for which `keep` says no. O(n), and O(log n) for each that goes. ", $go)]
        ///
        /// ```
        #[doc = $setup]
        /// map.try_extend([(0..10, 1), (10..20, 2), (20..30, 3)])?;
        /// map.retain(|range, value| range.contains(&5) || value == 3)?;
        /// assert_eq!(map.ranges().collect::<Vec<_>>(), [0..=9, 20..=29]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ///
        /// # Errors
        ///
        /// If there is no memory; the entries before have been looked at, the others, and the one that could not be removed, are still there.
        pub fn retain(
            &mut self,
            mut keep: impl FnMut(RangeInclusive<K>, $crate::Ref<'_, V>) -> bool,
        ) -> Result<(), AllocError> {
            let mut rest = Some(K::MIN);
            while let Some(first) = rest {
                let gone = self.range(first..).find_map(|(range, value)| {
                    let stays = keep(range.clone(), value);
                    (!stays).then_some(range)
                });
                let Some(gone) = gone else { break };
                self.remove(*gone.start())?;
                rest = gone.end().successor();
            }
            Ok(())
        }
    };
}

/// Taking the entries of a [`MapleTree`](crate::MapleTree) over. `$take_over` does so with its nodes if it can, and tells; `$cost` is what it takes. `$fate` is what becomes of what they cover; `$seen` says what readers see. `$setup` are the
/// lines of the examples that make an empty `map`, and an empty `other`.
macro_rules! appends {
    ($take_over:expr, $cost:literal, $fate:literal, $seen:literal, $setup:literal) => {
        /// Moves all entries of `other` into this map. Where they meet entries of this one, those of `other` prevail, as with `BTreeMap`: what they
        #[doc = concat!("cover is ", $fate, ", what overlaps one end of them keeps what is outside. ", $cost)]
        ///
        #[doc = $seen]
        ///
        /// ```
        #[doc = $setup]
        /// map.try_extend([(0..10, 1), (10..20, 2)])?;
        /// other.insert_range(5..12, 3)?;
        /// map.append(&mut other)?;
        /// assert_eq!(map.iter().collect::<Vec<_>>(), [(0..=4, 1), (5..=11, 3), (12..=19, 2)]);
        /// assert!(other.is_empty());
        /// other.insert_range(6..8, 4)?;
        /// assert_eq!(map.append(&mut other), Err(maple_tree::EraseError::Splits));
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ///
        /// # Errors
        ///
        /// If an entry of this map would end up on both sides of one of `other` ([`EraseError::Splits`]; see
        /// [`append_splitting`](Self::append_splitting)), or if there is no memory ([`EraseError::Alloc`]). Both maps are as they were then.
        pub fn append(&mut self, other: &mut MapleTree<K, V, A, S>) -> Result<(), EraseError> {
            self.append_splitting(other, |_, _| None)
        }

        /// As [`append`](Self::append); of an entry that ends up on several sides of others, each part but the lowest gets the value that
        /// `split` makes from that entry and the range of the part.
        ///
        /// ```
        #[doc = $setup]
        /// map.insert_range(0..100, 1)?;
        /// other.try_extend([(10..20, 2), (40..50, 3)])?;
        /// map.append_splitting(&mut other, |_, value| Some(value))?;
        /// assert_eq!(map.values().collect::<Vec<_>>(), [1, 2, 1, 3, 1]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ///
        /// # Errors
        ///
        /// If there is no memory, or (as [`EraseError::Splits`]) if `split` gives `None`. Both maps are as they were then; what `split` had made has
        /// been dropped.
        pub fn append_splitting(
            &mut self,
            other: &mut MapleTree<K, V, A, S>,
            split: impl FnMut(RangeInclusive<K>, Ref<'_, V>) -> Option<V>,
        ) -> Result<(), EraseError> {
            if $take_over(self, other).map_err(|AllocError| EraseError::Alloc)? {
                return Ok(());
            }
            merge::<true, _, _, _, _, _>(self, other, |_, _, _| None, split)
        }
    };
}

pub(crate) use {appends, one_by_one};

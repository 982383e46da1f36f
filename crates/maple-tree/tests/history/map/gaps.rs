//! Searches for gaps, and entries that are put there.

use maple_tree::{InsertError, Shape};

use super::super::Bytes;
use super::super::index::Index;
use super::{Run, Source};

impl<K: Index, S: Shape, A: Source> Run<K, S, A> {
    pub(super) fn allocate(&mut self, bounds: (K, K), size: K, up: bool) {
        let (number, token) = self.token();
        let expected = self.model.gap(bounds, size, K::ONE, K::MIN, up);
        let range = bounds.0..=bounds.1;
        let done = if up {
            self.tree.alloc_range(range, size.number(), token)
        } else {
            self.tree.alloc_rrange(range, size.number(), token)
        };
        match done {
            Ok(first) => {
                assert_eq!(Some(first), expected);
                let last = first.wrapping_add(size.wrapping_sub(K::ONE));
                self.model.store(first, last, Some(number));
            }
            Err(InsertError::Occupied(_)) => assert_eq!(expected, None),
            Err(InsertError::EmptyRange(_)) => assert_eq!(size, K::MIN),
            Err(InsertError::Alloc(_)) => assert!(self.nodes.is_dry()),
        }
    }

    pub(super) fn cyclic(&mut self, bounds: (K, K), from: K) {
        let (number, token) = self.token();
        let mut next = from;
        let lowest = |lo: K| {
            (lo <= bounds.1)
                .then(|| self.model.gap((lo, bounds.1), K::ONE, K::ONE, K::MIN, true))
                .flatten()
        };
        let ahead = lowest(from.max(bounds.0)).map(|key| (key, false));
        let expected = ahead.or_else(|| lowest(bounds.0).map(|key| (key, true)));
        match self
            .tree
            .alloc_cyclic(bounds.0..=bounds.1, &mut next, token)
        {
            Ok((key, wrapped)) => {
                assert_eq!(Some((key, wrapped)), expected);
                assert_eq!(next, key.wrapping_add(K::ONE));
                self.model.store(key, key, Some(number));
            }
            Err(InsertError::Alloc(_)) => assert!(self.nodes.is_dry() && next == from),
            Err(_) => assert!(expected.is_none() && next == from),
        }
    }

    pub(super) fn gaps(&mut self, bytes: &mut Bytes<'_>) {
        let bounds = bytes.range(self.middle);
        let size: K = bytes.small(40);
        let (align, offset): (K, K) = (bytes.small(17), bytes.small(17));
        let range = bounds.0..=bounds.1;
        assert_eq!(
            self.tree.gap_up_aligned(
                range.clone(),
                size.number(),
                align.number(),
                offset.number()
            ),
            self.model.gap(bounds, size, align, offset, true)
        );
        assert_eq!(
            self.tree
                .gap_down_aligned(range, size.number(), align.number(), offset.number()),
            self.model.gap(bounds, size, align, offset, false)
        );
    }
}

//! Look-ups in one of the maps, compared with its list.

use maple_tree::Shape;

use super::super::index::Index;
use super::{Family, Member, slot};
use crate::history::Bytes;

impl<K: Index, S: Shape> Family<K, S> {
    pub(super) fn look(&self, which: usize, bytes: &mut Bytes<'_>) {
        let Member { map, model } = &self.members[which];
        let key = bytes.key(self.middle);
        let expected = model.at(key);
        let range = expected.first..=expected.last;
        assert_eq!(
            map.get(key).map(|frail| frail.token.number),
            expected.number
        );
        match expected.number {
            Some(_) => assert_eq!(map.get_range(key).map(slot), Some(expected)),
            None => assert_eq!(map.hole_at(key), Some(range)),
        }
        assert_eq!(map.first().map(slot), model.entries().next());
        assert_eq!(map.last().map(slot), model.entries().next_back());
        let bounds = bytes.range(self.middle);
        let within = model.within(bounds.0, bounds.1);
        assert!(
            map.range(bounds.0..=bounds.1)
                .map(slot)
                .eq(within.iter().copied())
        );
        let backwards = map.range(bounds.0..=bounds.1).rev().map(slot);
        assert!(backwards.eq(within.iter().rev().copied()));
        let (size, align, offset): (K, K, K) = (bytes.small(40), bytes.small(17), bytes.small(17));
        assert_eq!(
            map.gap_up_aligned(
                bounds.0..=bounds.1,
                size.number(),
                align.number(),
                offset.number()
            ),
            model.gap(bounds, size, align, offset, true)
        );
        assert_eq!(
            map.gap_down_aligned(
                bounds.0..=bounds.1,
                size.number(),
                align.number(),
                offset.number()
            ),
            model.gap(bounds, size, align, offset, false)
        );
    }
}

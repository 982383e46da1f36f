//! Reading: keys, ranges, holes, from both ends.

use maple_tree::Shape;

use super::super::Bytes;
use super::super::index::Index;
use super::{Run, Source, slot};

impl<K: Index, S: Shape, A: Source> Run<K, S, A> {
    /// From both ends, in the order that the bits of a byte say.
    pub(super) fn traverse(&mut self, bytes: &mut Bytes<'_>) {
        let (first, last) = bytes.range(self.middle);
        let turns = bytes.byte();
        let mut expected = std::collections::VecDeque::from(self.model.within(first, last));
        let mut iter = self.tree.range(first..=last).map(slot);
        for turn in 0.. {
            let back = turns >> (turn % 8) & 1 == 1;
            let (is, should) = if back {
                (iter.next_back(), expected.pop_back())
            } else {
                (iter.next(), expected.pop_front())
            };
            assert_eq!(is, should);
            if should.is_none() {
                break;
            }
        }
        let holes = self
            .model
            .0
            .iter()
            .filter(|slot| slot.number.is_none() && slot.first <= last && first <= slot.last);
        assert!(
            self.tree
                .holes(first..=last)
                .eq(holes.map(|slot| slot.first..=slot.last))
        );
        let within = self.model.within(first, last);
        assert_eq!(
            self.tree.find(first..=last).map(slot),
            within.first().copied()
        );
        assert_eq!(
            self.tree.find_rev(first..=last).map(slot),
            within.last().copied()
        );
    }

    pub(super) fn look(&mut self, key: K) {
        let expected = self.model.at(key);
        assert_eq!(
            self.tree.get(key).map(|token| token.number),
            expected.number
        );
        assert_eq!(self.tree.contains(key), expected.number.is_some());
        let range = expected.first..=expected.last;
        match expected.number {
            Some(_) => assert_eq!(self.tree.get_range(key).map(slot), Some(expected)),
            None => assert_eq!(self.tree.hole_at(key), Some(range)),
        }
        assert_eq!(self.tree.first().map(slot), self.model.entries().next());
        assert_eq!(self.tree.last().map(slot), self.model.entries().next_back());
        assert_eq!(self.tree.is_empty(), self.model.entries().next().is_none());
    }

    /// Keys looked up together.
    pub(super) fn many(&mut self, bytes: &mut Bytes<'_>) {
        let keys: [K; 5] = std::array::from_fn(|_| bytes.key(self.middle));
        let is = self
            .tree
            .get_many(keys)
            .map(|token| token.map(|token| token.number));
        assert_eq!(is, keys.map(|key| self.model.at(key).number));
    }

    /// Part of a range from both ends, and the rest in one go.
    pub(super) fn walk_over(&mut self, bytes: &mut Bytes<'_>) {
        let (first, last) = bytes.range(self.middle);
        let (turns, count, rest) = (bytes.byte(), bytes.byte() % 20, bytes.byte());
        let mut expected = std::collections::VecDeque::from(self.model.within(first, last));
        let mut entries = self.tree.range(first..=last).map(slot);
        for turn in 0..count {
            let (is, should) = if turns >> (turn % 8) & 1 == 1 {
                (entries.next_back(), expected.pop_back())
            } else {
                (entries.next(), expected.pop_front())
            };
            assert_eq!(is, should);
        }
        let (least, most) = entries.size_hint();
        assert!(least <= expected.len() && most.is_none_or(|most| expected.len() <= most));
        match rest % 5 {
            0 => assert_eq!(entries.count(), expected.len()),
            1 => assert_eq!(entries.last(), expected.pop_back()),
            2 => assert!(entries.rev().eq(expected.into_iter().rev())),
            3 => {
                let all = entries.fold(Vec::new(), |mut all, slot| {
                    all.push(slot);
                    all
                });
                assert_eq!(all, Vec::from(expected));
            }
            _ => assert_eq!(entries.nth(2), expected.get(2).copied()),
        }
    }
}

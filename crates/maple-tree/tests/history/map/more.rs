//! Calls that combine others: what is cut to bounds, places between entries, taking out, painting.

use std::ops::Bound;

use maple_tree::{InsertError, Shape};

use super::super::index::Index;
use super::super::{Bytes, Slot, Token};
use super::{Run, Source, slot};

impl<K: Index, S: Shape, A: Source> Run<K, S, A> {
    pub(super) fn combine(&mut self, bytes: &mut Bytes<'_>) {
        let middle = self.middle;
        match bytes.byte() % 7 {
            0 => self.clipped(bytes.range(middle)),
            1 => self.between(bytes.key(middle), bytes.byte()),
            2 => self.extract(bytes.range(middle), bytes.byte(), bytes.byte()),
            3 => self.paint(bytes.range(middle), bytes.byte(), bytes.byte() != 0),
            4 => self.allocate_joined(bytes.range(middle), bytes.small(20), bytes.byte()),
            5 => self.split_with(bytes.range(middle), bytes.byte().is_multiple_of(2)),
            _ => self.end_entry(bytes.byte()),
        }
    }

    fn clipped(&self, (first, last): (K, K)) {
        let cut = |slot: Slot<K>| Slot {
            first: slot.first.max(first),
            last: slot.last.min(last),
            ..slot
        };
        let within = self.model.within(first, last);
        let expected: Vec<_> = within.iter().copied().map(cut).collect();
        let pieces: Vec<_> = self.tree.range_clipped(first..=last).map(slot).collect();
        assert_eq!(pieces, expected);
        let mut backwards: Vec<_> = self
            .tree
            .range_clipped(first..=last)
            .rev()
            .map(slot)
            .collect();
        backwards.reverse();
        assert_eq!(backwards, expected);
        let holes: Vec<_> = (self.model.0.iter().copied())
            .filter(|slot| slot.number.is_none() && slot.first <= last && first <= slot.last)
            .map(cut)
            .map(|hole| hole.first..=hole.last)
            .collect();
        let found: Vec<_> = self.tree.holes_clipped(first..=last).collect();
        assert_eq!(found, holes);
        assert_eq!(self.tree.overlaps(first..=last), !expected.is_empty());
        assert_eq!(self.tree.covers(first..=last), holes.is_empty());
    }

    /// A place, and the entries on both sides of it, some steps on.
    fn between(&self, key: K, how: u8) {
        let all: Vec<_> = self.model.entries().collect();
        let (mut place, mut at) = match how % 6 {
            0 => (
                self.tree.lower_bound(Bound::Included(key)),
                all.partition_point(|slot| slot.last < key),
            ),
            1 => (
                self.tree.lower_bound(Bound::Excluded(key)),
                all.partition_point(|slot| slot.last <= key),
            ),
            2 => (
                self.tree.upper_bound(Bound::Included(key)),
                all.partition_point(|slot| slot.first <= key),
            ),
            3 => (
                self.tree.upper_bound(Bound::Excluded(key)),
                all.partition_point(|slot| slot.first < key),
            ),
            4 => (self.tree.lower_bound(Bound::Unbounded), 0),
            _ => (self.tree.upper_bound(Bound::Unbounded), all.len()),
        };
        for step in 0..8 {
            let before = at.checked_sub(1).map(|i| all[i]);
            let after = all.get(at).copied();
            assert_eq!(place.peek_prev().map(slot), before);
            assert_eq!(place.peek_next().map(slot), after);
            if how >> step & 1 == 0 {
                assert_eq!(place.next().map(slot), after);
                at = all.len().min(at + 1);
            } else {
                assert_eq!(place.prev().map(slot), before);
                at = at.saturating_sub(1);
            }
        }
    }

    /// Takes out what is 0 modulo a number, up to a limit.
    fn extract(&mut self, (first, last): (K, K), modulus: u8, limit: u8) {
        let modulus = u32::from(modulus % 4) + 1;
        let mut taken = Vec::new();
        let mut failed = false;
        let go = |number: u32| number.is_multiple_of(modulus);
        let within = self.model.within(first, last);
        let mut shown = 0;
        let found = self.tree.extract_if(first..=last, |range, token| {
            assert_eq!(slot((range, &*token)), within[shown]);
            shown += 1;
            go(token.number)
        });
        for item in found.take(usize::from(limit)) {
            match item {
                Ok((range, token)) => taken.push(slot((range, &*token))),
                Err(_) => failed = true,
            }
        }
        assert!(!failed || self.nodes.is_dry());
        let mut expected: Vec<_> = (within.into_iter())
            .filter(|slot| slot.number.is_some_and(go))
            .take(usize::from(limit))
            .collect();
        if failed {
            assert!(expected.starts_with(&taken) && expected.len() > taken.len());
            expected = taken.clone();
        }
        assert_eq!(taken, expected);
        for slot in taken {
            self.model.store(slot.first, slot.last, None);
        }
    }

    /// Stored with neighbours that are the same, splitting what is around.
    fn paint(&mut self, (first, last): (K, K), modulus: u8, split: bool) {
        let same = |number: u32| modulus != 0 && number.is_multiple_of(u32::from(modulus));
        let (number, token) = self.token();
        let neighbour = |key: Option<K>| {
            key.map(|key| self.model.at(key))
                .filter(|slot| slot.number.is_some_and(same))
        };
        let low = neighbour(first.predecessor()).map_or(first, |slot| slot.first);
        let high = neighbour(last.successor()).map_or(last, |slot| slot.last);
        let (mint, splits) = (&self.mint, self.model.splits(low, high));
        let done = self.tree.store_range_coalescing_splitting(
            first..=last,
            token,
            |there: &Token, new: &Token| {
                assert_eq!(new.number, number);
                same(there.number)
            },
            |_, around| {
                assert!(splits);
                split.then(|| Box::new(mint.copy(around.number)))
            },
        );
        if let Ok(range) = &done {
            assert_eq!(range, &(low..=high));
        }
        let done = done.map(drop).map_err(|e| Self::refused(number, e));
        self.stored((low, high), Some(number), done, split);
    }

    fn allocate_joined(&mut self, bounds: (K, K), size: K, modulus: u8) {
        let same = |number: u32| modulus != 0 && number.is_multiple_of(u32::from(modulus));
        let up = modulus.is_multiple_of(2);
        let (number, token) = self.token();
        let expected = self.model.gap(bounds, size, K::ONE, K::MIN, up);
        let agree = |there: &Token, _: &Token| same(there.number);
        let range = bounds.0..=bounds.1;
        let done = if up {
            self.tree
                .alloc_range_coalescing(range, size.number(), token, agree)
        } else {
            self.tree
                .alloc_rrange_coalescing(range, size.number(), token, agree)
        };
        match done {
            Ok((first, whole)) => {
                assert_eq!(Some(first), expected);
                let last = first.wrapping_add(size.wrapping_sub(K::ONE));
                let joined = |key: Option<K>| {
                    key.map(|key| self.model.at(key))
                        .filter(|slot| slot.number.is_some_and(same))
                };
                let low = joined(first.predecessor()).map_or(first, |slot| slot.first);
                let high = joined(last.successor()).map_or(last, |slot| slot.last);
                assert_eq!(whole, low..=high);
                self.model.store(low, high, Some(number));
            }
            Err(InsertError::Alloc(_)) => assert!(self.nodes.is_dry()),
            Err(InsertError::Occupied(_)) => assert_eq!(expected, None),
            Err(InsertError::EmptyRange(_)) => assert_eq!(size, K::MIN),
        }
    }

    fn split_with(&mut self, range: (K, K), store: bool) {
        let (number, token) = self.token();
        let mint = &self.mint;
        let twin = |_, around: &Token| Some(Box::new(mint.copy(around.number)));
        let mut displaced = Vec::new();
        let gone = |range, token: Box<Token>| displaced.push(slot((range, &*token)));
        let bounds = range.0..=range.1;
        let (done, number) = if store {
            let done = self
                .tree
                .store_range_splitting_with(bounds, token, twin, gone);
            (done.map_err(|e| Self::refused(number, e)), Some(number))
        } else {
            let done = self.tree.erase_range_splitting_with(bounds, twin, gone);
            (done, None)
        };
        displaced.sort_by_key(|slot| slot.first);
        let expected = match done {
            Ok(()) => self.model.covered(range.0, range.1),
            Err(_) => Vec::new(),
        };
        assert_eq!(displaced, expected);
        self.stored(range, number, done, true);
    }

    /// The first or the last entry: changed, exchanged or removed.
    fn end_entry(&mut self, how: u8) {
        let (number, token) = self.token();
        let mut entries = self.model.entries();
        let (found, expected) = if how.is_multiple_of(2) {
            (self.tree.first_entry(), entries.next())
        } else {
            (self.tree.last_entry(), entries.next_back())
        };
        drop(entries);
        let (Some(mut entry), Some(there)) = (found, expected) else {
            assert_eq!(expected, None);
            return;
        };
        assert_eq!(slot((entry.range(), entry.get())), there);
        let done = match how >> 1 & 3 {
            0 => {
                entry.get_mut().number = number;
                Some(Some(number))
            }
            1 => entry.remove().ok().map(|old| {
                assert_eq!(Some(old.number), there.number);
                None
            }),
            _ => entry.insert(token).ok().map(|_| Some(number)),
        };
        match done {
            Some(number) => self.model.store(there.first, there.last, number),
            None => assert!(self.nodes.is_dry()),
        }
    }
}

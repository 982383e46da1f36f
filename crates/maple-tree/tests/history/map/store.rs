//! Stores, erasures, and what changes the entry at a place.

use maple_tree::{Entry, EraseError, InsertError, Shape, StoreError};

use super::super::Token;
use super::super::index::Index;
use super::{Run, Source, slot};

impl<K: Index, S: Shape, A: Source> Run<K, S, A> {
    /// The result of a store or an erasure.
    pub(super) fn stored(
        &mut self,
        range: (K, K),
        number: Option<u32>,
        done: Result<(), EraseError>,
        may_split: bool,
    ) {
        let splits = self.model.splits(range.0, range.1);
        match done {
            Ok(()) => {
                assert!(may_split || !splits);
                self.model.store(range.0, range.1, number);
            }
            Err(EraseError::Splits) => assert!(splits && !may_split),
            Err(EraseError::Alloc) => assert!(self.nodes.is_dry()),
            Err(EraseError::EmptyRange) => panic!("it is not empty"),
        }
    }

    /// Why a store did not happen; its value came back, and is dropped.
    pub(super) fn refused(number: u32, error: StoreError<Box<Token>>) -> EraseError {
        let kind = match &error {
            StoreError::Splits(_) => EraseError::Splits,
            StoreError::Alloc(_) => EraseError::Alloc,
            StoreError::EmptyRange(_) => EraseError::EmptyRange,
        };
        assert_eq!(error.into_value().number, number);
        kind
    }

    pub(super) fn insert(&mut self, (first, last): (K, K)) {
        let (number, token) = self.token();
        let free = self.model.is_free(first, last);
        match self.tree.insert_range(first..=last, token) {
            Ok(()) => {
                assert!(free);
                self.model.store(first, last, Some(number));
            }
            Err(InsertError::Occupied(token)) => {
                assert!(!free);
                assert_eq!(token.number, number);
            }
            Err(InsertError::Alloc(token)) => {
                assert!(self.nodes.is_dry());
                assert_eq!(token.number, number);
            }
            Err(InsertError::EmptyRange(_)) => panic!("it is not empty"),
        }
    }

    pub(super) fn store(&mut self, range: (K, K)) {
        let (number, token) = self.token();
        let done = self.tree.store_range(range.0..=range.1, token);
        self.stored(
            range,
            Some(number),
            done.map_err(|e| Self::refused(number, e)),
            false,
        );
    }

    pub(super) fn store_with(&mut self, range: (K, K)) {
        let (number, token) = self.token();
        let mut displaced = Vec::new();
        let done = self
            .tree
            .store_range_with(range.0..=range.1, token, |range, token| {
                displaced.push(slot((range, &*token)));
            });
        displaced.sort_by_key(|slot| slot.first);
        let expected = match done {
            Ok(()) => self.model.covered(range.0, range.1),
            Err(_) => Vec::new(),
        };
        assert_eq!(displaced, expected);
        self.stored(
            range,
            Some(number),
            done.map_err(|e| Self::refused(number, e)),
            false,
        );
    }

    pub(super) fn store_splitting(&mut self, range: (K, K), split: bool) {
        let (number, token) = self.token();
        let mint = &self.mint;
        let above = self.model.at(range.1).last;
        let splits = self.model.splits(range.0, range.1);
        let done = self
            .tree
            .store_range_splitting(range.0..=range.1, token, |part, token| {
                assert!(splits);
                assert_eq!(part, range.1.wrapping_add(K::ONE)..=above);
                split.then(|| Box::new(mint.copy(token.number)))
            });
        self.stored(
            range,
            Some(number),
            done.map_err(|e| Self::refused(number, e)),
            split,
        );
    }

    pub(super) fn erase(&mut self, range: (K, K)) {
        let mut displaced = Vec::new();
        let done = self
            .tree
            .erase_range_with(range.0..=range.1, |range, token| {
                displaced.push(slot((range, &*token)));
            });
        displaced.sort_by_key(|slot| slot.first);
        if done.is_ok() {
            assert_eq!(displaced, self.model.covered(range.0, range.1));
        }
        self.stored(range, None, done, false);
    }

    pub(super) fn erase_splitting(&mut self, range: (K, K)) {
        let mint = &self.mint;
        let done = self
            .tree
            .erase_range_splitting(range.0..=range.1, |_, token| {
                Some(Box::new(mint.copy(token.number)))
            });
        self.stored(range, None, done, true);
    }

    pub(super) fn remove(&mut self, key: K) {
        let expected = self.model.at(key);
        match self.tree.remove(key) {
            Ok(Some((range, token))) => {
                assert_eq!(slot((range, &*token)), expected);
                self.model.store(expected.first, expected.last, None);
            }
            Ok(None) => assert_eq!(expected.number, None),
            Err(_) => assert!(self.nodes.is_dry()),
        }
    }

    pub(super) fn replace(&mut self, key: K) {
        let (number, token) = self.token();
        let expected = self.model.at(key);
        match self.tree.replace(key, token) {
            Ok(old) => {
                assert_eq!(Some(old.number), expected.number);
                self.model
                    .store(expected.first, expected.last, Some(number));
            }
            Err(token) => {
                assert_eq!(token.number, number);
                assert!(expected.number.is_none() || self.nodes.is_dry());
            }
        }
    }

    pub(super) fn grow(&mut self, key: K, (first, last): (K, K)) {
        let entry = self.model.at(key);
        let grows = entry.number.is_some() && first <= entry.first && entry.last <= last;
        let mut displaced = Vec::new();
        let done = self.tree.grow(key, first..=last, |range, token| {
            displaced.push(slot((range, &*token)));
        });
        match done {
            Ok(done) => {
                assert_eq!(done, grows);
                if grows {
                    displaced.push(entry);
                    displaced.sort_by_key(|slot| slot.first);
                    assert_eq!(displaced, self.model.covered(first, last));
                    self.model.store(first, last, entry.number);
                }
            }
            Err(_) => assert!(grows && self.nodes.is_dry()),
        }
    }

    /// New numbers in the entries of a range, in place.
    pub(super) fn change(&mut self, (first, last): (K, K)) {
        for slot in self.model.within(first, last) {
            let number = self.mint.number();
            self.model.store(slot.first, slot.last, Some(number));
        }
        let mut new = self.model.within(first, last).into_iter();
        for (_, token) in self.tree.range_mut(first..=last) {
            token.number = new.next().and_then(|slot| slot.number).unwrap();
        }
        assert!(new.next().is_none());
        if let Some(token) = self.tree.get_mut(first) {
            assert_eq!(Some(token.number), self.model.at(first).number);
        }
    }

    /// The contents at a range: shown, changed, replaced, removed or inserted.
    pub(super) fn entry(&mut self, range: (K, K), what: u8) {
        let expected = self.model.within(range.0, range.1).first().copied();
        let (number, token) = self.token();
        match (self.tree.entry_range(range.0..=range.1), expected) {
            (Entry::Occupied(mut entry), Some(there)) => {
                assert_eq!(slot((entry.range(), entry.get())), there);
                match what % 4 {
                    0 => {
                        entry.into_mut().number = number;
                        self.model.store(there.first, there.last, Some(number));
                    }
                    1 => match entry.insert(token) {
                        Ok(old) => {
                            assert_eq!(Some(old.number), there.number);
                            assert_eq!(entry.get_mut().number, number);
                            self.model.store(there.first, there.last, Some(number));
                        }
                        Err(_) => assert!(self.nodes.is_dry()),
                    },
                    2 => match entry.remove_entry() {
                        Ok((range, old)) => {
                            assert_eq!(slot((range, &*old)), there);
                            self.model.store(there.first, there.last, None);
                        }
                        Err(_) => assert!(self.nodes.is_dry()),
                    },
                    _ => entry.get_mut().number = there.number.unwrap(),
                }
            }
            (Entry::Vacant(entry), None) => {
                let hole = self.model.at(range.0);
                assert_eq!(entry.hole(), hole.first..=hole.last);
                assert_eq!(entry.range(), range.0..=range.1);
                match entry.insert(token) {
                    Ok(token) => {
                        assert_eq!(token.number, number);
                        self.model.store(range.0, range.1, Some(number));
                    }
                    Err(_) => assert!(self.nodes.is_dry()),
                }
            }
            (entry, _) => panic!("{:?} is not {expected:?}", entry.range()),
        }
    }

    pub(super) fn pop(&mut self, front: bool) {
        let mut entries = self.model.entries();
        let (done, expected) = if front {
            (self.tree.pop_first(), entries.next())
        } else {
            (self.tree.pop_last(), entries.next_back())
        };
        drop(entries);
        match done {
            Ok(popped) => {
                let popped = popped.map(|(range, token)| slot((range, &*token)));
                assert_eq!(popped, expected);
                if let Some(slot) = expected {
                    self.model.store(slot.first, slot.last, None);
                }
            }
            Err(_) => assert!(self.nodes.is_dry()),
        }
    }

    /// Stored with neighbours that are the same: those whose number is 0 modulo `modulus`, say.
    pub(super) fn coalesce(&mut self, (first, last): (K, K), insert: bool, modulus: u8) {
        let same = |number: u32| modulus != 0 && number.is_multiple_of(u32::from(modulus));
        let (number, token) = self.token();
        let neighbour = |key: Option<K>| {
            key.map(|key| self.model.at(key))
                .filter(|slot| slot.number.is_some_and(same))
        };
        let low = neighbour(first.predecessor()).map_or(first, |slot| slot.first);
        let high = neighbour(last.successor()).map_or(last, |slot| slot.last);
        let agree = |there: &Token, new: &Token| {
            assert_eq!(new.number, number);
            same(there.number)
        };
        let done = if insert {
            let free = self.model.is_free(first, last);
            match self
                .tree
                .insert_range_coalescing(first..=last, token, agree)
            {
                Ok(range) => {
                    assert!(free);
                    Ok(range)
                }
                Err(InsertError::Occupied(_)) => {
                    assert!(!free);
                    return;
                }
                Err(_) => Err(EraseError::Alloc),
            }
        } else {
            self.tree
                .store_range_coalescing(first..=last, token, agree)
                .map_err(|error| Self::refused(number, error))
        };
        if let Ok(range) = &done {
            assert_eq!(range, &(low..=high));
        }
        self.stored((low, high), Some(number), done.map(drop), false);
    }
}

//! Calls that duplicate, split, join, filter or consume a map, or extend it by many entries.

use maple_tree::{CloneError, EraseError, InsertError, Shape};

use super::super::index::Index;
use super::super::{Bytes, Model, Slot, small};
use super::{Map, Run, Source, slot};

impl<K: Index, S: Shape, A: Source> Run<K, S, A> {
    /// A duplicate without the entries whose number is 0 modulo `sparse`, given up at the entry `stop` if that is not 0.
    pub(super) fn duplicate(&mut self, sparse: u8, stop: u8) {
        let mut left = u32::from(stop);
        let mint = &self.mint;
        let out = |number: u32| sparse != 0 && number.is_multiple_of(u32::from(sparse));
        let (live, tokens) = (self.nodes.live(), mint.live());
        let copy = self.tree.try_clone_with_error(|_, token| {
            left = left.wrapping_sub(1);
            if left == 0 {
                return Err("enough");
            }
            Ok((!out(token.number)).then(|| Box::new(mint.copy(token.number))))
        });
        match copy {
            Ok(copy) => {
                let mut model = self.model.clone();
                for slot in self
                    .model
                    .entries()
                    .filter(|slot| slot.number.is_some_and(out))
                {
                    model.store(slot.first, slot.last, None);
                }
                copy.check().unwrap();
                assert!(copy.iter().map(slot).eq(model.entries()));
                if A::ONE_BY_ONE {
                    assert_eq!(self.nodes.live() - live, copy.stats().nodes());
                }
            }
            Err(CloneError::Entry(_)) => assert!(stop != 0),
            Err(_) => assert!(self.nodes.is_dry()),
        }
        assert_eq!((self.nodes.live(), mint.live()), (live, tokens));
    }

    pub(super) fn retain(&mut self, drop_every: u8) {
        if drop_every == 0 {
            return;
        }
        let out = |number: u32| number.is_multiple_of(u32::from(drop_every));
        let mut seen = Vec::new();
        let done = self.tree.retain(|range, token| {
            seen.push(slot((range, token)));
            !out(token.number)
        });
        let all: Vec<_> = self.model.entries().collect();
        match done {
            Ok(()) => assert_eq!(seen, all),
            Err(_) => {
                assert!(self.nodes.is_dry() && all.starts_with(&seen));
                // The last one was to go and could not.
                seen.pop();
            }
        }
        for slot in seen {
            if slot.number.is_some_and(out) {
                self.model.store(slot.first, slot.last, None);
            }
        }
    }

    /// The upper part goes, is looked at, and comes back.
    pub(super) fn split_off(&mut self, key: K, split: bool) {
        let before = self.model.clone();
        let straddles = before.at(key).number.is_some() && before.at(key).first < key;
        let mint = &self.mint;
        let done = self.tree.split_off_splitting(key, |range, token| {
            assert!(straddles);
            assert_eq!(range, key..=before.at(key).last);
            split.then(|| Box::new(mint.copy(token.number)))
        });
        match done {
            Ok(mut high) => {
                assert!(split || !straddles);
                let mut upper = before.clone();
                if let Some(last) = key.predecessor() {
                    upper.store(K::MIN, last, None);
                }
                self.model.store(key, K::MAX, None);
                high.check().unwrap();
                assert!(high.iter().map(slot).eq(upper.entries()));
                self.nodes.allow(usize::MAX);
                self.tree.check().unwrap();
                assert!(self.tree.iter().map(slot).eq(self.model.entries()));
                self.tree.append(&mut high).unwrap();
                assert!(high.is_empty());
                for slot in upper.entries() {
                    self.model.store(slot.first, slot.last, slot.number);
                }
            }
            Err(EraseError::Splits) => assert!(straddles && !split),
            Err(_) => assert!(self.nodes.is_dry()),
        }
    }

    /// A range goes, with pieces of the entries at its ends, and is looked at.
    pub(super) fn cut(&mut self, (first, last): (K, K), split: bool) {
        let (low, high) = (self.model.at(first), self.model.at(last));
        let below = low.number.is_some() && low.first < first;
        let above = high.number.is_some() && last < high.last;
        let mut expected = Vec::new();
        if below && above && low.first == high.first {
            expected.push(last.wrapping_add(K::ONE)..=high.last);
            expected.push(first..=last);
        } else {
            if below {
                expected.push(first..=low.last.min(last));
            }
            if above {
                expected.push(high.first.max(first)..=last);
            }
        }
        let (mint, mut asked) = (&self.mint, Vec::new());
        let done = self.tree.cut(first..=last, |range, token| {
            asked.push(range);
            split.then(|| Box::new(mint.copy(token.number)))
        });
        match done {
            Ok(cut) => {
                assert_eq!(asked, expected);
                let pieces = self.model.entries().filter_map(|slot| {
                    let (first, last) = (slot.first.max(first), slot.last.min(last));
                    (first <= last).then_some(Slot {
                        first,
                        last,
                        ..slot
                    })
                });
                assert!(cut.iter().map(slot).eq(pieces));
                cut.check().unwrap();
                self.model.store(first, last, None);
            }
            Err(EraseError::Splits) => assert!(!expected.is_empty() && !split),
            Err(_) => assert!(self.nodes.is_dry()),
        }
    }

    /// Another map, of which `bytes` say what it holds, and a list of that.
    fn other(&mut self, count: u8, bytes: &mut Bytes<'_>) -> (Map<K, S, A>, Model<K>) {
        let mut upper = Model::new();
        self.nodes.allow(usize::MAX);
        let mut other = Map::<K, S, A>::new_in(A::over(self.nodes.clone()));
        for _ in 0..count {
            let (first, last) = bytes.range(self.middle);
            let (number, token) = self.token();
            if other.insert_range(first..=last, token).is_ok() {
                upper.store(first, last, Some(number));
            }
        }
        self.nodes.allow(match bytes.byte() {
            few @ ..16 => usize::from(few),
            _ => usize::MAX,
        });
        (other, upper)
    }

    /// Another map joins this one, and where they meet something is made of both.
    pub(super) fn merge(&mut self, bytes: &mut Bytes<'_>) {
        let (count, may) = (bytes.byte() % 12, bytes.byte());
        let (may_split, may_resolve) = (may & 1 == 0, may & 6 != 0);
        let (mut other, upper) = self.other(count, bytes);
        let both = |ours: u32, theirs: u32| ours.wrapping_mul(31).wrapping_add(theirs);
        let mut expected = self.model.clone();
        for slot in upper.entries() {
            let mut first = slot.first;
            loop {
                let there = self.model.at(first);
                let last = there.last.min(slot.last);
                let number = match (there.number, slot.number) {
                    (Some(ours), Some(theirs)) => Some(both(ours, theirs)),
                    (_, theirs) => theirs,
                };
                expected.store(first, last, number);
                if last == slot.last {
                    break;
                }
                first = last.wrapping_add(K::ONE);
            }
        }
        let mint = &self.mint;
        let (mut refused, mut met) = (false, Vec::new());
        let done = self.tree.merge(
            &mut other,
            |range, ours, theirs| {
                let number = both(ours.number, theirs.number);
                met.push((range, number));
                refused |= !may_resolve;
                may_resolve.then(|| Box::new(mint.copy(number)))
            },
            |_, token| may_split.then(|| Box::new(mint.copy(token.number))),
        );
        for (range, number) in met {
            assert_eq!(
                expected.at(*range.start()),
                Slot {
                    first: *range.start(),
                    last: *range.end(),
                    number: Some(number)
                }
            );
        }
        match done {
            Ok(()) => {
                assert!(!refused && other.is_empty());
                self.model = expected;
            }
            Err(error) => {
                assert!(match error {
                    EraseError::Splits => refused || !may_split,
                    _ => self.nodes.is_dry(),
                });
                assert!(other.iter().map(slot).eq(upper.entries()));
            }
        }
        other.check().unwrap();
    }

    /// Another map comes over this one.
    pub(super) fn append(&mut self, bytes: &mut Bytes<'_>) {
        let (count, may_split) = (bytes.byte() % 12, bytes.byte() & 1 == 0);
        let (mut other, upper) = self.other(count, bytes);
        let mint = &self.mint;
        let mut splits = false;
        let done = self.tree.append_splitting(&mut other, |_, token| {
            splits = true;
            may_split.then(|| Box::new(mint.copy(token.number)))
        });
        match done {
            Ok(()) => {
                assert!(may_split || !splits);
                assert!(other.is_empty());
                for slot in upper.entries() {
                    self.model.store(slot.first, slot.last, slot.number);
                }
            }
            Err(error) => {
                assert!(match error {
                    EraseError::Splits => splits && !may_split,
                    _ => self.nodes.is_dry(),
                });
                assert!(other.iter().map(slot).eq(upper.entries()));
            }
        }
        other.check().unwrap();
    }

    /// A duplicate's entries as values, some of them taken from both ends.
    pub(super) fn take_apart(&mut self, turns: u8, count: u8) {
        self.nodes.allow(usize::MAX);
        let mint = &self.mint;
        let copy = self
            .tree
            .try_clone_with(|_, token| Ok(Some(Box::new(mint.copy(token.number)))));
        let mut expected: std::collections::VecDeque<_> = self.model.entries().collect();
        let mut entries = copy.unwrap().into_iter();
        for turn in 0..count {
            let (is, should) = if turns >> (turn % 8) & 1 == 1 {
                (entries.next_back(), expected.pop_back())
            } else {
                (entries.next(), expected.pop_front())
            };
            assert_eq!(is.map(|(range, token)| slot((range, &*token))), should);
        }
    }

    /// Some entries in a row.
    pub(super) fn extend(&mut self, bytes: &mut Bytes<'_>) {
        let (mut at, step) = (bytes.key(self.middle), bytes.byte());
        let count = bytes.byte() % 40;
        let (size, room) = (small::<K>(step & 7), small::<K>(step >> 3 & 7));
        let mut entries = Vec::new();
        for _ in 0..count {
            let Some(last) = at.checked_add(size) else {
                break;
            };
            let number = self.mint.number();
            entries.push((at..=last, Box::new(self.mint.copy(number))));
            let Some(next) = last.checked_add(room).and_then(K::successor) else {
                break;
            };
            at = next;
        }
        let mut planned: Vec<_> = entries
            .iter()
            .map(|(range, token)| slot((range.clone(), &**token)))
            .collect();
        match self.tree.try_extend(entries) {
            Ok(()) => {}
            Err(error) => {
                let (dry, number) = match &error {
                    InsertError::Occupied(token) => (false, token.number),
                    InsertError::Alloc(token) => (true, token.number),
                    InsertError::EmptyRange(_) => panic!("it is not empty"),
                };
                let at = planned
                    .iter()
                    .position(|slot| slot.number == Some(number))
                    .unwrap();
                assert!(if dry {
                    self.nodes.is_dry()
                } else {
                    !self.model.is_free(planned[at].first, planned[at].last)
                });
                planned.truncate(at);
            }
        }
        for slot in planned {
            assert!(self.model.is_free(slot.first, slot.last));
            self.model.store(slot.first, slot.last, slot.number);
        }
    }
}

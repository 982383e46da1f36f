//! Histories of a `MapleTree`: every call that changes it, with allocations that fail, beside the list.

use maple_tree::alloc::{Fork, Pool};
use maple_tree::{
    CloneError, Entry, EraseError, Fanout, InsertError, Key, MapleTree, Native, Shape, StoreError,
};

use super::{Bytes, Countdown, Mint, Model, Nodes, Slot, Token, small};

type Map<K, S, A> = MapleTree<K, Box<Token>, A, S>;

/// Where the nodes come from: one by one, or out of a pool's slabs, whose number says nothing of theirs.
trait Source: Fork {
    const ONE_BY_ONE: bool;
    fn over(nodes: Nodes) -> Self;
}

impl Source for Nodes {
    const ONE_BY_ONE: bool = true;
    fn over(nodes: Nodes) -> Self {
        nodes
    }
}

impl Source for Pool<Nodes> {
    const ONE_BY_ONE: bool = false;
    fn over(nodes: Nodes) -> Self {
        Pool::new_in(nodes)
    }
}

/// Performs a history on one of few kinds of maps, which compile quickly.
///
/// # Panics
///
/// If a call gives something else than the list has, leaves the structure damaged, or something is left at the end.
pub fn play(bytes: &[u8]) {
    let mut bytes = Bytes::new(bytes);
    match bytes.byte() % 6 {
        0..3 => run::<u64, Fanout<4>, Nodes>(bytes, 1 << 40),
        _ => run::<u128, Native, Pool<Nodes>>(bytes, 1 << 100),
    }
}

/// Performs a history on one of all kinds of maps.
///
/// # Panics
///
/// As [`play`].
pub fn play_any(bytes: &[u8]) {
    let mut bytes = Bytes::new(bytes);
    let code = bytes.byte();
    if code & 0x80 == 0 {
        shapes::<Nodes>(code, bytes);
    } else {
        shapes::<Pool<Nodes>>(code, bytes);
    }
}

fn shapes<A: Source>(code: u8, bytes: Bytes<'_>) {
    match code % 6 {
        0 => run::<u64, Fanout<4>, A>(bytes, 1 << 40),
        1 => run::<u32, Fanout<4>, A>(bytes, 1 << 30),
        2 => run::<u128, Fanout<5>, A>(bytes, 1 << 100),
        3 => run::<u64, Native, A>(bytes, 1 << 40),
        4 => run::<u32, Native, A>(bytes, 1 << 30),
        _ => run::<u128, Native, A>(bytes, 1 << 100),
    }
}

struct Run<K: Key, S: Shape, A: Source> {
    nodes: Nodes,
    mint: Mint,
    tree: Map<K, S, A>,
    model: Model<K>,
    middle: K,
}

fn run<K: Key, S: Shape, A: Source>(mut bytes: Bytes<'_>, middle: K) {
    let nodes = Countdown::new();
    let mut run = Run {
        tree: if bytes.byte() & 1 == 0 {
            Map::<K, S, A>::new_in(A::over(nodes.clone()))
        } else {
            Map::<K, S, A>::with_gaps_in(A::over(nodes.clone()))
        },
        mint: Mint::default(),
        model: Model::new(),
        nodes,
        middle,
    };
    while !bytes.is_empty() {
        run.step(&mut bytes);
        run.nodes.allow(usize::MAX);
        run.compare();
    }
    let Run {
        nodes, mint, tree, ..
    } = run;
    drop(tree);
    assert_eq!((nodes.live(), mint.live()), (0, 0), "something is left");
}

/// A slot that the tree shows.
fn slot<K: Key>(found: (std::ops::RangeInclusive<K>, &Token)) -> Slot<K> {
    Slot {
        first: *found.0.start(),
        last: *found.0.end(),
        number: Some(found.1.number),
    }
}

impl<K: Key, S: Shape, A: Source> Run<K, S, A> {
    /// Structure, content, and counts.
    fn compare(&self) {
        if let Err(damage) = self.tree.check() {
            panic!("{damage}\n{}", self.tree);
        }
        assert!(self.tree.iter().map(slot).eq(self.model.entries()));
        assert_eq!(self.mint.live(), self.model.entries().count());
        if A::ONE_BY_ONE {
            assert_eq!(self.nodes.live(), self.tree.stats().nodes());
        }
    }

    fn step(&mut self, bytes: &mut Bytes<'_>) {
        let code = bytes.byte();
        // Some calls meet an allocator that is about to fail.
        if code & 0xc0 == 0x40 {
            self.nodes.allow(usize::from(bytes.byte() % 8));
        }
        let middle = self.middle;
        match code % 32 {
            0 | 1 => self.insert(bytes.range(middle)),
            2 => self.store(bytes.range(middle)),
            3 | 4 => self.store_splitting(bytes.range(middle), bytes.byte() != 0),
            5 => self.store_with(bytes.range(middle)),
            6 => self.erase(bytes.range(middle)),
            7 => self.erase_splitting(bytes.range(middle)),
            8 | 9 => self.remove(bytes.key(middle)),
            10 => self.replace(bytes.key(middle)),
            11 => self.grow(bytes.key(middle), bytes.range(middle)),
            12 => self.allocate(bytes.range(middle), bytes.small(20), code & 0x20 == 0),
            13 => self.cyclic(bytes.range(middle), bytes.key(middle)),
            14 => self.gaps(bytes),
            15 => self.duplicate(bytes.byte(), bytes.byte()),
            16 => self.retain(bytes.byte()),
            17 => self.traverse(bytes),
            18 => self.look(bytes.key(middle)),
            19 => self.change(bytes.range(middle)),
            20 => self.extend(bytes),
            21 => self.entry(bytes.range(middle), bytes.byte()),
            22 => self.pop(code & 0x40 == 0),
            23 => self.split_off(bytes.key(middle), bytes.byte() != 0),
            24 => self.append(bytes),
            25 | 26 => self.coalesce(bytes.range(middle), code & 1 == 0, bytes.byte()),
            27 => self.take_apart(bytes.byte(), bytes.byte()),
            28 => self.many(bytes),
            29 => self.walk_over(bytes),
            _ => {
                // Rarely: a history that starts over has a short memory.
                if bytes.byte() > 0xf0 {
                    self.tree.clear();
                    self.model = Model::new();
                }
            }
        }
    }

    /// The number of a value that came back, which is dropped.
    fn token(&mut self) -> (u32, Box<Token>) {
        let number = self.mint.number();
        (number, Box::new(self.mint.copy(number)))
    }

    fn insert(&mut self, (first, last): (K, K)) {
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

    /// What a store or an erasure came to.
    fn stored(
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

    fn refused(number: u32, error: StoreError<Box<Token>>) -> EraseError {
        let kind = match &error {
            StoreError::Splits(_) => EraseError::Splits,
            StoreError::Alloc(_) => EraseError::Alloc,
            StoreError::EmptyRange(_) => EraseError::EmptyRange,
        };
        assert_eq!(error.into_value().number, number);
        kind
    }

    fn store(&mut self, range: (K, K)) {
        let (number, token) = self.token();
        let done = self.tree.store_range(range.0..=range.1, token);
        self.stored(
            range,
            Some(number),
            done.map_err(|e| Self::refused(number, e)),
            false,
        );
    }

    fn store_with(&mut self, range: (K, K)) {
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

    fn store_splitting(&mut self, range: (K, K), split: bool) {
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

    fn erase(&mut self, range: (K, K)) {
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

    fn erase_splitting(&mut self, range: (K, K)) {
        let mint = &self.mint;
        let done = self
            .tree
            .erase_range_splitting(range.0..=range.1, |_, token| {
                Some(Box::new(mint.copy(token.number)))
            });
        self.stored(range, None, done, true);
    }

    fn remove(&mut self, key: K) {
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

    fn replace(&mut self, key: K) {
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

    fn grow(&mut self, key: K, (first, last): (K, K)) {
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

    fn allocate(&mut self, bounds: (K, K), size: K, up: bool) {
        let (number, token) = self.token();
        let expected = self.model.gap(bounds, size, K::ONE, K::MIN, up);
        let range = bounds.0..=bounds.1;
        let done = if up {
            self.tree.alloc_range(range, size, token)
        } else {
            self.tree.alloc_rrange(range, size, token)
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

    fn cyclic(&mut self, bounds: (K, K), from: K) {
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

    fn gaps(&mut self, bytes: &mut Bytes<'_>) {
        let bounds = bytes.range(self.middle);
        let size = bytes.small(40);
        let (align, offset) = (bytes.small(17), bytes.small(17));
        let range = bounds.0..=bounds.1;
        assert_eq!(
            self.tree.gap_up_aligned(range.clone(), size, align, offset),
            self.model.gap(bounds, size, align, offset, true)
        );
        assert_eq!(
            self.tree.gap_down_aligned(range, size, align, offset),
            self.model.gap(bounds, size, align, offset, false)
        );
    }

    /// A duplicate without the entries whose number is 0 modulo `sparse`, given up at the entry `stop` if that is not 0.
    fn duplicate(&mut self, sparse: u8, stop: u8) {
        let mut left = u32::from(stop);
        let mint = &self.mint;
        let out = |number: u32| sparse != 0 && number.is_multiple_of(u32::from(sparse));
        let (live, tokens) = (self.nodes.live(), mint.live());
        let copy = self.tree.try_clone_with(|_, token| {
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

    fn retain(&mut self, drop_every: u8) {
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

    /// From both ends, in the order that the bits of a byte say.
    fn traverse(&mut self, bytes: &mut Bytes<'_>) {
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

    fn look(&mut self, key: K) {
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

    /// New numbers in the entries of a range, in place.
    fn change(&mut self, (first, last): (K, K)) {
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

    /// What is at a range: shown, changed, exchanged, removed or inserted.
    fn entry(&mut self, range: (K, K), what: u8) {
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
                    2 => match entry.remove() {
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

    fn pop(&mut self, front: bool) {
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

    /// The upper part goes, is looked at, and comes back.
    fn split_off(&mut self, key: K, split: bool) {
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

    /// Another map comes over this one.
    fn append(&mut self, bytes: &mut Bytes<'_>) {
        let mut upper = Model::new();
        let (count, may_split) = (bytes.byte() % 12, bytes.byte() & 1 == 0);
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

    /// Stored with neighbours that are the same: those whose number is 0 modulo `modulus`, say.
    fn coalesce(&mut self, (first, last): (K, K), insert: bool, modulus: u8) {
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

    /// A duplicate's entries as values, some of them taken from both ends.
    fn take_apart(&mut self, turns: u8, count: u8) {
        self.nodes.allow(usize::MAX);
        let mint = &self.mint;
        let copy = self
            .tree
            .try_clone_with(|_, token| Ok::<_, ()>(Some(Box::new(mint.copy(token.number)))));
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

    /// Keys looked up together.
    fn many(&mut self, bytes: &mut Bytes<'_>) {
        let keys: [K; 5] = std::array::from_fn(|_| bytes.key(self.middle));
        let is = self
            .tree
            .get_many(keys)
            .map(|token| token.map(|token| token.number));
        assert_eq!(is, keys.map(|key| self.model.at(key).number));
    }

    /// Part of a range from both ends, and the rest in one go.
    fn walk_over(&mut self, bytes: &mut Bytes<'_>) {
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

    /// Some entries in a row.
    fn extend(&mut self, bytes: &mut Bytes<'_>) {
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

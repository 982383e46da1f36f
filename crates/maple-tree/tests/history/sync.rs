//! Histories of a `SyncMapleTree`, with an iterator and a cursor that stay open while it is written, and views that are looked at long
//! after their entries have gone.
//!
//! One thread plays all parts, so that what readers are promised can be checked exactly: what they are given was in the tree at some
//! moment since they entered, in order, and what was there throughout is given once.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use maple_tree::{
    EraseError, Fanout, InsertError, MapleTree, Native, Reclaim, Shape, StoreError, SyncMapleTree,
    Writer,
};

use super::index::Index;
use super::{Bytes, Countdown, Mint, Model, Nodes, Slot, Token};

/// Keeps what is retired while a reader is about.
#[derive(Default)]
pub struct Parked {
    readers: AtomicUsize,
    queue: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
}

pub struct ParkedGuard<'a>(&'a Parked);

impl Drop for ParkedGuard<'_> {
    fn drop(&mut self) {
        if self.0.readers.fetch_sub(1, Ordering::SeqCst) == 1 {
            let queue = std::mem::take(&mut *self.0.queue.lock().unwrap());
            queue.into_iter().for_each(|free| free());
        }
    }
}

// SAFETY: used by one thread; what is retired while guards live is called when the last one is dropped.
unsafe impl Reclaim for Parked {
    type Guard<'a> = ParkedGuard<'a>;

    fn enter(&self) -> ParkedGuard<'_> {
        self.readers.fetch_add(1, Ordering::SeqCst);
        ParkedGuard(self)
    }

    unsafe fn retire<F: FnOnce() + Send + 'static>(&self, free: F) {
        if self.readers.load(Ordering::SeqCst) == 0 {
            free();
        } else {
            self.queue.lock().unwrap().push(Box::new(free));
        }
    }
}

type Wr<'t, K, S> = Writer<'t, K, Box<Token>, Parked, Nodes, spin::Mutex<()>, S>;
type Tree<K, S> = SyncMapleTree<K, Box<Token>, Parked, Nodes, spin::Mutex<()>, S>;

/// Performs a history on the kind of map that has the most nodes for its entries, or on one whose keys have a sign.
///
/// # Panics
///
/// If a call gives something else than the list has, leaves the structure damaged, or something is left at the end.
pub fn play(bytes: &[u8]) {
    let mut bytes = Bytes::new(bytes);
    match bytes.byte() % 4 {
        0 => run::<i32, Fanout<4>>(bytes, -3),
        _ => run::<u64, Fanout<4>>(bytes, 1 << 40),
    }
}

/// Performs a history on one of several kinds of maps.
///
/// # Panics
///
/// As [`play`].
pub fn play_any(bytes: &[u8]) {
    let mut bytes = Bytes::new(bytes);
    match bytes.byte() % 5 {
        0 => run::<u64, Fanout<4>>(bytes, 1 << 40),
        1 => run::<u32, Fanout<4>>(bytes, 1 << 30),
        2 => run::<u128, Fanout<5>>(bytes, 1 << 100),
        3 => run::<i32, Fanout<4>>(bytes, -3),
        _ => run::<u64, Native>(bytes, 1 << 40),
    }
}

/// The list, and what readers may be given.
struct Past<K> {
    nodes: Nodes,
    mint: Mint,
    model: Model<K>,
    middle: K,
    /// Every entry that was there since the readers entered.
    seen: Vec<Slot<K>>,
    /// Those that were there throughout.
    lasting: Vec<Slot<K>>,
}

fn run<K: Index, S: Shape>(mut bytes: Bytes<'_>, middle: K) {
    let nodes = Countdown::new();
    let mut past = Past {
        mint: Mint::default(),
        model: Model::new(),
        middle,
        seen: Vec::new(),
        lasting: Vec::new(),
        nodes: nodes.clone(),
    };
    let mut tree: Tree<K, S> = if bytes.byte() & 1 == 0 {
        SyncMapleTree::new_in(Parked::default(), nodes.clone())
    } else {
        SyncMapleTree::with_gaps_in(Parked::default(), nodes.clone())
    };
    while !bytes.is_empty() {
        match bytes.byte() {
            ..0xe0 => past.write(&tree, &mut bytes),
            0xe0..0xfa => past.episode(&tree, &mut bytes),
            _ => {
                // For a while without concurrent readers.
                let map = tree.into_exclusive();
                map.check().unwrap();
                assert_eq!(nodes.live(), map.stats().nodes());
                tree = SyncMapleTree::from_exclusive(map, Parked::default());
            }
        }
    }
    past.compare(&tree);
    assert_eq!(
        nodes.live(),
        tree.write().stats().nodes(),
        "dead nodes are left"
    );
    assert_eq!(past.mint.live(), past.model.entries().count());
    drop(tree);
    assert_eq!(
        (nodes.live(), past.mint.live()),
        (0, 0),
        "something is left"
    );
}

fn slot<K: Index>(range: std::ops::RangeInclusive<K>, token: &Token) -> Slot<K> {
    Slot {
        first: *range.start(),
        last: *range.end(),
        number: Some(token.number),
    }
}

impl<K: Index> Past<K> {
    fn compare<S: Shape>(&self, tree: &Tree<K, S>) {
        if let Err(damage) = tree.write().check() {
            panic!("{damage}");
        }
        let reader = tree.read();
        assert!(
            reader
                .iter()
                .map(|(r, t)| slot(r, t))
                .eq(self.model.entries())
        );
        let mut backwards: Vec<_> = reader.iter().rev().map(|(r, t)| slot(r, t)).collect();
        backwards.reverse();
        assert!(backwards.into_iter().eq(self.model.entries()));
    }

    /// The list becomes what the tree is now.
    fn change(&mut self, first: K, last: K, number: Option<u32>) {
        self.model.store(first, last, number);
        let model = &self.model;
        self.seen.extend(model.within(first, last));
        // What was cut has become another entry.
        for key in [first.predecessor(), last.successor()]
            .into_iter()
            .flatten()
        {
            let slot = model.at(key);
            if slot.number.is_some() {
                self.seen.push(slot);
            }
        }
        self.lasting.retain(|slot| model.at(slot.first) == *slot);
    }

    fn write<S: Shape>(&mut self, tree: &Tree<K, S>, bytes: &mut Bytes<'_>) {
        let code = bytes.byte();
        if code & 0xc0 == 0x40 {
            self.nodes.allow(usize::from(bytes.byte() % 8));
        }
        let number = self.mint.number();
        let token = Box::new(self.mint.copy(number));
        let mut writer = tree.write();
        match code % 16 {
            0 | 1 => {
                let (first, last) = bytes.range(self.middle);
                let free = self.model.is_free(first, last);
                match writer.insert_range(first..=last, token) {
                    Ok(()) => {
                        assert!(free);
                        self.change(first, last, Some(number));
                    }
                    Err(InsertError::Occupied(_)) => assert!(!free),
                    Err(_) => assert!(self.nodes.is_dry()),
                }
            }
            2..=4 => {
                let (first, last) = bytes.range(self.middle);
                let mint = &self.mint;
                let done = writer.store_range_splitting(first..=last, token, |_, token| {
                    Some(Box::new(mint.copy(token.number)))
                });
                match done {
                    Ok(()) => self.change(first, last, Some(number)),
                    Err(_) => assert!(self.nodes.is_dry()),
                }
            }
            5 => {
                let (first, last) = bytes.range(self.middle);
                let mut displaced = Vec::new();
                let done = writer.store_range_with(first..=last, token, |range, token| {
                    displaced.push(slot(range, token));
                });
                displaced.sort_by_key(|slot| slot.first);
                match done {
                    Ok(()) => {
                        assert_eq!(displaced, self.model.covered(first, last));
                        self.change(first, last, Some(number));
                    }
                    Err(StoreError::Splits(_)) => assert!(self.model.splits(first, last)),
                    Err(_) => assert!(self.nodes.is_dry()),
                }
            }
            6 | 7 => {
                let (first, last) = bytes.range(self.middle);
                let mint = &self.mint;
                let done = writer.erase_range_splitting(first..=last, |_, token| {
                    Some(Box::new(mint.copy(token.number)))
                });
                match done {
                    Ok(()) => self.change(first, last, None),
                    Err(error) => assert!(self.nodes.is_dry() && error == EraseError::Alloc),
                }
            }
            8 => {
                let entry = self.model.at(bytes.key(self.middle));
                match writer.remove(entry.first) {
                    Ok(None) => assert_eq!(entry.number, None),
                    Ok(Some(range)) => {
                        assert_eq!(range, entry.first..=entry.last);
                        self.change(entry.first, entry.last, None);
                    }
                    Err(_) => assert!(self.nodes.is_dry()),
                }
            }
            9 => {
                let entry = self.model.at(bytes.key(self.middle));
                match writer.replace(entry.last, token) {
                    Ok(()) => self.change(entry.first, entry.last, Some(number)),
                    Err(_) => assert!(entry.number.is_none() || self.nodes.is_dry()),
                }
            }
            10 => {
                let entry = self.model.at(bytes.key(self.middle));
                let (first, last) = bytes.range(self.middle);
                let grows = entry.number.is_some() && first <= entry.first && entry.last <= last;
                match writer.grow(entry.first, first..=last) {
                    Ok(done) => {
                        assert_eq!(done, grows);
                        if done {
                            self.change(first, last, entry.number);
                        }
                    }
                    Err(_) => assert!(grows && self.nodes.is_dry()),
                }
            }
            11 => {
                // The upper part goes, as copies, and comes back over what is left.
                let key = bytes.key(self.middle);
                let mint = &self.mint;
                let copy =
                    writer.split_off_with(key, |_, token| Some(Box::new(mint.copy(token.number))));
                let Ok(mut high) = copy else {
                    assert!(self.nodes.is_dry());
                    return self.settle(tree, writer);
                };
                let mut upper = self.model.clone();
                if let Some(last) = key.predecessor() {
                    upper.store(K::MIN, last, None);
                }
                self.change(key, K::MAX, None);
                high.check().unwrap();
                assert!(high.iter().map(|(r, t)| slot(r, t)).eq(upper.entries()));
                match writer.append(&mut high) {
                    Ok(()) => {
                        for slot in upper.entries() {
                            self.change(slot.first, slot.last, slot.number);
                        }
                        self.all_seen();
                    }
                    Err(_) => {
                        assert!(self.nodes.is_dry());
                        assert!(high.iter().map(|(r, t)| slot(r, t)).eq(upper.entries()));
                    }
                }
            }
            12 => {
                // Another map comes over this one.
                let mut upper = Model::new();
                let mut other = MapleTree::new_in(self.nodes.clone());
                for _ in 0..bytes.byte() % 8 {
                    let (first, last) = bytes.range(self.middle);
                    let number = self.mint.number();
                    let token = Box::new(self.mint.copy(number));
                    if other.insert_range(first..=last, token).is_ok() {
                        upper.store(first, last, Some(number));
                    }
                }
                let mint = &self.mint;
                let done = writer.append_splitting(&mut other, |_, token| {
                    Some(Box::new(mint.copy(token.number)))
                });
                match done {
                    Ok(()) => {
                        assert!(other.is_empty());
                        for slot in upper.entries() {
                            self.change(slot.first, slot.last, slot.number);
                        }
                        self.all_seen();
                    }
                    Err(_) => assert!(self.nodes.is_dry()),
                }
            }
            13 => {
                let out = |number: u32| code & 0x80 != 0 && number.is_multiple_of(5);
                let all: Vec<_> = self.model.entries().collect();
                let mut seen = Vec::new();
                let done = writer.retain(|range, token| {
                    seen.push(slot(range, token));
                    !out(token.number)
                });
                if done.is_err() {
                    assert!(self.nodes.is_dry());
                    seen.pop();
                } else {
                    assert_eq!(seen, all);
                }
                for slot in seen {
                    if slot.number.is_some_and(out) {
                        self.change(slot.first, slot.last, None);
                    }
                }
            }
            14 => {
                let (first, last) = bytes.range(self.middle);
                let same = |token: &Token| code & 0x80 != 0 || token.number.is_multiple_of(3);
                match writer.store_range_coalescing(first..=last, token, |there, _| same(there)) {
                    Ok(range) => self.change(*range.start(), *range.end(), Some(number)),
                    Err(StoreError::Splits(_)) => assert!(self.model.splits(first, last)),
                    Err(_) => assert!(self.nodes.is_dry()),
                }
            }
            _ => {
                let bounds = bytes.range(self.middle);
                let size = bytes.small(20);
                let expected = self.model.gap(bounds, size, K::ONE, K::MIN, false);
                match writer.alloc_rrange(bounds.0..=bounds.1, size.number(), token) {
                    Ok(first) => {
                        assert_eq!(Some(first), expected);
                        let last = first.wrapping_add(size.wrapping_sub(K::ONE));
                        self.change(first, last, Some(number));
                    }
                    Err(InsertError::Alloc(_)) => assert!(self.nodes.is_dry()),
                    Err(_) => assert_eq!(expected, None),
                }
            }
        }
        self.settle(tree, writer);
    }

    fn settle<S: Shape>(&mut self, tree: &Tree<K, S>, writer: Wr<'_, K, S>) {
        drop(writer);
        self.nodes.allow(usize::MAX);
        self.compare(tree);
    }

    /// Changes that readers see at once were noted one by one: what there is in the end counts.
    fn all_seen(&mut self) {
        self.seen.extend(self.model.entries());
    }

    /// Readers stay while the tree is written.
    fn episode<S: Shape>(&mut self, tree: &Tree<K, S>, bytes: &mut Bytes<'_>) {
        let (first, last) = bytes.range(self.middle);
        self.seen = self.model.entries().collect();
        self.lasting = self.model.within(first, last);
        let reader = tree.read();
        let mut iter = reader.range(first..=last);
        let mut cursor = reader.cursor(first..=last);
        let mut views: Vec<(u32, &Token)> = Vec::new();
        let mut given: Vec<Slot<K>> = Vec::new();
        let (mut front, mut back): (Option<Slot<K>>, Option<Slot<K>>) = (None, None);
        let mut exhausted = false;
        for _ in 0..40 {
            let code = bytes.byte();
            if code >= 0xf8 {
                break;
            }
            match code % 8 {
                0..=2 => self.write(tree, bytes),
                3 | 4 => {
                    if let Some((range, token)) = iter.next() {
                        let is = slot(range, token);
                        assert!(is.first <= last && first <= is.last, "{is:?} is not within");
                        assert!(
                            front.is_none_or(|before| before.last < is.last),
                            "{front:?} {is:?}"
                        );
                        front = Some(is);
                        given.push(is);
                        views.push((token.number, token));
                    } else {
                        exhausted = true;
                    }
                }
                5 => {
                    if let Some((range, token)) = iter.next_back() {
                        let is = slot(range, token);
                        assert!(is.first <= last && first <= is.last, "{is:?} is not within");
                        assert!(
                            back.is_none_or(|before| is.first < before.first),
                            "{back:?} {is:?}"
                        );
                        back = Some(is);
                        given.push(is);
                        views.push((token.number, token));
                    } else {
                        exhausted = true;
                    }
                }
                6 => {
                    let found = if code & 0x10 == 0 {
                        cursor.find(..)
                    } else {
                        cursor.find_rev(..)
                    };
                    if let Some(token) = found {
                        let is = slot(cursor.range(), token);
                        assert!(self.seen.contains(&is), "{is:?} never was");
                        views.push((token.number, token));
                    }
                }
                _ => {
                    let key = bytes.key(self.middle);
                    let is = reader
                        .get_range(key)
                        .map(|(range, token)| slot(range, token));
                    let should = self.model.at(key);
                    assert_eq!(is, should.number.map(|_| should));
                    assert_eq!(reader.hole_at(key).is_none(), should.number.is_some());
                    if let Some(token) = reader.get(key) {
                        views.push((token.number, token));
                    }
                    let keys: [K; 3] = std::array::from_fn(|_| bytes.key(self.middle));
                    for (token, key) in reader.get_many(keys).into_iter().zip(keys) {
                        let number = token.map(|token| token.number);
                        assert_eq!(number, self.model.at(key).number);
                    }
                }
            }
            for is in &given {
                assert!(self.seen.contains(is), "{is:?} never was");
            }
        }
        for lasting in &self.lasting {
            let times = given.iter().filter(|is| *is == lasting).count();
            assert!(
                times <= 1 && (times == 1 || !exhausted),
                "{lasting:?} was given {times} times"
            );
        }
        for (number, token) in views {
            assert_eq!(token.number, number);
        }
    }
}

//! Values that are one and the same: what entries hold does not tell them apart. A list of entries is the model; how often each value is held is counted.

use std::rc::Rc;
use std::sync::Arc;

use crate::support::Rng;
use maple_tree::alloc::{Pool, SharedPool};
use maple_tree::{Fanout, MapleTree, Native, Shape, SyncMapleTree, Waiting};

type Map<S> = SyncMapleTree<u8, Arc<i32>, Waiting, SharedPool, spin::Mutex<()>, S>;

/// Its range, and which value it holds.
type Entry = (u8, u8, usize);

/// Entries in ascending order.
#[derive(Default)]
struct Model(Vec<Entry>);

impl Model {
    fn holds(&self, which: usize) -> usize {
        self.0.iter().filter(|entry| entry.2 == which).count()
    }

    /// Returns `true` if the range is within one entry, which goes on at both ends.
    fn is_within(&self, first: u8, last: u8) -> bool {
        self.0.iter().any(|entry| entry.0 < first && last < entry.1)
    }

    fn is_free(&self, first: u8, last: u8) -> bool {
        self.0.iter().all(|entry| entry.1 < first || last < entry.0)
    }

    /// Makes the range hold a value, or nothing; no entry is split. Gives what was within it.
    fn store(&mut self, first: u8, last: u8, which: Option<usize>) -> Vec<Entry> {
        let (gone, mut left): (Vec<_>, Vec<_>) = self
            .0
            .drain(..)
            .partition(|entry| first <= entry.0 && entry.1 <= last);
        for entry in &mut left {
            if entry.0 < first && first <= entry.1 {
                entry.1 = first - 1;
            } else if entry.0 <= last && last < entry.1 {
                entry.0 = last + 1;
            }
        }
        left.extend(which.map(|which| (first, last, which)));
        left.sort_unstable();
        self.0 = left;
        gone
    }
}

/// A range, mostly a short one.
fn range(rng: &mut Rng) -> (u8, u8) {
    let width = if rng.below(8) == 0 { 256 } else { 12 };
    let first = rng.below(256);
    let last = (first + rng.below(width)).min(255);
    (first as u8, last as u8)
}

/// An entry, and a range that contains it.
fn growth(rng: &mut Rng, model: &Model) -> Option<(Entry, (u8, u8))> {
    let entry = *model.0.get(rng.below(model.0.len().max(1)))?;
    let mut by = || (rng.below(4) * rng.below(12)) as u8;
    let range = (entry.0.saturating_sub(by()), entry.1.saturating_add(by()));
    Some((entry, range))
}

fn owned<S: Shape>(seed: u64, gaps: bool) {
    let values = [Rc::new(0), Rc::new(1)];
    let which = |value: &Rc<i32>| **value as usize;
    let mut rng = Rng(seed);
    let mut model = Model::default();
    let mut map: MapleTree<u8, Rc<i32>, Pool, S> = if gaps {
        MapleTree::with_gaps_in(Pool::new())
    } else {
        MapleTree::new_in(Pool::new())
    };
    for step in 0..if cfg!(miri) { 60 } else { 3_000 } {
        let (first, last) = range(&mut rng);
        let value = rng.below(2);
        let mut gone = Vec::new();
        let expected = match rng.below(6) {
            0 | 1 => {
                let Some((entry, (first, last))) = growth(&mut rng, &model) else {
                    continue;
                };
                let take = |range: std::ops::RangeInclusive<u8>, value: Rc<i32>| {
                    gone.push((*range.start(), *range.end(), which(&value)));
                };
                assert_eq!(map.grow(entry.0, first..=last, take), Ok(true));
                let mut expected = model.store(first, last, Some(entry.2));
                expected.retain(|other| *other != entry);
                expected
            }
            2 if !model.is_within(first, last) => {
                map.erase_range(first..=last).unwrap();
                model.store(first, last, None);
                Vec::new()
            }
            3 if !model.is_within(first, last) => {
                let value = values[value].clone();
                let number = which(&value);
                let take = |range: std::ops::RangeInclusive<u8>, value: Rc<i32>| {
                    gone.push((*range.start(), *range.end(), which(&value)));
                };
                map.store_range_with(first..=last, value, take).unwrap();
                model.store(first, last, Some(number))
            }
            _ => {
                let done = map.insert_range(first..=last, values[value].clone());
                assert_eq!(done.is_ok(), model.is_free(first, last));
                if done.is_ok() {
                    model.store(first, last, Some(value));
                }
                Vec::new()
            }
        };
        assert_eq!(gone, expected, "displaced by step {step} of seed {seed}");
        map.check().unwrap();
        let entries: Vec<Entry> = map
            .iter()
            .map(|(range, value)| (*range.start(), *range.end(), **value as usize))
            .collect();
        assert_eq!(entries, model.0, "after step {step} of seed {seed}");
        for (number, value) in values.iter().enumerate() {
            assert_eq!(
                Rc::strong_count(value),
                1 + model.holds(number),
                "step {step}, seed {seed}"
            );
        }
    }
    drop(map);
    assert!(values.iter().all(|value| Rc::strong_count(value) == 1));
}

/// Growing by the writer's own way, and from a hint.
fn shared<S: Shape>(seed: u64, in_rcu: bool) {
    let values = [Arc::new(0), Arc::new(1)];
    let mut rng = Rng(seed);
    let mut model = Model::default();
    let map: Map<S> = SyncMapleTree::with_gaps_in(Waiting::new(), SharedPool::new());
    // SAFETY: no other code has the map.
    unsafe { map.set_in_rcu(in_rcu) };
    for step in 0..if cfg!(miri) { 40 } else { 3_000 } {
        let (first, last) = range(&mut rng);
        let value = rng.below(2);
        let mut writer = map.write();
        if rng.below(2) == 0 {
            let done = writer.insert_range(first..=last, values[value].clone());
            assert_eq!(done.is_ok(), model.is_free(first, last));
            if done.is_ok() {
                model.store(first, last, Some(value));
            }
        } else if let Some((entry, (first, last))) = growth(&mut rng, &model) {
            // SAFETY: nothing is near.
            let look = unsafe { writer.look(None, first) };
            let hint = look.map(|look| look.hint()).filter(|_| rng.below(2) == 0);
            // SAFETY: the hint is that of where the range begins, in this map, which has not been changed since.
            let done =
                hint.is_some_and(|hint| unsafe { writer.grow_here(&hint, entry.0, (first, last)) });
            if !done {
                assert_eq!(writer.grow(entry.0, first..=last), Ok(true));
            }
            model.store(first, last, Some(entry.2));
        }
        writer.check().unwrap();
        let entries: Vec<Entry> = writer
            .iter()
            .map(|(range, value)| (*range.start(), *range.end(), **value as usize))
            .collect();
        assert_eq!(entries, model.0, "after step {step} of seed {seed}");
    }
    drop(map);
    assert!(
        values.iter().all(|value| Arc::strong_count(value) == 1),
        "seed {seed}"
    );
}

#[test]
fn one_owner() {
    for seed in 0..if cfg!(miri) { 1 } else { 6 } {
        owned::<Native>(seed, seed % 2 == 0);
        owned::<Fanout<4>>(seed, seed % 2 == 0);
        owned::<Fanout<5>>(seed, seed % 2 == 1);
    }
}

#[test]
fn one_writer() {
    for seed in 0..if cfg!(miri) { 1 } else { 6 } {
        shared::<Native>(seed, false);
        shared::<Fanout<4>>(seed, false);
        shared::<Native>(seed, true);
        shared::<Fanout<5>>(seed, true);
    }
}

/// Numbers are handed out, too, where the growing entry holds the same one.
#[test]
fn numbers() {
    let mut map = MapleTree::from([(0..5u32, 7u16), (10..20, 7), (30..40, 8)]);
    let mut gone = Vec::new();
    let done = map.grow(15, 0..50, |range, value| gone.push((range, value)));
    assert_eq!(done, Ok(true));
    assert_eq!(gone, [(0..=4, 7), (30..=39, 8)]);
}

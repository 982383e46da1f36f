//! Changes of a whole snapshot map, and allocations of free ranges, against a flat array: over
//! random contents, with a snapshot that shares all of it, and with each node refused once.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod support;

use maple_tree::{CowMapleTree, Fanout, InsertError};
use support::counting::{Alive, Count, Countdown, number};
use support::{Model, Number, Rng};

const CELLS: usize = 40;
const BASE: u32 = 1000;

type Map<'a> = CowMapleTree<u32, Box<Alive>, &'a Countdown, Fanout<4>>;

/// A map with entries, what it holds, and a snapshot of it.
struct Trial<'a> {
    nodes: &'a Countdown,
    count: &'a Count,
    map: Map<'a>,
    model: Model<u32>,
    before: Map<'a>,
    was: Model<u32>,
    rng: Rng,
}

impl<'a> Trial<'a> {
    fn new(seed: u64, nodes: &'a Countdown, count: &'a Count) -> Self {
        let mut rng = Rng(seed);
        let mut model = Model::new(BASE, CELLS);
        let mut map = Map::with_gaps_in(nodes);
        for i in 0..rng.below(40) {
            let (first, last) = range(&mut rng, 6);
            let value = (i % 12 > 2).then_some(i as Number + 1);
            model.store(first, last, value);
            let range = model.key(first)..=model.key(last);
            match value {
                Some(value) => map.store_range(range, Alive::boxed(value, count)).unwrap(),
                None => map.erase_range(range).unwrap(),
            }
        }
        let before = map.snapshot();
        let was = model.clone();
        Self {
            nodes,
            count,
            map,
            model,
            before,
            was,
            rng,
        }
    }

    fn compare(&self) {
        CowMapleTree::check_family(&[&self.map, &self.before]).unwrap();
        same(&self.model, &self.map);
        same(&self.was, &self.before);
    }

    /// Makes a call with each node refused once; a call that fails changes nothing.
    fn insist<T>(&mut self, mut call: impl FnMut(&mut Map<'a>, &Count) -> Option<T>) -> T {
        for allowed in 0.. {
            self.nodes.allow(allowed);
            let done = call(&mut self.map, self.count);
            self.nodes.allow(usize::MAX);
            if let Some(done) = done {
                return done;
            }
            self.compare();
        }
        unreachable!()
    }
}

fn range(rng: &mut Rng, most: usize) -> (usize, usize) {
    let first = rng.below(CELLS);
    (first, (first + rng.below(most)).min(CELLS - 1))
}

fn same(model: &Model<u32>, map: &Map<'_>) {
    for (i, cell) in model.cells.iter().enumerate() {
        assert_eq!(map.get(model.key(i)).map(number), *cell);
    }
    let covered: usize = map.ranges().map(|range| range.count()).sum();
    assert_eq!(covered, model.cells.iter().flatten().count());
}

fn trials(mut each: impl FnMut(&mut Trial<'_>)) {
    for seed in 0..if cfg!(miri) { 3 } else { 150 } {
        let (nodes, count) = (Countdown::new(), Count::default());
        let mut trial = Trial::new(seed, &nodes, &count);
        each(&mut trial);
        trial.compare();
        drop(trial);
        assert_eq!((nodes.live(), count.get()), (0, 0));
    }
}

#[test]
fn cut() {
    trials(|trial| {
        let (first, last) = range(&mut trial.rng, CELLS);
        let range = trial.model.key(first)..=trial.model.key(last);
        let cut = trial.insist(|map, _| map.cut(range.clone()).ok());
        let mut taken = Model::new(BASE, CELLS);
        taken.cells[first..=last].copy_from_slice(&trial.model.cells[first..=last]);
        trial.model.store(first, last, None);
        CowMapleTree::check_family(&[&trial.map, &trial.before, &cut]).unwrap();
        same(&taken, &cut);
    });
}

#[test]
fn cut_at_the_ends() {
    trials(|trial| {
        let key = trial.model.key(trial.rng.below(CELLS));
        let high = trial.map.cut(key..).unwrap();
        assert!(high.ranges().all(|range| *range.start() >= key));
        assert!(trial.map.ranges().all(|range| *range.end() < key));
        let both = trial.map.len() + high.len();
        let split = trial.before.get_range(key);
        let split = split.is_some_and(|(range, _)| *range.start() < key);
        assert_eq!(both, trial.before.len() + usize::from(split));
        drop(high);
        let all = trial.map.cut(..).unwrap();
        assert!(trial.map.is_empty());
        drop(all);
        trial.model = Model::new(BASE, CELLS);
    });
}

#[test]
fn retain() {
    trials(|trial| {
        let odd = trial.rng.below(3) as Number;
        let keep = |value: &Alive| value.number % 3 != odd;
        // One that fails may have dropped some: what it has come to is what the next one begins with.
        for allowed in 0.. {
            trial.nodes.allow(allowed);
            let mut seen = Vec::new();
            let done = trial.map.retain(|range, value| {
                seen.push(range);
                keep(value)
            });
            trial.nodes.allow(usize::MAX);
            assert!(seen.is_sorted_by(|a, b| a.end() < b.start()));
            CowMapleTree::check_family(&[&trial.map, &trial.before]).unwrap();
            if done.is_ok() {
                break;
            }
        }
        for cell in &mut trial.model.cells {
            *cell = cell.filter(|number| number % 3 != odd);
        }
    });
}

#[test]
fn iter_mut() {
    trials(|trial| {
        let changed = trial.insist(|map, _| {
            let entries = map.iter_mut().ok()?;
            Some(entries.map(|(_, value)| value.number += 1).count())
        });
        assert_eq!(changed, trial.before.len());
        for cell in trial.model.cells.iter_mut().flatten() {
            *cell += 1;
        }
        // Nothing is shared any more.
        if changed > 0 {
            assert_eq!(trial.map.sharing().shared, 0);
        }
    });
}

#[test]
fn insert_and_join() {
    trials(|trial| {
        let (first, last) = range(&mut trial.rng, 4);
        let range = trial.model.key(first)..=trial.model.key(last);
        // The number of the entry before, or one that nothing has.
        let before = first.checked_sub(1).and_then(|i| trial.model.cells[i]);
        let new = before.unwrap_or(200);
        let free = trial.model.cells[first..=last].iter().all(Option::is_none);
        let done = trial.insist(|map, count| {
            let value = Alive::boxed(new, count);
            match map.insert_range_coalescing(range.clone(), value, |a, b| a.number == b.number) {
                Ok(whole) => Some(Some(whole)),
                Err(InsertError::Occupied(value)) => {
                    assert_eq!(value.number, new);
                    Some(None)
                }
                Err(InsertError::Alloc(_)) => None,
                Err(InsertError::EmptyRange(_)) => panic!("it is not empty"),
            }
        });
        assert_eq!(done.is_some(), free);
        let Some(whole) = done else { return };
        trial.model.store(first, last, Some(new));
        assert_eq!(trial.map.get_range(*range.start()).unwrap().0, whole);
        assert_eq!(*whole.start() < *range.start(), before.is_some());
        assert!(*whole.end() >= *range.end());
    });
}

#[test]
fn allocate() {
    trials(|trial| {
        let (first, last) = range(&mut trial.rng, CELLS);
        let (lo, hi) = (trial.model.key(first), trial.model.key(last));
        let size = trial.rng.below(5) as u32 + 1;
        for up in [true, false] {
            let expected = match up {
                true => trial.model.gap_up(lo, hi, size, 1, 0),
                false => trial.model.gap_down(lo, hi, size, 1, 0),
            };
            let got = trial.insist(|map, count| {
                let value = Alive::boxed(100, count);
                let done = match up {
                    true => map.alloc_range(lo..=hi, size, value),
                    false => map.alloc_rrange(lo..=hi, size, value),
                };
                match done {
                    Ok(key) => Some(Some(key)),
                    Err(InsertError::Occupied(_)) => Some(None),
                    Err(InsertError::Alloc(_)) => None,
                    Err(InsertError::EmptyRange(_)) => panic!("it is not empty"),
                }
            });
            assert_eq!(got, expected);
            if let Some(key) = got {
                let first = (key - BASE) as usize;
                let last = first + size as usize - 1;
                trial.model.store(first, last, Some(100));
            }
            trial.compare();
        }
        let mut next = hi;
        let expected = trial.model.gap_up(hi, hi, 1, 1, 0);
        let again = expected.is_none();
        let expected = expected.or_else(|| trial.model.gap_up(lo, hi, 1, 1, 0));
        let value = Alive::boxed(101, trial.count);
        match trial.map.alloc_cyclic(lo..=hi, &mut next, value) {
            Ok(got) => {
                assert_eq!(Some(got), expected.map(|key| (key, again)));
                assert_eq!(next, got.0 + 1);
                let cell = (got.0 - BASE) as usize;
                trial.model.store(cell, cell, Some(101));
            }
            Err(error) => {
                assert!(matches!(error, InsertError::Occupied(_)));
                assert_eq!((expected, next), (None, hi));
            }
        }
    });
}

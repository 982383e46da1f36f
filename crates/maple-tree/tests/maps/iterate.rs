//! Iterators from both ends, over all bounds, at every fanout: what they yield, count and promise.

use std::collections::VecDeque;

use crate::support::{Index, Number, Rng, add};
use maple_tree::alloc::{Global, Pool};
use maple_tree::{Fanout, MapleTree, Native, Shape, Value};

/// First and last index, and the value.
type Entry<K> = (K, K, Number);

/// A map of ranges of one to three indices, some with holes between, and what is in it.
fn filled<K: Index, S: Shape>(
    rng: &mut Rng,
    gaps: bool,
    entries: usize,
) -> (MapleTree<K, Number, Global, S>, Vec<Entry<K>>) {
    let mut map = if gaps {
        MapleTree::with_gaps_in(Global)
    } else {
        MapleTree::new_in(Global)
    };
    let mut list = Vec::new();
    let mut at = rng.below(2);
    for n in 0..entries {
        let last = at + rng.below(3);
        let (first, end) = (add(K::MIN, at), add(K::MIN, last));
        map.insert_range(first..=end, n as Number).unwrap();
        list.push((first, end, n as Number));
        at = last + 1 + rng.below(2) * rng.below(3);
    }
    (map, list)
}

fn both_ends<K: Index, S: Shape>(seed: u64, gaps: bool) {
    let mut rng = Rng(seed);
    let sizes: &[usize] = if cfg!(miri) {
        &[2, 20]
    } else {
        &[0, 1, 2, 3, 5, 17, 40, 150, 700]
    };
    for &entries in sizes {
        let (mut map, list) = filled::<K, S>(&mut rng, gaps, entries);
        let span = list.last().map_or(3, |_| 2 * entries + 3);
        for _ in 0..if cfg!(miri) { 2 } else { 60 } {
            let lo = add(K::MIN, rng.below(span));
            let hi = match rng.below(4) {
                0 => K::MAX,
                _ => add(lo, rng.below(span)),
            };
            let mut model: VecDeque<_> = list
                .iter()
                .filter(|e| e.1 >= lo && e.0 <= hi)
                .map(|&(first, last, value)| (first..=last, value))
                .collect();
            assert_eq!(map.range(lo..=hi).count(), model.len());
            let folded = map.range(lo..=hi).fold(Vec::new(), |mut seen, entry| {
                seen.push(entry);
                seen
            });
            assert_eq!(folded, Vec::from(model.clone()));
            let shared: Vec<_> = map
                .range_mut(lo..=hi)
                .map(|(range, v)| (range, *v))
                .collect();
            assert_eq!(shared, folded);
            // From both ends, in runs of one to eight, then the rest in one of three ways.
            let mut iter = map.range(lo..=hi);
            let stop = rng.below(model.len() + 2);
            while model.len() > stop {
                let back = rng.below(2) == 0;
                for _ in 0..1 + rng.below(8) {
                    let (least, most) = iter.size_hint();
                    assert!(least <= model.len() && most.is_none_or(|most| model.len() <= most));
                    if back {
                        assert_eq!(iter.next_back(), model.pop_back());
                    } else {
                        assert_eq!(iter.next(), model.pop_front());
                    }
                }
            }
            match rng.below(4) {
                0 => assert_eq!(iter.count(), model.len()),
                1 => assert!(iter.eq(model)),
                2 => assert!(iter.rev().eq(model.into_iter().rev())),
                _ => {
                    let seen = iter.fold(0, |seen, entry| {
                        assert_eq!(entry, model[seen]);
                        seen + 1
                    });
                    assert_eq!(seen, model.len());
                }
            }
        }
    }
}

#[test]
fn both_ends_yield_every_entry_once() {
    for seed in 0..if cfg!(miri) { 1 } else { 3 } {
        for gaps in [false, true] {
            both_ends::<u64, Fanout<4>>(seed, gaps);
            both_ends::<u64, Native>(seed, gaps);
            both_ends::<u32, Native>(seed, gaps);
            both_ends::<u128, Fanout<5>>(seed, gaps);
        }
    }
}

#[test]
fn an_end_that_is_done_stays_done() {
    let mut map: MapleTree<u64, Number> = MapleTree::new();
    map.insert(0, 1).unwrap();
    let mut iter = map.iter();
    assert_eq!(iter.next_back(), Some((0..=0, 1)));
    assert_eq!(
        (iter.next_back(), iter.next(), iter.size_hint()),
        (None, None, (0, Some(0)))
    );
    map.insert_range(5..=u64::MAX, 2).unwrap();
    let mut iter = map.iter();
    assert_eq!(iter.next(), Some((0..=0, 1)));
    assert_eq!(iter.next_back(), Some((5..=u64::MAX, 2)));
    assert_eq!(
        (iter.next(), iter.next_back(), iter.next()),
        (None, None, None)
    );
}

#[test]
fn several_keys_are_looked_up_at_once() {
    let mut rng = Rng(7);
    for gaps in [false, true] {
        for entries in [0, 1, 5, if cfg!(miri) { 40 } else { 300 }] {
            let (map, _) = filled::<u64, Fanout<5>>(&mut rng, gaps, entries);
            let keys: [u64; 24] = std::array::from_fn(|_| rng.below(3 * entries + 2) as u64);
            assert_eq!(map.get_many(keys), keys.map(|key| map.get(key)));
            assert_eq!(map.get_many([]), []);
        }
    }
}

/// Entries of three kinds of length and distance, as many as there are numbers.
fn three_kinds<K: Index + TryFrom<u64>, S: Shape>(
    numbers: u64,
    gaps: bool,
) -> MapleTree<K, u16, Pool, S>
where
    u16: Value,
{
    let mut map = if gaps {
        MapleTree::with_gaps_in(Pool::new())
    } else {
        MapleTree::new_in(Pool::new())
    };
    let key = |n: u64| K::try_from(n).unwrap_or(K::MAX);
    for n in 0..numbers {
        let first = 10 * n + n % 3;
        let entry = key(first)..=key(10 * n + 9 - n % 2);
        assert_eq!(map.insert_range(entry, n as u16), Ok(()));
    }
    map
}

/// Compares a fold with steps, between bounds, after some steps from both ends.
fn as_by_steps<K: Index + TryFrom<u64>, S: Shape>(numbers: u64, gaps: bool) {
    let map = three_kinds::<K, S>(numbers, gaps);
    let key = |n: u64| K::try_from(n).unwrap_or(K::MAX);
    let end = 10 * numbers;
    for (lo, hi) in [
        (0, u64::MAX),
        (5, end / 2),
        (end / 3, end),
        (7, 7),
        (end / 2, end / 2 + 1),
    ] {
        let range = || map.range(key(lo)..=key(hi));
        let mut all = Vec::new();
        for entry in range() {
            all.push(entry);
        }
        for (front, back) in [(0, 0), (1, 0), (0, 1), (3, 2), (40, 0), (0, 70), (200, 200)] {
            let mut left = range();
            let steps = (0..front).filter(|_| left.next().is_some()).count();
            let steps_back = (0..back).filter(|_| left.next_back().is_some()).count();
            let folded = left.fold(Vec::new(), |mut folded, entry| {
                folded.push(entry);
                folded
            });
            assert_eq!(
                folded,
                all[steps..all.len() - steps_back],
                "{lo} {hi} {front} {back}"
            );
        }
    }
}

#[test]
fn a_fold_shows_what_steps_show() {
    let sizes: &[u64] = if cfg!(miri) {
        &[0, 1, 40]
    } else {
        &[0, 1, 2, 9, 30, 70, 500, 3000]
    };
    for &numbers in sizes {
        for gaps in [false, true] {
            as_by_steps::<u64, Native>(numbers, gaps);
            as_by_steps::<u64, Fanout<5>>(numbers, gaps);
            // Which is all that there is time for there.
            if cfg!(miri) {
                continue;
            }
            as_by_steps::<u32, Native>(numbers, gaps);
            as_by_steps::<u128, Native>(numbers, gaps);
            as_by_steps::<u32, Fanout<4>>(numbers, gaps);
        }
    }
}

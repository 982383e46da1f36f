//! Maps made out of iterators: of every size, with holes and without, at every width, with allocations that fail at each place.

use std::ops::RangeInclusive;

use crate::support::counting::{Alive, Count, Countdown, number};
use crate::support::{Index, Model, Number, Rng, add, compare};
use maple_tree::alloc::Global;
use maple_tree::{Fanout, InsertError, MapleTree, Native, Shape, SortedError};

/// Ranges of `n` entries within `cells` cells, as a model: `holes` of three entries have a hole before them.
fn model<K: Index>(base: K, n: usize, holes: usize, width: usize) -> Model<K> {
    let mut cells = Vec::new();
    for i in 0..n {
        if i % 3 < holes {
            cells.extend(vec![None; 1 + i % 2]);
        }
        cells.extend(vec![Some(i as Number); 1 + i % width]);
    }
    Model { base, cells }
}

/// All the ways to make the map that the model says, with and without gaps.
fn make<K: Index, S: Shape>(model: &Model<K>) {
    let entries = model.entries();
    let nodes = Countdown::new();
    for gaps in [false, true] {
        let mut tree: MapleTree<K, Number, &Countdown, S> = if gaps {
            MapleTree::with_gaps_in(&nodes)
        } else {
            MapleTree::new_in(&nodes)
        };
        tree.try_extend(entries.clone()).unwrap();
        compare(model, &tree, &|| format!("{} entries", entries.len()));
        // Another write finds a sound tree.
        if let Some((range, value)) = entries.last() {
            tree.remove(*range.start()).unwrap();
            tree.check().unwrap();
            tree.insert_range(range.clone(), *value).unwrap();
            compare(model, &tree, &|| "after a write".into());
        }
    }
    assert_eq!(nodes.live(), 0);
    let sorted: MapleTree<K, Number, Global, S> =
        MapleTree::try_from_sorted_in(entries.iter().cloned(), Global).unwrap();
    compare(model, &sorted, &|| "sorted".into());
    let collected: MapleTree<K, Number, Global, S> = entries.iter().cloned().collect();
    compare(model, &collected, &|| "collected".into());
    let backwards: MapleTree<K, Number, Global, S> =
        MapleTree::try_from_iter_in(entries.iter().rev().cloned(), Global).unwrap();
    compare(model, &backwards, &|| "backwards".into());
}

fn sizes<K: Index, S: Shape>() {
    // Nine entries with holes are three levels at fanout 4.
    let (most, step) = if cfg!(miri) { (10, 9) } else { (90, 1) };
    for n in (0..most).step_by(step) {
        for holes in (0..=3).step_by(step.min(2)) {
            let low = model(K::MIN, n, holes, 3);
            make::<K, S>(&low);
            // Up to the largest index.
            if n > 0 && n % 3 == 0 {
                let base = low.cells.iter().fold(K::MAX, |k, _| k.wrapping_sub(K::ONE));
                make::<K, S>(&model(base.wrapping_add(K::ONE), n, holes, 3));
            }
        }
    }
}

#[test]
fn every_size() {
    sizes::<u32, Fanout<4>>();
    sizes::<u64, Fanout<5>>();
    sizes::<u64, Native>();
    sizes::<u128, Native>();
    sizes::<usize, Fanout<7>>();
}

/// Several levels of full nodes.
#[test]
#[cfg_attr(miri, ignore = "its point is volume; `sizes` goes three levels deep")]
fn large() {
    fn of<K: Index>() {
        for holes in [0, 1, 3] {
            let model = model(add(K::MIN, 5), 20_000, holes, 1);
            let entries = model.entries();
            for gaps in [false, true] {
                let mut tree: MapleTree<K, Number> = if gaps {
                    MapleTree::with_gaps()
                } else {
                    MapleTree::new()
                };
                tree.try_extend(entries.iter().cloned()).unwrap();
                tree.check().unwrap();
                assert!(tree.iter().eq(entries.iter().cloned()));
                assert!(tree.stats().leaf_fill() > 0.95);
            }
        }
    }
    of::<u32>();
    of::<u64>();
    of::<usize>();
    of::<u128>();
}

/// The empty tree, the entry that needs no node, and the whole key space.
#[test]
fn without_nodes() {
    let nodes = Countdown::new();
    let mut tree: MapleTree<u32, Number, &Countdown> = MapleTree::new_in(&nodes);
    tree.try_extend([(0..1, 7)]).unwrap();
    assert_eq!((tree.height(), nodes.live(), tree.get(0)), (0, 0, Some(7)));
    tree.clear();
    tree.try_extend(std::iter::empty::<(RangeInclusive<u32>, Number)>())
        .unwrap();
    assert!(tree.is_empty());
    tree.try_extend([(.., 3)]).unwrap();
    assert_eq!(
        (tree.height(), tree.get_range(9)),
        (1, Some((0..=u32::MAX, 3)))
    );
    tree.check().unwrap();
}

/// Every allocation fails once. What came before is in the map, the value comes back, and trying again goes on.
#[test]
fn every_allocation_fails_once() {
    fn of<K: Index, S: Shape>(gaps: bool) {
        let n = if cfg!(miri) { 12 } else { 120 };
        let model = model(add(K::MIN, 3), n, 2, 2);
        let entries = model.entries();
        let count = Count::default();
        let nodes = Countdown::new();
        for allowed in 0.. {
            let mut tree: MapleTree<K, Box<Alive>, &Countdown, S> = if gaps {
                MapleTree::with_gaps_in(&nodes)
            } else {
                MapleTree::new_in(&nodes)
            };
            nodes.allow(allowed);
            let result = tree.try_extend(
                entries
                    .iter()
                    .map(|(range, v)| (range.clone(), Alive::boxed(*v, &count))),
            );
            nodes.allow(usize::MAX);
            tree.check().unwrap();
            let held = tree.len();
            assert!(
                tree.iter()
                    .map(|(r, v)| (r, number(v)))
                    .eq(entries[..held].iter().cloned())
            );
            match result {
                Ok(()) => {
                    assert_eq!(held, entries.len());
                    break;
                }
                Err(InsertError::Alloc(value)) => assert_eq!(value.number, entries[held].1),
                Err(other) => panic!("{other}"),
            }
            assert_eq!(count.get(), held as isize);
            // With the map as it was left, the rest goes in one by one.
            tree.try_extend(
                entries[held..]
                    .iter()
                    .map(|(range, v)| (range.clone(), Alive::boxed(*v, &count))),
            )
            .unwrap();
            assert_eq!(tree.len(), entries.len());
            tree.check().unwrap();
        }
        assert_eq!((count.get(), nodes.live()), (0, 0));
    }
    for gaps in [false, true] {
        of::<u32, Fanout<4>>(gaps);
        of::<u64, Native>(gaps);
        of::<u128, Native>(gaps);
        of::<usize, Fanout<5>>(gaps);
    }
}

/// An entry out of order, or that covers nothing, ends a sorted map and gives its value back; all others are dropped.
#[test]
fn refusals() {
    let count = Count::default();
    let value = |n| Alive::boxed(n, &count);
    type Map = MapleTree<u64, Box<Alive>, Global, Fanout<4>>;
    for at in (0..30).filter(|at| !cfg!(miri) || at % 10 == 9) {
        let entries = |odd: std::ops::Range<u64>| {
            (0..30).map(move |i| {
                (
                    if i == at {
                        odd.clone()
                    } else {
                        10 * i..10 * i + 5
                    },
                    i as u32,
                )
            })
        };
        let back = 10 * at.saturating_sub(1);
        let map = Map::try_from_sorted_in(
            entries(back + 1..back + 30).map(|(r, n)| (r, value(n as Number))),
            Global,
        );
        match map {
            Err(SortedError::OutOfOrder(v)) => {
                assert!(v.number == at as Number || v.number == at as Number + 1);
            }
            Err(other) => panic!("{other}"),
            // The last one may be long.
            Ok(_) => assert_eq!(at, 29),
        }
        assert_eq!(count.get(), 0);
        match Map::try_from_sorted_in(entries(5..5).map(|(r, n)| (r, value(n as Number))), Global) {
            Err(SortedError::EmptyRange(v)) => assert_eq!(v.number, at as Number),
            other => panic!("{:?}", other.err()),
        }
        assert_eq!(count.get(), 0);
        match Map::try_from_iter_in(entries(5..5).map(|(r, n)| (r, value(n as Number))), Global) {
            Err(InsertError::EmptyRange(v)) => assert_eq!(v.number, at as Number),
            other => panic!("{:?}", other.err()),
        }
        assert_eq!(count.get(), 0);
    }
}

/// Whatever comes in whatever order: later entries lie over earlier ones, as in the flat array, and both parts of one that is
/// split are there.
#[test]
fn collect_any_order() {
    let mut rng = Rng(31);
    let count = Count::default();
    for round in 0..if cfg!(miri) { 2 } else { 400 } {
        let mut model = Model::new(5u32, 60);
        let mut entries = Vec::new();
        for i in 0..1 + rng.below(30) {
            let first = if rng.below(3) == 0 {
                rng.below(60)
            } else {
                (2 * i).min(59)
            };
            let last = (first + rng.below(9)).min(59);
            model.store(first, last, Some(i as Number));
            entries.push((model.key(first)..=model.key(last), i as Number));
            if rng.below(9) == 0 {
                #[expect(clippy::reversed_empty_ranges, reason = "that is what is tried")]
                entries.push((7..=3, 99));
            }
        }
        let plain: MapleTree<u32, Number, Global, Fanout<4>> = entries.iter().cloned().collect();
        compare(&model, &plain, &|| format!("round {round}"));
        let boxed: MapleTree<u32, Box<Alive>, Global, Fanout<4>> = entries
            .iter()
            .map(|(range, v)| (range.clone(), Alive::boxed(*v, &count)))
            .collect();
        assert_eq!(count.get(), boxed.len() as isize);
        assert!(boxed.iter().map(|(r, v)| (r, number(v))).eq(plain.iter()));
        drop(boxed);
        assert_eq!(count.get(), 0);
    }
}

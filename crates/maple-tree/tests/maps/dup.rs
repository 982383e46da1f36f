//! Duplicates: with a failure at every allocation and at every entry, with entries left out, from pools and from single nodes, and
//! counts of nodes and values that are left.

use std::ops::RangeInclusive;

use crate::support::counting::{Alive, Count, Countdown};
use crate::support::{Index, Number, Rng, add};
use maple_tree::alloc::{Fork, NodeAlloc, Pool};
use maple_tree::{
    AllocError, CloneError, Fanout, MapleTree, Native, Shape, SyncMapleTree, Waiting,
};

type Map<K, A, S> = MapleTree<K, Box<Alive>, A, S>;

/// Entries of one to three indices, half of them before a hole; their numbers count up.
fn fill<K: Index, A: NodeAlloc, S: Shape>(map: &mut Map<K, A, S>, entries: usize, count: &Count) {
    let mut rng = Rng(entries as u64);
    let mut at = rng.below(2);
    for n in 0..entries {
        let last = at + rng.below(3);
        map.insert_range(
            add(K::MIN, at)..=add(K::MIN, last),
            Alive::boxed(n as Number, count),
        )
        .unwrap();
        at = last + 1 + rng.below(2) * rng.below(4);
    }
}

fn entries<K: Index, A: NodeAlloc, S: Shape>(
    map: &Map<K, A, S>,
) -> Vec<(RangeInclusive<K>, Number)> {
    map.iter()
        .map(|(range, value)| (range, value.number))
        .collect()
}

/// Every way to make a duplicate of a map of that many entries, and every way in which it may fail. `nodes` counts what the
/// maps' allocators take.
fn every_duplicate<K: Index, A: Fork, S: Shape>(
    mut map: Map<K, A, S>,
    nodes: &Countdown,
    size: usize,
) {
    let count = Count::default();
    fill(&mut map, size, &count);
    let original = entries(&map);
    let (live, alive) = (nodes.live(), count.get());
    assert_eq!(alive, size as isize);
    let unchanged = |what: &str| {
        assert_eq!((nodes.live(), count.get()), (live, alive), "{what}, {size}");
    };
    // Every allocation fails once.
    nodes.insist(
        || match map.try_clone_with(|_, value| Ok(Some(value.clone_boxed()))) {
            Ok(copy) => {
                copy.check().unwrap();
                assert_eq!(entries(&copy), original);
                assert_eq!(copy.stats().nodes(), map.stats().nodes());
                assert_eq!(count.get(), 2 * alive);
                true
            }
            Err(error) => {
                assert_eq!(error, AllocError);
                false
            }
        },
        || unchanged("an allocation failed"),
    );
    unchanged("a duplicate was dropped");
    // Every entry fails once (under Miri one in five). The closure was shown those before it, once
    // and in order.
    for fails in (0..size).step_by(if cfg!(miri) { 5 } else { 1 }) {
        let mut shown = 0;
        let copy = map.try_clone_with_error(|range, value| {
            assert_eq!((range, value.number), original[shown].clone());
            shown += 1;
            if shown > fails {
                Err(fails)
            } else {
                Ok(Some(value.clone_boxed()))
            }
        });
        assert_eq!(copy.err(), Some(CloneError::Entry(fails)));
        assert_eq!(shown, fails + 1);
        unchanged("an entry failed");
    }
    // Entries are left out, and then allocations, or another entry, fail.
    for every in [1, 3, 7, 2, 50]
        .into_iter()
        .step_by(if cfg!(miri) { 2 } else { 1 })
    {
        let kept = |n: Number| every > 1 && n % every != every - 1;
        let mut expected = original.clone();
        expected.retain(|&(_, n)| kept(n));
        let taken = nodes.insist(
            || {
                let copy = map
                    .try_clone_with(|_, value| Ok(kept(value.number).then(|| value.clone_boxed())));
                match copy {
                    Ok(copy) => {
                        copy.check().unwrap();
                        assert_eq!(entries(&copy), expected);
                        assert_eq!(count.get(), alive + expected.len() as isize);
                        true
                    }
                    Err(error) => {
                        assert_eq!(error, AllocError);
                        false
                    }
                }
            },
            || unchanged("an allocation failed and entries were left out"),
        );
        assert!(taken <= 3 * map.stats().nodes() + 3 * size, "{taken}");
        unchanged("a duplicate with entries left out was dropped");
        let copy = map.try_clone_with_error(|_, value| match value.number {
            n if n as usize + 1 == size => Err(()),
            n => Ok(kept(n).then(|| value.clone_boxed())),
        });
        assert_eq!(copy.is_err(), size > 0);
        drop(copy);
        unchanged("the last entry failed and entries were left out");
    }
    drop(map);
    assert_eq!((nodes.live(), count.get()), (0, 0));
}

trait CloneBoxed {
    fn clone_boxed(&self) -> Box<Alive>;
}

impl CloneBoxed for Alive {
    fn clone_boxed(&self) -> Box<Alive> {
        Box::new(self.clone())
    }
}

const SIZES: &[usize] = if cfg!(miri) {
    &[1, 18]
} else {
    &[0, 1, 2, 5, 17, 60, 134]
};

#[test]
fn of_single_nodes() {
    for &size in SIZES {
        let nodes = Countdown::new();
        every_duplicate::<u64, _, Native>(Map::with_gaps_in(&nodes), &nodes, size);
        every_duplicate::<u64, _, Fanout<4>>(Map::with_gaps_in(&nodes), &nodes, size);
        every_duplicate::<u32, _, Fanout<5>>(Map::new_in(&nodes), &nodes, size);
        every_duplicate::<u128, _, Native>(Map::new_in(&nodes), &nodes, size);
    }
}

#[test]
fn of_runs_from_a_pool() {
    for &size in SIZES {
        let slabs = Countdown::new();
        let pool = || Pool::new_in(&slabs);
        every_duplicate::<u64, _, Native>(Map::with_gaps_in(pool()), &slabs, size);
        every_duplicate::<u64, _, Fanout<4>>(Map::with_gaps_in(pool()), &slabs, size);
        every_duplicate::<u32, _, Fanout<5>>(Map::new_in(pool()), &slabs, size);
        every_duplicate::<u128, _, Native>(Map::new_in(pool()), &slabs, size);
    }
}

/// An entry at index 0 only, in a tree without nodes.
#[test]
fn of_a_tree_without_nodes() {
    let count = Count::default();
    let mut map: MapleTree<u64, Box<Alive>> = MapleTree::new();
    map.insert(0, Alive::boxed(1, &count)).unwrap();
    assert_eq!(map.height(), 0);
    assert!(matches!(
        map.try_clone_with_error(|_, _| Err(5)),
        Err(CloneError::Entry(5))
    ));
    let none = map.try_clone_with(|_, _| Ok(None)).unwrap();
    assert!(none.is_empty());
    let copy = map.try_clone().unwrap();
    assert_eq!((entries(&copy), count.get()), (vec![(0..=0, 1)], 2));
    drop((map, copy));
    assert_eq!(count.get(), 0);
}

/// Values whose word is all there is to them go with the nodes.
#[test]
fn of_plain_values() {
    let (entries, keys) = if cfg!(miri) { (30, 90) } else { (500, 4000) };
    for gaps in [false, true] {
        let slabs = Countdown::new();
        let mut map: MapleTree<u64, Number, _> = if gaps {
            MapleTree::with_gaps_in(Pool::new_in(&slabs))
        } else {
            MapleTree::new_in(Pool::new_in(&slabs))
        };
        let mut rng = Rng(3);
        for n in 0..entries {
            let first = rng.below(keys) as u64;
            let _ = map.insert_range(first..=first + rng.below(3) as u64, n);
        }
        let before = slabs.live();
        let taken = slabs.insist(
            || match map.try_clone() {
                Ok(mut copy) => {
                    copy.check().unwrap();
                    assert_eq!(copy, map);
                    // The two have nothing in common.
                    copy.clear();
                    true
                }
                Err(_) => false,
            },
            || assert_eq!(slabs.live(), before),
        );
        assert_eq!((taken, slabs.live()), (1, before));
        map.check().unwrap();
        let mut copy = map.clone();
        for key in 0..keys as u64 {
            drop(copy.remove(key));
            if key.is_multiple_of(if cfg!(miri) { 10 } else { 1 }) {
                copy.check().unwrap();
            }
        }
        assert!(copy.is_empty() && !map.is_empty());
        map.check().unwrap();
    }
}

/// The original is a map with readers: its nodes are read while others read them, too.
#[test]
fn beside_readers() {
    let count = Count::default();
    let tree: SyncMapleTree<u64, Box<Alive>, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    for n in 0..if cfg!(miri) { 30 } else { 100 } {
        tree.write()
            .insert_range(n * 10..n * 10 + 7, Alive::boxed(n as Number, &count))
            .unwrap();
    }
    let reader = tree.read();
    let writer = tree.write();
    let copy = writer
        .try_clone_with(|_, value| Ok((value.number % 3 > 0).then(|| value.clone_boxed())))
        .unwrap();
    copy.check().unwrap();
    let expected = reader.iter().filter(|(_, value)| value.number % 3 > 0);
    assert!(
        expected
            .map(|(range, value)| (range, value.number))
            .eq(entries(&copy))
    );
    drop(writer);
    drop(reader);
    drop((tree, copy));
    assert_eq!(count.get(), 0);
}

/// An entry over all indices is a leaf of one slot: without it there are no nodes.
#[test]
fn the_only_entry_left_out() {
    for gaps in [false, true] {
        let nodes = Countdown::new();
        let mut map: MapleTree<u64, Number, &Countdown> = if gaps {
            MapleTree::with_gaps_in(&nodes)
        } else {
            MapleTree::new_in(&nodes)
        };
        map.insert_range(.., 7).unwrap();
        let copy = map.try_clone_with(|_, _| Ok(None)).unwrap();
        copy.check().unwrap();
        assert!(copy.is_empty());
        assert_eq!((copy.height(), nodes.live()), (0, 1));
    }
}

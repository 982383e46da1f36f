//! Maps that are split, cut and appended with their nodes, compared with vectors of entries, at
//! every fanout.

use std::ops::RangeInclusive;

use crate::support::counting::{Alive, Count, Countdown, number, twin};
use crate::support::{Index, Number, Rng, add};
use maple_tree::alloc::{Counted, Global, NodeAlloc, Pool};
use maple_tree::{EraseError, Fanout, MapleTree, Native, Shape, Value};

type Entry<K> = (RangeInclusive<K>, Number);

/// Entries as they come with holes and without, of one to four indices.
fn entries<K: Index>(rng: &mut Rng, count: usize, from: usize) -> (Vec<Entry<K>>, usize) {
    let mut at = from;
    let entries = (0..count).map(|n| {
        at += [0, 0, 1, 3][rng.below(4)];
        let last = at + rng.below(4);
        let entry = (add(K::MIN, at)..=add(K::MIN, last), n as Number);
        at = last + 1;
        entry
    });
    (entries.collect(), at)
}

/// A map of them, made in one of several ways, so that its nodes are full, or nearly empty, or something between.
fn made<'a, K: Index, S: Shape>(
    nodes: &'a Countdown,
    gaps: bool,
    all: &[Entry<K>],
    way: usize,
) -> MapleTree<K, Number, &'a Countdown, S> {
    let mut map = if gaps {
        MapleTree::with_gaps_in(nodes)
    } else {
        MapleTree::new_in(nodes)
    };
    match way {
        0 => map.try_extend(all.iter().cloned()).unwrap(),
        1 => map.try_extend(all.iter().rev().cloned()).unwrap(),
        _ => {
            // Others are erased again, so that nodes have the fewest slots that they may have.
            for (range, value) in all {
                map.insert_range(range.clone(), *value).unwrap();
                let key = range.end().wrapping_add(K::at(4096));
                map.insert(key, 7).unwrap();
            }
            for (range, _) in all {
                map.remove(range.end().wrapping_add(K::at(4096))).unwrap();
            }
            for (range, value) in all.iter().step_by(way) {
                map.remove(*range.start()).unwrap();
                map.insert_range(range.clone(), *value).unwrap();
            }
        }
    }
    map
}

fn same<K: Index, V: Value, A: NodeAlloc, S: Shape>(
    map: &MapleTree<K, V, A, S>,
    expected: &[(RangeInclusive<K>, Number)],
    number: impl Fn(maple_tree::Ref<'_, V>) -> Number,
    context: &dyn Fn() -> String,
) {
    if let Err(damage) = map.check() {
        panic!("{damage}: {}", context());
    }
    let found: Vec<_> = map
        .iter()
        .map(|(range, value)| (range, number(value)))
        .collect();
    assert_eq!(found, expected, "{}", context());
    let back: Vec<_> = map.iter().rev().map(|(range, _)| range).collect();
    assert!(
        back.into_iter()
            .rev()
            .eq(expected.iter().map(|e| e.0.clone()))
    );
}

/// Cuts the entries at a range's ends. Returns those within, and those outside.
fn cut_apart<K: Index>(all: &[Entry<K>], first: K, last: K) -> [Vec<Entry<K>>; 2] {
    let (mut within, mut without) = (Vec::new(), Vec::new());
    for (range, value) in all {
        let (from, to) = (*range.start(), *range.end());
        if from < first {
            without.push((from..=to.min(first.wrapping_sub(K::ONE)), *value));
        }
        if from.max(first) <= to.min(last) {
            within.push((from.max(first)..=to.min(last), *value));
        }
        if to > last {
            without.push((from.max(last.wrapping_add(K::ONE))..=to, *value));
        }
    }
    [within, without]
}

/// Cuts every range (or many) out of maps of many sizes, and appends what was cut, or what lies there otherwise, again.
fn every_cut<K: Index, S: Shape>(seed: u64, gaps: bool) {
    let mut rng = Rng(seed);
    let nodes = Countdown::new();
    let sizes: &[usize] = if cfg!(miri) {
        &[12]
    } else {
        &[1, 5, 9, 17, 40, 100, 260]
    };
    for &size in sizes {
        for way in [0, 1, 2, 3, 5] {
            let from = rng.below(2);
            let (all, end) = entries::<K>(&mut rng, size, from);
            for round in 0..if cfg!(miri) { 3 } else { 24 } {
                let (a, b) = (rng.below(end + 1), rng.below(end + 1));
                let (first, last) = match round % 4 {
                    0 => (add(K::MIN, a), K::MAX),
                    1 => (K::MIN, add(K::MIN, a)),
                    _ => (add(K::MIN, a.min(b)), add(K::MIN, a.max(b))),
                };
                let context = || format!("{size} way {way} round {round}: {first}..={last}");
                let mut map = made::<K, S>(&nodes, gaps, &all, way);
                let mut cut = map.cut(first..=last, |_, value| Some(value)).unwrap();
                let [within, without] = cut_apart(&all, first, last);
                same(&cut, &within, |v| v, &context);
                same(&map, &without, |v| v, &context);
                let living = map.stats().nodes() + cut.stats().nodes();
                assert_eq!(living, nodes.live(), "{}", context());
                // Both are maps as any other.
                if let Some((range, _)) = without.last() {
                    map.remove(*range.start()).unwrap();
                    map.insert_range(range.clone(), without[without.len() - 1].1)
                        .unwrap();
                }
                match round % 3 {
                    0 => map.append(&mut cut).unwrap(),
                    1 => {
                        // What was left goes into what was cut.
                        match cut.append(&mut map) {
                            Ok(()) => std::mem::swap(&mut map, &mut cut),
                            error => panic!("{error:?}: {}", context()),
                        }
                    }
                    _ => {
                        // Less is put back than was there.
                        let fewer: Vec<_> = within.iter().step_by(2).cloned().collect();
                        cut = made::<K, S>(&nodes, gaps, &fewer, way);
                        map.append(&mut cut).unwrap();
                        let mut both = [without, fewer].concat();
                        both.sort_by_key(|entry| *entry.0.start());
                        same(&map, &both, |v| v, &context);
                        assert!(cut.is_empty());
                        continue;
                    }
                }
                let mut both = [within, without].concat();
                both.sort_by_key(|entry| *entry.0.start());
                same(&map, &both, |v| v, &context);
                assert!(cut.is_empty());
                assert_eq!(map.stats().nodes(), nodes.live(), "{}", context());
            }
        }
    }
    assert_eq!(nodes.live(), 0);
}

#[test]
fn what_is_cut_out_can_be_put_back() {
    for (seed, gaps) in [(1, false), (2, true)] {
        every_cut::<u64, Fanout<4>>(seed, gaps);
        every_cut::<i32, Fanout<5>>(seed, gaps);
        every_cut::<u128, Native>(seed, gaps);
        every_cut::<u64, Native>(seed, gaps);
    }
}

/// Splits maps of many sizes at all keys near both ends, with each allocation refused once, and puts them together again.
fn every_split_near_an_end<K: Index, S: Shape>(seed: u64, gaps: bool) {
    let mut rng = Rng(seed);
    let nodes = Countdown::kept();
    let (sizes, near): (&[usize], _) = if cfg!(miri) {
        (&[14], 6)
    } else {
        (&[2, 6, 9, 12, 17, 25, 70], 40)
    };
    for &size in sizes {
        for way in [0, 1, 2, 3, 5] {
            let from = rng.below(2);
            let (all, end) = entries::<K>(&mut rng, size, from);
            let mut map = Some(made::<K, S>(nodes, gaps, &all, way));
            let low = 0..near.min(end + 1);
            for at in low
                .clone()
                .chain(low.end.max((end + 1).saturating_sub(near))..end + 1)
            {
                let key = add(K::MIN, at);
                let [within, without] = cut_apart(&all, key, K::MAX);
                let splits = within.len() + without.len() > all.len();
                let mut high = None;
                let mut low = map.take().unwrap();
                nodes.insist(
                    || {
                        let context = || format!("{size} way {way} at {key}");
                        match low.split_off(key) {
                            Ok(split) => {
                                same(&split, &within, |v| v, &context);
                                same(&low, &without, |v| v, &context);
                                high = Some(split);
                            }
                            Err(error) => {
                                same(&low, &all, |v| v, &context);
                                assert_eq!(error == EraseError::Splits, splits);
                                return splits;
                            }
                        }
                        let living = low.stats().nodes() + high.as_ref().unwrap().stats().nodes();
                        assert_eq!(living, nodes.live(), "{}", context());
                        true
                    },
                    || {},
                );
                // Both are maps as any other, at the ends that are new.
                if let Some(split) = &mut high {
                    for (map, first) in [(split, true), (&mut low, false)] {
                        let gone = if first {
                            map.pop_first()
                        } else {
                            map.pop_last()
                        };
                        assert!(map.check().is_ok());
                        if let Some((range, value)) = gone.unwrap() {
                            map.insert_range(range, value).unwrap();
                            assert!(map.check().is_ok());
                        }
                    }
                }
                // Every other time the map is made anew, as appending changes its nodes.
                match high {
                    Some(mut high) if at % 2 == 0 => low.append(&mut high).unwrap(),
                    Some(_) => low = made::<K, S>(nodes, gaps, &all, way),
                    None => {}
                }
                map = Some(low);
            }
            drop(map);
            assert_eq!(nodes.live(), 0);
        }
    }
}

#[test]
fn maps_are_split_near_their_ends() {
    for (seed, gaps) in [(1, false), (2, true)] {
        every_split_near_an_end::<u64, Fanout<4>>(seed, gaps);
        every_split_near_an_end::<i32, Fanout<5>>(seed, gaps);
        every_split_near_an_end::<u64, Native>(seed, gaps);
    }
}

/// Splitting off a few entries at either end takes nodes for these alone, and none for the other
/// leaves.
#[test]
fn a_split_near_an_end_takes_nodes_for_the_few_entries_alone() {
    let nodes = Counted::new(Global);
    let count = if cfg!(miri) { 200 } else { 5000 };
    for gaps in [false, true] {
        // How many entries are few, at most: with holes they take two leaves, and a node above.
        for (step, few, most) in [(1, 10, 1), (2, 7, 1), (2, 10, 3)] {
            for at in [few, count - few] {
                let mut map: MapleTree<u64, u16, _> = if gaps {
                    MapleTree::with_gaps_in(&nodes)
                } else {
                    MapleTree::new_in(&nodes)
                };
                map.try_extend((0..count).map(|i| (step * i..=step * i, i as u16)))
                    .unwrap();
                let before = nodes.allocated();
                let high = map.split_off(step * at).unwrap();
                let taken = nodes.allocated() - before;
                assert!(
                    taken <= most,
                    "{taken} nodes at {at} of {count}, step {step}"
                );
                assert_eq!((map.len() as u64, high.len() as u64), (at, count - at));
                assert!(map.check().is_ok() && high.check().is_ok());
            }
        }
    }
    assert_eq!(nodes.live(), 0);
}

/// Each allocation is refused once: both maps are as they were then, and no value is lost.
#[test]
fn a_refused_cut_or_append_changes_nothing() {
    let nodes = Countdown::kept();
    let count = Count::default();
    let mut rng = Rng(7);
    let sizes = if cfg!(miri) { 20 } else { 120 };
    let (all, end) = entries::<u64>(&mut rng, sizes, 1);
    for round in 0..if cfg!(miri) { 2 } else { 15 } {
        let mut map: MapleTree<u64, Box<Alive>, _, Fanout<4>> = MapleTree::with_gaps_in(nodes);
        for (range, value) in &all {
            map.insert_range(range.clone(), Alive::boxed(*value, &count))
                .unwrap();
        }
        let (a, b) = (rng.below(end) as u64, rng.below(end) as u64);
        let (first, last) = match round % 3 {
            0 => (a, u64::MAX),
            _ => (a.min(b), a.max(b)),
        };
        let [within, without] = cut_apart(&all, first, last);
        let before = count.get();
        // A closure that gives nothing refuses, too.
        if map.cut(first..=last, |_, _| None).err() == Some(EraseError::Splits) {
            same(&map, &all, number, &|| format!("{first}..={last}, refused"));
        } else {
            map = MapleTree::with_gaps_in(nodes);
            for (range, value) in &all {
                map.insert_range(range.clone(), Alive::boxed(*value, &count))
                    .unwrap();
            }
        }
        assert_eq!(count.get(), before);
        let mut cut = None;
        let mut living = Some(map);
        nodes.insist(
            || {
                let map = living.as_mut().unwrap();
                cut = map.cut(first..=last, |_, value| twin(value)).ok();
                let expected = if cut.is_some() { &without } else { &all };
                same(map, expected, number, &|| {
                    format!("cut of {first}..={last}")
                });
                cut.is_some()
            },
            || assert_eq!(count.get(), before),
        );
        let (mut map, mut cut) = (living.unwrap(), cut.unwrap());
        same(&cut, &within, number, &|| format!("{first}..={last}, cut"));
        let made = count.get();
        nodes.insist(
            || {
                let done = map.append(&mut cut).is_ok();
                if !done {
                    same(&map, &without, number, &|| {
                        format!("append of {first}..={last}")
                    });
                    same(&cut, &within, number, &|| {
                        format!("append of {first}..={last}")
                    });
                }
                done
            },
            || assert_eq!(count.get(), made),
        );
        assert_eq!((count.get(), cut.len()), (made, 0));
        assert!(map.check().is_ok());
        assert_eq!(map.len(), within.len() + without.len());
        drop((map, cut));
        assert_eq!((count.get(), nodes.live()), (0, 0));
    }
}

/// Maps that have a pool's slabs in common give them back with the last of them, and use what the others have given up.
#[test]
fn maps_that_were_split_have_their_slabs_in_common() {
    type Map<'a> = MapleTree<u64, u16, Pool<&'a Counted<Global>>>;
    let slabs = Counted::new(Global);
    let mut map: Map<'_> = MapleTree::new_in(Pool::new_in(&slabs));
    let count = if cfg!(miri) { 200 } else { 5000 };
    map.try_extend((0..count).map(|i| (2 * i..2 * i + 1, i as u16)))
        .unwrap();
    let bytes = map.allocator().bytes();
    // The upper half goes and comes again, often: no more memory is taken than once.
    for round in 0..20 {
        let half = map.split_off(count).unwrap();
        assert_eq!(half.allocator().bytes(), map.allocator().bytes());
        if round % 2 == 0 {
            drop(half);
        } else {
            // On another thread, concurrently with this one.
            std::thread::scope(|scope| {
                scope.spawn(|| drop(half));
                map.insert(1, 7).unwrap();
                map.remove(1).unwrap();
            });
        }
        for i in count / 2..count {
            map.insert(2 * i, i as u16).unwrap();
        }
        assert!(map.check().is_ok());
    }
    assert!(map.allocator().bytes() <= 2 * bytes);
    // The result does not depend on which map is the last one, and which one has taken over nodes.
    let mut high = map.split_off(count).unwrap();
    let mut higher = high.split_off(count * 3 / 2).unwrap();
    let mut other: Map<'_> = MapleTree::new_in(Pool::new_in(&slabs));
    other
        .try_extend(
            (0..count)
                .map(|i| (10 * count + 2 * i, i as u16))
                .map(|(k, v)| (k..=k, v)),
        )
        .unwrap();
    higher.append(&mut other).unwrap();
    drop(map);
    high.append(&mut higher).unwrap();
    assert_eq!(high.len() as u64, count / 2 + count);
    drop((other, higher));
    assert!(high.check().is_ok() && slabs.live() > 0);
    high.clear();
    // What they had in common is with it until it goes.
    assert!(slabs.live() <= 1);
    drop(high);
    assert_eq!(slabs.live(), 0);
}

//! Entries that are put in, looked at, kept and taken out one by one.

use std::ops::RangeInclusive;

use maple_tree::{Entry, Fanout, InsertError, Native, Shape, SyncMapleTree, Waiting};

use super::{AnyMap, Shared, World, contents, grown, insist, long, on, same, short, step};
use crate::support::counting::number;
use crate::support::{Index, Model, Number, Rng};

/// Every set of entries kept, out of every short content.
#[test]
fn retain() {
    let world = World::new();
    let n = short(7);
    for model in contents(n).into_iter().step_by(step(9)) {
        let entries = model.entries().len();
        for kept in (0..1u32 << entries).step_by(step(3)) {
            try_retain::<u32, Fanout<4>>(&world, &model, |v| kept >> (v - 10) & 1 == 1);
        }
    }
    let mut rng = Rng(8);
    for kept in [2, 0, 1, 3, 7].into_iter().step_by(step(5)) {
        let model = grown(3u64, long(70), &mut rng);
        try_retain::<u64, Fanout<4>>(&world, &model, |v| kept > 0 && v % kept == 0);
        try_retain::<u64, Native>(&world, &model, |v| kept > 0 && v % kept != 0);
    }
    world.end();
}

fn try_retain<K: Index, S: Shape>(world: &World, model: &Model<K>, keep: impl Fn(Number) -> bool) {
    let mut left = model.clone();
    for cell in &mut left.cells {
        *cell = cell.filter(|&v| keep(v));
    }
    for mut any in world.each_map::<K, S>(model) {
        // A call that fails has dropped some of the entries that it must drop. A second call drops
        // the rest.
        for allowed in 0.. {
            world.nodes.allow(allowed % 3);
            let result = match &mut any {
                AnyMap::Exclusive(map) => map.retain(|_, v| keep(number(v))),
                AnyMap::Shared(map) => map.write().retain(|_, v| keep(number(v))),
            };
            world.nodes.allow(usize::MAX);
            on!(&any, map => {
                map.check().unwrap();
                assert_eq!(world.count.get(), map.len() as isize);
                let there: Vec<_> = map.values().map(number).collect();
                let gone = model.entries().into_iter().map(|e| e.1).filter(|v| !there.contains(v));
                assert!(gone.map(&keep).all(|kept| !kept));
            });
            if result.is_ok() {
                break;
            }
            // In RCU mode a removal may need more nodes than allowed here.
            if allowed > if cfg!(miri) { 9 } else { 60 } {
                on!(&mut any, map => map.retain(|_, v| keep(number(v)))).unwrap();
                break;
            }
        }
        same(&left, &any, &|| format!("{:?}", model.cells));
    }
}

#[test]
fn pops() {
    let world = World::new();
    let mut rng = Rng(10);
    for model in contents(short(5))
        .into_iter()
        .step_by(step(4))
        .chain([grown(0, long(60), &mut rng)])
    {
        let mut map = world.map::<u32, Fanout<4>>(&model, true);
        let mut entries: std::collections::VecDeque<_> = model.entries().into();
        loop {
            let back = rng.below(2) == 0;
            let want = if back {
                entries.pop_back()
            } else {
                entries.pop_front()
            };
            let before = map.len();
            let got = loop {
                world.nodes.allow(rng.below(9));
                let got = if back {
                    map.pop_last()
                } else {
                    map.pop_first()
                };
                world.nodes.allow(usize::MAX);
                map.check().unwrap();
                match got {
                    Ok(got) => break got,
                    Err(_) => assert_eq!(map.len(), before),
                }
            };
            assert_eq!(got.as_ref().map(|(r, v)| (r.clone(), v.number)), want);
            if want.is_none() {
                break;
            }
        }
        assert!(map.is_empty());
    }
    world.end();
}

/// Every range of every short content: what is there is shown with its range; what is not can be filled just there.
#[test]
fn entries() {
    let world = World::new();
    let n = short(6);
    for model in contents(n).into_iter().step_by(step(6)) {
        for first in 0..n {
            for last in first..n {
                let range = model.key(first)..=model.key(last);
                let there = model
                    .entries()
                    .into_iter()
                    .find(|(r, _)| r.start() <= range.end() && range.start() <= r.end());
                let mut any = AnyMap::Exclusive(world.map::<u32, Fanout<4>>(&model, true));
                let mut after = model.clone();
                if there.is_none() {
                    after.store(first, last, Some(99));
                }
                insist(&world, &model, &mut any, |any| {
                    let AnyMap::Exclusive(map) = any else {
                        unreachable!()
                    };
                    let entry = map.entry_range(range.clone());
                    assert_eq!(
                        entry.range(),
                        there.as_ref().map_or(range.clone(), |t| t.0.clone())
                    );
                    match entry
                        .and_modify(|v| assert_eq!(Some(v.number), there.as_ref().map(|t| t.1)))
                        .or_insert_with(|| world.value(99))
                    {
                        Ok(value) => {
                            assert_eq!(value.number, there.as_ref().map_or(99, |t| t.1));
                            value.number += 1;
                            value.number -= 1;
                            true
                        }
                        Err(InsertError::Alloc(v)) => {
                            assert_eq!(v.number, 99);
                            false
                        }
                        Err(other) => panic!("{other}"),
                    }
                });
                same(&after, &any, &|| {
                    format!("{first}..={last} of {:?}", model.cells)
                });
                let AnyMap::Exclusive(mut map) = any else {
                    unreachable!()
                };
                let (whole, v) = there.unwrap_or((range.clone(), 99));
                match map.entry(*range.start().max(whole.start())) {
                    Entry::Vacant(_) => panic!("there is an entry"),
                    Entry::Occupied(mut entry) => {
                        assert_eq!((entry.range(), entry.get().number), (whole.clone(), v));
                        assert_eq!(entry.insert(world.value(7)).ok().unwrap().number, v);
                        assert_eq!((entry.get().number, entry.get_mut().number), (7, 7));
                        let (range, value) = entry.remove_entry().unwrap();
                        assert_eq!((range, value.number), (whole.clone(), 7));
                    }
                }
                map.check().unwrap();
                let Entry::Vacant(hole) = map.entry(*whole.start()) else {
                    panic!("removed")
                };
                let around: RangeInclusive<u32> = hole.hole();
                assert!(around.contains(whole.start()) && around.contains(whole.end()));
            }
        }
    }
    let mut map = world.exclusive::<u32, Fanout<4>>(false);
    let Err(InsertError::EmptyRange(v)) = map.entry_range(3..3).or_insert(world.value(1)) else {
        panic!("an empty range holds nothing")
    };
    drop(v);
    drop(map);
    world.end();
}

/// The calls of the shared map that take the lock themselves.
#[test]
fn simple_calls() {
    let world = World::new();
    let map: Shared<u32, Fanout<4>> = SyncMapleTree::new_in(Waiting::new(), world.nodes.clone());
    for i in 0..if cfg!(miri) { 14 } else { 40 } {
        map.insert_range(10 * i..10 * i + 5, world.value(i as Number))
            .unwrap();
    }
    assert!(map.insert(3, world.value(0)).is_err());
    map.insert(7, world.value(100)).unwrap();
    map.store_range(95..105, world.value(200)).unwrap();
    assert_eq!(
        map.with(100, |range, v| (range, v.number)),
        Some((95..=104, 200))
    );
    assert_eq!(map.with(105, |_, v| v.number), None);
    assert!(map.contains(7) && !map.contains(8) && !map.is_empty());
    assert_eq!(map.remove(7), Ok(Some(7..=7)));
    assert!(map.replace(7, world.value(1)).is_err());
    map.replace(100, world.value(201)).ok().unwrap();
    map.erase_range(0..50).unwrap();
    assert_eq!(map.alloc_range(.., 20, world.value(5)).ok().unwrap(), 0);
    assert_eq!(
        map.read().first().map(|(r, v)| (r, v.number)),
        Some((0..=19, 5))
    );
    map.write().check().unwrap();
    map.clear();
    assert!(map.is_empty());
    assert_eq!(world.count.get(), 0);
    drop(map);
    world.end();
}

//! Maps as values: consumed, cloned, compared.

use std::sync::Arc;

use maple_tree::{Fanout, MapleTree, Native};

use super::{Nodes, World, contents, grown, long, same_map, short, step};
use crate::support::counting::Alive;
use crate::support::{Number, Rng};

/// Taken apart from both ends, in every order of up to six steps, and dropped with the rest in it.
#[test]
fn into_iter() {
    let world = World::new();
    for model in contents(short(5)).into_iter().step_by(step(4)) {
        let entries = model.entries();
        for steps in 0..=entries.len() + 1 {
            for order in 0..1u32 << steps {
                let mut iter = world.map::<u32, Fanout<4>>(&model, false).into_iter();
                let mut expected = entries.iter().cloned();
                let mut taken = Vec::new();
                for step in 0..steps {
                    let (got, want) = if order >> step & 1 == 0 {
                        (iter.next(), expected.next())
                    } else {
                        (iter.next_back(), expected.next_back())
                    };
                    assert_eq!(got.as_ref().map(|(r, v)| (r.clone(), v.number)), want);
                    taken.extend(got);
                }
                drop(iter);
                assert_eq!(world.count.get(), taken.len() as isize);
                drop(taken);
                assert_eq!((world.count.get(), world.nodes.live()), (0, 0));
            }
        }
    }
    let mut rng = Rng(9);
    let model = grown(5u128, long(200), &mut rng);
    for taken in [0, 1, 7, 100, 1000] {
        let mut iter = world.map::<u128, Fanout<4>>(&model, true).into_iter();
        let got: Vec<_> = iter.by_ref().take(taken).collect();
        let back: Vec<_> = iter.by_ref().rev().take(taken).collect();
        assert_eq!(
            got.len() + back.len(),
            (2 * taken).min(model.entries().len())
        );
    }
    let values: Vec<Number> = world
        .map::<u128, Native>(&model, true)
        .into_values()
        .map(|v| v.number)
        .collect();
    assert_eq!(
        values,
        model.entries().iter().map(|e| e.1).collect::<Vec<_>>()
    );
    world.end();
}

/// A value whose drop panics does not keep the others, nor the nodes.
#[test]
fn into_iter_goes_on_after_a_panic() {
    struct Bad(Box<Alive>);
    impl Drop for Bad {
        fn drop(&mut self) {
            if self.0.number == 3 && !std::thread::panicking() {
                panic!("on purpose");
            }
        }
    }
    let world = World::new();
    let mut map: MapleTree<u32, Box<Bad>, Nodes, Fanout<4>> =
        MapleTree::new_in(world.nodes.clone());
    for i in 0..30 {
        map.insert(i, Box::new(Bad(world.value(i as Number))))
            .unwrap();
    }
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(map.into_iter())));
    assert!(result.is_err());
    world.end();
}

/// Maps as values.
#[test]
fn compared_cloned_hashed() {
    use std::hash::{BuildHasher, RandomState};
    let hasher = RandomState::new();
    let world = World::new();
    let mut rng = Rng(12);
    let model = grown(0u64, long(50), &mut rng);
    let map = world.map::<u64, Fanout<4>>(&model, true);
    let nodes = world.nodes.live();
    // Every allocation of a clone fails once.
    for allowed in 0.. {
        world.nodes.allow(allowed);
        let copy = map.try_clone();
        world.nodes.allow(usize::MAX);
        if let Ok(copy) = copy {
            assert_eq!(world.nodes.live(), 2 * nodes);
            same_map(&model, copy, &|| "a clone".into());
            break;
        }
        assert_eq!(world.nodes.live(), nodes);
        assert_eq!(world.count.get(), model.entries().len() as isize);
    }
    same_map(&model, map.clone(), &|| "a clone".into());
    let plain: MapleTree<u64, Number> = model.entries().into_iter().collect();
    let mut other = plain.clone();
    assert_eq!(plain, other);
    assert_eq!(hasher.hash_one(&plain), hasher.hash_one(&other));
    let (range, value) = other.pop_last().unwrap().unwrap();
    assert_ne!(plain, other);
    other.insert_range(range.clone(), value + 1).unwrap();
    assert_ne!(plain, other);
    other.store_range(range, value).unwrap();
    assert_eq!(plain, other);
    // Two entries that touch are not one.
    let one: MapleTree<u32, Number> = MapleTree::from([(0..10, 1)]);
    let two = MapleTree::from([(0..5, 1), (5..10, 1)]);
    assert_ne!(one, two);
    assert_eq!(format!("{two:?}"), "{0..=4: 1, 5..=9: 1}");
    let shared: MapleTree<u32, Arc<u32>> = MapleTree::from([(0..10, Arc::new(1))]);
    assert_eq!(shared.clone(), shared);
    drop(map);
    world.end();
}

//! Entries joined with neighbours that are the same.

use maple_tree::{Fanout, InsertError, Native, Shape, StoreError};

use super::{AnyMap, World, contents, grown, insist, long, on, same, step};
use crate::support::counting::{Alive, number};
use crate::support::{Index, Model, Number, Rng};

/// Which entries of the model count as equal to `number`.
fn alike(a: Number, b: Number) -> bool {
    a % 2 == b % 2
}

/// Makes the change of a coalescing store in the flat array, and returns the range of the entry.
fn coalesce<K: Index>(
    model: &mut Model<K>,
    first: usize,
    last: usize,
    number: Number,
) -> (usize, usize) {
    let entry_at = |cells: &[Option<Number>], i: usize| {
        let v = cells[i].filter(|&v| alike(v, number))?;
        let first = cells[..i]
            .iter()
            .rposition(|&c| c != Some(v))
            .map_or(0, |p| p + 1);
        let last = cells[i..]
            .iter()
            .position(|&c| c != Some(v))
            .map_or(cells.len(), |p| i + p)
            - 1;
        Some((first, last))
    };
    let before = (first > 0)
        .then(|| entry_at(&model.cells, first - 1))
        .flatten();
    let after = (last + 1 < model.cells.len())
        .then(|| entry_at(&model.cells, last + 1))
        .flatten();
    let first = before.map_or(first, |e| e.0);
    let last = after.map_or(last, |e| e.1);
    model.store(first, last, Some(number));
    (first, last)
}

fn try_coalescing<K: Index, S: Shape>(
    world: &World,
    model: &Model<K>,
    first: usize,
    last: usize,
    n: Number,
    into_hole: bool,
) {
    for mut any in world.each_map::<K, S>(model) {
        let mut after = model.clone();
        let (from, to) = coalesce(&mut after, first, last, n);
        let splits = model.splits(first, last) && !alike(model.cells[first].unwrap(), n);
        let taken = model.cells[first..=last].iter().any(Option::is_some);
        let range = model.key(first)..=model.key(last);
        let joined = model.key(from)..=model.key(to);
        let mut refused = false;
        insist(world, model, &mut any, |any| {
            let same = |a: &Alive, b: &Alive| alike(number(a), number(b));
            if into_hole {
                match on!(any, map => map.insert_range_coalescing(range.clone(), world.value(n), same))
                {
                    Ok(range) => assert_eq!(range, joined),
                    Err(InsertError::Occupied(v)) => {
                        assert!(taken && v.number == n);
                        refused = true;
                    }
                    Err(InsertError::Alloc(_)) => return false,
                    Err(InsertError::EmptyRange(_)) => panic!("not empty"),
                }
            } else {
                match on!(any, map => map.store_range_coalescing(range.clone(), world.value(n), same))
                {
                    Ok(range) => assert_eq!(range, joined),
                    Err(StoreError::Splits(v)) => {
                        assert!(splits && v.number == n);
                        refused = true;
                    }
                    Err(StoreError::Alloc(_)) => return false,
                    Err(StoreError::EmptyRange(_)) => panic!("not empty"),
                }
            }
            true
        });
        assert_eq!(refused, if into_hole { taken } else { splits });
        let expected = if refused { model } else { &after };
        same(expected, &any, &|| {
            format!("{n} at {first}..={last} of {:?}", model.cells)
        });
        assert_eq!(world.count.get(), expected.entries().len() as isize);
    }
}

#[test]
fn coalescing_short() {
    let world = World::new();
    let n = if cfg!(miri) { 2 } else { 7 };
    for model in contents(n).into_iter().step_by(step(2)) {
        for first in 0..n {
            for last in first..n {
                for number in [50, 51] {
                    try_coalescing::<u32, Fanout<4>>(&world, &model, first, last, number, false);
                    try_coalescing::<u32, Fanout<4>>(&world, &model, first, last, number, true);
                }
            }
        }
    }
    world.end();
}

#[test]
fn coalescing_long() {
    fn of<K: Index, S: Shape>(seed: u64, base: K) {
        let world = World::new();
        let mut rng = Rng(seed);
        for _ in 0..if cfg!(miri) { 1 } else { 40 } {
            let model = grown(base, long(60), &mut rng);
            let first = rng.below(model.cells.len());
            let width = if rng.below(3) == 0 { 60 } else { 4 };
            let last = (first + rng.below(width)).min(model.cells.len() - 1);
            try_coalescing::<K, S>(
                &world,
                &model,
                first,
                last,
                500 + rng.below(2) as Number,
                false,
            );
        }
        world.end();
    }
    of::<u32, Fanout<4>>(1, 0);
    of::<u64, Native>(2, 99);
    of::<usize, Fanout<5>>(3, 0);
    of::<u128, Native>(4, 1 << 90);
}

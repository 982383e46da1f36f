//! Maps cut in two, and laid over each other.

use maple_tree::{EraseError, Fanout, Native, Shape};

use super::{AnyMap, World, contents, grown, insist, long, on, same, same_map, short, step};
use crate::support::counting::twin;
use crate::support::{Index, Model, Number, Rng};

fn try_split_off<K: Index, S: Shape>(world: &World, model: &Model<K>, at: usize) {
    let key = model.key(at);
    let (mut low, mut high) = (model.clone(), model.clone());
    low.cells[at..].fill(None);
    high.cells[..at].fill(None);
    let torn = at > 0 && model.cells[at].is_some() && model.cells[at] == model.cells[at - 1];
    let context = || format!("at {at} of {:?}", model.cells);
    for mut any in world.each_map::<K, S>(model) {
        if let AnyMap::Exclusive(map) = &mut any
            && torn
        {
            assert_eq!(map.split_off(key).err(), Some(EraseError::Splits));
            same(model, &any, &context);
        }
        let mut off = None;
        insist(world, model, &mut any, |any| {
            let result = match any {
                AnyMap::Exclusive(map) if torn => map.split_off_splitting(key, |range, v| {
                    assert_eq!(*range.start(), key);
                    twin(v)
                }),
                AnyMap::Exclusive(map) => map.split_off(key),
                AnyMap::Shared(map) => map.write().split_off_with(key, |_, v| twin(v)),
            };
            match result {
                Ok(map) => off = Some(map),
                Err(error) => assert_eq!(error, EraseError::Alloc),
            }
            off.is_some()
        });
        same(&low, &any, &context);
        let off = off.unwrap();
        on!(&any, map => assert_eq!(map.tracks_gaps(), off.tracks_gaps()));
        same_map(&high, off, &context);
    }
}

#[test]
fn split_off() {
    let world = World::new();
    let n = short(7);
    for model in contents(n).into_iter().step_by(step(9)) {
        for at in 0..n {
            try_split_off::<u32, Fanout<4>>(&world, &model, at);
        }
    }
    let mut rng = Rng(5);
    for _ in 0..if cfg!(miri) { 1 } else { 25 } {
        let model = grown(7u64, long(80), &mut rng);
        try_split_off::<u64, Fanout<4>>(&world, &model, rng.below(model.cells.len()));
        if !cfg!(miri) {
            let model = grown(7u64, long(80), &mut rng);
            try_split_off::<u64, Native>(&world, &model, rng.below(model.cells.len()));
        }
        let model = grown(1u128 << 80, long(80), &mut rng);
        try_split_off::<u128, Native>(&world, &model, rng.below(model.cells.len()));
    }
    world.end();
}

fn try_append<K: Index, S: Shape>(world: &World, lower: &Model<K>, upper: &Model<K>) {
    let mut over = upper.clone();
    for cell in &mut over.cells {
        *cell = cell.map(|v| v + 1000);
    }
    let mut merged = lower.clone();
    for (i, cell) in over.cells.iter().enumerate() {
        if cell.is_some() {
            merged.cells[i] = *cell;
        }
    }
    // Some entry comes in several parts.
    let mut parts: Vec<Number> = merged.entries().iter().map(|e| e.1).collect();
    let all = parts.len();
    parts.sort_unstable();
    parts.dedup();
    let splits = parts.len() < all;
    let context = || format!("{:?} over {:?}", over.cells, lower.cells);
    for mut any in world.each_map::<K, S>(lower) {
        let mut other = world.map::<K, S>(&over, false);
        if splits {
            let result = on!(&mut any, map => map.append(&mut other));
            assert_eq!(result, Err(EraseError::Splits), "{}", context());
            same(lower, &any, &context);
        }
        insist(world, lower, &mut any, |any| {
            let result = if splits {
                on!(any, map => map.append_splitting(&mut other, |_, v| twin(v)))
            } else {
                on!(any, map => map.append(&mut other))
            };
            match result {
                Ok(()) => true,
                Err(error) => {
                    assert_eq!(error, EraseError::Alloc);
                    assert_eq!(other.len(), over.entries().len());
                    false
                }
            }
        });
        assert!(other.is_empty());
        same(&merged, &any, &context);
        assert_eq!(
            world.count.get(),
            merged.entries().len() as isize,
            "{}",
            context()
        );
        // A closure that gives up halfway.
        if splits {
            let mut any = AnyMap::Exclusive(world.map::<K, S>(lower, true));
            let mut other = world.map::<K, S>(&over, true);
            let before = world.count.get();
            let parts = all - parts.len();
            for mut left in (0..parts).step_by(if cfg!(miri) { 4 } else { 1 }) {
                let result = on!(&mut any, map => map.append_splitting(&mut other, |_, v| {
                    left = left.checked_sub(1)?;
                    twin(v)
                }));
                assert_eq!(result, Err(EraseError::Splits));
                assert_eq!(world.count.get(), before);
                same(lower, &any, &context);
            }
        }
    }
}

#[test]
fn append() {
    let world = World::new();
    let n = if cfg!(miri) { 2 } else { 5 };
    let all = contents(n);
    for (i, lower) in all.iter().enumerate() {
        for upper in all.iter().skip(i % step(7)).step_by(step(7)) {
            try_append::<u32, Fanout<4>>(&world, lower, upper);
        }
    }
    let mut rng = Rng(6);
    for _ in 0..if cfg!(miri) { 1 } else { 12 } {
        let entries = if cfg!(miri) { 8 } else { 40 };
        let mut lower = grown(7u64, entries, &mut rng);
        let mut upper = grown(7u64, entries, &mut rng);
        let cells = lower.cells.len().max(upper.cells.len()) + 3;
        lower.cells.resize(cells, None);
        upper.cells.resize(cells, None);
        // Now and then one of them is sparse.
        for cell in &mut upper.cells {
            *cell = cell.filter(|v| v % 3 == 0 || rng.0.is_multiple_of(2));
        }
        rng.next();
        try_append::<u64, Fanout<4>>(&world, &lower, &upper);
        if !cfg!(miri) {
            // So few are one node there.
            try_append::<u64, Native>(&world, &lower, &upper);
        }
    }
    world.end();
}

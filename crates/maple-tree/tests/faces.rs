//! The calls of both faces that change a map as a whole or join neighbours, against the flat array: over every short history at
//! fanout 4, with allocations that fail at each place, and with values that count how many of them live.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod support;

use std::ops::RangeInclusive;
use std::sync::Arc;

use maple_tree::{
    Entry, EraseError, Fanout, InsertError, Key, MapleTree, Native, Shape, StoreError,
    SyncMapleTree, Waiting,
};
use support::counting::{Alive, Count, Countdown, number, twin};
use support::{Model, Number, Rng};

type Nodes = Arc<Countdown>;
type Exclusive<K, S> = MapleTree<K, Box<Alive>, Nodes, S>;
type Shared<K, S> = SyncMapleTree<K, Box<Alive>, Waiting, Nodes, spin::Mutex<()>, S>;

/// A map of one of the faces.
#[allow(clippy::large_enum_variant, reason = "there are one or two at a time")]
enum Face<K: Key, S: Shape> {
    Exclusive(Exclusive<K, S>),
    Shared(Shared<K, S>),
}

/// Does the same on either face.
macro_rules! on {
    ($face:expr, $map:ident => $do:expr) => {
        match $face {
            Face::Exclusive($map) => $do,
            Face::Shared(shared) => {
                #[allow(unused_mut, reason = "not all change something")]
                let mut $map = shared.write();
                $do
            }
        }
    };
}

/// What a history runs in: the counters, and the numbers of values.
struct World {
    nodes: Nodes,
    count: Count,
}

impl World {
    fn new() -> Self {
        Self {
            nodes: Arc::new(Countdown::new()),
            count: Count::default(),
        }
    }

    fn value(&self, number: Number) -> Box<Alive> {
        Alive::boxed(number, &self.count)
    }

    fn exclusive<K: Key, S: Shape>(&self, gaps: bool) -> Exclusive<K, S> {
        if gaps {
            MapleTree::with_gaps_in(self.nodes.clone())
        } else {
            MapleTree::new_in(self.nodes.clone())
        }
    }

    /// The map that the model says.
    fn map<K: Key, S: Shape>(&self, model: &Model<K>, gaps: bool) -> Exclusive<K, S> {
        let mut map = self.exclusive(gaps);
        // One by one, in an order that splits.
        let mut entries = model.entries();
        let half = entries.len() / 2;
        entries.rotate_left(half);
        for (range, v) in entries {
            map.insert_range(range, self.value(v)).unwrap();
        }
        map
    }

    /// On one face after the other.
    fn faces<K: Key, S: Shape>(&self, model: &Model<K>) -> impl Iterator<Item = Face<K, S>> {
        [(false, false), (false, true), (true, false), (true, true)]
            .into_iter()
            .map(|(shared, gaps)| {
                let map = self.map(model, gaps);
                if shared {
                    Face::Shared(Shared::from_exclusive(map, Waiting::new()))
                } else {
                    Face::Exclusive(map)
                }
            })
    }

    /// Nothing is left.
    fn end(self) {
        assert_eq!(
            (self.nodes.live(), self.count.get()),
            (0, 0),
            "something leaked"
        );
    }
}

fn same<K: Key, S: Shape>(model: &Model<K>, face: &Face<K, S>, context: &dyn Fn() -> String) {
    on!(face, map => {
        if let Err(damage) = map.check() {
            panic!("{damage}\n{}", context());
        }
        let entries: Vec<_> = map.iter().map(|(range, v)| (range, number(v))).collect();
        assert_eq!(entries, model.entries(), "{}", context());
    });
}

fn same_map<K: Key, S: Shape>(
    model: &Model<K>,
    map: Exclusive<K, S>,
    context: &dyn Fn() -> String,
) {
    same(model, &Face::Exclusive(map), context);
}

/// So many cells, of which every content is tried; fewer under Miri.
const fn short(cells: usize) -> usize {
    if cfg!(miri) { 3 } else { cells }
}

/// One of so many under Miri, which looks for what any content may show.
const fn step(under_miri: usize) -> usize {
    if cfg!(miri) { under_miri } else { 1 }
}

/// So many entries; under Miri enough for three levels.
const fn long(entries: usize) -> usize {
    if cfg!(miri) { 12 } else { entries }
}

/// Every content that two stores and an erasure leave in `n` cells.
fn contents(n: usize) -> Vec<Model<u32>> {
    let mut all = vec![Model::new(0, n)];
    let ranges: Vec<_> = (0..n)
        .flat_map(|first| (first..n).map(move |last| (first, last)))
        .collect();
    for &(a, b) in &ranges {
        let mut one = Model::new(0, n);
        one.store(a, b, Some(1));
        for &(c, d) in &ranges {
            let mut two = one.clone();
            two.store(c, d, Some(2));
            all.push(two);
        }
    }
    all.sort_by(|a, b| a.cells.cmp(&b.cells));
    all.dedup_by(|a, b| a.cells == b.cells);
    // Parts of one entry on both sides of another have numbers of their own.
    for model in &mut all {
        let mut next = 10;
        let mut before = None;
        for cell in &mut model.cells {
            if cell.is_some() && *cell == before {
                *cell = Some(next - 1);
            } else {
                before = *cell;
                if cell.is_some() {
                    *cell = Some(next);
                    next += 1;
                }
            }
        }
    }
    all
}

/// Large contents: `n` entries, some with holes between.
fn grown<K: Key>(base: K, n: usize, rng: &mut Rng) -> Model<K> {
    let mut cells = Vec::new();
    for i in 0..n {
        cells.extend(vec![None; rng.below(3)]);
        cells.extend(vec![Some(10 + i as Number); 1 + rng.below(4)]);
    }
    Model { base, cells }
}

/// Tries with more and more allocations allowed; what fails leaves the map as it was, and no value behind.
fn insist<K: Key, S: Shape>(
    world: &World,
    model: &Model<K>,
    face: &mut Face<K, S>,
    mut attempt: impl FnMut(&mut Face<K, S>) -> bool,
) {
    let (nodes, values) = (world.nodes.live(), world.count.get());
    for allowed in 0.. {
        world.nodes.allow(allowed);
        let done = attempt(face);
        world.nodes.allow(usize::MAX);
        if done {
            return;
        }
        assert_eq!(
            (world.nodes.live(), world.count.get()),
            (nodes, values),
            "a failure kept something"
        );
        same(model, face, &|| {
            format!("after a failure with {allowed} nodes allowed")
        });
    }
}

/// Which entries of the model count as equal to `number`.
fn alike(a: Number, b: Number) -> bool {
    a % 2 == b % 2
}

/// What a coalescing store does to the flat array; gives the range of the entry.
fn coalesce<K: Key>(
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

fn try_coalescing<K: Key, S: Shape>(
    world: &World,
    model: &Model<K>,
    first: usize,
    last: usize,
    n: Number,
    into_hole: bool,
) {
    for mut face in world.faces::<K, S>(model) {
        let mut after = model.clone();
        let (from, to) = coalesce(&mut after, first, last, n);
        let splits = model.splits(first, last) && !alike(model.cells[first].unwrap(), n);
        let taken = model.cells[first..=last].iter().any(Option::is_some);
        let range = model.key(first)..=model.key(last);
        let joined = model.key(from)..=model.key(to);
        let mut refused = false;
        insist(world, model, &mut face, |face| {
            let same = |a: &Alive, b: &Alive| alike(number(a), number(b));
            if into_hole {
                match on!(face, map => map.insert_range_coalescing(range.clone(), world.value(n), same))
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
                match on!(face, map => map.store_range_coalescing(range.clone(), world.value(n), same))
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
        same(expected, &face, &|| {
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
    fn of<K: Key, S: Shape>(seed: u64, base: K) {
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

fn try_split_off<K: Key, S: Shape>(world: &World, model: &Model<K>, at: usize) {
    let key = model.key(at);
    let (mut low, mut high) = (model.clone(), model.clone());
    low.cells[at..].fill(None);
    high.cells[..at].fill(None);
    let torn = at > 0 && model.cells[at].is_some() && model.cells[at] == model.cells[at - 1];
    let context = || format!("at {at} of {:?}", model.cells);
    for mut face in world.faces::<K, S>(model) {
        if let Face::Exclusive(map) = &mut face
            && torn
        {
            assert_eq!(map.split_off(key).err(), Some(EraseError::Splits));
            same(model, &face, &context);
        }
        let mut off = None;
        insist(world, model, &mut face, |face| {
            let result = match face {
                Face::Exclusive(map) if torn => map.split_off_splitting(key, |range, v| {
                    assert_eq!(*range.start(), key);
                    twin(v)
                }),
                Face::Exclusive(map) => map.split_off(key),
                Face::Shared(map) => map.write().split_off_with(key, |_, v| twin(v)),
            };
            match result {
                Ok(map) => off = Some(map),
                Err(error) => assert_eq!(error, EraseError::Alloc),
            }
            off.is_some()
        });
        same(&low, &face, &context);
        let off = off.unwrap();
        on!(&face, map => assert_eq!(map.tracks_gaps(), off.tracks_gaps()));
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

fn try_append<K: Key, S: Shape>(world: &World, lower: &Model<K>, upper: &Model<K>) {
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
    for mut face in world.faces::<K, S>(lower) {
        let mut other = world.map::<K, S>(&over, false);
        if splits {
            let result = on!(&mut face, map => map.append(&mut other));
            assert_eq!(result, Err(EraseError::Splits), "{}", context());
            same(lower, &face, &context);
        }
        insist(world, lower, &mut face, |face| {
            let result = if splits {
                on!(face, map => map.append_splitting(&mut other, |_, v| twin(v)))
            } else {
                on!(face, map => map.append(&mut other))
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
        same(&merged, &face, &context);
        assert_eq!(
            world.count.get(),
            merged.entries().len() as isize,
            "{}",
            context()
        );
        // A closure that gives up halfway.
        if splits {
            let mut face = Face::Exclusive(world.map::<K, S>(lower, true));
            let mut other = world.map::<K, S>(&over, true);
            let before = world.count.get();
            let parts = all - parts.len();
            for mut left in (0..parts).step_by(if cfg!(miri) { 4 } else { 1 }) {
                let result = on!(&mut face, map => map.append_splitting(&mut other, |_, v| {
                    left = left.checked_sub(1)?;
                    twin(v)
                }));
                assert_eq!(result, Err(EraseError::Splits));
                assert_eq!(world.count.get(), before);
                same(lower, &face, &context);
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

fn try_retain<K: Key, S: Shape>(world: &World, model: &Model<K>, keep: impl Fn(Number) -> bool) {
    let mut left = model.clone();
    for cell in &mut left.cells {
        *cell = cell.filter(|&v| keep(v));
    }
    for mut face in world.faces::<K, S>(model) {
        // What fails has dropped the first so many of those that were to go, and trying again goes on.
        for allowed in 0.. {
            world.nodes.allow(allowed % 3);
            let result = match &mut face {
                Face::Exclusive(map) => map.retain(|_, v| keep(number(v))),
                Face::Shared(map) => map.write().retain(|_, v| keep(number(v))),
            };
            world.nodes.allow(usize::MAX);
            on!(&face, map => {
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
                on!(&mut face, map => map.retain(|_, v| keep(number(v)))).unwrap();
                break;
            }
        }
        same(&left, &face, &|| format!("{:?}", model.cells));
    }
}

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
                let mut face = Face::Exclusive(world.map::<u32, Fanout<4>>(&model, true));
                let mut after = model.clone();
                if there.is_none() {
                    after.store(first, last, Some(99));
                }
                insist(&world, &model, &mut face, |face| {
                    let Face::Exclusive(map) = face else {
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
                same(&after, &face, &|| {
                    format!("{first}..={last} of {:?}", model.cells)
                });
                let Face::Exclusive(mut map) = face else {
                    unreachable!()
                };
                let (whole, v) = there.unwrap_or((range.clone(), 99));
                match map.entry(*range.start().max(whole.start())) {
                    Entry::Vacant(_) => panic!("there is an entry"),
                    Entry::Occupied(mut entry) => {
                        assert_eq!((entry.range(), entry.get().number), (whole.clone(), v));
                        assert_eq!(entry.insert(world.value(7)).ok().unwrap().number, v);
                        assert_eq!((entry.get().number, entry.get_mut().number), (7, 7));
                        let (range, value) = entry.remove().unwrap();
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

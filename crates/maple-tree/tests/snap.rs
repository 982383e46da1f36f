//! Maps that share nodes, against a flat array for each: all short histories on two sides at fanout 4, long random ones over a
//! family of snapshots with allocations that fail at each place, values that fail or panic when they are duplicated, threads.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod support;

use std::alloc::Layout;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};

use maple_tree::alloc::{Counted, Global, NodeAlloc};
use maple_tree::{
    CowMapleTree, Fanout, InsertError, Key, MapleTree, Native, Shape, SharedAlloc, StoreError,
};
use support::{Model, Number, Rng, add};

/// Refuses the allocation after the next `left` ones, and all after it; never, at `usize::MAX`.
struct Countdown {
    inner: Counted<Global>,
    left: Cell<usize>,
}

impl Countdown {
    fn new() -> Self {
        Self {
            inner: Counted::new(Global),
            left: Cell::new(usize::MAX),
        }
    }
}

// SAFETY: passed on to an allocator that keeps the promises.
unsafe impl NodeAlloc for Countdown {
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
        match self.left.get() {
            0 => return None,
            usize::MAX => {}
            n => self.left.set(n - 1),
        }
        self.inner.allocate(layout)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.deallocate(block, layout) }
    }
}

/// Compares content, read in every way.
fn compare<K: Key, A: SharedAlloc, S: Shape>(
    model: &Model<K>,
    map: &CowMapleTree<K, Number, A, S>,
    context: &dyn Fn() -> String,
) {
    let entries = model.entries();
    let show = || format!("{}\n{}", context(), map.dump(maple_tree::Format::Decimal));
    assert_eq!(map.iter().collect::<Vec<_>>(), entries, "{}", show());
    let mut backwards: Vec<_> = map.iter().rev().collect();
    backwards.reverse();
    assert_eq!(backwards, entries, "{}", show());
    for (i, &cell) in model.cells.iter().enumerate() {
        assert_eq!(map.get(model.key(i)), cell, "{}", show());
    }
}

/// A map, and what it should hold.
type Modelled<K, A, S> = (CowMapleTree<K, Number, A, S>, Model<K>);

/// Compares all maps that share nodes, and checks structure and counts.
fn compare_family<K: Key, A: SharedAlloc, S: Shape>(
    family: &[Modelled<K, A, S>],
    context: &dyn Fn() -> String,
) {
    let maps: Vec<_> = family.iter().map(|(map, _)| map).collect();
    if let Err(damage) = CowMapleTree::check_family(&maps) {
        panic!("{damage}\n{}", context());
    }
    for (map, model) in family {
        compare(model, map, context);
    }
}

#[derive(Clone, Copy, Debug)]
struct Op {
    first: usize,
    last: usize,
    erase: bool,
}

fn all_ops(n: usize) -> Vec<Op> {
    let mut ops = Vec::new();
    for first in 0..n {
        for last in first..n {
            for erase in [false, true] {
                ops.push(Op { first, last, erase });
            }
        }
    }
    ops
}

type Small<'a> = CowMapleTree<u32, Number, &'a Countdown, Fanout<4>>;

fn perform(map: &mut Small<'_>, model: &mut Model<u32>, op: Op, number: Number) {
    let range = model.key(op.first)..=model.key(op.last);
    if op.erase {
        map.erase_range(range).unwrap();
    } else {
        map.store_range(range, number).unwrap();
    }
    let value = (!op.erase).then_some(number);
    model.store(op.first, op.last, value);
}

/// All operations on the one side, followed by all on the other: the third map stays as it was, then goes before the others write.
fn two_sides(start: &Small<'_>, model: &Model<u32>, n: usize, second: bool) {
    // One in so many under Miri, where there are many.
    let step = if cfg!(miri) && n > 4 { 53 } else { 1 };
    for one in all_ops(n).into_iter().step_by(step) {
        let mut family = vec![
            (start.snapshot(), model.clone()),
            (start.snapshot(), model.clone()),
        ];
        let (map, after) = &mut family[0];
        perform(map, after, one, 1000);
        family.push((start.snapshot(), model.clone()));
        {
            let mut maps: Vec<_> = family.iter().map(|f| &f.0).collect();
            maps.push(start);
            CowMapleTree::check_family(&maps).unwrap();
        }
        for (map, model) in &family {
            compare(model, map, &|| format!("{one:?}"));
        }
        family.pop();
        if !second {
            continue;
        }
        for two in all_ops(n) {
            let mut pair = [
                (family[0].0.snapshot(), family[0].1.clone()),
                (family[1].0.snapshot(), family[1].1.clone()),
            ];
            for (side, (map, model)) in pair.iter_mut().enumerate() {
                perform(map, model, two, 2000 + side as Number);
                map.check().unwrap();
                compare(model, map, &|| format!("{one:?} {two:?} {side}"));
            }
            let maps = [&pair[0].0, &pair[1].0, &family[0].0, &family[1].0, start];
            CowMapleTree::check_family(&maps).unwrap();
        }
    }
}

#[test]
fn every_short_history_on_two_sides() {
    let nodes = Countdown::new();
    let n = if cfg!(miri) { 2 } else { 5 };
    for gaps in [false, true] {
        let bases = [0, u32::MAX - (n as u32 - 1)];
        for base in bases.into_iter().skip(usize::from(cfg!(miri))) {
            for stored in if cfg!(miri) { n..=n } else { 0..=n } {
                let mut map: Small<'_> = if gaps {
                    CowMapleTree::with_gaps_in(&nodes)
                } else {
                    CowMapleTree::new_in(&nodes)
                };
                let mut model = Model::new(base, n);
                for i in 0..stored {
                    let op = Op {
                        first: i,
                        last: i,
                        erase: false,
                    };
                    perform(&mut map, &mut model, op, i as Number);
                }
                two_sides(&map, &model, n, true);
            }
        }
    }
    assert_eq!(nodes.inner.live(), 0);
}

/// One operation on trees of every size up to four levels, which a snapshot shares; under Miri on one of three levels.
#[test]
fn one_operation_on_trees_of_every_size() {
    let nodes = Countdown::new();
    let (sizes, orders) = if cfg!(miri) {
        (14..=14, 2..3)
    } else {
        (1..=32, 0..3)
    };
    for n in sizes {
        for gaps in [false, true] {
            for order in orders.clone() {
                let mut map: Small<'_> = if gaps {
                    CowMapleTree::with_gaps_in(&nodes)
                } else {
                    CowMapleTree::new_in(&nodes)
                };
                let mut model = Model::new(7, n);
                for i in 0..n {
                    let i = match order {
                        0 => i,
                        1 => n - 1 - i,
                        // From both ends to the middle.
                        _ if i % 2 == 0 => i / 2,
                        _ => n - 1 - i / 2,
                    };
                    let (first, last, erase) = (i, i, false);
                    perform(&mut map, &mut model, Op { first, last, erase }, i as Number);
                }
                two_sides(&map, &model, n, false);
            }
        }
    }
    assert_eq!(nodes.inner.live(), 0);
}

/// Painting as `MapleTree` does it, with snapshots that keep what they had, and allocations that are refused.
#[test]
fn equal_neighbours_are_joined_beside_snapshots() {
    let nodes = Countdown::new();
    let (seeds, steps) = if cfg!(miri) { (1, 20) } else { (9, 150) };
    for seed in 1..=seeds {
        let mut rng = Rng(seed);
        let mut plain: MapleTree<u32, Number, _, Fanout<4>> = MapleTree::with_gaps_in(Global);
        let mut map: Small<'_> = CowMapleTree::with_gaps_in(&nodes);
        let mut kept = vec![(map.snapshot(), Vec::new())];
        let same = |a: Number, b: Number| a % 2 == b % 2;
        for step in 0..steps {
            let first = rng.below(120) as u32 + if seed % 2 == 0 { 0 } else { u32::MAX - 119 };
            let last = first.saturating_add(rng.below(8) as u32);
            let (range, value) = (first..=last, rng.below(4) as Number);
            let erases = rng.below(4) == 0;
            let split = |_, around| Some(around);
            let expected = if erases {
                plain.erase_range_splitting(range.clone(), split).unwrap();
                range.clone()
            } else {
                plain
                    .store_range_coalescing_splitting(range.clone(), value, same, split)
                    .unwrap()
            };
            let before: Vec<_> = map.iter().collect();
            for allowed in 0.. {
                nodes.left.set(allowed);
                let live = nodes.inner.live();
                let stored = match (erases, seed % 3) {
                    (true, _) => map.erase_range(range.clone()).map(|()| range.clone()).ok(),
                    (_, 0) => {
                        let done = map.store_range_coalescing(range.clone(), value, same);
                        done.map_err(|e| assert_eq!(e, StoreError::Alloc(value)))
                            .ok()
                    }
                    _ => {
                        let range = range.clone();
                        let done = map.store_range_coalescing_splitting(range, value, same, split);
                        done.map_err(|e| assert_eq!(e, StoreError::Alloc(value)))
                            .ok()
                    }
                };
                nodes.left.set(usize::MAX);
                if let Some(stored) = stored {
                    assert_eq!(stored, expected, "seed {seed} step {step}");
                    break;
                }
                assert_eq!(map.iter().collect::<Vec<_>>(), before);
                assert_eq!(nodes.inner.live(), live);
            }
            assert!(map.iter().eq(plain.iter()), "seed {seed} step {step}");
            if rng.below(3) == 0 {
                let at = rng.below(4).min(kept.len());
                kept.truncate(3);
                kept.insert(at.min(kept.len()), (map.snapshot(), map.iter().collect()));
            }
            let mut family: Vec<_> = kept.iter().map(|(map, _)| map).collect();
            family.push(&map);
            CowMapleTree::check_family(&family).unwrap();
            for (map, held) in &kept {
                assert!(map.iter().eq(held.iter().cloned()));
            }
        }
    }
    assert_eq!(nodes.inner.live(), 0);
}

type Member<'a, K, S> = Modelled<K, &'a Countdown, S>;

fn history<K: Key, S: Shape>(seed: u64, cells: usize, steps: usize, gaps: bool, base: K) {
    let steps = if cfg!(miri) { 12 } else { steps };
    let cells = if cfg!(miri) { 24 } else { cells };
    let nodes = Countdown::new();
    let mut rng = Rng(seed);
    {
        let map = if gaps {
            CowMapleTree::with_gaps_in(&nodes)
        } else {
            CowMapleTree::new_in(&nodes)
        };
        let mut family: Vec<Member<'_, K, S>> = vec![(map, Model::new(base, cells))];
        for step in 0..steps {
            let which = rng.below(family.len());
            match rng.below(10) {
                0 if family.len() < 8 => {
                    let (map, model) = &family[which];
                    let taken = (map.snapshot(), model.clone());
                    assert!(taken.0.is_same(map));
                    family.push(taken);
                }
                1 if family.len() > 1 => drop(family.swap_remove(which)),
                _ => change(&mut family, which, &nodes, &mut rng, step as Number),
            }
            if step % 8 == 0 || cells < 100 {
                compare_family(&family, &|| format!("seed {seed} step {step}"));
            }
            if step % 16 == 0 {
                let (map, model) = &family[rng.below(family.len())];
                gap_searches(map, model, &mut rng);
            }
            if step % 128 == 0 {
                convert(&family, &nodes, &mut rng);
            }
        }
    }
    assert_eq!(nodes.inner.live(), 0, "nodes leaked");
}

/// One change of one of the maps, now and then with 0, 1, 2 … allocations allowed until it succeeds.
fn change<K: Key, S: Shape>(
    family: &mut [Member<'_, K, S>],
    which: usize,
    nodes: &Countdown,
    rng: &mut Rng,
    step: Number,
) {
    let cells = family[which].1.cells.len();
    // Mostly short ranges, now and then one over many nodes.
    let width = match rng.below(20) {
        0 => rng.below(cells),
        1 | 2 => rng.below(cells.min(60)),
        _ => rng.below(6),
    };
    let first = rng.below(cells);
    let last = (first + width).min(cells - 1);
    let value = 10_000 + step;
    let what = rng.below(if step % 400 < 200 { 10 } else { 14 });
    let mut allowed = if rng.below(4) == 0 { 0 } else { usize::MAX };
    loop {
        let live = nodes.inner.live();
        nodes.left.set(allowed);
        let (map, model) = &mut family[which];
        let range = model.key(first)..=model.key(last);
        let key = model.key(first);
        let there = model.cells[first];
        // The entry: parts of one that was split have its number, and do not touch.
        let before = model.cells[..first].iter().rev();
        let from = first - before.take_while(|&&c| c == there).count();
        let after = model.cells[first..].iter();
        let to = first + after.take_while(|&&c| c == there).count();
        let whole = if there.is_some() { from..to } else { 0..0 };
        let done = match what {
            0..=3 => match map.insert_range(range, value) {
                Ok(()) => {
                    assert!(model.cells[first..=last].iter().all(Option::is_none));
                    model.store(first, last, Some(value));
                    true
                }
                Err(InsertError::Occupied(v)) => {
                    assert_eq!(v, value);
                    assert!(!model.cells[first..=last].iter().all(Option::is_none));
                    true
                }
                Err(error) => {
                    assert_eq!(error, InsertError::Alloc(value));
                    false
                }
            },
            4..=7 => {
                let done = map.store_range(range, value).is_ok();
                if done {
                    model.store(first, last, Some(value));
                }
                done
            }
            8 => match map.remove(key) {
                Ok(taken) => {
                    assert_eq!(taken.map(|t| t.1), there);
                    for i in whole.clone() {
                        model.cells[i] = None;
                    }
                    true
                }
                Err(_) => false,
            },
            9 => {
                // Without memory it is not told apart from a hole.
                match (map.replace(key, value), there) {
                    (Ok(old), _) => {
                        assert_eq!(Some(old), there);
                        for i in whole.clone() {
                            model.cells[i] = Some(value);
                        }
                        true
                    }
                    (Err(v), _) => {
                        assert_eq!(v, value);
                        there.is_none()
                    }
                }
            }
            10 => match map.get_mut(key) {
                Ok(found) => {
                    assert_eq!(found.copied(), there);
                    true
                }
                Err(_) => false,
            },
            _ => {
                let done = map.erase_range(range).is_ok();
                if done {
                    model.store(first, last, None);
                }
                done
            }
        };
        nodes.left.set(usize::MAX);
        if done {
            return;
        }
        assert!(allowed < usize::MAX, "failed with memory");
        assert_eq!(nodes.inner.live(), live, "a failed write kept nodes");
        compare_family(family, &|| {
            format!("after a failure with {allowed} nodes allowed")
        });
        allowed += 1;
    }
}

fn gap_searches<K: Key, S: Shape>(
    map: &CowMapleTree<K, Number, &Countdown, S>,
    model: &Model<K>,
    rng: &mut Rng,
) {
    for _ in 0..6 {
        let a = rng.below(model.cells.len());
        let b = (a + rng.below(model.cells.len())).min(model.cells.len() - 1);
        let (lo, hi) = (model.key(a), model.key(b));
        let size = add(K::ONE, rng.below(12));
        let align = add(K::ONE, rng.below(7));
        let offset = add(K::MIN, rng.below(7)).min(align.wrapping_sub(K::ONE));
        for (align, offset) in [(K::ONE, K::MIN), (align, offset)] {
            assert_eq!(
                map.gap_up_aligned(lo..=hi, size.number(), align.number(), offset.number()),
                model.gap_up(lo, hi, size, align, offset),
            );
            assert_eq!(
                map.gap_down_aligned(lo..=hi, size.number(), align.number(), offset.number()),
                model.gap_down(lo, hi, size, align, offset),
            );
        }
    }
}

/// To a map for one owner and back, with allocations that fail.
fn convert<K: Key, S: Shape>(family: &[Member<'_, K, S>], nodes: &Countdown, rng: &mut Rng) {
    let live = nodes.inner.live();
    for (map, model) in family {
        let mut own = map.snapshot();
        nodes.left.set(rng.below(live + 1));
        own = match own.into_exclusive() {
            Ok(exclusive) => CowMapleTree::from_exclusive(exclusive).unwrap_or_else(|_| {
                panic!("a map of several entries is taken over as it is");
            }),
            Err(own) => own,
        };
        nodes.left.set(usize::MAX);
        compare(model, &own, &|| {
            "after a conversion that may have failed".into()
        });
        let exclusive = own.into_exclusive().unwrap();
        support::compare(model, &exclusive, &|| "a map for one owner".into());
        let again = CowMapleTree::from_exclusive(exclusive).unwrap();
        compare(model, &again, &|| "a map that is shared again".into());
        CowMapleTree::check_family(&[&again]).unwrap();
    }
    assert_eq!(nodes.inner.live(), live);
}

#[test]
fn keys_u64() {
    history::<u64, Native>(1, 400, 2500, true, 0);
    history::<u64, Native>(2, 400, 2500, false, u64::MAX - 399);
}

#[test]
fn keys_u32() {
    history::<u32, Native>(3, 400, 2000, true, u32::MAX - 399);
    history::<u32, Native>(4, 400, 2000, false, 12345);
}

#[test]
fn keys_u128() {
    history::<u128, Native>(5, 300, 2000, true, u128::MAX - 299);
    history::<u128, Native>(6, 300, 2000, false, 1 << 100);
}

#[test]
fn small_fanouts() {
    history::<u64, Fanout<4>>(8, 90, 3000, true, 0);
    history::<u64, Fanout<4>>(9, 200, 2000, false, u64::MAX - 199);
    history::<u32, Fanout<5>>(10, 90, 3000, true, 77);
    history::<usize, Fanout<7>>(11, 200, 2000, false, 77);
}

#[test]
fn an_entry_at_index_0_alone() {
    let mut one: MapleTree<u64, Number, Global> = MapleTree::new_in(Global);
    one.insert(0, 7).unwrap();
    let map = CowMapleTree::from_exclusive(one).unwrap();
    map.check().unwrap();
    assert_eq!(map.snapshot().iter().collect::<Vec<_>>(), [(0..=0, 7)]);
    let empty: CowMapleTree<u64, Number> =
        CowMapleTree::from_exclusive(MapleTree::new_in(Global)).unwrap();
    assert!(empty.is_empty() && empty.snapshot().into_exclusive().unwrap().is_empty());
}

/// A value that counts how many of its kind live, and cannot be made once more for ever.
struct Alive {
    live: Rc<Cell<isize>>,
    fuel: Rc<Cell<isize>>,
}

impl Clone for Alive {
    fn clone(&self) -> Self {
        self.fuel.set(self.fuel.get() - 1);
        assert!(self.fuel.get() != 0, "out of fuel");
        self.live.set(self.live.get() + 1);
        Self {
            live: self.live.clone(),
            fuel: self.fuel.clone(),
        }
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.live.set(self.live.get() - 1);
    }
}

/// Every value is dropped once, also when making one once more panics anywhere in a write: then nothing has changed.
#[test]
fn values_are_dropped_once_and_panics_change_nothing() {
    let (live, fuel) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(-1)));
    let make = || {
        live.set(live.get() + 1);
        Box::new(Alive {
            live: live.clone(),
            fuel: fuel.clone(),
        })
    };
    let nodes = Counted::new(Global);
    let mut rng = Rng(12);
    type Map<'a> = CowMapleTree<u32, Box<Alive>, &'a Counted<Global>, Fanout<4>>;
    let mut now: Map<'_> = CowMapleTree::with_gaps_in(&nodes);
    let mut before = now.snapshot();
    for step in 0..if cfg!(miri) { 25 } else { 4000 } {
        let first = rng.below(100) as u32;
        let last = first + rng.below(8) as u32;
        let ranges = |map: &Map<'_>| map.iter().map(|(range, _)| range).collect::<Vec<_>>();
        let (was, kept, count) = (ranges(&now), ranges(&before), nodes.live());
        let alive = live.get();
        fuel.set(if step % 2 == 0 {
            1 + rng.below(6) as isize
        } else {
            -1
        });
        let what = rng.below(7);
        let done = catch_unwind(AssertUnwindSafe(|| match what {
            0 => drop(now.insert_range(first..=last, make())),
            1..=2 => drop(now.store_range(first..=last, make())),
            3 => drop(now.remove(first)),
            4 => drop(now.replace(first, make())),
            5 => drop(now.get_mut(first)),
            _ => drop(now.erase_range(first..=last)),
        }));
        fuel.set(-1);
        if done.is_err() {
            assert_eq!(ranges(&now), was);
            assert_eq!((nodes.live(), live.get()), (count, alive));
        }
        assert_eq!(ranges(&before), kept);
        CowMapleTree::check_family(&[&now, &before]).unwrap();
        if step % 16 == 0 {
            before = now.snapshot();
        }
    }
    assert!(live.get() >= now.len() as isize);
    drop(now);
    assert_eq!(live.get(), before.len() as isize);
    before.clear();
    assert_eq!((live.get(), nodes.live()), (0, 0));
}

struct Shared(Arc<AtomicIsize>, u32);

impl Shared {
    fn new(count: &Arc<AtomicIsize>, value: u32) -> Arc<Self> {
        count.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self(count.clone(), value))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Each thread writes a snapshot of its own, reads one that all share, takes snapshots of it, and drops those of others.
#[test]
fn sides_are_written_and_read_at_once() {
    const CELLS: usize = if cfg!(miri) { 30 } else { 600 };
    let steps = if cfg!(miri) { 12 } else { 4000 };
    let count = Arc::new(AtomicIsize::new(0));
    let nodes = Arc::new(Counted::new(Global));
    {
        type Map = CowMapleTree<u64, Arc<Shared>, Arc<Counted<Global>>, Fanout<6>>;
        let mut base: Map = CowMapleTree::with_gaps_in(nodes.clone());
        for i in 0..CELLS as u64 / 2 {
            base.insert_range(2 * i..2 * i + 1 + i % 2, Shared::new(&count, i as u32))
                .unwrap();
        }
        let passed = std::sync::Mutex::new(Vec::<(Map, Vec<Option<u32>>)>::new());
        let read = |map: &Map| -> Vec<Option<u32>> {
            (0..CELLS as u64)
                .map(|key| map.get(key).map(|value| value.1))
                .collect()
        };
        let original = read(&base);
        std::thread::scope(|scope| {
            for thread in 0..3u64 {
                let (base, passed, count, original) = (&base, &passed, &count, &original);
                scope.spawn(move || {
                    let mut rng = Rng(thread);
                    let mut mine = base.snapshot();
                    let mut model = original.clone();
                    for step in 0..steps {
                        let first = rng.below(CELLS);
                        let last = (first + rng.below(9)).min(CELLS - 1);
                        let range = first as u64..=last as u64;
                        let value = (rng.below(2) == 0).then(|| step as u32 + 10_000);
                        match value {
                            Some(value) => {
                                mine.store_range(range, Shared::new(count, value)).unwrap();
                            }
                            None => mine.erase_range(range).unwrap(),
                        }
                        model[first..=last].fill(value);
                        match rng.below(12) {
                            0 => passed
                                .lock()
                                .unwrap()
                                .push((mine.snapshot(), model.clone())),
                            1 => {
                                let other = passed.lock().unwrap().pop();
                                if let Some((other, expected)) = other {
                                    assert_eq!(read(&other), expected);
                                    (mine, model) = (other, expected);
                                }
                            }
                            2 => assert_eq!(read(&base.snapshot()), *original),
                            3 => assert_eq!(read(&mine), model),
                            4 if step % 64 == 0 => (mine, model) = (base.clone(), original.clone()),
                            _ => {}
                        }
                    }
                    mine.check().unwrap();
                });
            }
        });
        let mut passed = passed.into_inner().unwrap();
        for (map, expected) in &passed {
            assert_eq!(read(map), *expected);
        }
        passed.truncate(5);
        let mut family: Vec<_> = passed.iter().map(|p| &p.0).collect();
        family.push(&base);
        CowMapleTree::check_family(&family).unwrap();
    }
    assert_eq!(nodes.live(), 0, "nodes leaked");
    assert_eq!(count.load(Ordering::Relaxed), 0, "values leaked");
}

/// Equal, ordered and hashed as the lists of their entries are.
#[test]
fn as_values() {
    fn hash(value: &impl std::hash::Hash) -> u64 {
        use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
        BuildHasherDefault::<DefaultHasher>::default().hash_one(value)
    }
    let (mut rng, count) = (Rng(7), if cfg!(miri) { 6 } else { 50 });
    let mut maps = vec![CowMapleTree::<u64, Number>::new()];
    while maps.len() < count {
        let mut next = maps[rng.below(maps.len())].snapshot();
        for _ in 0..rng.below(4) {
            let first = rng.below(60) as u64;
            let last = first + rng.below(5) as u64;
            let value = rng.below(2) as Number;
            if next.store_range(first..=last, value).is_err() {
                next.erase_range(..first).unwrap();
            }
        }
        maps.push(next);
    }
    let entries = |map: &CowMapleTree<u64, Number>| -> Vec<_> {
        let flat = |(range, value): (std::ops::RangeInclusive<u64>, _)| {
            (*range.start(), *range.end(), value)
        };
        map.iter().map(flat).collect()
    };
    for one in &maps {
        for other in &maps {
            let (ones, others) = (entries(one), entries(other));
            assert_eq!(one == other, ones == others);
            assert_eq!(one.cmp(other), ones.cmp(&others));
            assert_eq!(one.partial_cmp(other), Some(ones.cmp(&others)));
            assert!(one != other || hash(one) == hash(other));
        }
    }
}

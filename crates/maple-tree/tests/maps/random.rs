//! Long random histories at the true fanouts of every key width, with failing allocations, gap searches in both directions,
//! duplicates, and counts of what is left.

use std::cell::RefCell;

use crate::support::counting::{Alive, Count, Countdown};
use crate::support::{Index, Model, Number, Rng, add, compare};
use maple_tree::alloc::Pool;
use maple_tree::{
    AllocError, CloneError, EraseError, Fanout, InsertError, MapleTree, Native, Shape, StoreError,
};

/// Tries an operation with 0, 1, 2 … allocations allowed until it succeeds; after each failure the tree is as it was.
fn insist<K: Index, S: Shape, T>(
    tree: &mut MapleTree<K, Number, &Countdown, S>,
    nodes: &Countdown,
    model: &Model<K>,
    mut attempt: impl FnMut(&mut MapleTree<K, Number, &Countdown, S>) -> Result<T, bool>,
) -> Option<T> {
    for allowed in 0.. {
        nodes.allow(allowed);
        let live = nodes.live();
        let result = attempt(tree);
        nodes.allow(usize::MAX);
        match result {
            Ok(value) => return Some(value),
            Err(false) => return None,
            Err(true) => {
                assert_eq!(nodes.live(), live, "a failed write kept nodes");
                compare(model, tree, &|| {
                    format!("after a failure with {allowed} nodes allowed")
                });
            }
        }
    }
    None
}

fn history<K: Index, S: Shape>(seed: u64, cells: usize, steps: usize, gaps: bool, base: K) {
    let steps = if cfg!(miri) { 12 } else { steps };
    let cells = if cfg!(miri) { 40 } else { cells };
    let nodes = Countdown::new();
    let mut rng = Rng(seed);
    {
        let mut tree: MapleTree<K, Number, &Countdown, S> = if gaps {
            MapleTree::with_gaps_in(&nodes)
        } else {
            MapleTree::new_in(&nodes)
        };
        let mut model = Model::new(base, cells);
        for step in 0..steps {
            let value = 10_000 + step as Number;
            // Mostly short ranges, now and then one over many nodes.
            let width = match rng.below(20) {
                0 => rng.below(cells),
                1 | 2 => rng.below(cells.min(60)),
                _ => rng.below(6),
            };
            let first = rng.below(cells);
            let last = (first + width).min(cells - 1);
            let range = model.key(first)..=model.key(last);
            let fail = rng.below(4) == 0;
            let what = rng.below(if step % 400 < 200 { 8 } else { 14 });
            match what {
                0..=2 => {
                    let free = model.cells[first..=last].iter().all(Option::is_none);
                    let r = range.clone();
                    let go = |tree: &mut MapleTree<K, Number, &Countdown, S>| {
                        tree.insert_range(r.clone(), value).map_err(|e| match e {
                            InsertError::Alloc(v) => v == value,
                            InsertError::Occupied(v) => {
                                assert_eq!(v, value);
                                false
                            }
                            InsertError::EmptyRange(_) => panic!("not empty"),
                        })
                    };
                    let done = if fail {
                        insist(&mut tree, &nodes, &model, go).is_some()
                    } else {
                        go(&mut tree).is_ok()
                    };
                    assert_eq!(done, free);
                    if free {
                        model.store(first, last, Some(value));
                    }
                }
                3..=6 => {
                    let splits = model.splits(first, last);
                    let r = range.clone();
                    let go = |tree: &mut MapleTree<K, Number, &Countdown, S>| {
                        tree.store_range(r.clone(), value).map_err(|e| match e {
                            StoreError::Alloc(v) => v == value,
                            StoreError::Splits(_) => false,
                            StoreError::EmptyRange(_) => panic!("not empty"),
                        })
                    };
                    let done = if fail {
                        insist(&mut tree, &nodes, &model, go).is_some()
                    } else {
                        go(&mut tree).is_ok()
                    };
                    assert_eq!(done, !splits);
                    if splits {
                        tree.store_range_splitting(range, value, |_, v| Some(v))
                            .unwrap();
                    }
                    model.store(first, last, Some(value));
                }
                7 => {
                    let cell = model.cells[first];
                    let got = insist(&mut tree, &nodes, &model, |tree| {
                        tree.remove(model.key(first)).map_err(|_| true)
                    });
                    let got = got.unwrap();
                    assert_eq!(got.as_ref().map(|g| g.1), cell);
                    if let Some((range, _)) = got {
                        for i in 0..cells {
                            if range.contains(&model.key(i)) {
                                assert_eq!(model.cells[i], cell);
                                model.cells[i] = None;
                            }
                        }
                    }
                }
                _ => {
                    let splits = model.splits(first, last);
                    let r = range.clone();
                    let go = |tree: &mut MapleTree<K, Number, &Countdown, S>| {
                        tree.erase_range(r.clone()).map_err(|e| match e {
                            EraseError::Alloc => true,
                            EraseError::Splits => false,
                            EraseError::EmptyRange => panic!("not empty"),
                        })
                    };
                    let done = if fail {
                        insist(&mut tree, &nodes, &model, go).is_some()
                    } else {
                        go(&mut tree).is_ok()
                    };
                    assert_eq!(done, !splits);
                    if splits {
                        tree.erase_range_splitting(range, |_, v| Some(v)).unwrap();
                    }
                    model.store(first, last, None);
                }
            }
            compare(&model, &tree, &|| format!("seed {seed} step {step}"));
            if step % 8 == 0 {
                gap_searches(&tree, &model, &mut rng);
            }
            // Under Miri when something is there.
            if step % 64 == if cfg!(miri) { 11 } else { 0 } {
                duplicates(&tree, &model, &nodes, &mut rng);
            }
        }
    }
    assert_eq!(nodes.live(), 0, "nodes leaked");
}

fn gap_searches<K: Index, S: Shape>(
    tree: &MapleTree<K, Number, &Countdown, S>,
    model: &Model<K>,
    rng: &mut Rng,
) {
    for _ in 0..6 {
        let a = rng.below(model.cells.len());
        let b = (a + rng.below(model.cells.len())).min(model.cells.len() - 1);
        let (lo, hi) = match rng.below(4) {
            0 => (K::MIN, model.key(b)),
            1 => (model.key(a), K::MAX),
            _ => (model.key(a), model.key(b)),
        };
        let size = add(K::ONE, rng.below(12));
        let align = add(K::ONE, rng.below(7));
        let offset = add(K::MIN, rng.below(7)).min(align.wrapping_sub(K::ONE));
        let show = || format!("{size} in {lo}..={hi}, {align} + {offset}\n{tree}");
        let plain = (K::ONE, K::MIN);
        for (align, offset) in [plain, (align, offset)] {
            assert_eq!(
                tree.gap_up_aligned(lo..=hi, size.number(), align.number(), offset.number()),
                model.gap_up(lo, hi, size, align, offset),
                "up: {}",
                show()
            );
            assert_eq!(
                tree.gap_down_aligned(lo..=hi, size.number(), align.number(), offset.number()),
                model.gap_down(lo, hi, size, align, offset),
                "down: {}",
                show()
            );
        }
    }
}

/// Duplicates, with entries left out, and with an allocation or an entry that fails.
fn duplicates<K: Index, S: Shape>(
    tree: &MapleTree<K, Number, &Countdown, S>,
    model: &Model<K>,
    nodes: &Countdown,
    rng: &mut Rng,
) {
    for every in [2, 1, 5, 1000]
        .into_iter()
        .step_by(if cfg!(miri) { 3 } else { 1 })
    {
        let start = rng.below(every) as Number;
        let left_out = |v: Number| every < 1000 && v % every as Number == start;
        let mut expected = model.clone();
        for cell in &mut expected.cells {
            *cell = cell.filter(|&v| !left_out(v));
        }
        let live = nodes.live();
        for allowed in [
            usize::MAX,
            0,
            1,
            2,
            5,
            live / 2,
            live.saturating_sub(1),
            live,
        ]
        .into_iter()
        .step_by(if cfg!(miri) { 2 } else { 1 })
        {
            nodes.allow(allowed);
            let copy = tree.try_clone_with(|_, v| Ok((!left_out(v)).then_some(v)));
            nodes.allow(usize::MAX);
            match copy {
                Ok(copy) => compare(&expected, &copy, &|| {
                    format!("copy without {start} of {every}")
                }),
                Err(error) => assert_eq!(error, AllocError),
            }
            assert_eq!(nodes.live(), live);
        }
        let entries = model.entries().len();
        let mut left = rng.below(entries + 1);
        let copy = tree.try_clone_with_error(|_, v| {
            left = left.checked_sub(1).ok_or("enough")?;
            Ok(Some(v))
        });
        assert!(matches!(copy, Ok(_) | Err(CloneError::Entry("enough"))));
        drop(copy);
        assert_eq!(nodes.live(), live);
    }
}

#[test]
fn keys_u64() {
    history::<u64, Native>(1, 400, 2500, true, 0);
    history::<u64, Native>(2, 400, 2500, false, u64::MAX - 399);
}

#[test]
fn keys_u32() {
    history::<u32, Native>(3, 400, 2500, true, u32::MAX - 399);
    history::<u32, Native>(4, 400, 2500, false, 12345);
}

#[test]
fn keys_u128() {
    history::<u128, Native>(5, 300, 2500, true, u128::MAX - 299);
    history::<u128, Native>(6, 300, 2500, false, 1 << 100);
}

#[test]
fn keys_usize() {
    history::<usize, Native>(7, 300, 2000, true, 4096);
}

/// Numbers with a sign, about 0 and at the ends of the key space.
#[test]
fn keys_signed() {
    history::<i32, Native>(20, 400, 1500, true, -200);
    history::<i64, Native>(21, 400, 1500, true, i64::MIN);
    history::<isize, Native>(22, 300, 1000, false, isize::MAX - 299);
    history::<i128, Native>(23, 300, 1000, true, -100);
    history::<i64, Fanout<4>>(24, 200, 1500, true, -100);
}

/// Key spaces that the cells fill, or nearly.
#[test]
fn keys_narrow() {
    history::<u8, Native>(25, 256, 1500, true, 0);
    history::<i8, Native>(26, 256, 1500, true, i8::MIN);
    history::<u16, Native>(27, 400, 1500, true, u16::MAX - 399);
    history::<i16, Native>(28, 400, 1000, false, -200);
    history::<i8, Fanout<4>>(29, 200, 1500, true, -100);
}

#[test]
fn small_fanouts() {
    history::<u64, Fanout<4>>(8, 200, 2000, true, 0);
    history::<u64, Fanout<4>>(9, 200, 2000, false, u64::MAX - 199);
    history::<u32, Fanout<5>>(10, 200, 2000, true, 77);
    history::<u32, Fanout<7>>(11, 200, 2000, false, 77);
}

/// Every value is dropped once: when it is overwritten, erased, refused, taken out, or left over.
#[test]
fn values_are_dropped_once() {
    let count = Count::default();
    let mut rng = Rng(12);
    let mut tree: MapleTree<u32, Box<Alive>, Pool, Fanout<4>> =
        MapleTree::with_gaps_in(Pool::new());
    for _ in 0..if cfg!(miri) { 30 } else { 4000 } {
        let first = rng.below(100) as u32;
        let last = first + rng.below(8) as u32;
        match rng.below(6) {
            0 => drop(tree.insert_range(first..=last, Alive::boxed(0, &count))),
            1 => drop(tree.store_range(first..=last, Alive::boxed(0, &count))),
            2 => {
                let value = Alive::boxed(0, &count);
                tree.store_range_splitting(first..=last, value, |_, _| {
                    Some(Alive::boxed(0, &count))
                })
                .unwrap();
            }
            3 => drop(tree.remove(first)),
            4 => drop(tree.replace(first, Alive::boxed(0, &count))),
            _ => drop(tree.erase_range(first..=last)),
        }
        assert_eq!(count.get(), tree.len() as isize);
        let seen = RefCell::new(0);
        let copy = tree.try_clone_with_error(|_, _| {
            *seen.borrow_mut() += 1;
            if *seen.borrow() == 9 {
                Err(())
            } else {
                Ok(Some(Alive::boxed(0, &count)))
            }
        });
        drop(copy);
        assert_eq!(count.get(), tree.len() as isize);
    }
    tree.clear();
    assert_eq!(count.get(), 0);
}

/// An entry grows over its neighbours, which keep what is outside or are handed out.
#[test]
fn grow() {
    let mut tree: MapleTree<u64, Number> = MapleTree::new();
    tree.insert_range(10..20, 1).unwrap();
    tree.insert_range(20..25, 2).unwrap();
    tree.insert_range(30..40, 3).unwrap();
    let mut out = Vec::new();
    assert_eq!(tree.grow(15, 5..35, |r, v| out.push((r, v))), Ok(true));
    assert_eq!(out, [(20..=24, 2)]);
    assert_eq!(tree.iter().collect::<Vec<_>>(), [(5..=34, 1), (35..=39, 3)]);
    assert_eq!(tree.grow(15, 6..35, |_, _| ()), Ok(false));
    assert_eq!(tree.grow(50, 50..60, |_, _| ()), Ok(false));
    tree.check().unwrap();
}

/// Whole-map helpers.
#[test]
fn retain_extend_and_holes() {
    let mut tree: MapleTree<u32, Number, Pool, Fanout<4>> = MapleTree::with_gaps_in(Pool::new());
    tree.try_extend((0..50).map(|i| (i * 10..i * 10 + 6, i as Number)))
        .unwrap();
    let error = tree.try_extend([(700..710, 1), (3..5, 2), (800..810, 3)]);
    assert_eq!(error, Err(InsertError::Occupied(2)));
    assert_eq!(tree.len(), 51);
    assert_eq!(
        tree.holes(..30).collect::<Vec<_>>(),
        [6..=9, 16..=19, 26..=29]
    );
    assert_eq!(tree.holes(705..).collect::<Vec<_>>(), [710..=u32::MAX]);
    tree.retain(|_, v| *v % 2 == 0).unwrap();
    tree.check().unwrap();
    assert!(tree.iter().all(|(_, v)| v % 2 == 0));
    assert_eq!(tree.len(), 25);
    tree.retain(|_, _| false).unwrap();
    assert!(tree.is_empty());
    assert_eq!(tree.holes(5..).collect::<Vec<_>>(), [0..=u32::MAX]);

    let mut next = 8;
    for expected in [(8, false), (9, false), (0, true), (1, false)] {
        assert_eq!(tree.alloc_cyclic(0..10, &mut next, 7), Ok(expected));
    }
    assert_eq!(tree.alloc_range(0..10, 3, 1), Ok(2));
    assert_eq!(tree.alloc_rrange(0..10, 3, 2), Ok(5));
    assert_eq!(
        tree.alloc_rrange(0..10, 3, 2),
        Err(InsertError::Occupied(2))
    );
    assert_eq!(
        tree.alloc_rrange(0..10, 0, 2),
        Err(InsertError::EmptyRange(2))
    );
    tree.check().unwrap();
}

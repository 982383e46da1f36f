//! Long random histories of a family of snapshots, with allocations that fail at each place.

use maple_tree::{CowMapleTree, Fanout, InsertError, Native, Shape};

use crate::support::{self, Index, Model, Number, Rng, add};
use crate::{Countdown, Modelled, compare, compare_family};

type Member<'a, K, S> = Modelled<K, &'a Countdown, S>;

fn history<K: Index, S: Shape>(seed: u64, cells: usize, steps: usize, gaps: bool, base: K) {
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
fn change<K: Index, S: Shape>(
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

fn gap_searches<K: Index, S: Shape>(
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
fn convert<K: Index, S: Shape>(family: &[Member<'_, K, S>], nodes: &Countdown, rng: &mut Rng) {
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

//! All short histories on two sides, and one operation on trees of many sizes.

use maple_tree::{CowMapleTree, Fanout};

use crate::support::{Model, Number};
use crate::{Countdown, compare};

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
    // Under Miri, one of 53 where there are many.
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

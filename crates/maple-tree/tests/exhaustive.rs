//! Every short history at fanout 4, in every mode, against the flat array, with the full check after each change.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod support;

use std::sync::Arc;

use maple_tree::alloc::{Counted, Global};
use support::any::{self, Any};
use support::short::{KEYS, Mode, Walk};
use support::{Model, Number};

/// A store or an erasure of cells `first..=last`.
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

fn perform(tree: &mut Any, model: &mut Model<u32>, op: Op, number: Number) {
    let value = (!op.erase).then_some(number);
    tree.store(model.key(op.first), model.key(op.last), value);
    model.store(op.first, op.last, value);
}

/// All histories of `depth` operations (of some, where `step` says so) on `n` cells, checked after each operation. What stands before the last
/// operation is a duplicate of what the others left, so that duplicates are put to the test as well.
fn explore(tree: &Any, model: &Model<u32>, n: usize, depth: u32, history: &mut Vec<Op>) {
    for op in all_ops(n).into_iter().step_by(step(89)) {
        history.push(op);
        let (mut tree, mut model) = (tree.duplicate(), model.clone());
        perform(&mut tree, &mut model, op, 1000 + depth as Number);
        tree.compare(&model, &|| format!("{history:?}"));
        if depth > 1 {
            explore(&tree, &model, n, depth - 1, history);
        }
        history.pop();
    }
}

fn nodes() -> Arc<Counted<Global>> {
    Arc::new(Counted::new(Global))
}

const MODES: [Mode; 4] = [
    mode(false, false),
    mode(false, true),
    mode(true, false),
    mode(true, true),
];

const fn mode(rcu: bool, gaps: bool) -> Mode {
    Mode {
        rcu,
        gaps,
        switching: false,
    }
}

/// The step between tried operations: larger under sanitizers and Miri, for which any history
/// serves.
const fn step(under_miri: usize) -> usize {
    if cfg!(miri) {
        under_miri
    } else if cfg!(sanitized) {
        5
    } else {
        1
    }
}

/// Every history of up to `depth` operations over 8 keys (of some of them under a sanitizer, two operations of some under Miri): the lowest
/// ones and the highest ones. Each is performed straight on, with every allocation of its last operation refused once, and with its last
/// operation on a duplicate.
fn short_histories(mode: Mode, depth: usize) {
    let bases = [0, u32::MAX - (KEYS as u32 - 1)];
    for base in bases.into_iter().skip(usize::from(cfg!(miri))) {
        let mut walk = Walk::new(mode, base);
        if cfg!(any(miri, sanitized)) {
            walk.ops = walk.ops.into_iter().skip(1).step_by(step(35)).collect();
        }
        walk.explore(&mut Vec::new(), if cfg!(miri) { 2 } else { depth });
        assert!(walk.counts.refused > 0 && walk.counts.refused_to_duplicates > 0);
    }
}

/// RCU mode on for every other operation.
fn switching_histories(depth: usize) {
    for mode in MODES.into_iter().step_by(if cfg!(miri) { 3 } else { 1 }) {
        let switching = Mode {
            switching: true,
            ..mode
        };
        let mut walk = Walk::new(switching, 0);
        walk.ops = walk.ops.into_iter().step_by(step(35)).collect();
        walk.explore(&mut Vec::new(), if cfg!(miri) { 2 } else { depth });
    }
}

#[test]
#[cfg_attr(
    any(miri, sanitized),
    ignore = "longer ones of some operations are tried"
)]
fn two_operations() {
    for mode in MODES {
        short_histories(mode, 2);
    }
    switching_histories(2);
}

#[test]
#[cfg_attr(
    not(any(miri, sanitized)),
    ignore = "a minute with optimisation; run by the tier of this name"
)]
fn three_operations_exclusive() {
    short_histories(MODES[0], 3);
}

#[test]
#[cfg_attr(
    not(any(miri, sanitized)),
    ignore = "a minute with optimisation; run by the tier of this name"
)]
fn three_operations_exclusive_gaps() {
    short_histories(MODES[1], 3);
}

#[test]
#[cfg_attr(
    not(any(miri, sanitized)),
    ignore = "a minute with optimisation; run by the tier of this name"
)]
fn three_operations_shared() {
    short_histories(MODES[2], 3);
}

#[test]
#[cfg_attr(
    not(any(miri, sanitized)),
    ignore = "a minute with optimisation; run by the tier of this name"
)]
fn three_operations_shared_gaps() {
    short_histories(MODES[3], 3);
}

#[test]
#[cfg_attr(
    not(any(miri, sanitized)),
    ignore = "a minute with optimisation; run by the tier of this name"
)]
fn three_operations_switching() {
    switching_histories(3);
}

/// Every history of up to four operations over 8 keys, each performed in the three ways of `short_histories`. One test for each mode, so that
/// they share the processors.
///
/// `SAMARA_SHARD=i/n` takes those whose first operation is number `i`, `i + n`, … of 72.
fn four_operations(mode: Mode) {
    let shard = std::env::var("SAMARA_SHARD").unwrap_or_else(|_| "0/1".into());
    let (i, n) = shard.split_once('/').unwrap();
    let (i, n): (usize, usize) = (i.parse().unwrap(), n.parse().unwrap());
    assert!(i < n, "no such part: {shard}");
    let mut walk = Walk::new(mode, 0);
    let firsts: Vec<_> = walk.ops.iter().copied().skip(i).step_by(n).collect();
    for &first in &firsts {
        walk.explore(&mut vec![first], 3);
    }
    // All that go on from the first operation for one, two or three more.
    let ops = walk.ops.len() as u64;
    let expected = firsts.len() as u64 * (ops + ops.pow(2) + ops.pow(3));
    assert_eq!(walk.counts.histories, expected);
    assert_eq!(walk.counts.on_duplicates, expected);
    println!("shard {shard}, {mode:?}: {:?}", walk.counts);
}

#[test]
#[ignore = "minutes; run by the proof tier"]
fn four_operations_exclusive() {
    four_operations(MODES[0]);
}

#[test]
#[ignore = "minutes; run by the proof tier"]
fn four_operations_exclusive_gaps() {
    four_operations(MODES[1]);
}

#[test]
#[ignore = "minutes; run by the proof tier"]
fn four_operations_shared() {
    four_operations(MODES[2]);
}

#[test]
#[ignore = "minutes; run by the proof tier"]
fn four_operations_shared_gaps() {
    four_operations(MODES[3]);
}

/// Two operations over a tree with several levels: single entries with and without holes between, and ranges.
#[test]
#[cfg_attr(
    not(any(miri, sanitized)),
    ignore = "a minute with optimisation; run by the tier of this name"
)]
fn two_operations_on_a_grown_tree() {
    let n = if cfg!(miri) { 14 } else { 20 };
    let nodes = nodes();
    let bases = [0, u32::MAX - (n as u32 - 1)];
    for base in bases.into_iter().skip(usize::from(cfg!(miri))) {
        for mode in any::Mode::ALL {
            for step in [1, 2, 3] {
                let mut tree = Any::new(mode, &nodes);
                let mut model = Model::new(base, n);
                for i in (0..n).step_by(step) {
                    let width = step - step / 2;
                    let op = Op {
                        first: i,
                        last: (i + width - 1).min(n - 1),
                        erase: false,
                    };
                    perform(&mut tree, &mut model, op, i as Number);
                }
                tree.compare(&model, &|| "start".into());
                let depth = if step == 2 { 2 } else { 1 };
                explore(&tree, &model, n, depth, &mut Vec::new());
            }
        }
    }
}

/// One operation of every kind over trees of every size up to four levels; under Miri of two sizes, up to three.
#[test]
fn one_operation_on_trees_of_every_size() {
    let nodes = nodes();
    // Fourteen entries are three levels.
    let (first, step) = match () {
        () if cfg!(miri) => (2, 12),
        () if cfg!(sanitized) => (1, 3),
        () => (1, 1),
    };
    let most = if cfg!(miri) { 14 } else { 40 };
    for n in (first..=most).step_by(step) {
        for mode in any::Mode::ALL {
            for order in 0..3 {
                let mut tree = Any::new(mode, &nodes);
                let mut model = Model::new(7, n);
                for i in 0..n {
                    let i = match order {
                        0 => i,
                        1 => n - 1 - i,
                        // From both ends to the middle.
                        _ if i % 2 == 0 => i / 2,
                        _ => n - 1 - i / 2,
                    };
                    let op = Op {
                        first: i,
                        last: i,
                        erase: false,
                    };
                    perform(&mut tree, &mut model, op, i as Number);
                    if i.is_multiple_of(if cfg!(miri) { 9 } else { 1 }) {
                        tree.compare(&model, &|| format!("growing to {i}"));
                    }
                }
                explore(&tree, &model, n, 1, &mut Vec::new());
            }
        }
    }
    assert_eq!(nodes.live(), 0);
}

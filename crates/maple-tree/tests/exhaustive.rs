//! Every short history at fanout 4, in every mode, against the flat array, with the full check after each change.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod support;

use std::sync::Arc;

use maple_tree::alloc::{Counted, Global};
use support::Model;
use support::any::{Any, Mode};

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

fn perform(tree: &mut Any, model: &mut Model<u32>, op: Op, number: u32) {
    let value = (!op.erase).then_some(number);
    tree.store(model.key(op.first), model.key(op.last), value);
    model.store(op.first, op.last, value);
}

/// All histories of `depth` operations on `n` cells, checked after each operation. What stands before the last operation is a
/// duplicate of what the others left, so that duplicates are put to the test as well.
fn explore(tree: &Any, model: &Model<u32>, n: usize, depth: u32, history: &mut Vec<Op>) {
    for op in all_ops(n) {
        history.push(op);
        let (mut tree, mut model) = (tree.duplicate(), model.clone());
        perform(&mut tree, &mut model, op, 1000 + depth);
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

/// Every history of three operations over 8 keys: the lowest ones and the highest ones.
fn short_histories(mode: Mode) {
    let nodes = nodes();
    for base in [0, u32::MAX - 7] {
        explore(
            &Any::new(mode, &nodes),
            &Model::new(base, 8),
            8,
            3,
            &mut Vec::new(),
        );
    }
    assert_eq!(nodes.live(), 0);
}

#[test]
fn three_operations_exclusive() {
    short_histories(Mode::Exclusive);
}

#[test]
fn three_operations_exclusive_gaps() {
    short_histories(Mode::ExclusiveGaps);
}

#[test]
fn three_operations_shared() {
    short_histories(Mode::Shared);
}

#[test]
fn three_operations_shared_gaps() {
    short_histories(Mode::SharedGaps);
}

/// Every history of four operations over 8 keys. Takes minutes in each mode.
#[test]
#[ignore = "minutes; run by the proof tier"]
fn four_operations() {
    let nodes = nodes();
    for mode in Mode::ALL {
        explore(
            &Any::new(mode, &nodes),
            &Model::new(0, 8),
            8,
            4,
            &mut Vec::new(),
        );
    }
}

/// Two operations over a tree with several levels: single entries with and without holes between, and ranges.
#[test]
#[cfg_attr(miri, ignore = "hours")]
fn two_operations_on_a_grown_tree() {
    let n = 20;
    let nodes = nodes();
    for base in [0, u32::MAX - (n as u32 - 1)] {
        for mode in Mode::ALL {
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
                    perform(&mut tree, &mut model, op, i as u32);
                }
                tree.compare(&model, &|| "start".into());
                let depth = if step == 2 { 2 } else { 1 };
                explore(&tree, &model, n, depth, &mut Vec::new());
            }
        }
    }
}

/// One operation of every kind over trees of every size up to four levels.
#[test]
#[cfg_attr(miri, ignore = "an hour")]
fn one_operation_on_trees_of_every_size() {
    let nodes = nodes();
    for n in 1..=40 {
        for mode in Mode::ALL {
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
                    perform(&mut tree, &mut model, op, i as u32);
                    tree.compare(&model, &|| format!("growing to {i}"));
                }
                explore(&tree, &model, n, 1, &mut Vec::new());
            }
        }
    }
    assert_eq!(nodes.live(), 0);
}

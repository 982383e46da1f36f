//! Every short history at fanout 4, against the flat array, with the full check after each change.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod support;

use maple_tree::alloc::Global;
use maple_tree::{Fanout, MapleTree};
use support::{Model, compare};

type Tree = MapleTree<u32, u32, Global, Fanout<4>>;

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

fn perform(tree: &mut Tree, model: &mut Model<u32>, op: Op, number: u32) {
    let range = model.key(op.first)..=model.key(op.last);
    if op.erase {
        tree.erase_range_splitting(range, |_, v| Some(v)).unwrap();
    } else {
        tree.store_range_splitting(range, number, |_, v| Some(v))
            .unwrap();
    }
    model.store(op.first, op.last, (!op.erase).then_some(number));
}

/// A tree and its model after the operations.
fn replay(start: &dyn Fn() -> (Tree, Model<u32>), ops: &[Op]) -> (Tree, Model<u32>) {
    let (mut tree, mut model) = start();
    for (i, &op) in ops.iter().enumerate() {
        perform(&mut tree, &mut model, op, 1000 + i as u32);
    }
    (tree, model)
}

/// All histories of `depth` operations on `n` cells, checked after the last one (the earlier ones are histories of
/// their own).
fn explore(start: &dyn Fn() -> (Tree, Model<u32>), n: usize, depth: usize, history: &mut Vec<Op>) {
    for op in all_ops(n) {
        history.push(op);
        let (tree, model) = replay(start, history);
        compare(&model, &tree, &|| format!("{history:?}"));
        if depth > 1 {
            explore(start, n, depth - 1, history);
        }
        history.pop();
    }
}

fn fresh(gaps: bool) -> Tree {
    if gaps { Tree::with_gaps() } else { Tree::new() }
}

/// Every history of three operations over 8 keys: the lowest, the highest, and some in the middle.
#[test]
fn three_operations_from_empty() {
    for base in [0, u32::MAX - 7] {
        for gaps in [false, true] {
            explore(
                &|| (fresh(gaps), Model::new(base, 8)),
                8,
                3,
                &mut Vec::new(),
            );
        }
    }
}

/// Two operations over a tree with several levels: single entries with and without holes between, and ranges.
#[test]
fn two_operations_on_a_grown_tree() {
    let n = 20;
    for base in [0, 1000, u32::MAX - (n as u32 - 1)] {
        for gaps in [false, true] {
            for step in [1, 2, 3] {
                let start = || {
                    let mut tree = fresh(gaps);
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
                    (tree, model)
                };
                let (tree, model) = start();
                compare(&model, &tree, &|| "start".into());
                explore(&start, n, 2, &mut Vec::new());
            }
        }
    }
}

/// One operation of every kind over trees of every size up to four levels.
#[test]
fn one_operation_on_trees_of_every_size() {
    for n in 1..=40 {
        for gaps in [false, true] {
            for order in 0..3 {
                let start = || {
                    let mut tree = fresh(gaps);
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
                    }
                    (tree, model)
                };
                explore(&start, n, 1, &mut Vec::new());
            }
        }
    }
}

//! The faces of the tree behind one trait, so that the same histories run on each.

use std::sync::Arc;

use maple_tree::alloc::{Counted, Global};
use maple_tree::{Fanout, MapleTree, SyncMapleTree, Waiting};

use super::{Model, Number, compare};

/// The ways to hold the same entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Exclusive,
    ExclusiveGaps,
    Shared,
    SharedGaps,
}

impl Mode {
    pub const ALL: [Mode; 4] = [
        Mode::Exclusive,
        Mode::ExclusiveGaps,
        Mode::Shared,
        Mode::SharedGaps,
    ];
}

type Nodes = Arc<Counted<Global>>;
type Exclusive = MapleTree<u32, Number, Nodes, Fanout<4>>;
type Shared = SyncMapleTree<u32, Number, Waiting, Nodes, spin::Mutex<()>, Fanout<4>>;

/// A tree of one of the modes.
#[allow(clippy::large_enum_variant, reason = "there are one or two at a time")]
pub enum Any {
    Exclusive(Exclusive),
    Shared(Shared),
}

impl Any {
    pub fn new(mode: Mode, nodes: &Nodes) -> Self {
        let nodes = nodes.clone();
        match mode {
            Mode::Exclusive => Any::Exclusive(MapleTree::new_in(nodes)),
            Mode::ExclusiveGaps => Any::Exclusive(MapleTree::with_gaps_in(nodes)),
            Mode::Shared => Any::Shared(SyncMapleTree::new_in(Waiting::new(), nodes)),
            Mode::SharedGaps => Any::Shared(SyncMapleTree::with_gaps_in(Waiting::new(), nodes)),
        }
    }

    pub fn store(&mut self, first: u32, last: u32, value: Option<Number>) {
        let range = first..=last;
        match (self, value) {
            (Any::Exclusive(t), Some(v)) => {
                t.store_range_splitting(range, v, |_, v| Some(v)).unwrap();
            }
            (Any::Exclusive(t), None) => t.erase_range_splitting(range, |_, v| Some(v)).unwrap(),
            (Any::Shared(t), Some(v)) => {
                t.write()
                    .store_range_splitting(range, v, |_, v| Some(v))
                    .unwrap();
            }
            (Any::Shared(t), None) => {
                t.write()
                    .erase_range_splitting(range, |_, v| Some(v))
                    .unwrap();
            }
        }
    }

    pub fn compare(&self, model: &Model<u32>, context: &dyn Fn() -> String) {
        match self {
            Any::Exclusive(t) => compare(model, t, context),
            Any::Shared(t) => {
                if let Err(damage) = t.write().check() {
                    panic!("{damage}\n{}", context());
                }
                let reader = t.read();
                let entries = model.entries();
                assert_eq!(reader.iter().collect::<Vec<_>>(), entries, "{}", context());
                let mut backwards: Vec<_> = reader.iter().rev().collect();
                backwards.reverse();
                assert_eq!(backwards, entries, "{}", context());
                let step = if cfg!(miri) { 3 } else { 1 };
                for (i, &cell) in model.cells.iter().enumerate().step_by(step) {
                    assert_eq!(reader.get(model.key(i)), cell, "{}", context());
                }
            }
        }
    }

    /// A duplicate in the same mode.
    pub fn duplicate(&self) -> Self {
        match self {
            Any::Exclusive(t) => Any::Exclusive(t.try_clone_with(|_, v| Ok(Some(v))).unwrap()),
            Any::Shared(t) => {
                let copy = t.write().try_clone_with(|_, v| Ok(Some(v))).unwrap();
                Any::Shared(SyncMapleTree::from_exclusive(copy, Waiting::new()))
            }
        }
    }
}

//! Maps of each type compared with the flat array: how they are made, compared, and tried with
//! failing allocations.

mod coalescing;
mod entries;
mod parts;
mod values;

use std::sync::Arc;

use maple_tree::{MapleTree, Shape, SyncMapleTree, Waiting};

use crate::support::counting::{Alive, Count, Countdown, number};
use crate::support::{Index, Model, Number, Rng};

type Nodes = Arc<Countdown>;
type Exclusive<K, S> = MapleTree<K, Box<Alive>, Nodes, S>;
type Shared<K, S> = SyncMapleTree<K, Box<Alive>, Waiting, Nodes, spin::Mutex<()>, S>;

/// A map of one of the types.
#[allow(clippy::large_enum_variant, reason = "there are one or two at a time")]
enum AnyMap<K: Index, S: Shape> {
    Exclusive(Exclusive<K, S>),
    Shared(Shared<K, S>),
}

/// Evaluates the expression with the map of either type.
macro_rules! on {
    ($any:expr, $map:ident => $do:expr) => {
        match $any {
            AnyMap::Exclusive($map) => $do,
            AnyMap::Shared(shared) => {
                #[allow(unused_mut, reason = "not all change something")]
                let mut $map = shared.write();
                $do
            }
        }
    };
}

use on;

/// The environment of a history: the counters, and the numbers of values.
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

    fn exclusive<K: Index, S: Shape>(&self, gaps: bool) -> Exclusive<K, S> {
        if gaps {
            MapleTree::with_gaps_in(self.nodes.clone())
        } else {
            MapleTree::new_in(self.nodes.clone())
        }
    }

    /// The map that the model says.
    fn map<K: Index, S: Shape>(&self, model: &Model<K>, gaps: bool) -> Exclusive<K, S> {
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

    /// Returns a map of each type in turn.
    fn each_map<K: Index, S: Shape>(&self, model: &Model<K>) -> impl Iterator<Item = AnyMap<K, S>> {
        [(false, false), (false, true), (true, false), (true, true)]
            .into_iter()
            .map(|(shared, gaps)| {
                let map = self.map(model, gaps);
                if shared {
                    AnyMap::Shared(Shared::from_exclusive(map, Waiting::new()))
                } else {
                    AnyMap::Exclusive(map)
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

fn same<K: Index, S: Shape>(model: &Model<K>, any: &AnyMap<K, S>, context: &dyn Fn() -> String) {
    on!(any, map => {
        if let Err(damage) = map.check() {
            panic!("{damage}\n{}", context());
        }
        let entries: Vec<_> = map.iter().map(|(range, v)| (range, number(v))).collect();
        assert_eq!(entries, model.entries(), "{}", context());
    });
}

fn same_map<K: Index, S: Shape>(
    model: &Model<K>,
    map: Exclusive<K, S>,
    context: &dyn Fn() -> String,
) {
    same(model, &AnyMap::Exclusive(map), context);
}

/// Returns the number of cells of which every content is tried: fewer under Miri.
const fn short(cells: usize) -> usize {
    if cfg!(miri) { 3 } else { cells }
}

/// Returns the step between tried contents: larger under Miri, for which any content serves.
const fn step(under_miri: usize) -> usize {
    if cfg!(miri) { under_miri } else { 1 }
}

/// Returns the number of entries: under Miri enough for three levels.
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
fn grown<K: Index>(base: K, n: usize, rng: &mut Rng) -> Model<K> {
    let mut cells = Vec::new();
    for i in 0..n {
        cells.extend(vec![None; rng.below(3)]);
        cells.extend(vec![Some(10 + i as Number); 1 + rng.below(4)]);
    }
    Model { base, cells }
}

/// Tries with more and more allocations allowed; what fails leaves the map as it was, and no value behind.
fn insist<K: Index, S: Shape>(
    world: &World,
    model: &Model<K>,
    any: &mut AnyMap<K, S>,
    mut attempt: impl FnMut(&mut AnyMap<K, S>) -> bool,
) {
    let (nodes, values) = (world.nodes.live(), world.count.get());
    for allowed in 0.. {
        world.nodes.allow(allowed);
        let done = attempt(any);
        world.nodes.allow(usize::MAX);
        if done {
            return;
        }
        assert_eq!(
            (world.nodes.live(), world.count.get()),
            (nodes, values),
            "a failure kept something"
        );
        same(model, any, &|| {
            format!("after a failure with {allowed} nodes allowed")
        });
    }
}

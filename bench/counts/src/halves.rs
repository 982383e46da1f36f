//! Maps split in two, and put together again.

use std::collections::BTreeMap;
use std::hint::black_box;

use maple_tree::MapleTree;
use samara_bench_data::Item;

use crate::measured;
use crate::operations::{ENTRIES, Operation, filled, ranges};

/// The operations by name.
pub(crate) const ALL: &[(&str, Operation)] = &[
    ("split-half", || split(ENTRIES as usize / 2)),
    ("split-all-but-ten", || split(10)),
    ("append-half", || append(ENTRIES as usize / 2)),
    ("append-one", || append(1)),
    ("append-between", append_between),
];

/// Those of a `BTreeMap`, which are not part of the gate.
pub(crate) const RIVALS: &[(&str, Operation)] = &[
    ("btree-split-half", || btree_split(ENTRIES as usize / 2)),
    ("btree-split-all-but-ten", || btree_split(10)),
    ("btree-append-half", || btree_append(ENTRIES as usize / 2)),
    ("btree-append-one", || btree_append(1)),
];

const TIMES: u32 = 16;

/// Splits the map at the entry number `at`.
fn split(at: usize) -> u32 {
    let (ranges, _) = ranges(ENTRIES);
    let mut map = filled(&ranges);
    let key = ranges.items[at].0;
    for _ in 0..TIMES {
        let mut high = None;
        measured(|| high = map.split_off(key).ok());
        if let Some(mut high) = high {
            let _ = map.append(&mut high);
        }
    }
    TIMES
}

fn map_of(items: &[Item]) -> MapleTree<u64, u32> {
    let mut map = MapleTree::with_gaps();
    let items = items.iter();
    let _ = map.try_extend(items.map(|&(first, end, value)| (first..end, value)));
    map
}

/// Appends a map of the last `count` entries to a map of the others.
fn append(count: usize) -> u32 {
    let (ranges, _) = ranges(ENTRIES);
    let (low, high) = ranges.items.split_at(ranges.items.len() - count);
    for _ in 0..TIMES {
        let (mut map, mut other) = (map_of(low), map_of(high));
        measured(|| {
            let _ = black_box(map.append(&mut other));
        });
    }
    TIMES
}

/// Appends half of the entries between the others.
fn append_between() -> u32 {
    let (ranges, _) = ranges(ENTRIES);
    let quarter = ranges.items.len() / 4;
    let (low, rest) = ranges.items.split_at(quarter);
    let (middle, high) = rest.split_at(2 * quarter);
    let outer = [low, high].concat();
    for _ in 0..TIMES {
        let (mut map, mut other) = (map_of(&outer), map_of(middle));
        measured(|| {
            let _ = black_box(map.append(&mut other));
        });
    }
    TIMES
}

type Map = BTreeMap<u64, (u64, u32)>;

fn btree_of(items: &[Item]) -> Map {
    let items = items.iter();
    items
        .map(|&(first, end, value)| (first, (end, value)))
        .collect()
}

fn btree_split(at: usize) -> u32 {
    let (ranges, _) = ranges(ENTRIES);
    let key = ranges.items[at].0;
    for _ in 0..TIMES {
        let mut map = btree_of(&ranges.items);
        let mut high = None;
        measured(|| high = Some(map.split_off(&key)));
        drop(high);
    }
    TIMES
}

fn btree_append(count: usize) -> u32 {
    let (ranges, _) = ranges(ENTRIES);
    let (low, high) = ranges.items.split_at(ranges.items.len() - count);
    for _ in 0..TIMES {
        let (mut map, mut other) = (btree_of(low), btree_of(high));
        measured(|| map.append(&mut other));
    }
    TIMES
}

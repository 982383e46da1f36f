//! The same calls on a `BTreeMap` used as a range map, to compare our counts with. Not part of the
//! gate.

use std::collections::BTreeMap;
use std::hint::black_box;

use crate::measured;
use crate::operations::{COPIES, ENTRIES, LOOKUPS, Operation, SMALL, ranges};
use samara_bench_data::{Item, Ranges};

type Map = BTreeMap<u64, (u64, u32)>;

/// The operations by name.
pub(crate) const ALL: &[(&str, Operation)] = &[
    ("btree-get", get),
    ("btree-iterate", iterate),
    ("btree-append", append),
    ("btree-insert", insert),
    ("btree-erase", erase),
    ("btree-replace", replace),
    ("btree-duplicate", duplicate),
    ("btree-destroy", destroy),
];

fn filled(ranges: &Ranges) -> Map {
    let mut map = Map::new();
    ranges.items.iter().for_each(|&item| put(&mut map, item));
    map
}

fn put(map: &mut Map, (first, end, value): Item) {
    map.insert(first, (end, value));
}

fn get() -> u32 {
    let (ranges, mut random) = ranges(ENTRIES);
    let map = filled(&ranges);
    let keys = ranges.hits(LOOKUPS, &mut random);
    measured(|| {
        for &key in &keys {
            let found = map.range(..=key).next_back();
            black_box(found.filter(|(_, (end, _))| key < *end));
        }
    });
    keys.len() as u32
}

fn iterate() -> u32 {
    let (ranges, _) = ranges(ENTRIES);
    let map = filled(&ranges);
    measured(|| {
        let sum = map.iter().fold(0_u64, |sum, (first, (_, value))| {
            sum.wrapping_add(first + u64::from(*value))
        });
        black_box(sum);
    });
    ENTRIES as u32
}

fn append() -> u32 {
    let (ranges, _) = ranges(ENTRIES);
    let mut map = Map::new();
    measured(|| ranges.items.iter().for_each(|&item| put(&mut map, item)));
    ENTRIES as u32
}

fn insert() -> u32 {
    let (ranges, mut random) = ranges(ENTRIES);
    let items = ranges.shuffled(&mut random);
    let mut map = Map::new();
    measured(|| items.iter().for_each(|&item| put(&mut map, item)));
    ENTRIES as u32
}

fn erase() -> u32 {
    let (ranges, mut random) = ranges(ENTRIES);
    let items = ranges.shuffled(&mut random);
    let mut map = filled(&ranges);
    measured(|| {
        for (first, _, _) in &items {
            black_box(map.remove(first));
        }
    });
    ENTRIES as u32
}

fn replace() -> u32 {
    let (ranges, mut random) = ranges(ENTRIES);
    let items = ranges.shuffled(&mut random);
    let mut map = filled(&ranges);
    measured(|| items.iter().for_each(|&item| put(&mut map, item)));
    ENTRIES as u32
}

fn duplicate() -> u32 {
    let (ranges, _) = ranges(SMALL);
    let map = filled(&ranges);
    let mut copies = Vec::with_capacity(COPIES as usize);
    copies.extend((0..COPIES).map(|_| map.clone()));
    copies.clear();
    measured(|| copies.extend((0..COPIES).map(|_| map.clone())));
    COPIES
}

fn destroy() -> u32 {
    let (ranges, _) = ranges(SMALL);
    let map = filled(&ranges);
    let mut copies: Vec<Map> = (0..COPIES).map(|_| map.clone()).collect();
    measured(|| copies.clear());
    COPIES
}

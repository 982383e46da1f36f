//! All entries of a map: gone through one by one, as a `for` loop does, from either end; and made a map of, at once or from one end to the other.

use std::hint::black_box;
use std::ops::{Range, RangeInclusive};

use maple_tree::alloc::{NodeAlloc, SharedPool};
use maple_tree::{CowMapleTree, MapleTree, SyncMapleTree, Waiting};
use samara_bench_data::Ranges;

use crate::measured;
use crate::operations::{ENTRIES, Operation, filled, ranges};

/// The operations by name.
pub(crate) const ALL: &[(&str, Operation)] = &[
    ("next", next),
    ("next-back", next_back),
    ("sync-next", sync_next),
    ("sync-next-back", sync_next_back),
    ("snap-next", snap_next),
    ("snap-next-back", snap_next_back),
    ("collect", collect),
    ("build", build),
    ("build-gaps", build_gaps),
    ("descend", descend),
    ("sync-append", sync_append),
    ("sync-descend", sync_descend),
];

/// Goes through entries in a loop that calls `next` for each.
#[inline(always)]
fn each(entries: impl Iterator<Item = (RangeInclusive<u64>, u32)>) {
    let mut sum = 0_u64;
    for (range, value) in entries {
        sum = sum.wrapping_add(range.start() + u64::from(value));
    }
    black_box(sum);
}

fn next() -> u32 {
    let (ranges, _) = ranges(ENTRIES);
    let map = filled(&ranges);
    measured(|| each(map.iter()));
    ENTRIES as u32
}

fn next_back() -> u32 {
    let (ranges, _) = ranges(ENTRIES);
    let map = filled(&ranges);
    measured(|| each(map.iter().rev()));
    ENTRIES as u32
}

/// A map with its nodes in a pool.
fn filled_in<A: NodeAlloc>(nodes: A) -> MapleTree<u64, u32, A> {
    let (ranges, _) = ranges(ENTRIES);
    let mut map = MapleTree::with_gaps_in(nodes);
    let entries = ranges.items.iter();
    let _ = map.try_extend(entries.map(|&(first, end, value)| (first..end, value)));
    map
}

fn sync() -> SyncMapleTree<u64, u32, Waiting> {
    SyncMapleTree::from_exclusive(filled_in(SharedPool::new()), Waiting::new())
}

/// A reader's iterator, concurrent with a possible writer.
fn sync_next() -> u32 {
    let map = sync();
    let reader = map.read();
    measured(|| each(reader.iter()));
    ENTRIES as u32
}

fn sync_next_back() -> u32 {
    let map = sync();
    let reader = map.read();
    measured(|| each(reader.iter().rev()));
    ENTRIES as u32
}

static NODES: SharedPool = SharedPool::new();

fn snap() -> CowMapleTree<u64, u32, &'static SharedPool> {
    // It fails for a map of one entry alone.
    CowMapleTree::from_exclusive(filled_in(&NODES)).unwrap_or_else(|_| CowMapleTree::new_in(&NODES))
}

/// All nodes are shared.
fn snap_next() -> u32 {
    let map = snap();
    let snapshot = map.snapshot();
    measured(|| each(snapshot.iter()));
    ENTRIES as u32
}

fn snap_next_back() -> u32 {
    let map = snap();
    let snapshot = map.snapshot();
    measured(|| each(snapshot.iter().rev()));
    ENTRIES as u32
}

/// With other values than the maps have that other operations write: how what these call is compiled does not depend on these, then.
type Built = MapleTree<u64, i32>;

fn in_order(ranges: &Ranges) -> impl DoubleEndedIterator<Item = (Range<u64>, i32)> {
    let items = ranges.items.iter();
    items.map(|&(first, end, value)| (first..end, value as i32))
}

/// Makes a map of entries that come in order.
fn built(make: impl Fn(&Ranges) -> Option<Built>) -> u32 {
    let (ranges, _) = ranges(ENTRIES);
    // The first time makes the memory ready.
    drop(make(&ranges));
    let mut map = None;
    measured(|| map = make(&ranges));
    black_box(map);
    ENTRIES as u32
}

/// As a collection of the standard library is made; entries that were not in order would be stored over those before.
fn collect() -> u32 {
    built(|ranges| Some(in_order(ranges).collect()))
}

fn build() -> u32 {
    built(|ranges| Built::try_from_sorted(in_order(ranges)).ok())
}

/// In a map that keeps the sizes of its holes.
fn build_gaps() -> u32 {
    built(|ranges| {
        let mut map = Built::with_gaps();
        map.try_extend(in_order(ranges)).ok().map(|()| map)
    })
}

/// Entries in descending order, one by one, as mappings come.
fn descend() -> u32 {
    let (ranges, _) = ranges(ENTRIES);
    let mut map = Built::with_gaps();
    measured(|| {
        for &(first, end, value) in ranges.items.iter().rev() {
            let _ = map.insert_range(first..end, value as i32);
        }
    });
    ENTRIES as u32
}

/// Inserts entries in this order, one by one, with readers allowed.
fn sync_inserted(entries: &mut dyn Iterator<Item = (Range<u64>, i32)>) -> u32 {
    let map: SyncMapleTree<u64, i32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    let mut writer = map.write();
    measured(|| {
        for (range, value) in &mut *entries {
            let _ = writer.insert_range(range, value);
        }
    });
    ENTRIES as u32
}

fn sync_append() -> u32 {
    let (ranges, _) = ranges(ENTRIES);
    sync_inserted(&mut in_order(&ranges))
}

fn sync_descend() -> u32 {
    let (ranges, _) = ranges(ENTRIES);
    sync_inserted(&mut in_order(&ranges).rev())
}

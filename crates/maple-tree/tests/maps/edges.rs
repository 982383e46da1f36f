//! The ends of the key space, ranges that hold nothing, and guards that are forgotten.

use std::mem::forget;
use std::ops::{Bound, RangeBounds, RangeInclusive};
use std::sync::Arc;

use maple_tree::alloc::{Counted, Pool};
use maple_tree::{
    Entry, EraseError, Fanout, HalfOpen, InsertError, MapleTree, StoreError, SyncMapleTree, Waiting,
};

#[test]
fn every_form_of_range() {
    /// The range that a map takes it for.
    fn taken(range: impl RangeBounds<u32>) -> Option<RangeInclusive<u32>> {
        let map: MapleTree<u32, u16> = MapleTree::new();
        map.holes_clipped(range).next()
    }
    assert_eq!(taken(3..7), Some(3..=6));
    assert_eq!(taken(3..=7), Some(3..=7));
    assert_eq!(taken(..), Some(0..=u32::MAX));
    assert_eq!(
        taken((Bound::Excluded(3), Bound::Unbounded)),
        Some(4..=u32::MAX)
    );
    assert_eq!(taken(3..3), None);
    assert_eq!(taken(0..0), None);
    assert_eq!(taken((Bound::Excluded(u32::MAX), Bound::Unbounded)), None);
    #[expect(clippy::reversed_empty_ranges, reason = "that is what is tried")]
    let backwards = 7..=3;
    assert_eq!(taken(backwards), None);
}

#[test]
fn spans_saturate_at_the_whole_key_space() {
    assert_eq!((0..=u32::MAX).span(), u32::MAX);
    assert_eq!((1..=u32::MAX).span(), u32::MAX);
    assert_eq!((5..=5u32).span(), 1);
    assert_eq!((i32::MIN..=i32::MAX).span(), u32::MAX);
    assert_eq!((-5..=4i32).span(), 10);
}

#[test]
fn both_ends_of_the_widest_keys() {
    const MAX: u128 = u128::MAX;
    let mut map: MapleTree<u128, u16> = MapleTree::with_gaps();
    map.insert_range(.., 1).unwrap();
    assert_eq!((map.gap_up(.., 1), map.get(MAX)), (None, Some(1)));
    map.store_range(MAX.., 2).unwrap();
    map.store_range(..=0, 3).unwrap();
    let all: Vec<_> = map.iter().collect();
    assert_eq!(all, [(0..=0, 3), (1..=MAX - 1, 1), (MAX..=MAX, 2)]);
    assert_eq!(map.holes(..).count(), 0);
    let looked_up = map.get_many([0, 1, MAX, MAX - 1]);
    assert_eq!(looked_up, [Some(3), Some(1), Some(2), Some(1)]);
    assert_eq!(map.get_many::<0>([]), []);
    assert_eq!(map.split_off(MAX).unwrap().len(), 1);
    let low = map.split_off(0).unwrap();
    assert_eq!((map.len(), low.len()), (0, 2));
    low.check().unwrap();

    let mut next = 5;
    assert_eq!(map.alloc_cyclic(MAX.., &mut next, 4), Ok((MAX, false)));
    assert_eq!(next, 0);
    let mut cursor = map.cursor(MAX..);
    assert_eq!(cursor.find(..), Some(4));
    assert_eq!((cursor.next(..), cursor.range()), (None, MAX..=MAX));
    assert_eq!((cursor.prev(..), cursor.range()), (None, 0..=MAX - 1));
    assert_eq!(map.pop_last(), Ok(Some((MAX..=MAX, 4))));

    // A single entry at index 0 has no node.
    map.insert(0, 5).unwrap();
    assert_eq!(
        (map.height(), map.range(1..).count(), map.range(..1).count()),
        (0, 0, 1)
    );
    let mut iter = map.iter();
    assert_eq!((iter.next(), iter.next_back()), (Some((0..=0, 5)), None));
    assert_eq!(map.try_clone().unwrap().into_iter().count(), 1);
}

#[test]
#[expect(clippy::reversed_empty_ranges, reason = "that is what is tried")]
fn ranges_that_hold_no_index() {
    let mut map: MapleTree<u64, u16> = MapleTree::new();
    map.insert_range(0..10, 1).unwrap();
    assert_eq!(map.insert_range(5..5, 9), Err(InsertError::EmptyRange(9)));
    assert_eq!(map.store_range(5..2, 9), Err(StoreError::EmptyRange(9)));
    assert_eq!(map.erase_range(0..0), Err(EraseError::EmptyRange));
    assert_eq!(map.alloc_range(5..5, 1, 9), Err(InsertError::EmptyRange(9)));
    assert_eq!(map.alloc_rrange(.., 0, 9), Err(InsertError::EmptyRange(9)));
    assert_eq!(map.range(5..5).count() + map.range(5..2).rev().count(), 0);
    assert_eq!(map.range_mut(5..5).count() + map.holes(5..5).count(), 0);
    assert_eq!((map.gap_up(20..20, 1), map.gap_down(.., 0)), (None, None));
    let Entry::Vacant(nowhere) = map.entry_range(5..5) else {
        panic!("it is empty");
    };
    assert_eq!(nowhere.insert(9), Err(InsertError::EmptyRange(9)));
    assert_eq!(map.iter().collect::<Vec<_>>(), [(0..=9, 1)]);
}

/// Forgotten objects leak, and have no other effect.
#[test]
#[cfg_attr(any(miri, sanitized), ignore = "it leaks on purpose")]
fn forgotten_cursors_writers_and_iterators() {
    type Map = MapleTree<u64, Box<u32>, Arc<Counted<Pool>>, Fanout<4>>;
    let nodes = Arc::new(Counted::new(Pool::new()));
    let mut map = Map::new_in(nodes.clone());
    for i in 0..100 {
        map.insert(i, Box::new(i as u32)).unwrap();
    }
    let mut cursor = map.cursor_mut(5..6);
    cursor.expected_entries(3).unwrap();
    let reserved = cursor.reserved();
    forget(cursor);
    map.check().unwrap();
    let taken = map.stats().nodes();
    let mut entries = map.into_iter();
    assert_eq!(entries.next().unwrap().0, 0..=0);
    forget(entries);
    assert_eq!(nodes.live(), taken + reserved);

    let tree: SyncMapleTree<u64, Box<u32>, Waiting> = SyncMapleTree::new(Waiting::new());
    let mut writer = tree.write();
    for i in 0..100 {
        writer.insert(i, Box::new(i as u32)).unwrap();
    }
    let mut cursor = writer.cursor_mut(5..6);
    cursor.preallocate().unwrap();
    forget(cursor);
    writer.check().unwrap();
    // The lock stays taken.
    forget(writer);
    assert!(tree.try_write().is_none());
    assert_eq!(tree.into_exclusive().len(), 100);
}

/// An entry that is erased as a whole is handed over by the calls that may split, too.
#[test]
fn an_entry_erased_by_a_call_that_may_split_is_handed_over() {
    let mut map: MapleTree<u32, Box<u32>> = MapleTree::new();
    map.store_range(10..20, Box::new(1)).unwrap();
    map.store_range(20..30, Box::new(2)).unwrap();
    let mut gone = Vec::new();
    map.erase_range_splitting_with(
        10..20,
        |_, _| None,
        |range, value| gone.push((range, *value)),
    )
    .unwrap();
    assert_eq!(gone, [(10..=19, 1)]);
}

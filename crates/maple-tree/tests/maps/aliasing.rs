//! Views that change values, held together and across calls: small programs for Miri, which runs
//! every test of this crate.

use std::sync::Arc;

use maple_tree::alloc::{Pool, SharedPool};
use maple_tree::{Entry, Fanout, MapleTree, SyncMapleTree, Waiting};

type Map<V> = MapleTree<u32, V, Pool, Fanout<4>>;

fn filled() -> Map<Box<u32>> {
    let mut map = MapleTree::with_gaps_in(Pool::new());
    for i in 0..20 {
        map.insert_range(i * 10..i * 10 + 5, Box::new(i)).unwrap();
    }
    map
}

/// The entry's own pointer was older than the one in the map, which it made invalid by writing.
#[test]
fn an_occupied_entry_writes_what_it_has_inserted() {
    let mut map = filled();
    let Entry::Occupied(mut entry) = map.entry(33) else {
        panic!("it is occupied");
    };
    assert_eq!(entry.insert(Box::new(5)), Ok(Box::new(3)));
    *entry.get_mut() += 1;
    assert_eq!(entry.get(), &6);
    *entry.into_mut() += 1;
    assert_eq!(map.get_range(33), Some((30..=34, &7)));
    *map.get_mut(33).unwrap() = 9;
    assert_eq!(map.remove(33), Ok(Some((30..=34, Box::new(9)))));
}

#[test]
fn a_vacant_entry_lends_what_it_has_inserted() {
    let mut map: Map<Box<u32>> = MapleTree::new_in(Pool::new());
    for i in 0..20 {
        let range = i * 10..i * 10 + 5;
        *map.entry_range(range).or_insert(Box::new(i)).unwrap() += 1;
    }
    let entry = map.entry(33).and_modify(|value| *value += 1);
    *entry.or_insert(Box::new(0)).unwrap() += 1;
    assert_eq!(map.get(33), Some(&6));
}

/// The word of a single entry at index 0 is in the map itself: what pointed to it did not outlive that the entry was moved.
#[test]
fn the_only_entry_at_index_0_is_moved_about() {
    let mut map: Map<Box<u32>> = MapleTree::new_in(Pool::new());
    *map.entry(0).or_insert(Box::new(5)).unwrap() += 1;
    *map.entry(0).or_insert(Box::new(0)).unwrap() += 1;
    let Entry::Occupied(entry) = map.entry(0).and_modify(|value| *value += 1) else {
        panic!("it is occupied");
    };
    let mut entry = Box::new(entry);
    *entry.get_mut() += 1;
    assert_eq!(
        (*entry.get(), entry.insert(Box::new(20))),
        (9, Ok(Box::new(9)))
    );
    *entry.get_mut() += 1;
    *entry.into_mut() += 1;
    let mut only = map.first_entry().unwrap();
    assert_eq!(only.get(), &22);
    *only.get_mut() += 1;
    let removed = map.last_entry().map(|entry| entry.remove());
    assert_eq!(removed, Some(Ok(Box::new(23))));

    // From the map into a node, and back.
    let Entry::Vacant(hole) = map.entry_range(0..=1) else {
        panic!("it is vacant");
    };
    let entry = hole.insert_entry(Box::new(7)).unwrap();
    *entry.into_mut() += 1;
    map.erase_range(1..=1).unwrap();
    *map.entry(0).or_insert(Box::new(0)).unwrap() += 1;
    assert_eq!(map.iter().collect::<Vec<_>>(), [(0..=0, &9)]);
}

#[test]
fn many_exclusive_views_at_once() {
    let mut map = filled();
    let mut all: Vec<&mut u32> = map.iter_mut().map(|(_, value)| value).collect();
    for value in &mut all {
        **value += 1;
    }
    std::mem::swap(all.remove(0), all.pop().unwrap());
    let mut iter = map.iter_mut();
    let first = iter.next().unwrap().1;
    let last = iter.next_back().unwrap().1;
    let second = iter.next().unwrap().1;
    std::mem::swap(first, last);
    *second += *first + *last;
    assert_eq!(
        (map.get(0), map.get(10), map.get(190)),
        (Some(&1), Some(&23), Some(&20))
    );
}

#[test]
fn maps_are_cut_joined_and_taken_apart() {
    let mut map = filled();
    let mut high = map
        .split_off_splitting(52, |_, value| Some(Box::new(*value)))
        .unwrap();
    for value in high.values_mut() {
        *value += 100;
    }
    map.append_splitting(&mut high, |_, value| Some(Box::new(*value)))
        .unwrap();
    map.retain(|_, value| {
        *value += 1;
        *value % 3 != 0
    })
    .unwrap();
    map.check().unwrap();
    assert_eq!(map.get(53), Some(&106));
    let mut entries = map.into_iter();
    *entries.next().unwrap().1 += 1;
    drop(entries.next_back());
}

#[test]
fn a_shared_map_is_cut_and_joined_beside_a_reader() {
    type Shared = SyncMapleTree<u32, Arc<u32>, Waiting, SharedPool, spin::Mutex<()>, Fanout<4>>;
    let tree = Shared::with_gaps_in(Waiting::new(), SharedPool::new());
    for i in 0..20 {
        tree.write()
            .insert_range(i * 10..i * 10 + 5, Arc::new(i))
            .unwrap();
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..5 {
                let reader = tree.read();
                for value in reader.get_many([1, 33, 77, 190]).into_iter().flatten() {
                    assert!(**value < 20);
                }
                assert!(reader.iter().all(|(_, value)| **value < 20));
            }
        });
        let mut writer = tree.write();
        let high = writer
            .split_off_with(52, |_, value| Some(Arc::clone(&value)))
            .unwrap();
        high.check().unwrap();
        let mut other = MapleTree::new_in(SharedPool::new());
        for i in 0..10 {
            other.insert_range(i * 7..i * 7 + 3, Arc::new(i)).unwrap();
        }
        writer
            .append_splitting(&mut other, |_, value| Some(Arc::clone(&value)))
            .unwrap();
        writer.retain(|_, value| **value % 3 != 0).unwrap();
        writer
            .store_range_coalescing(3..9, Arc::new(1), |a, b| **a == **b)
            .unwrap();
        writer.check().unwrap();
    });
    tree.clear();
}

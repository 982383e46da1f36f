//! More snapshots than can be counted: the nodes that they share are never freed, and never changed in place.

use maple_tree::CowMapleTree;

use crate::support::Number;
use crate::support::blocks::Blocks;

type Map<'a> = CowMapleTree<u64, Number, &'a Blocks>;

/// One, where a node's first word counts what leads to it.
const ONE: usize = 256;
/// The word is a count; below it is the last slot in use.
const COUNTED: usize = 0x40;
/// The count from which on a node is pinned.
const PINNED: usize = 1 << (usize::BITS - 1);

#[test]
fn what_is_shared_by_too_many_stays() {
    let blocks = Blocks::default();
    let mut map = Map::new_in(&blocks);
    map.insert_range(10..20, 1).unwrap();
    map.insert_range(30..40, 2).unwrap();
    let mut others: Vec<_> = (0..15).map(|_| map.snapshot()).collect();
    let [leaf] = blocks.live()[..] else {
        panic!("there is one node");
    };
    let word = leaf.cast::<usize>();
    // SAFETY: it is a node's first word, which is a number if the node is shared.
    let counts = || unsafe { word.read() };
    assert_eq!(counts() / ONE, 16);
    // The last count that is counted, and those after it. SAFETY: as above, and no other code has
    // the maps.
    unsafe { word.write((PINNED - ONE) | (counts() % ONE)) };
    let whole = |map: &Map<'_>| {
        assert!(map.is_shared() && counts() & COUNTED != 0);
        assert!(map.iter().eq([(10..=19, 1), (30..=39, 2)]));
        map.check().unwrap();
    };
    whole(&map);
    for _ in 0..5 {
        others.push(map.snapshot());
        whole(&map);
        // As far from being few as from being more than the word holds.
        assert_eq!(counts() / ONE, (PINNED | PINNED >> 1) / ONE);
    }
    for other in others {
        whole(&other);
        let before = counts();
        drop(other);
        whole(&map);
        assert_eq!(counts(), before);
    }
    // It is copied, and stays.
    map.insert_range(50..60, 3).unwrap();
    assert!(!map.is_shared());
    assert_eq!((map.len(), blocks.live().len()), (3, 2));
    drop(map);
    assert_eq!(blocks.live(), [leaf]);
    // SAFETY: no map is left.
    unsafe { blocks.free_all() };
}

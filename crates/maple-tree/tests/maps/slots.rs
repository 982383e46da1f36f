//! Nodes with every number of slots in use: what looks at all slots of one together finds each of them, with every width of keys.

use std::num::NonZeroUsize;
use std::ops::RangeInclusive;

use crate::support::{Index, Number, add};
use maple_tree::alloc::Global;
use maple_tree::{Fanout, MapleTree, Native, Shape};

type Map<K, S, V = Number> = MapleTree<K, V, Global, S>;

fn new<K: Index, S: Shape, V: maple_tree::Value>(gaps: bool) -> Map<K, S, V> {
    if gaps {
        Map::with_gaps_in(Global)
    } else {
        Map::new_in(Global)
    }
}

/// Returns the number of slots of a leaf, and of an inner node.
fn slots<K: Index, S: Shape>(gaps: bool) -> (usize, usize) {
    let mut map = new::<K, S, Number>(gaps);
    let mut n = 0;
    while map.height() < 2 {
        map.insert(add(K::MIN, n), 1).unwrap();
        n += 1;
    }
    let stats = map.stats();
    let inner = stats.range_nodes + stats.gap_nodes;
    (stats.leaf_slots / stats.leaves, stats.inner_slots / inner)
}

/// Returns the number of slots of leaves, which is that of inner nodes without sizes of holes, and
/// of inner nodes with them.
fn fanouts<K: Index, S: Shape>() -> (usize, usize) {
    let (leaf, range) = slots::<K, S>(false);
    let (same, gap) = slots::<K, S>(true);
    assert_eq!((range, same), (leaf, leaf));
    (leaf, gap)
}

#[test]
fn fanouts_fill_256_bytes() {
    if cfg!(target_pointer_width = "64") {
        assert_eq!(fanouts::<u64, Native>(), (16, 10));
        assert_eq!(fanouts::<u32, Native>(), (21, 15));
        assert_eq!(fanouts::<u128, Native>(), (11, 6));
    } else {
        assert_eq!(fanouts::<u32, Native>(), (32, 21));
    }
    assert_eq!(fanouts::<u64, Fanout<4>>(), (4, 4));
}

/// Appends entries of two indices until a third level comes, and looks at each index after each of them: so leaves and the node above have had every number
/// of slots.
fn every_index<K: Index, S: Shape>(gaps: bool) {
    let mut map = new::<K, S, Number>(gaps);
    // The interpreter takes a while for each.
    let step = if cfg!(miri) { 29 } else { 1 };
    for n in 0.. {
        let entry = |n: usize| add(K::MIN, 2 * n)..=add(K::MIN, 2 * n + 1);
        map.insert_range(entry(n), n as Number).unwrap();
        if map.height() > 2 {
            return;
        }
        for i in (n % step..=n).step_by(step) {
            let found = (entry(i), i as Number);
            for key in [*found.0.start(), *found.0.end()] {
                assert_eq!(map.get_range(key), Some(found.clone()));
            }
        }
        assert_eq!(map.hole_at(K::MAX), Some(add(K::MIN, 2 * n + 2)..=K::MAX));
    }
}

#[test]
fn a_search_finds_every_slot() {
    for gaps in [false, true] {
        every_index::<u64, Fanout<4>>(gaps);
        every_index::<u128, Native>(gaps);
        if cfg!(miri) {
            continue;
        }
        every_index::<u32, Native>(gaps);
        every_index::<u64, Native>(gaps);
        every_index::<usize, Native>(gaps);
        every_index::<u64, Fanout<5>>(gaps);
        every_index::<u32, Fanout<7>>(gaps);
        every_index::<u128, Fanout<8>>(gaps);
    }
}

/// Makes one slot at a time a hole, in leaves of every number of slots whose others hold a word.
fn one_hole<K: Index, S: Shape>(word: NonZeroUsize) {
    let (slots, _) = slots::<K, S>(false);
    for used in if cfg!(miri) { slots } else { 2 }..=slots {
        for hole in 0..used {
            let mut map = new::<K, S, NonZeroUsize>(true);
            let all = (0..used).filter(|&i| i != hole);
            let range = |i| {
                let last = if i + 1 == used {
                    K::MAX
                } else {
                    add(K::MIN, i)
                };
                add(K::MIN, i)..=last
            };
            for i in all.clone() {
                map.insert_range(range(i), word).unwrap();
            }
            assert!(map.iter().eq(all.clone().map(|i| (range(i), word))));
            assert!(map.iter().rev().eq(all.rev().map(|i| (range(i), word))));
            let holes: Vec<_> = map.holes(..).collect();
            assert_eq!(holes, [range(hole)]);
            assert_eq!(map.gap_up(.., K::ONE.number()), Some(add(K::MIN, hole)));
            assert_eq!(map.gap_down(.., K::ONE.number()), Some(*range(hole).end()));
            map.check().unwrap();
        }
    }
}

#[test]
fn a_word_with_any_bit_is_an_entry() {
    let step = if cfg!(miri) { 63 } else { 1 };
    let bits = (0..usize::BITS).step_by(step).map(|bit| 1 << bit);
    let others = [usize::MAX, usize::MAX << 8, 0x7fff_ffff, 0xffff];
    for word in bits.chain(others).filter_map(NonZeroUsize::new) {
        one_hole::<u64, Fanout<5>>(word);
        if cfg!(not(miri)) {
            one_hole::<u64, Native>(word);
            one_hole::<u32, Native>(word);
            one_hole::<u128, Native>(word);
        }
    }
}

/// Makes one hole at a time larger than the others, which are of two indices, in trees of several
/// sizes. Every slot of every leaf except the first has the larger hole once, at every number of
/// slots.
fn one_wide_hole<K: Index, S: Shape>() {
    let (slots, _) = slots::<K, S>(true);
    let most = if cfg!(miri) { slots + 2 } else { 2 * slots };
    for holes in if cfg!(miri) { most } else { 1 }..=most {
        for wide in 0..holes {
            let mut map = new::<K, S, Number>(true);
            let mut next = 0;
            let mut found: Option<RangeInclusive<K>> = None;
            for n in 0..holes {
                let hole = next..next + if n == wide { 3 } else { 2 };
                next = hole.end + 1;
                if n == wide {
                    found = Some(add(K::MIN, hole.start)..=add(K::MIN, hole.end - 1));
                }
                // What comes after all holes is an entry, too.
                let last = if n + 1 == holes {
                    K::MAX
                } else {
                    add(K::MIN, hole.end)
                };
                map.insert_range(add(K::MIN, hole.end)..=last, 1).unwrap();
            }
            let found = found.unwrap();
            let size = |n| add(K::MIN, n).number();
            assert_eq!(map.gap_up(.., size(2)), Some(K::MIN));
            assert_eq!(map.gap_up(.., size(3)), Some(*found.start()));
            assert_eq!(map.gap_down(.., size(3)), Some(*found.start()));
            assert_eq!(
                (map.gap_up(.., size(4)), map.gap_down(.., size(4))),
                (None, None)
            );
        }
    }
}

#[test]
fn the_one_hole_that_is_wide_enough_is_found() {
    one_wide_hole::<u32, Native>();
    one_wide_hole::<i32, Native>();
    one_wide_hole::<u64, Native>();
    one_wide_hole::<i64, Native>();
    one_wide_hole::<u128, Native>();
    one_wide_hole::<u64, Fanout<4>>();
    one_wide_hole::<u64, Fanout<5>>();
    one_wide_hole::<i128, Fanout<7>>();
}

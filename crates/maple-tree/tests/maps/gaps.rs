//! Searches for gaps of every size within all bounds, against the list of holes, at every fanout.

use crate::support::{Number, Rng, add};
use maple_tree::alloc::Global;
use maple_tree::{Fanout, Key, MapleTree, Native, Shape};

/// Holes of one to four indices, and now and then a larger one.
fn filled<K: Key, S: Shape>(
    rng: &mut Rng,
    entries: usize,
) -> (MapleTree<K, Number, Global, S>, usize) {
    let mut map = MapleTree::with_gaps_in(Global);
    let mut at = rng.below(2);
    for n in 0..entries {
        let last = at + rng.below(3);
        map.insert_range(add(K::MIN, at)..=add(K::MIN, last), n as Number)
            .unwrap();
        at = last + 1;
        if rng.below(2) == 0 {
            at += 1 + rng.below(4);
        }
        if rng.below(60) == 0 {
            at += rng.below(40);
        }
    }
    (map, at)
}

fn every_gap<K: Key, S: Shape>(seed: u64) {
    let mut rng = Rng(seed);
    let sizes: &[usize] = if cfg!(miri) {
        &[20]
    } else {
        &[0, 1, 4, 30, 200, 900]
    };
    for &entries in sizes {
        let (map, span) = filled::<K, S>(&mut rng, entries);
        let holes: Vec<_> = map.holes(..).collect();
        for _ in 0..if cfg!(miri) { 20 } else { 600 } {
            let lo = add(K::MIN, rng.below(span + 2));
            let hi = match rng.below(3) {
                0 => K::MAX,
                _ => add(lo, rng.below(span + 2)),
            };
            let size = match rng.below(12) {
                0 => K::MAX,
                _ => add(K::ONE, rng.below(6) * (1 + rng.below(6))),
            };
            let less = size.wrapping_sub(K::ONE);
            let clipped = |hole: &std::ops::RangeInclusive<K>| {
                let (first, last) = ((*hole.start()).max(lo), (*hole.end()).min(hi));
                (first <= last && last.wrapping_sub(first) >= less).then_some((first, last))
            };
            let lowest = holes.iter().find_map(clipped).map(|(first, _)| first);
            let highest = holes.iter().rev().find_map(clipped);
            let highest = highest.map(|(_, last)| last.wrapping_sub(less));
            assert_eq!(
                map.gap_up(lo..=hi, size.number()),
                lowest,
                "{size} in {lo}..={hi}"
            );
            assert_eq!(
                map.gap_down(lo..=hi, size.number()),
                highest,
                "{size} in {lo}..={hi}"
            );
        }
    }
}

#[test]
fn a_gap_is_the_lowest_or_the_highest_of_those_that_fit() {
    for seed in 0..if cfg!(miri) { 1 } else { 3 } {
        every_gap::<u64, Fanout<4>>(seed);
        every_gap::<u64, Native>(seed);
        every_gap::<u32, Native>(seed);
        every_gap::<u128, Native>(seed);
    }
}

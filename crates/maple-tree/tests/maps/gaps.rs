//! Searches for gaps of every size within all bounds, against the list of holes, at every fanout.

use std::iter::successors;

use crate::support::{Index, Number, Rng, add};
use maple_tree::alloc::Global;
use maple_tree::{Fanout, MapleTree, Native, Shape};

/// Holes of one to four indices, and now and then a larger one.
fn filled<K: Index, S: Shape>(
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

fn every_gap<K: Index, S: Shape>(seed: u64) {
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

#[test]
fn alignment_fails_where_no_multiple_is_left() {
    let map: MapleTree<u64, u16> = MapleTree::with_gaps();
    assert_eq!(map.gap_up_aligned(5.., 1, 4, 0), Some(8));
    assert_eq!(map.gap_up_aligned(8.., 1, 4, 0), Some(8));
    assert_eq!(map.gap_up_aligned(u64::MAX.., 1, 4, 0), None);
    assert_eq!(map.gap_down_aligned(.., 1, 4, 0), Some(u64::MAX - 3));
}

/// Multiples are those of the numbers themselves, wherever the smallest index is.
#[test]
fn alignment_counts_from_zero() {
    let signed: MapleTree<i8, u16> = MapleTree::with_gaps();
    let unsigned: MapleTree<u8, u16> = MapleTree::with_gaps();
    // All of them would take Miri hours.
    let (aligns, offsets) = if cfg!(miri) { (84, 42) } else { (1, 1) };
    for align in (1..=u8::MAX).step_by(aligns) {
        for offset in (0..align).step_by(offsets) {
            let fits = |key: i16| key.rem_euclid(align.into()) == i16::from(offset);
            let up = |key: i8| signed.gap_up_aligned(key.., 1, align, offset);
            let found = successors(up(i8::MIN), |key| up(key.checked_add(1)?));
            let expected = (i8::MIN..=i8::MAX).filter(|&key| fits(key.into()));
            assert!(found.eq(expected));
            let up = |key: u8| unsigned.gap_up_aligned(key.., 1, align, offset);
            let found = successors(up(0), |key| up(key.checked_add(1)?));
            let expected = (0..=u8::MAX).filter(|&key| fits(key.into()));
            assert!(found.eq(expected));
        }
    }
    assert_eq!(signed.gap_up_aligned(.., 1, 0, 0), None);
    assert_eq!(signed.gap_up_aligned(.., 1, 3, 7), None);
}

/// Indices reckon from the smallest one, whatever their sign.
#[test]
fn every_size_from_every_signed_index() {
    let map: MapleTree<i8, u16> = MapleTree::with_gaps();
    let sizes = if cfg!(miri) { 42 } else { 1 };
    for key in i8::MIN..=i8::MAX {
        for size in (1..=u8::MAX).step_by(sizes) {
            let others = i16::from(size - 1);
            let fits = i8::try_from(i16::from(key) + others).is_ok();
            assert_eq!(map.gap_up(key.., size), fits.then_some(key));
            let first = i8::try_from(i16::from(key) - others).ok();
            assert_eq!(map.gap_down(..=key, size), first);
        }
    }
}

/// From the top down the first hole is larger than all others together, until what is left of it is not: the nodes above know of both.
#[test]
fn what_is_allocated_downwards_leaves_true_sizes() {
    fn downwards<K: Index, S: Shape>(size: K::Size, count: usize) {
        let mut map: MapleTree<K, Number, Global, S> = MapleTree::with_gaps_in(Global);
        let mut left = K::MAX;
        for n in 0..count {
            let first = map.alloc_rrange(.., size, n as Number).unwrap();
            assert!(first < left);
            left = first;
            assert_eq!(map.check(), Ok(()));
            if n % 5 == 4 {
                // A hole that the next one does not fit.
                map.insert(first.predecessor().unwrap(), 0).unwrap();
                map.remove(first).unwrap();
                map.insert(first, 0).unwrap();
                assert_eq!(map.check(), Ok(()));
            }
        }
    }
    let most = if cfg!(miri) { 20 } else { 200 };
    downwards::<u64, Fanout<4>>(3, most);
    downwards::<i32, Native>(1 << 20, most);
    downwards::<u16, Fanout<4>>(200, most);
}

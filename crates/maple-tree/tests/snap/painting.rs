//! Neighbours that are the same become one entry.

use maple_tree::alloc::Global;
use maple_tree::{CowMapleTree, Fanout, MapleTree, StoreError};

use crate::Countdown;
use crate::support::{Number, Rng};

type Small<'a> = CowMapleTree<u32, Number, &'a Countdown, Fanout<4>>;

/// Painting as `MapleTree` does it, with snapshots that keep what they had, and allocations that are refused.
#[test]
fn equal_neighbours_are_joined_beside_snapshots() {
    let nodes = Countdown::new();
    let (seeds, steps) = if cfg!(miri) { (1, 20) } else { (9, 150) };
    for seed in 1..=seeds {
        let mut rng = Rng(seed);
        let mut plain: MapleTree<u32, Number, _, Fanout<4>> = MapleTree::with_gaps_in(Global);
        let mut map: Small<'_> = CowMapleTree::with_gaps_in(&nodes);
        let mut kept = vec![(map.snapshot(), Vec::new())];
        let same = |a: Number, b: Number| a % 2 == b % 2;
        for step in 0..steps {
            let first = rng.below(120) as u32 + if seed % 2 == 0 { 0 } else { u32::MAX - 119 };
            let last = first.saturating_add(rng.below(8) as u32);
            let (range, value) = (first..=last, rng.below(4) as Number);
            let erases = rng.below(4) == 0;
            let split = |_, around| Some(around);
            let expected = if erases {
                plain.erase_range_splitting(range.clone(), split).unwrap();
                range.clone()
            } else {
                plain
                    .store_range_coalescing_splitting(range.clone(), value, same, split)
                    .unwrap()
            };
            let before: Vec<_> = map.iter().collect();
            for allowed in 0.. {
                nodes.left.set(allowed);
                let live = nodes.inner.live();
                let stored = match (erases, seed % 3) {
                    (true, _) => map.erase_range(range.clone()).map(|()| range.clone()).ok(),
                    (_, 0) => {
                        let done = map.store_range_coalescing(range.clone(), value, same);
                        done.map_err(|e| assert_eq!(e, StoreError::Alloc(value)))
                            .ok()
                    }
                    _ => {
                        let range = range.clone();
                        let done = map.store_range_coalescing_splitting(range, value, same, split);
                        done.map_err(|e| assert_eq!(e, StoreError::Alloc(value)))
                            .ok()
                    }
                };
                nodes.left.set(usize::MAX);
                if let Some(stored) = stored {
                    assert_eq!(stored, expected, "seed {seed} step {step}");
                    break;
                }
                assert_eq!(map.iter().collect::<Vec<_>>(), before);
                assert_eq!(nodes.inner.live(), live);
            }
            assert!(map.iter().eq(plain.iter()), "seed {seed} step {step}");
            if rng.below(3) == 0 {
                let at = rng.below(4).min(kept.len());
                kept.truncate(3);
                kept.insert(at.min(kept.len()), (map.snapshot(), map.iter().collect()));
            }
            let mut family: Vec<_> = kept.iter().map(|(map, _)| map).collect();
            family.push(&map);
            CowMapleTree::check_family(&family).unwrap();
            for (map, held) in &kept {
                assert!(map.iter().eq(held.iter().cloned()));
            }
        }
    }
    assert_eq!(nodes.inner.live(), 0);
}

//! Readers see all changes of one call of the shared map at once: after the new state in one place
//! they never see the old one in another.

// The numbers in its maps are too wide to be stored in place on smaller machines.
#![allow(clippy::useless_conversion, reason = "numbers are narrower on 32 bits")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::support::{Number, Rng};
use maple_tree::{Fanout, MapleTree, SyncMapleTree, Waiting, alloc::SharedPool};

type Shared = SyncMapleTree<u32, Number, Waiting, SharedPool, spin::Mutex<()>, Fanout<4>>;
type Exclusive = MapleTree<u32, Number, SharedPool, Fanout<4>>;

/// The indices whose entries carry the number of the last change.
const KEYS: u32 = 120;

/// Readers look up one index after the other while `change` brings number after number; what they see never goes back, and is never a
/// hole.
fn never_back(map: &Shared, change: impl Fn(Number) + Sync) {
    let rounds = match () {
        () if cfg!(miri) => 5,
        () if cfg!(sanitized) => 300,
        () => 3000,
    };
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for seed in 0..2 {
            let done = &done;
            scope.spawn(move || {
                let mut rng = Rng(seed);
                let mut newest = 0;
                while !done.load(Ordering::Relaxed) {
                    let reader = map.read();
                    for _ in 0..4 {
                        let key = rng.below(KEYS as usize) as u32;
                        let seen = reader.get(key).unwrap();
                        assert!(seen >= newest, "{seen} at {key} after {newest} elsewhere");
                        newest = seen;
                    }
                }
            });
        }
        for round in 1..rounds {
            change(round);
        }
        done.store(true, Ordering::Relaxed);
    });
    map.write().check().unwrap();
}

/// A map whose entries are `width` wide.
fn pieces(width: u32, number: Number) -> Exclusive {
    MapleTree::try_from_sorted_in(
        (0..KEYS.div_ceil(width)).map(|i| (i * width..(i + 1) * width, number)),
        SharedPool::new(),
    )
    .unwrap()
}

#[test]
fn append() {
    let map = Shared::from_exclusive(pieces(7, 0), Waiting::new());
    never_back(&map, |round| {
        let mut other = pieces(1 + u32::from(round) % 40, round);
        map.write().append(&mut other).unwrap();
    });
}

#[test]
fn coalescing() {
    let map = Shared::from_exclusive(pieces(KEYS, 0), Waiting::new());
    never_back(&map, |round| {
        let mut writer = map.write();
        // Three entries of the old number, then one of the new.
        let part = 40 + u32::from(round) % 20..70 + u32::from(round) % 30;
        writer
            .store_range_splitting(part.clone(), round - 1, |_, v| Some(v))
            .unwrap();
        assert_eq!(writer.len(), 3);
        let all = writer
            .store_range_coalescing(part, round, |_, _| true)
            .unwrap();
        assert_eq!((all, writer.len()), (0..=KEYS - 1, 1));
    });
}

/// A store over many entries, while these are being joined and parted.
#[test]
fn stores() {
    let map = Shared::from_exclusive(pieces(1, 0), Waiting::new());
    never_back(&map, |round| {
        let mut writer = map.write();
        writer.store_range(0..KEYS, round).unwrap();
        for i in 0..8 {
            let at = (u32::from(round) * 13 + i * 11) % (KEYS - 5);
            writer
                .store_range_splitting(at..at + 3, round, |_, v| Some(v))
                .unwrap();
        }
    });
}

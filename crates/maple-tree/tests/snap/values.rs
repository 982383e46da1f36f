//! Values: dropped once, whatever panics; and maps that are values themselves.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use maple_tree::alloc::{Counted, Global};
use maple_tree::{CowMapleTree, Fanout};

use crate::support::{Number, Rng};

/// A value that counts how many of its kind live, and cannot be made once more for ever.
struct Alive {
    live: Rc<Cell<isize>>,
    fuel: Rc<Cell<isize>>,
}

impl Clone for Alive {
    fn clone(&self) -> Self {
        self.fuel.set(self.fuel.get() - 1);
        assert!(self.fuel.get() != 0, "out of fuel");
        self.live.set(self.live.get() + 1);
        Self {
            live: self.live.clone(),
            fuel: self.fuel.clone(),
        }
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.live.set(self.live.get() - 1);
    }
}

/// Every value is dropped once, also when making one once more panics anywhere in a write: then nothing has changed.
#[test]
fn values_are_dropped_once_and_panics_change_nothing() {
    let (live, fuel) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(-1)));
    let make = || {
        live.set(live.get() + 1);
        Box::new(Alive {
            live: live.clone(),
            fuel: fuel.clone(),
        })
    };
    let nodes = Counted::new(Global);
    let mut rng = Rng(12);
    type Map<'a> = CowMapleTree<u32, Box<Alive>, &'a Counted<Global>, Fanout<4>>;
    let mut now: Map<'_> = CowMapleTree::with_gaps_in(&nodes);
    let mut before = now.snapshot();
    for step in 0..if cfg!(miri) { 25 } else { 4000 } {
        let first = rng.below(100) as u32;
        let last = first + rng.below(8) as u32;
        let ranges = |map: &Map<'_>| map.iter().map(|(range, _)| range).collect::<Vec<_>>();
        let (was, kept, count) = (ranges(&now), ranges(&before), nodes.live());
        let alive = live.get();
        fuel.set(if step % 2 == 0 {
            1 + rng.below(6) as isize
        } else {
            -1
        });
        let what = rng.below(7);
        let done = catch_unwind(AssertUnwindSafe(|| match what {
            0 => drop(now.insert_range(first..=last, make())),
            1..=2 => drop(now.store_range(first..=last, make())),
            3 => drop(now.remove(first)),
            4 => drop(now.replace(first, make())),
            5 => drop(now.get_mut(first)),
            _ => drop(now.erase_range(first..=last)),
        }));
        fuel.set(-1);
        if done.is_err() {
            assert_eq!(ranges(&now), was);
            assert_eq!((nodes.live(), live.get()), (count, alive));
        }
        assert_eq!(ranges(&before), kept);
        CowMapleTree::check_family(&[&now, &before]).unwrap();
        if step % 16 == 0 {
            before = now.snapshot();
        }
    }
    assert!(live.get() >= now.len() as isize);
    drop(now);
    assert_eq!(live.get(), before.len() as isize);
    before.clear();
    assert_eq!((live.get(), nodes.live()), (0, 0));
}

/// Equal, ordered and hashed as the lists of their entries are.
#[test]
fn as_values() {
    fn hash(value: &impl std::hash::Hash) -> u64 {
        use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
        BuildHasherDefault::<DefaultHasher>::default().hash_one(value)
    }
    let (mut rng, count) = (Rng(7), if cfg!(miri) { 6 } else { 50 });
    let mut maps = vec![CowMapleTree::<u64, Number>::new()];
    while maps.len() < count {
        let mut next = maps[rng.below(maps.len())].snapshot();
        for _ in 0..rng.below(4) {
            let first = rng.below(60) as u64;
            let last = first + rng.below(5) as u64;
            let value = rng.below(2) as Number;
            if next.store_range(first..=last, value).is_err() {
                next.erase_range(..first).unwrap();
            }
        }
        maps.push(next);
    }
    let entries = |map: &CowMapleTree<u64, Number>| -> Vec<_> {
        let flat = |(range, value): (std::ops::RangeInclusive<u64>, _)| {
            (*range.start(), *range.end(), value)
        };
        map.iter().map(flat).collect()
    };
    for one in &maps {
        for other in &maps {
            let (ones, others) = (entries(one), entries(other));
            assert_eq!(one == other, ones == others);
            assert_eq!(one.cmp(other), ones.cmp(&others));
            assert_eq!(one.partial_cmp(other), Some(ones.cmp(&others)));
            assert!(one != other || hash(one) == hash(other));
        }
    }
}

//! The map for one owner.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use maple_tree::alloc::{Fork, Pool};
use maple_tree::{Fanout, MapleTree};

use super::{Bomb, Countdown, Ends, Ledger, each_call, some, survives, tick};

type Map<A> = MapleTree<u32, Box<Bomb>, A, Fanout<4>>;

/// An allocator of nodes that counts them.
pub(super) trait Source: Fork {
    fn of(nodes: &Arc<Countdown>) -> Self;
}

impl Source for Arc<Countdown> {
    fn of(nodes: &Arc<Countdown>) -> Self {
        nodes.clone()
    }
}

impl Source for Pool<Arc<Countdown>> {
    fn of(nodes: &Arc<Countdown>) -> Self {
        Self::new_in(nodes.clone())
    }
}

fn new<A: Source>(ledger: &Ledger, gaps: bool) -> Map<A> {
    let alloc = A::of(&ledger.nodes);
    let mut map = if gaps {
        MapleTree::with_gaps_in(alloc)
    } else {
        MapleTree::new_in(alloc)
    };
    ledger.fill(|range, bomb| map.insert_range(range, bomb).unwrap());
    map
}

/// Twenty entries that overlap or adjoin those of a map.
fn other<A: Source>(map: &Map<A>, ledger: &Ledger) -> Map<A> {
    let mut other = if map.tracks_gaps() {
        MapleTree::with_gaps_in(A::of(&ledger.nodes))
    } else {
        MapleTree::new_in(A::of(&ledger.nodes))
    };
    for i in 1..20 {
        let first = i * 20 + 3;
        let bomb = ledger.bomb(i + 100);
        other.insert_range(first..=first + 17, bomb).unwrap();
    }
    other
}

pub(super) fn whole<A: Fork>(map: &Map<A>, ledger: &Ledger, context: &str) {
    map.check()
        .unwrap_or_else(|damage| panic!("{context}: {damage}\n{map}"));
    for (_, bomb) in map {
        ledger.assert_live(bomb, context);
    }
}

/// Calls `go` while there is no memory for nodes.
fn without_memory<T>(ledger: &Ledger, go: impl FnOnce() -> T) -> T {
    struct Allow<'l>(&'l Ledger);

    impl Drop for Allow<'_> {
        fn drop(&mut self) {
            self.0.nodes.allow(usize::MAX);
        }
    }

    let _allow = Allow(ledger);
    ledger.nodes.allow(0);
    go()
}

type Step<A> = fn(&mut Map<A>, &Ledger);

fn changes<A: Source>() -> Vec<(&'static str, Step<A>)> {
    vec![
        ("store over many", |map, ledger| {
            let _ = map.store_range(33..=333, ledger.bomb(1000));
        }),
        ("store over a few", |map, ledger| {
            let _ = map.store_range(33..=53, ledger.bomb(1000));
        }),
        ("store over one", |map, ledger| {
            let _ = map.store_range(100..=105, ledger.bomb(1000));
        }),
        ("store with displaced", |map, ledger| {
            let _ = map.store_range_with(33..=333, ledger.bomb(1000), |_, bomb| {
                tick();
                drop(bomb);
            });
        }),
        ("store that splits", |map, ledger| {
            let _ = map.store_range_splitting(102..=103, ledger.bomb(1000), |_, bomb| {
                tick();
                Some(ledger.bomb(bomb.number))
            });
        }),
        ("store that splits, without memory", |map, ledger| {
            // With the leaf full.
            for i in 0..6 {
                let _ = map.store_range(100 + i..=100 + i, ledger.bomb(i));
            }
            let _ = map.store_range(100..=105, ledger.bomb(9));
            without_memory(ledger, || {
                let _ = map.store_range_splitting(102..=103, ledger.bomb(1000), |_, bomb| {
                    Some(ledger.bomb(bomb.number))
                });
            });
        }),
        ("store coalescing", |map, ledger| {
            let same = |a: &Bomb, b: &Bomb| {
                tick();
                a.number > 8 && b.number == 1000
            };
            let _ = map.store_range_coalescing(96..=219, ledger.bomb(1000), same);
            let _ = map.insert_range_coalescing(96..=99, ledger.bomb(1000), same);
        }),
        ("store coalescing, splitting", |map, ledger| {
            let same = |a: &Bomb, b: &Bomb| {
                tick();
                a.number > 8 && b.number == 1000
            };
            for range in [102..=103, 96..=219] {
                let new = ledger.bomb(1000);
                let _ = map.store_range_coalescing_splitting(range, new, same, |_, bomb| {
                    tick();
                    Some(ledger.bomb(bomb.number))
                });
            }
        }),
        (
            "store and erase splitting, with displaced",
            |map, ledger| {
                let twin = |_, bomb: &Bomb| {
                    tick();
                    Some(ledger.bomb(bomb.number))
                };
                for range in [102..=103, 33..=333] {
                    let new = ledger.bomb(1000);
                    let _ = map.store_range_splitting_with(range, new, twin, |_, bomb| {
                        tick();
                        drop(bomb);
                    });
                }
                for range in [40..=41, 33..=300] {
                    let _ = map.erase_range_splitting_with(range, twin, |_, bomb| {
                        tick();
                        drop(bomb);
                    });
                }
            },
        ),
        ("extract", |map, _| {
            let taken = map.extract_if(15..=300, |_, bomb| {
                tick();
                !bomb.number.is_multiple_of(3)
            });
            taken.take(20).for_each(drop);
        }),
        ("allocate coalescing", |map, ledger| {
            let _ = map.alloc_range_coalescing(100.., 2, ledger.bomb(1000), |a, _| {
                tick();
                a.number > 8
            });
        }),
        ("erase many", |map, _| {
            let _ = map.erase_range(33..=333);
        }),
        ("erase one by one", |map, _| {
            for i in (1..40).rev() {
                let _ = map.erase_range(i * 10..i * 10 + 6);
            }
        }),
        ("erase all", |map, _| {
            let _ = map.erase_range(..);
        }),
        ("erase with displaced", |map, _| {
            let _ = map.erase_range_with(33..=333, |_, _| tick());
        }),
        ("erase that splits", |map, ledger| {
            let _ = map.erase_range_splitting(102..=103, |_, bomb| {
                tick();
                Some(ledger.bomb(bomb.number))
            });
        }),
        ("remove", |map, _| drop(map.remove(100))),
        ("pop", |map, _| {
            while let Ok(Some(_)) = map.pop_first() {
                drop(map.pop_last());
            }
        }),
        ("replace", |map, ledger| {
            drop(map.replace(100, ledger.bomb(1000)));
            drop(map.replace(106, ledger.bomb(1000)));
        }),
        ("grow", |map, _| {
            let _ = map.grow(200, 133..=277, |_, _| tick());
        }),
        ("entry", |map, ledger| {
            for key in 90..140 {
                let _ = map
                    .entry(key)
                    .and_modify(|bomb| {
                        tick();
                        *bomb = *ledger.bomb(3);
                    })
                    .or_insert_with(|| {
                        tick();
                        ledger.bomb(4)
                    });
            }
        }),
        ("retain", |map, _| {
            let _ = map.retain(|_, bomb| {
                tick();
                bomb.number % 3 == 0
            });
        }),
        ("clear", |map, _| map.clear()),
        ("cursor", |map, ledger| {
            let mut cursor = map.cursor_mut(0..=0);
            let _ = cursor.expected_entries(5);
            while let Some(bomb) = cursor.find(..) {
                let number = bomb.number;
                tick();
                let _ = cursor.preallocate();
                match number % 3 {
                    0 => drop(cursor.erase()),
                    1 => drop(cursor.store(ledger.bomb(number))),
                    _ => {
                        let end = cursor.last() + 3;
                        cursor.set_range(cursor.index()..=end);
                        let _ = cursor.store(ledger.bomb(number));
                    }
                }
            }
        }),
    ]
}

/// Of whole maps.
fn whole_changes<A: Source>() -> Vec<(&'static str, Step<A>)> {
    vec![
        ("duplicate", |map, ledger| {
            let copy = map.try_clone_with(|_, bomb| {
                tick();
                Ok((bomb.number % 4 != 0).then(|| ledger.bomb(bomb.number)))
            });
            if let Ok(copy) = &copy {
                whole(copy, ledger, "the copy");
            }
        }),
        ("duplicate, given up", |map, ledger| {
            let _ = map.try_clone_with_error(|_, bomb| {
                if bomb.number == 25 {
                    return Err(());
                }
                Ok(Some(ledger.bomb(bomb.number)))
            });
        }),
        ("duplicate, each value", |map, _| drop(map.try_clone())),
        ("duplicate, without memory", |map, ledger| {
            // There is none for joining what is left of the leaves.
            let _ = map.try_clone_with(|_, bomb| {
                ledger.nodes.allow(0);
                Ok((bomb.number % 9 == 0).then(|| ledger.bomb(bomb.number)))
            });
            ledger.nodes.allow(usize::MAX);
        }),
        ("extend", |map, ledger| {
            map.clear();
            let _ = map.try_extend(Ends((0..60).map(|i| {
                tick();
                (i * 7..i * 7 + 5, ledger.bomb(i))
            })));
        }),
        ("extend over what is there", |map, ledger| {
            map.extend((0..60).map(|i| {
                tick();
                (i * 7..i * 7 + 3, ledger.bomb(i))
            }));
        }),
        ("extend until refused", |map, ledger| {
            let _ = map.try_extend(Ends((0..60).map(|i| {
                tick();
                (i * 70 + 7..i * 70 + 9, ledger.bomb(i))
            })));
        }),
        ("split off", |map, _| drop(map.split_off(200))),
        ("split off within one", |map, ledger| {
            drop(map.split_off_splitting(203, |_, bomb| {
                tick();
                Some(ledger.bomb(bomb.number))
            }));
        }),
        ("cut", |map, ledger| {
            let cut = map.cut(103..205, |_, bomb| {
                tick();
                Some(ledger.bomb(bomb.number))
            });
            if let Ok(cut) = cut {
                whole(&cut, ledger, "what was cut");
            }
        }),
        ("cut within one", |map, ledger| {
            drop(map.cut(202..204, |_, bomb| {
                tick();
                Some(ledger.bomb(bomb.number))
            }));
        }),
        ("merge", |map, ledger| {
            let mut other = other(map, ledger);
            for i in 0..6 {
                let _ = other.erase_range(11 + 10 * i..13 + 10 * i);
            }
            let _ = map.merge(
                &mut other,
                |_, ours, _| {
                    tick();
                    Some(ledger.bomb(ours.number))
                },
                |_, bomb| {
                    tick();
                    Some(ledger.bomb(bomb.number))
                },
            );
            whole(&other, ledger, "the other");
        }),
        ("append, refused", |map, ledger| {
            let mut small = other(map, ledger);
            let _ = small.erase_range(..);
            let _ = small.insert_range(12..14, ledger.bomb(7));
            let _ = map.append(&mut small);
            whole(&small, ledger, "the other");
        }),
        ("append", |map, ledger| {
            let mut other = other(map, ledger);
            let _ = map.append(&mut other);
        }),
        ("append within one", |map, ledger| {
            let mut other = other(map, ledger);
            let _ = other.erase_range(..100);
            for i in 0..6 {
                let _ = other.insert(11 + 10 * i, ledger.bomb(i));
                let _ = other.insert(13 + 10 * i, ledger.bomb(i));
            }
            let _ = map.append_splitting(&mut other, |_, bomb| {
                tick();
                (bomb.number != 5).then(|| ledger.bomb(bomb.number))
            });
        }),
        ("take apart", |map, ledger| {
            let all = map.split_off(0).unwrap();
            let mut entries = all.into_iter();
            for _ in 0..7 {
                drop(entries.next());
                drop(entries.next_back());
            }
            ledger.assert_live(&entries.next().unwrap().1, "taken");
        }),
    ]
}

/// Makes a map from an iterator that panics, or of which one entry may be refused.
fn made(ledger: &Ledger, sorted: bool, refused: bool) {
    let entries = Ends((0..60).map(|i| {
        tick();
        let at = if refused && i == 50 { 3 } else { i * 7 };
        (at..at + 5, ledger.bomb(i))
    }));
    if sorted {
        let _ =
            MapleTree::<u32, Box<Bomb>, Pool, Fanout<4>>::try_from_sorted_in(entries, Pool::new());
    } else {
        let _ =
            MapleTree::<u32, Box<Bomb>, Pool, Fanout<4>>::try_from_iter_in(entries, Pool::new());
    }
}

fn every_step<A: Source>(modes: &[bool]) {
    let steps = || changes::<A>().into_iter().chain(whole_changes());
    for &gaps in modes {
        // Under Miri most of them with one of the allocators.
        for (name, step) in some(steps(), usize::from(gaps), 3) {
            let panics = each_call(name, |quiet, ledger, context| {
                let mut map: Map<A> = new(ledger, gaps);
                let done = survives(quiet, || step(&mut map, ledger));
                ledger.nodes.allow(usize::MAX);
                whole(&map, ledger, context);
                // It goes on working, and its own drop may panic as well.
                map.store_range(1000..=1005, ledger.bomb(1)).unwrap();
                map.erase_range_splitting(150..=250, |_, bomb| Some(ledger.bomb(bomb.number)))
                    .unwrap();
                whole(&map, ledger, context);
                survives((quiet + 1) % 7, || drop(map));
                done
            });
            assert!(panics > 0, "{name}: nothing was called");
        }
        each_call("drop", |quiet, ledger, _| {
            let map: Map<A> = new(ledger, gaps);
            survives(quiet, || drop(map))
        });
    }
}

#[test]
fn exclusive_map() {
    every_step::<Arc<Countdown>>(if cfg!(miri) { &[false] } else { &[false, true] });
}

#[test]
fn exclusive_map_in_a_pool() {
    every_step::<Pool<Arc<Countdown>>>(if cfg!(miri) { &[true] } else { &[false, true] });
}

#[test]
fn maps_from_iterators() {
    for (sorted, refused) in [(false, false), (false, true), (true, false), (true, true)] {
        each_call("made", |quiet, ledger, _| {
            survives(quiet, || made(ledger, sorted, refused))
        });
    }
}

/// Values that a panicking closure borrowed are still in the map.
#[test]
fn nothing_changes_before_a_split_is_agreed() {
    let ledger = Ledger::new();
    let mut map: Map<Pool<Arc<Countdown>>> = new(&ledger, false);
    let content = |map: &Map<_>| -> Vec<_> {
        let entries = map.iter();
        entries.map(|(range, bomb)| (range, bomb.id)).collect()
    };
    let before = content(&map);
    let seen = RefCell::new(0);
    let go = catch_unwind(AssertUnwindSafe(|| {
        let _ = map.store_range_splitting(102..=103, ledger.bomb(7), |_, bomb| {
            *seen.borrow_mut() = bomb.number;
            panic!("no");
        });
    }));
    assert!(go.is_err());
    assert_eq!(*seen.borrow(), 10);
    assert_eq!(before, content(&map));
    drop(map);
    ledger.assert_empty("after the split");
}

/// A closure that has panicked is not called again; what it was not given is dropped.
#[test]
fn a_closure_that_panicked_is_let_alone() {
    let ledger = Ledger::new();
    let mut map: Map<Arc<Countdown>> = new(&ledger, true);
    let shown = RefCell::new(Vec::new());
    let go = catch_unwind(AssertUnwindSafe(|| {
        let _ = map.erase_range_with(33..=333, |_, bomb| {
            shown.borrow_mut().push(bomb.number);
            assert!(bomb.number < 9, "enough");
        });
    }));
    assert!(go.is_err());
    assert_eq!(*shown.borrow(), [4, 5, 6, 7, 8, 9]);
    assert_eq!(map.len(), 10);
    assert_eq!(ledger.values().live.len(), 10);
    drop(map);
    ledger.assert_empty("after the closure");
}

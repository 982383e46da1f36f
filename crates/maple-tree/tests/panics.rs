//! Values whose drop panics, and closures and iterators that do, at every place where the tree calls them: nothing is dropped twice or used after, and
//! the tree is whole and holds what the call had come to.
//!
//! What a call was about to hand over when the panic came may leak, nodes included. Here it does not go astray: what lives is listed, so
//! that leak checkers find it.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::alloc::Layout;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Mutex;

use maple_tree::alloc::{Fork, Global, NodeAlloc, Pool, SharedPool};
use maple_tree::{Fanout, MapleTree, SyncMapleTree, Waiting};

thread_local! {
    /// Calls that are still quiet.
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Where something lives; never looked at.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct At(*const u8);

// SAFETY: nothing is done with it but comparing.
unsafe impl Send for At {}

/// Values that have been made and not dropped. Of all threads: the tests of this file share it.
static LIVE: Mutex<BTreeMap<u64, At>> = Mutex::new(BTreeMap::new());
static NEXT: Mutex<u64> = Mutex::new(0);
/// Nodes, likewise.
static NODES: Mutex<BTreeSet<At>> = Mutex::new(BTreeSet::new());

/// Panics, if it is time.
fn tick() {
    match LEFT.get() {
        0 if !std::thread::panicking() => {
            LEFT.set(usize::MAX);
            panic!("as planned");
        }
        usize::MAX | 0 => {}
        left => LEFT.set(left - 1),
    }
}

struct Bomb {
    id: u64,
    number: u32,
}

impl Bomb {
    fn new(number: u32) -> Box<Self> {
        let mut next = NEXT.lock().unwrap();
        *next += 1;
        let new = Box::new(Self { id: *next, number });
        LIVE.lock()
            .unwrap()
            .insert(*next, At((&raw const *new).cast()));
        new
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        if LIVE.lock().unwrap().remove(&self.id).is_none() {
            eprintln!("{} was dropped twice", self.number);
            std::process::abort();
        }
        tick();
    }
}

/// Nodes from the global allocator one by one.
#[derive(Clone, Copy, Default)]
struct Listed;

// SAFETY: passed on to an allocator that keeps the promises.
unsafe impl NodeAlloc for Listed {
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
        let block = Global.allocate(layout)?;
        NODES.lock().unwrap().insert(At(block.as_ptr()));
        Some(block)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        assert!(NODES.lock().unwrap().remove(&At(block.as_ptr())));
        // SAFETY: the caller's promise is passed on.
        unsafe { Global.deallocate(block, layout) }
    }
}

impl Fork for Listed {
    fn fork(&self) -> Self {
        Self
    }
}

type Map<A> = MapleTree<u32, Box<Bomb>, A, Fanout<4>>;
type Shared = SyncMapleTree<u32, Box<Bomb>, Waiting, SharedPool, spin::Mutex<()>, Fanout<4>>;

/// Entries at 10..=15, 20..=25 … 390..=395.
fn fill(mut insert: impl FnMut(std::ops::RangeInclusive<u32>, Box<Bomb>)) {
    for i in 1..40 {
        insert(i * 10..=i * 10 + 5, Bomb::new(i));
    }
}

fn whole<A: NodeAlloc>(map: &Map<A>, context: &str) {
    map.check()
        .unwrap_or_else(|damage| panic!("{context}: {damage}\n{map}"));
    let live = LIVE.lock().unwrap();
    for (range, bomb) in map {
        assert!(
            live.contains_key(&bomb.id),
            "{context}: {range:?} was dropped"
        );
    }
}

/// Lets the first, second, third … call panic until there are no more; one call in so many under Miri.
fn each_call(mut attempt: impl FnMut(usize, &str) -> bool) {
    for quiet in (0..).step_by(if cfg!(miri) { 37 } else { 1 }) {
        if attempt(quiet, &format!("after {quiet} calls")) {
            assert!(quiet > 0, "nothing was called");
            break;
        }
    }
}

/// Whether it went through without a panic.
fn survives(quiet: usize, go: impl FnOnce()) -> bool {
    LEFT.set(quiet);
    let done = catch_unwind(AssertUnwindSafe(go)).is_ok();
    LEFT.set(usize::MAX);
    done
}

type Step<A> = fn(&mut Map<A>);
type SharedStep = fn(&Shared);

fn steps<A: Fork + Default>() -> Vec<(&'static str, Step<A>)> {
    vec![
        ("store over many", |map| {
            let _ = map.store_range(33..=333, Bomb::new(1000));
        }),
        ("store over one", |map| {
            let _ = map.store_range(100..=105, Bomb::new(1000));
        }),
        ("store with displaced", |map| {
            let _ = map.store_range_with(33..=333, Bomb::new(1000), |_, bomb| {
                tick();
                drop(bomb);
            });
        }),
        ("store that splits", |map| {
            let _ = map.store_range_splitting(102..=103, Bomb::new(1000), |_, bomb| {
                tick();
                Some(Bomb::new(bomb.number))
            });
        }),
        ("erase many", |map| {
            let _ = map.erase_range(33..=333);
        }),
        ("erase all", |map| {
            let _ = map.erase_range(..);
        }),
        ("erase with displaced", |map| {
            let _ = map.erase_range_with(33..=333, |_, _| tick());
        }),
        ("erase that splits", |map| {
            let _ = map.erase_range_splitting(102..=103, |_, bomb| {
                tick();
                Some(Bomb::new(bomb.number))
            });
        }),
        ("remove", |map| drop(map.remove(100))),
        ("replace", |map| drop(map.replace(100, Bomb::new(1000)))),
        ("grow", |map| {
            let _ = map.grow(200, 133..=277, |_, _| tick());
        }),
        ("retain", |map| {
            let _ = map.retain(|_, bomb| {
                tick();
                bomb.number % 3 == 0
            });
        }),
        ("duplicate", |map| {
            let copy = map.try_clone_with(|_, bomb| {
                tick();
                Ok::<_, ()>((bomb.number % 4 != 0).then(|| Bomb::new(bomb.number)))
            });
            if let Ok(copy) = &copy {
                whole(copy, "the copy");
            }
        }),
        ("duplicate, given up", |map| {
            let _ = map.try_clone_with(|_, bomb| {
                if bomb.number == 25 {
                    return Err(());
                }
                Ok(Some(Bomb::new(bomb.number)))
            });
        }),
        ("extend", |map| {
            map.clear();
            let _ = map.try_extend((0..60).map(|i| {
                tick();
                (i * 7..i * 7 + 5, Bomb::new(i))
            }));
        }),
        ("from sorted entries that are not", |_| {
            let _ = Map::<A>::try_from_sorted((0..60).map(|i| {
                tick();
                let at = if i == 50 { 3 } else { i * 7 };
                (at..at + 5, Bomb::new(i))
            }));
        }),
        ("clear", |map| map.clear()),
        ("cursor", |map| {
            let mut cursor = map.cursor_mut(0..=0);
            while let Some(bomb) = cursor.find(..) {
                let number = bomb.number;
                tick();
                match number % 3 {
                    0 => drop(cursor.erase()),
                    1 => drop(cursor.store(Bomb::new(number))),
                    _ => {
                        let end = cursor.last() + 3;
                        cursor.set_range(cursor.index()..=end);
                        let _ = cursor.store(Bomb::new(number));
                    }
                }
            }
        }),
    ]
}

fn every_step<A: Fork + Default>(modes: &[bool]) {
    for &gaps in modes {
        for (name, step) in steps::<A>() {
            each_call(|quiet, after| {
                let mut map: Map<A> = if gaps {
                    MapleTree::with_gaps_in(A::default())
                } else {
                    MapleTree::new_in(A::default())
                };
                fill(|range, bomb| map.insert_range(range, bomb).unwrap());
                let done = survives(quiet, || step(&mut map));
                let context = format!("{name} {after}");
                whole(&map, &context);
                // It goes on working, and its own drop may panic as well.
                map.store_range(1000..=1005, Bomb::new(1)).unwrap();
                map.erase_range_splitting(150..=250, |_, bomb| Some(Bomb::new(bomb.number)))
                    .unwrap();
                whole(&map, &context);
                survives((quiet + 1) % 7, || drop(map));
                done
            });
        }
    }
}

#[test]
fn exclusive_map() {
    every_step::<Pool>(if cfg!(miri) { &[true] } else { &[false, true] });
    every_step::<Listed>(if cfg!(miri) { &[false] } else { &[false, true] });
}

/// A shared map: what is removed is dropped when it is retired.
#[test]
fn shared_map() {
    let steps: Vec<(&str, SharedStep)> = vec![
        ("store over many", |tree| {
            let _ = tree.write().store_range(33..=333, Bomb::new(1000));
        }),
        ("store with displaced", |tree| {
            let _ = tree
                .write()
                .store_range_with(33..=333, Bomb::new(1000), |_, _| tick());
        }),
        ("store that splits", |tree| {
            let _ = tree
                .write()
                .store_range_splitting(102..=103, Bomb::new(1000), |_, bomb| {
                    tick();
                    Some(Bomb::new(bomb.number))
                });
        }),
        ("erase many", |tree| {
            let _ = tree.write().erase_range(33..=333);
        }),
        ("remove", |tree| drop(tree.write().remove(100))),
        ("replace", |tree| {
            let _ = tree.write().replace(100, Bomb::new(1000));
        }),
        ("grow", |tree| {
            let _ = tree.write().grow(200, 133..=277);
        }),
        ("clear", |tree| tree.write().clear()),
        ("duplicate", |tree| {
            drop(tree.write().try_clone_with(|_, bomb| {
                tick();
                Ok::<_, ()>(Some(Bomb::new(bomb.number)))
            }));
        }),
    ];
    for (name, step) in steps {
        each_call(|quiet, after| {
            let tree = Shared::new(Waiting::new());
            fill(|range, bomb| tree.write().insert_range(range, bomb).unwrap());
            let done = survives(quiet, || step(&tree));
            let context = format!("{name} {after}");
            // The lock is free again, and readers find whole entries.
            tree.try_write().unwrap().check().unwrap();
            {
                let reader = tree.read();
                let live = LIVE.lock().unwrap();
                for (range, bomb) in reader.iter() {
                    assert!(
                        live.contains_key(&bomb.id),
                        "{context}: {range:?} was dropped"
                    );
                }
            }
            tree.write().store_range(1000..=1005, Bomb::new(1)).unwrap();
            tree.write().check().unwrap();
            survives((quiet + 1) % 7, || drop(tree));
            done
        });
    }
}

/// What a panicking closure was lent is still in the map.
#[test]
fn nothing_changes_before_a_split_is_agreed() {
    let mut map: Map<Pool> = MapleTree::new();
    fill(|range, bomb| map.insert_range(range, bomb).unwrap());
    let before: Vec<_> = map.iter().map(|(range, bomb)| (range, bomb.id)).collect();
    let seen = RefCell::new(0);
    let go = catch_unwind(AssertUnwindSafe(|| {
        let _ = map.store_range_splitting(102..=103, Bomb::new(7), |_, bomb| {
            *seen.borrow_mut() = bomb.number;
            panic!("no");
        });
    }));
    assert!(go.is_err());
    assert_eq!(*seen.borrow(), 10);
    let after: Vec<_> = map.iter().map(|(range, bomb)| (range, bomb.id)).collect();
    assert_eq!(before, after);
}

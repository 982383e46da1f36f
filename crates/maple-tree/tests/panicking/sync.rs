//! The shared map: what is removed is dropped when it is retired, or later.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use maple_tree::{Fanout, MapleTree, Reclaim, SyncMapleTree, Waiting};

use super::map::whole;
use super::{Bomb, Countdown, Ends, Ledger, each_call, some, survives, tick};

/// Without a pool, which would give back what leaks.
type Nodes = Arc<Countdown>;
type Shared<R> = SyncMapleTree<u32, Box<Bomb>, R, Nodes, spin::Mutex<()>, Fanout<4>>;
type Step<R> = fn(&Shared<R>, &Ledger);

/// Entries that lie across those of the map.
fn loaded(
    tree: &Shared<impl Reclaim>,
    ledger: &Ledger,
) -> MapleTree<u32, Box<Bomb>, Nodes, Fanout<4>> {
    let nodes = ledger.nodes.clone();
    let mut other = if tree.write().tracks_gaps() {
        MapleTree::with_gaps_in(nodes)
    } else {
        MapleTree::new_in(nodes)
    };
    for i in 1..15 {
        let first = i * 20 + 3;
        let bomb = ledger.bomb(i + 100);
        other.insert_range(first..=first + 17, bomb).unwrap();
    }
    other
}

fn steps<R: Reclaim>() -> Vec<(&'static str, Step<R>)> {
    vec![
        ("store over many", |tree, ledger| {
            let _ = tree.write().store_range(33..=333, ledger.bomb(1000));
        }),
        ("store over a few", |tree, ledger| {
            let _ = tree.store_range(33..=53, ledger.bomb(1000));
            let _ = tree.store_range(60..=65, ledger.bomb(1000));
        }),
        ("store with displaced", |tree, ledger| {
            let mut writer = tree.write();
            let _ = writer.store_range_with(33..=333, ledger.bomb(1000), |_, bomb| {
                ledger.assert_live(bomb, "shown");
                tick();
            });
        }),
        ("store that splits", |tree, ledger| {
            let mut writer = tree.write();
            let _ = writer.store_range_splitting(102..=103, ledger.bomb(1000), |_, bomb| {
                tick();
                Some(ledger.bomb(bomb.number))
            });
        }),
        ("erase many", |tree, _| {
            let _ = tree.write().erase_range(33..=333);
        }),
        ("erase with displaced", |tree, _| {
            let _ = tree.write().erase_range_with(33..=73, |_, _| tick());
            let _ = tree.write().erase_range_with(100..=105, |_, _| tick());
        }),
        ("remove", |tree, _| {
            for i in 1..40 {
                let _ = tree.remove(i * 10 + 1);
            }
        }),
        ("replace", |tree, ledger| {
            let _ = tree.write().replace(100, ledger.bomb(1000));
            let _ = tree.write().replace(109, ledger.bomb(1000));
        }),
        ("grow", |tree, _| {
            let _ = tree.write().grow(200, 133..=277);
        }),
        ("clear", |tree, _| tree.write().clear()),
        ("retain", |tree, _| {
            let _ = tree.write().retain(|_, bomb| {
                tick();
                bomb.number % 3 == 0
            });
        }),
        ("cursor", |tree, ledger| {
            let mut writer = tree.write();
            let mut cursor = writer.cursor_mut(0..=0);
            while cursor.find(..).is_some() {
                let end = cursor.last() + 7;
                cursor.set_range(cursor.index()..=end);
                let _ = cursor.preallocate();
                let _ = cursor.store(ledger.bomb(9));
                let _ = cursor.next(..);
                let _ = cursor.erase();
            }
        }),
        ("extend", |tree, ledger| {
            let _ = tree.write().try_extend(Ends((0..60).map(|i| {
                tick();
                (i * 60 + 6..i * 60 + 8, ledger.bomb(i))
            })));
        }),
        ("append", |tree, ledger| {
            let mut other = loaded(tree, ledger);
            let _ = tree.write().append(&mut other);
        }),
        ("append within one", |tree, ledger| {
            let mut other = loaded(tree, ledger);
            let _ = other.insert(12, ledger.bomb(1));
            let _ = tree.write().append_splitting(&mut other, |_, bomb| {
                tick();
                Some(ledger.bomb(bomb.number))
            });
        }),
        ("split off", |tree, ledger| {
            let mut writer = tree.write();
            let high = writer.split_off_with(153, |_, bomb| {
                tick();
                Some(ledger.bomb(bomb.number))
            });
            if let Ok(high) = high {
                whole(&high, ledger, "the upper part");
            }
        }),
        ("duplicate", |tree, ledger| {
            drop(tree.write().try_clone_with(|_, bomb| {
                tick();
                Ok(Some(ledger.bomb(bomb.number)))
            }));
        }),
    ]
}

/// Under Miri every other step, from number `first` on, and those of `also`.
fn every_step<R: Reclaim + Default>(first: usize, also: &[(&'static str, Step<R>)]) {
    let modes: &[bool] = if cfg!(miri) { &[true] } else { &[false, true] };
    for &gaps in modes {
        for &(name, step) in some(&steps::<R>(), first, 2).chain(also) {
            each_call(name, |quiet, ledger, context| {
                let nodes = ledger.nodes.clone();
                let tree = if gaps {
                    Shared::with_gaps_in(R::default(), nodes)
                } else {
                    Shared::new_in(R::default(), nodes)
                };
                ledger.fill(|range, bomb| tree.insert_range(range, bomb).unwrap());
                // Something that is retired while the step runs, if that is later.
                let _ = tree.erase_range(360..=375);
                let done = survives(quiet, || step(&tree, ledger));
                goes_on(&tree, ledger, context);
                survives((quiet + 1) % 7, || drop(tree));
                done
            });
        }
    }
}

/// The lock is free again, and readers find whole entries.
fn goes_on<R: Reclaim>(tree: &Shared<R>, ledger: &Ledger, context: &str) {
    tree.try_write().unwrap().check().unwrap();
    {
        let reader = tree.read();
        for (_, bomb) in reader.iter() {
            ledger.assert_live(bomb, context);
        }
    }
    tree.store_range(1000..=1005, ledger.bomb(1)).unwrap();
    tree.write().check().unwrap();
}

#[test]
fn shared_map() {
    every_step::<Waiting>(0, &[]);
}

/// Values are dropped by a later call.
#[cfg(feature = "rcu")]
#[test]
fn shared_map_in_user_rcu() {
    use maple_tree::UserRcu;

    every_step::<UserRcu>(
        1,
        &[
            ("barrier", |tree, _| {
                let _ = tree.erase_range(33..=333);
                tree.reclaim().barrier();
            }),
            ("several batches", |tree, ledger| {
                for i in 0..if cfg!(miri) { 40 } else { 300 } {
                    let _ = tree.store_range(100..=105, ledger.bomb(i));
                }
            }),
        ],
    );
    for quiet in (0..60).step_by(if cfg!(miri) { 23 } else { 1 }) {
        let ledger = Ledger::new();
        let tree = Shared::<UserRcu>::new_in(UserRcu::new(), ledger.nodes.clone());
        ledger.fill(|range, bomb| tree.insert_range(range, bomb).unwrap());
        let _ = tree.erase_range(33..=333);
        survives(quiet, || drop(tree.into_exclusive()));
        ledger.assert_empty("after the shared map became an exclusive one");
    }
}

/// A value that a panicking closure was shown is still retired, and the closure is not called
/// again.
#[test]
fn a_closure_that_panicked_is_let_alone() {
    let ledger = Ledger::new();
    let tree = Shared::new_in(Waiting::new(), ledger.nodes.clone());
    ledger.fill(|range, bomb| tree.insert_range(range, bomb).unwrap());
    let shown = AtomicUsize::new(0);
    let go = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = tree.write().erase_range_with(33..=333, |_, _| {
            assert!(shown.fetch_add(1, Ordering::Relaxed) < 5, "enough");
        });
    }));
    assert!(go.is_err());
    assert_eq!(shown.into_inner(), 6);
    assert_eq!((tree.read().len(), ledger.values().live.len()), (10, 10));
    drop(tree);
    ledger.assert_empty("after the closure");
}

//! Maps that share nodes: a value is dropped with the last map that leads to it, and made once more when its leaf is copied.

use std::sync::Arc;

use maple_tree::{CowMapleTree, Duplicate, Fanout, MapleTree, Ref};

use super::{Bomb, Countdown, Ends, Ledger, each_call, some, survives, tick};

type Cow<V> = CowMapleTree<u32, V, Arc<Countdown>, Fanout<4>>;

/// The form in which a bomb is held.
trait Holder: Duplicate + 'static {
    fn hold(bomb: Box<Bomb>) -> Self;
    fn bomb<'v>(view: &'v Ref<'_, Self>) -> &'v Bomb;
}

impl Holder for Box<Bomb> {
    fn hold(bomb: Box<Bomb>) -> Self {
        bomb
    }

    fn bomb<'v>(view: &'v &Bomb) -> &'v Bomb {
        view
    }
}

impl Holder for Arc<Bomb> {
    fn hold(bomb: Box<Bomb>) -> Self {
        Self::from(bomb)
    }

    fn bomb<'v>(view: &'v maple_tree::ArcRef<'_, Bomb>) -> &'v Bomb {
        view
    }
}

fn whole<V: Holder>(map: &Cow<V>, ledger: &Ledger, context: &str) {
    map.check()
        .unwrap_or_else(|damage| panic!("{context}: {damage}"));
    for (_, view) in map {
        ledger.assert_live(V::bomb(&view), context);
    }
}

type Step<V> = fn(&mut Cow<V>, &Ledger);

fn steps<V: Holder>() -> Vec<(&'static str, Step<V>)> {
    vec![
        ("store over many", |map, ledger| {
            let _ = map.store_range(33..=333, V::hold(ledger.bomb(1000)));
        }),
        ("store over a few", |map, ledger| {
            let _ = map.store_range(33..=53, V::hold(ledger.bomb(1000)));
        }),
        ("store within one", |map, ledger| {
            let _ = map.store_range(102..=103, V::hold(ledger.bomb(1000)));
        }),
        ("store that splits", |map, ledger| {
            let new = V::hold(ledger.bomb(1000));
            let _ = map.store_range_splitting(102..=103, new, |_, _| {
                tick();
                Some(V::hold(ledger.bomb(7)))
            });
        }),
        ("store that joins", |map, ledger| {
            let new = V::hold(ledger.bomb(1000));
            let _ = map.store_range_coalescing(102..=108, new, |_, _| {
                tick();
                true
            });
        }),
        ("store that joins nothing and splits", |map, ledger| {
            let new = V::hold(ledger.bomb(1000));
            let differ = |_: Ref<'_, V>, _: Ref<'_, V>| {
                tick();
                false
            };
            let _ = map.store_range_coalescing_splitting(102..=103, new, differ, |_, _| {
                tick();
                Some(V::hold(ledger.bomb(7)))
            });
        }),
        ("store, without memory", |map, ledger| {
            for allowed in 0..6 {
                ledger.nodes.allow(allowed);
                let _ = map.store_range(102..=103, V::hold(ledger.bomb(1000)));
            }
        }),
        ("erase many", |map, _| {
            let _ = map.erase_range(33..=333);
        }),
        ("erase one by one", |map, _| {
            for i in 1..40 {
                let _ = map.erase_range(i * 10..i * 10 + 6);
            }
        }),
        ("erase all", |map, _| {
            let _ = map.erase_range(..);
        }),
        ("remove", |map, _| {
            for i in (1..40).rev() {
                let _ = map.remove(i * 10);
            }
        }),
        ("replace", |map, ledger| {
            let _ = map.replace(100, V::hold(ledger.bomb(1000)));
            let _ = map.replace(106, V::hold(ledger.bomb(1000)));
        }),
        ("change", |map, _| {
            for i in 1..40 {
                let _ = map.get_mut(i * 10);
            }
        }),
        ("extend", |map, ledger| {
            let _ = map.try_extend(Ends((0..60).map(|i| {
                tick();
                (i * 60 + 6..i * 60 + 8, V::hold(ledger.bomb(i)))
            })));
        }),
        ("clear", |map, _| map.clear()),
        ("take over", |map, _| {
            let _ = map.snapshot().into_exclusive();
        }),
        ("take over, without memory", |map, ledger| {
            ledger.nodes.allow(4);
            let _ = map.snapshot().into_exclusive();
        }),
    ]
}

/// The other owners of the nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shared {
    No,
    /// A snapshot of the whole.
    All,
    /// A snapshot that has been written since: most leaves.
    Most,
}

/// Under Miri one step in four, others for each way of sharing: those from `first` on.
fn every_step<V: Holder>(first: usize) {
    for (i, shared) in [Shared::No, Shared::All, Shared::Most]
        .into_iter()
        .enumerate()
    {
        for (name, step) in some(steps::<V>(), (first + i) % 4, 4) {
            let name = format!("{name} ({shared:?})");
            each_call(&name, |quiet, ledger, context| {
                let alloc = ledger.nodes.clone();
                let mut map: Cow<V> = CowMapleTree::with_gaps_in(alloc);
                ledger.fill(|range, bomb| map.insert_range(range, V::hold(bomb)).unwrap());
                let mut kept = match shared {
                    Shared::No => CowMapleTree::new_in(ledger.nodes.clone()),
                    Shared::All | Shared::Most => map.snapshot(),
                };
                if shared == Shared::Most {
                    kept.erase_range(95..=115).unwrap();
                }
                let before = kept.len();
                let done = survives(quiet, || step(&mut map, ledger));
                ledger.nodes.allow(usize::MAX);
                for map in [&map, &kept] {
                    whole(map, ledger, context);
                }
                Cow::check_family(&[&map, &kept]).unwrap();
                assert_eq!(kept.len(), before, "{context}: the snapshot");
                let value = V::hold(ledger.bomb(1));
                map.store_range(1000..=1005, value).unwrap();
                // Either may be the last to lead to a node, and either may panic.
                let (first, second) = if quiet % 2 == 0 {
                    (map, kept)
                } else {
                    (kept, map)
                };
                survives((quiet + 1) % 7, || drop(first));
                survives((quiet + 1) % 11, || drop(second));
                done
            });
        }
    }
}

#[test]
fn snapshots_of_boxes() {
    every_step::<Box<Bomb>>(0);
}

#[test]
fn snapshots_of_counted_values() {
    every_step::<Arc<Bomb>>(2);
}

/// From a map for one owner, and apart again.
#[test]
fn taken_over() {
    each_call("taken over", |quiet, ledger, _| {
        let mut map = MapleTree::<u32, Box<Bomb>, _, Fanout<4>>::new_in(ledger.nodes.clone());
        ledger.fill(|range, bomb| map.insert_range(range, bomb).unwrap());
        survives(quiet, || {
            let Ok(map) = Cow::from_exclusive(map) else {
                return;
            };
            let mut other = map.snapshot();
            let _ = other.erase_range(103..=204);
            drop(map);
            let own = other.into_exclusive().ok();
            drop(own);
        })
    });
}

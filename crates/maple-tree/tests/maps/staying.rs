//! Readers that stay where they are while the writer changes the leaves about them: one write between two of their steps, at small fanouts, with
//! every allocation of the write refused once.

use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread;

use crate::support::Rng;
use crate::support::counting::Countdown;
use maple_tree::{
    EraseError, Fanout, MapleTree, Reclaim, Shape, StoreError, SyncMapleTree, Waiting,
};

/// Keeps what is retired until it is dropped itself.
#[derive(Default)]
struct AtTheEnd(Mutex<Vec<Box<dyn FnOnce() + Send>>>);

// SAFETY: a map that is dropped has no readers.
unsafe impl Reclaim for AtTheEnd {
    type Guard<'a> = ();

    fn enter(&self) {}

    unsafe fn retire<F: FnOnce() + Send + 'static>(&self, free: F) {
        self.0.lock().unwrap().push(Box::new(free));
    }
}

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        for free in self.0.get_mut().unwrap().drain(..) {
            free();
        }
    }
}

static NODES: LazyLock<Countdown> = LazyLock::new(Countdown::new);

/// The type of values: an integer that is an entry of itself on every machine.
type Number = u16;
type Exclusive<S> = MapleTree<u32, Number, &'static Countdown, S>;
type Shared<S> = SyncMapleTree<u32, Number, AtTheEnd, &'static Countdown, spin::Mutex<()>, S>;
type Entry = (RangeInclusive<u32>, Number);

/// A store, or with number 0 an erasure.
#[derive(Clone, Copy, Debug)]
struct Op {
    first: u32,
    last: u32,
    number: Number,
}

impl Op {
    fn on(self, cells: &mut [Number], base: u32) {
        let (first, last) = ((self.first - base) as usize, (self.last - base) as usize);
        cells[first..=last].fill(self.number);
    }
}

/// Returns the entries of the cells. No number is stored twice, so adjacent parts of an entry are
/// one.
fn entries(cells: &[Number], base: u32) -> Vec<Entry> {
    let mut all: Vec<Entry> = Vec::new();
    for (key, &number) in (base..=u32::MAX).zip(cells) {
        match all.last_mut() {
            Some((range, same)) if *same == number && *range.end() + 1 == key => {
                *range = *range.start()..=key;
            }
            _ if number > 0 => all.push((key..=key, number)),
            _ => {}
        }
    }
    all
}

fn shared<S: Shape>(tree: &Shared<S>, op: Op) -> bool {
    let range = op.first..=op.last;
    let mut writer = tree.write();
    if op.number == 0 {
        match writer.erase_range_splitting(range, |_, v| Some(v)) {
            Ok(()) => true,
            Err(EraseError::Alloc) => false,
            Err(error) => panic!("{error:?}"),
        }
    } else {
        match writer.store_range_splitting(range, op.number, |_, v| Some(v)) {
            Ok(()) => true,
            Err(StoreError::Alloc(_)) => false,
            Err(error) => panic!("{error:?}"),
        }
    }
}

fn exclusive<S: Shape>(tree: &mut Exclusive<S>, op: Op) -> bool {
    let range = op.first..=op.last;
    if op.number == 0 {
        match tree.erase_range_splitting(range, |_, v| Some(v)) {
            Ok(()) => true,
            Err(EraseError::Alloc) => false,
            Err(error) => panic!("{error:?}"),
        }
    } else {
        match tree.store_range_splitting(range, op.number, |_, v| Some(v)) {
            Ok(()) => true,
            Err(StoreError::Alloc(_)) => false,
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// A history on `n` cells: ascending, descending or anywhere, with more or less erasing after it.
fn history(seed: u64, base: u32, n: u32) -> Vec<Op> {
    let mut rng = Rng(seed);
    let mut below = |n: u32| rng.below(n as usize) as u32;
    let mut ops = Vec::new();
    let order = below(3);
    let width = 1 + below(3);
    let mut number = 0;
    for i in 0..n / width {
        let at = match order {
            0 => i * width,
            1 => n - (i + 1) * width,
            _ => below(n - width),
        };
        number += 1;
        ops.push(Op {
            first: base + at,
            last: base + at + below(width),
            number,
        });
    }
    for _ in 0..below(n) {
        let first = below(n);
        let last = (first + below(4)).min(n - 1);
        number += 1;
        ops.push(Op {
            first: base + first,
            last: base + last,
            number: if below(3) == 0 { number } else { 0 },
        });
    }
    ops
}

/// Every operation on `n` cells after a history, between two steps of readers that stand everywhere.
fn try_all<S: Shape>(seed: u64, base: u32, n: u32, gaps: bool) {
    let before = history(seed, base, n);
    let mut cells = vec![0; n as usize];
    before.iter().for_each(|op| op.on(&mut cells, base));
    let old = entries(&cells, base);
    let new = || {
        let tree: Shared<S> = if gaps {
            SyncMapleTree::with_gaps_in(AtTheEnd::default(), &*NODES)
        } else {
            SyncMapleTree::new_in(AtTheEnd::default(), &*NODES)
        };
        assert!(before.iter().all(|&op| shared(&tree, op)));
        tree
    };
    for first in base..=base + (n - 1) {
        for last in first..=base + (n - 1) {
            for number in [0, 1000] {
                let op = Op {
                    first,
                    last,
                    number,
                };
                let say = || format!("seed {seed} at {base}, gaps {gaps}: {before:?}, then {op:?}");
                let mut cells = cells.clone();
                op.on(&mut cells, base);
                let expected = entries(&cells, base);

                let tree = new();
                {
                    let reader = tree.read();
                    let mut fronts: Vec<_> = (0..=old.len()).map(|_| reader.iter()).collect();
                    let mut backs: Vec<_> = (0..=old.len()).map(|_| reader.iter().rev()).collect();
                    let mut cursors: Vec<_> =
                        (0..old.len()).map(|_| reader.cursor(base..=base)).collect();
                    for (i, cursor) in cursors.iter_mut().enumerate() {
                        for _ in 0..=i / 2 {
                            assert!(cursor.find(..).is_some());
                        }
                    }
                    for i in 0..=old.len() {
                        assert!(fronts[i].by_ref().take(i).eq(old[..i].iter().cloned()));
                        assert!(
                            backs[i]
                                .by_ref()
                                .take(i)
                                .eq(old.iter().rev().take(i).cloned())
                        );
                    }
                    NODES.insist(
                        || shared(&tree, op),
                        || assert!(reader.iter().eq(old.iter().cloned()), "{}", say()),
                    );
                    for (i, front) in fronts.into_iter().enumerate() {
                        let lo = if i == 0 {
                            0
                        } else {
                            u64::from(*old[i - 1].0.end()) + 1
                        };
                        let left: Vec<_> = expected
                            .iter()
                            .filter(|e| u64::from(*e.0.end()) >= lo)
                            .cloned()
                            .collect();
                        assert_eq!(front.collect::<Vec<_>>(), left, "{i} steps; {}", say());
                    }
                    for (i, back) in backs.into_iter().enumerate() {
                        let hi = if i == 0 {
                            i64::MAX
                        } else {
                            i64::from(*old[old.len() - i].0.start()) - 1
                        };
                        let left: Vec<_> = expected
                            .iter()
                            .rev()
                            .filter(|e| i64::from(*e.0.start()) <= hi)
                            .cloned()
                            .collect();
                        assert_eq!(back.collect::<Vec<_>>(), left, "{i} steps back; {}", say());
                    }
                    for (i, mut cursor) in cursors.into_iter().enumerate() {
                        let at = &old[i / 2].0;
                        if i % 2 == 0 {
                            let next = expected.iter().find(|e| e.0.end() > at.end());
                            let next = next.map(|e| e.1);
                            assert_eq!(cursor.find(..), next, "cursor {i}; {}", say());
                        } else {
                            let mut back = expected.iter().rev();
                            let before = back.find(|e| e.0.start() < at.start());
                            let before = before.map(|e| e.1);
                            assert_eq!(cursor.find_rev(..), before, "cursor {i}; {}", say());
                        }
                    }
                    let damage = tree.write().check().err().map(|damage| damage.to_string());
                    assert_eq!(damage, None, "{}", say());
                    for (key, &cell) in (base..=u32::MAX).zip(&cells) {
                        assert_eq!(reader.get(key).unwrap_or(0), cell, "{}", say());
                    }
                }
                drop(tree);
                assert_eq!(NODES.live(), 0, "nodes leak: {}", say());

                let mut tree: Exclusive<S> = if gaps {
                    MapleTree::with_gaps_in(&*NODES)
                } else {
                    MapleTree::new_in(&*NODES)
                };
                assert!(before.iter().all(|&op| exclusive(&mut tree, op)));
                let live = NODES.live();
                let tree = RefCell::new(tree);
                NODES.insist(
                    || exclusive(&mut tree.borrow_mut(), op),
                    || {
                        assert_eq!(NODES.live(), live, "nodes kept: {}", say());
                        assert!(tree.borrow().iter().eq(old.iter().cloned()), "{}", say());
                    },
                );
                let tree = tree.into_inner();
                let damage = tree.check().err().map(|damage| damage.to_string());
                assert_eq!(damage, None, "exclusive; {}", say());
                assert!(
                    tree.iter().eq(expected.iter().cloned()),
                    "exclusive; {}",
                    say()
                );
                drop(tree);
                assert_eq!(NODES.live(), 0, "nodes leak: {}", say());
            }
        }
    }
}

/// Returns the number of histories, and the number of cells of the longest ones.
fn sizes() -> (u64, u32) {
    let seeds = std::env::var("SAMARA_SEEDS")
        .ok()
        .and_then(|n| n.parse().ok());
    match seeds {
        Some(seeds) => (seeds, 24),
        None if cfg!(miri) => (1, 7),
        None if cfg!(sanitized) => (4, 16),
        None => (12, 20),
    }
}

/// One test, since the nodes are counted in one place.
#[test]
fn a_write_between_two_steps() {
    let (seeds, n) = sizes();
    for seed in 1..=seeds {
        for gaps in [false, true] {
            let base = if seed % 2 == 0 { 0 } else { u32::MAX - (n - 1) };
            try_all::<Fanout<4>>(seed, base, n, gaps);
            if cfg!(miri) {
                continue;
            }
            try_all::<Fanout<5>>(seed + 1000, base, n, gaps);
            try_all::<Fanout<6>>(seed + 2000, base, n, gaps);
        }
    }
}

/// Tells when it is dropped.
struct Telling(Arc<AtomicBool>);

impl Drop for Telling {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn view_for_a_while<R: Reclaim + Send + Sync + 'static>(reclaim: R) {
    let dropped = Arc::new(AtomicBool::new(false));
    let tree: SyncMapleTree<u32, Box<Telling>, R> = SyncMapleTree::new(reclaim);
    let value = Box::new(Telling(dropped.clone()));
    tree.insert_range(0..10, value).ok().unwrap();
    let viewed = AtomicBool::new(false);
    thread::scope(|s| {
        s.spawn(|| {
            let reader = tree.read();
            let view = reader.get(4);
            assert!(view.is_some());
            viewed.store(true, Ordering::Release);
            for _ in 0..if cfg!(miri) { 50 } else { 20_000 } {
                thread::yield_now();
                assert!(!dropped.load(Ordering::Relaxed), "dropped beside a reader");
            }
        });
        while !viewed.load(Ordering::Acquire) {
            thread::yield_now();
        }
        // Twice, since what the first retires may be dropped by the second.
        tree.erase_range(0..10).unwrap();
        let value = Box::new(Telling(Arc::default()));
        tree.store_range(0..10, value).ok().unwrap();
    });
    drop(tree);
    assert!(dropped.load(Ordering::Relaxed));
}

/// A value is not dropped while a reader views it, however long the reader stays.
#[test]
fn what_a_reader_views_stays() {
    view_for_a_while(Waiting::new());
    #[cfg(feature = "rcu")]
    view_for_a_while(maple_tree::UserRcu::new());
}

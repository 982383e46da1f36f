//! Readers and one writer on real threads, over each way of reclaiming. Each entry's value tells its range and the time of the
//! write that stored it; readers check every answer against that.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU64, Ordering};
use std::thread;

use crate::support::Rng;
use maple_tree::alloc::{Counted, Global};
use maple_tree::{Fanout, Native, Reclaim, Shape, SyncMapleTree, Waiting};

const WRITES: u64 = if cfg!(miri) {
    25
} else if cfg!(sanitized) {
    250
} else {
    1_000
};
const CELLS: u64 = if cfg!(miri) { 24 } else { 200 };

type Tree<R, S> = SyncMapleTree<u64, Box<Stored>, R, Arc<Counted<Global>>, spin::Mutex<()>, S>;

static ALIVE: AtomicIsize = AtomicIsize::new(0);

/// A value that tells whether it has been dropped.
struct Stored {
    /// The range that it was stored at; what is left of it is within.
    range: RangeInclusive<u64>,
    /// When: counts the writes.
    time: u64,
    alive: u64,
}

const YES: u64 = 0x600d_600d_600d_600d;

impl Stored {
    fn new(range: RangeInclusive<u64>, time: u64) -> Box<Self> {
        ALIVE.fetch_add(1, Ordering::Relaxed);
        Box::new(Self {
            range,
            time,
            alive: YES,
        })
    }
}

impl Drop for Stored {
    fn drop(&mut self) {
        self.alive = 0;
        ALIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Checks the promises about each answer.
fn check(range: &RangeInclusive<u64>, value: &Stored, now: u64) {
    assert_eq!(value.alive, YES, "a dropped value was read");
    assert!(value.time <= now, "a value from the future");
    assert!(
        value.range.start() <= range.start() && range.end() <= value.range.end(),
        "torn: {range:?} of what was stored at {:?}",
        value.range
    );
}

fn run<R: Reclaim + Send + Sync + 'static, S: Shape>(reclaim: R, gaps: bool, seed: u64) {
    let nodes = Arc::new(Counted::new(Global));
    {
        let tree: Tree<R, S> = if gaps {
            SyncMapleTree::with_gaps_in(reclaim, nodes.clone())
        } else {
            SyncMapleTree::new_in(reclaim, nodes.clone())
        };
        // Cells below 8 are always covered by some entry.
        tree.write()
            .store_range(0..8, Stored::new(0..=7, 0))
            .unwrap();
        let clock = AtomicU64::new(0);
        let over = AtomicBool::new(false);
        thread::scope(|s| {
            for n in 0..2 {
                let (tree, clock, over) = (&tree, &clock, &over);
                s.spawn(move || {
                    let mut rng = Rng(seed + 100 + n);
                    while !over.load(Ordering::Relaxed) {
                        read(tree, clock, &mut rng);
                    }
                });
            }
            let mut rng = Rng(seed);
            for time in 1..=WRITES {
                let mut writer = tree.write();
                clock.store(time, Ordering::SeqCst);
                let first = rng.below(CELLS as usize) as u64;
                let width = if rng.below(12) == 0 {
                    rng.below(60)
                } else {
                    rng.below(5)
                } as u64;
                let last = (first + width).min(CELLS - 1);
                let range = first..=last;
                match rng.below(10) {
                    // What is always covered is replaced, never erased.
                    0..=1 => {
                        let last = first.min(7);
                        let first = rng.below(last as usize + 1) as u64;
                        let value = Stored::new(first..=last, time);
                        writer
                            .store_range_splitting(first..=last, value, |r, _| {
                                Some(Stored::new(r, time))
                            })
                            .unwrap();
                    }
                    2..=5 => {
                        let value = Stored::new(range.clone(), time);
                        writer
                            .store_range_splitting(range, value, |r, _| Some(Stored::new(r, time)))
                            .unwrap();
                    }
                    6 => drop(writer.insert_range(range.clone(), Stored::new(range, time))),
                    7 => drop(writer.replace(
                        first,
                        // Ranges that it is stored at are within all.
                        Stored::new(0..=CELLS, time),
                    )),
                    _ if first >= 8 => {
                        writer
                            .erase_range_splitting(range, |r, _| Some(Stored::new(r, time)))
                            .unwrap();
                    }
                    _ => {}
                }
                if time % 25 == 0 {
                    writer.check().unwrap();
                }
                if time % 500 == 0 {
                    writer.erase_range(8..).unwrap_or(());
                }
            }
            over.store(true, Ordering::Relaxed);
        });
    }
    let _ = nodes;
}

fn read<R, S>(tree: &Tree<R, S>, clock: &AtomicU64, rng: &mut Rng)
where
    R: Reclaim,
    S: Shape,
{
    let reader = tree.read();
    for _ in 0..8 {
        let key = rng.below(CELLS as usize) as u64;
        if let Some((range, value)) = reader.get_range(key) {
            assert!(range.contains(&key));
            check(&range, value, clock.load(Ordering::SeqCst));
        } else {
            assert!(key >= 8, "a hole where there is always an entry");
        }
        assert!(
            reader.contains(key % 8),
            "a hole where there is always an entry"
        );
    }
    // Forwards: in order, and the first 8 cells without a hole.
    let mut covered = 0;
    let mut last: Option<u64> = None;
    for (range, value) in reader.iter() {
        check(&range, value, clock.load(Ordering::SeqCst));
        assert!(last.is_none_or(|last| last < *range.end()), "out of order");
        if covered < 8 {
            assert!(*range.start() <= covered, "a hole at {covered}");
            covered = range.end() + 1;
        }
        last = Some(*range.end());
    }
    assert!(covered >= 8);
    let mut first: Option<u64> = None;
    for (range, value) in reader.range(..CELLS).rev() {
        check(&range, value, clock.load(Ordering::SeqCst));
        assert!(
            first.is_none_or(|first| *range.start() < first),
            "out of order"
        );
        first = Some(*range.start());
    }
    assert_eq!(first, Some(0));
}

/// One test, since it counts values: they are all dropped in the end.
#[test]
fn readers_beside_a_writer() {
    run::<_, Native>(Waiting::new(), true, 1);
    run::<_, Fanout<4>>(Waiting::new(), false, 2);
    run::<_, Fanout<4>>(Waiting::new(), true, 3);
    assert_eq!(ALIVE.load(Ordering::Relaxed), 0);
    #[cfg(feature = "rcu")]
    {
        run::<_, Native>(maple_tree::UserRcu::new(), true, 6);
        run::<_, Fanout<4>>(maple_tree::UserRcu::new(), false, 7);
        assert_eq!(ALIVE.load(Ordering::Relaxed), 0);
    }
    #[cfg(feature = "epoch")]
    {
        run::<_, Native>(maple_tree::Epoch, false, 4);
        run::<_, Fanout<4>>(maple_tree::Epoch, true, 5);
        // What is left in the epochs' bags goes when other threads come by.
        for _ in 0..10_000 {
            if ALIVE.load(Ordering::Relaxed) == 0 {
                break;
            }
            crossbeam_epoch::pin().flush();
        }
        assert_eq!(ALIVE.load(Ordering::Relaxed), 0);
    }
}

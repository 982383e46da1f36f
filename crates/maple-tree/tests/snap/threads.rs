//! Threads that write snapshots of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};

use maple_tree::alloc::{Counted, Global};
use maple_tree::{CowMapleTree, Fanout};

use crate::support::Rng;

struct Shared(Arc<AtomicIsize>, u32);

impl Shared {
    fn new(count: &Arc<AtomicIsize>, value: u32) -> Arc<Self> {
        count.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self(count.clone(), value))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Each thread writes a snapshot of its own, reads one that all share, takes snapshots of it, and drops those of others.
#[test]
fn sides_are_written_and_read_at_once() {
    const CELLS: usize = if cfg!(miri) { 30 } else { 600 };
    let steps = if cfg!(miri) { 12 } else { 4000 };
    let count = Arc::new(AtomicIsize::new(0));
    let nodes = Arc::new(Counted::new(Global));
    {
        type Map = CowMapleTree<u64, Arc<Shared>, Arc<Counted<Global>>, Fanout<6>>;
        let mut base: Map = CowMapleTree::with_gaps_in(nodes.clone());
        for i in 0..CELLS as u64 / 2 {
            base.insert_range(2 * i..2 * i + 1 + i % 2, Shared::new(&count, i as u32))
                .unwrap();
        }
        let passed = std::sync::Mutex::new(Vec::<(Map, Vec<Option<u32>>)>::new());
        let read = |map: &Map| -> Vec<Option<u32>> {
            (0..CELLS as u64)
                .map(|key| map.get(key).map(|value| value.1))
                .collect()
        };
        let original = read(&base);
        std::thread::scope(|scope| {
            for thread in 0..3u64 {
                let (base, passed, count, original) = (&base, &passed, &count, &original);
                scope.spawn(move || {
                    let mut rng = Rng(thread);
                    let mut mine = base.snapshot();
                    let mut model = original.clone();
                    for step in 0..steps {
                        let first = rng.below(CELLS);
                        let last = (first + rng.below(9)).min(CELLS - 1);
                        let range = first as u64..=last as u64;
                        let value = (rng.below(2) == 0).then(|| step as u32 + 10_000);
                        match value {
                            Some(value) => {
                                mine.store_range(range, Shared::new(count, value)).unwrap();
                            }
                            None => mine.erase_range(range).unwrap(),
                        }
                        model[first..=last].fill(value);
                        match rng.below(12) {
                            0 => passed
                                .lock()
                                .unwrap()
                                .push((mine.snapshot(), model.clone())),
                            1 => {
                                let other = passed.lock().unwrap().pop();
                                if let Some((other, expected)) = other {
                                    assert_eq!(read(&other), expected);
                                    (mine, model) = (other, expected);
                                }
                            }
                            2 => assert_eq!(read(&base.snapshot()), *original),
                            3 => assert_eq!(read(&mine), model),
                            4 if step % 64 == 0 => (mine, model) = (base.clone(), original.clone()),
                            _ => {}
                        }
                    }
                    mine.check().unwrap();
                });
            }
        });
        let mut passed = passed.into_inner().unwrap();
        for (map, expected) in &passed {
            assert_eq!(read(map), *expected);
        }
        passed.truncate(5);
        let mut family: Vec<_> = passed.iter().map(|p| &p.0).collect();
        family.push(&base);
        CowMapleTree::check_family(&family).unwrap();
    }
    assert_eq!(nodes.live(), 0, "nodes leaked");
    assert_eq!(count.load(Ordering::Relaxed), 0, "values leaked");
}

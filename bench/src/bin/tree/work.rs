//! One subject's time for one operation.

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use samara_bench::peers::{
    Btree, Cow, Im, Iset, Item, Kind, Maple, Nodit, OneByOne, RangeMap, Rangemap, Rcu, SortedVec,
};
use samara_bench::{Random, Ranges};

/// The entries of a row, and what each run does with them.
pub(crate) struct Data {
    pub(crate) ranges: Ranges,
    /// Which calls of an operation to make about, so that a run is long enough to be timed.
    calls: usize,
}

/// The order of one run: drawn anew each time, the same for all subjects.
pub(crate) struct Order {
    pub(crate) shuffled: Vec<Item>,
    pub(crate) keys: Vec<u64>,
    overwrites: Vec<Item>,
}

impl Data {
    pub(crate) fn new(n: u64, calls: usize) -> Self {
        Self {
            ranges: Ranges::new(n, &mut Random::new(n)),
            calls,
        }
    }

    pub(crate) fn order(&self, kind: Kind, run: u32) -> Order {
        let mut random = Random::new(u64::from(run) + 1);
        let mut order = Order {
            shuffled: Vec::new(),
            keys: Vec::new(),
            overwrites: Vec::new(),
        };
        match kind {
            Kind::Get | Kind::GetMany => order.keys = self.ranges.hits(self.calls, &mut random),
            Kind::Miss => order.keys = self.ranges.misses(self.calls, &mut random),
            Kind::GapUp(_) | Kind::GapDown(_) => {
                order.keys = self.ranges.anywhere(self.calls, &mut random);
            }
            Kind::Overwrite => {
                let count = self.ranges.items.len() / 4;
                order.overwrites = self.ranges.overwrites(count.max(1), &mut random);
            }
            Kind::Insert | Kind::Erase | Kind::Replace | Kind::Pair | Kind::Versions => {
                order.shuffled = self.ranges.shuffled(&mut random);
            }
            Kind::Iterate
            | Kind::Append
            | Kind::Descend
            | Kind::SplitHalf
            | Kind::SplitAllButTen
            | Kind::AppendOne
            | Kind::FromSorted
            | Kind::Duplicate
            | Kind::Renew
            | Kind::Destroy
            | Kind::Snapshot => {}
        }
        order
    }

    /// Returns the number of repetitions of work that takes `each` calls.
    pub(crate) fn repeats(&self, each: usize) -> usize {
        (self.calls / each.max(1)).max(1)
    }
}

/// A subject that keeps its map from run to run, where the operation leaves it as it was.
pub(crate) trait Subject {
    fn name(&self) -> &'static str;
    /// Nanoseconds a call.
    fn run(&mut self, data: &Data, order: &Order) -> f64;
}

struct Of<M> {
    kind: Kind,
    map: Option<M>,
}

/// The subjects among all peers that offer an operation and pass the filter, ours first.
pub(crate) fn subjects(kind: Kind, wanted: &dyn Fn(&str) -> bool) -> Vec<Box<dyn Subject>> {
    let mut found: Vec<Box<dyn Subject>> = Vec::new();
    fn consider<M: RangeMap + 'static>(
        kind: Kind,
        wanted: &dyn Fn(&str) -> bool,
        found: &mut Vec<Box<dyn Subject>>,
    ) {
        if M::offers(kind) && (M::MOVES_PARTS || !kind.moves_parts()) && wanted(M::NAME) {
            found.push(Box::new(Of::<M> { kind, map: None }));
        }
    }
    // What readers may look on at is compared by itself.
    if kind == Kind::Pair {
        consider::<Rcu>(kind, wanted, &mut found);
    }
    consider::<Cow>(kind, wanted, &mut found);
    consider::<Maple>(kind, wanted, &mut found);
    consider::<Btree>(kind, wanted, &mut found);
    consider::<SortedVec>(kind, wanted, &mut found);
    consider::<Rangemap>(kind, wanted, &mut found);
    consider::<Nodit>(kind, wanted, &mut found);
    consider::<Iset>(kind, wanted, &mut found);
    consider::<Im>(kind, wanted, &mut found);
    consider::<OneByOne>(kind, wanted, &mut found);
    found
}

fn filled<M: RangeMap>(items: &[Item]) -> M {
    let mut map = M::default();
    items.iter().for_each(|&item| map.insert(item));
    map
}

/// The entries of all copies that exist at a time. They fit into the first-level cache, as if a
/// copy is used right after it is made. Copies are dropped outside of the measured time, and their
/// memory is used again.
pub(crate) const IN_CACHE: usize = 536;

/// Nanoseconds that looking at the clock takes, the least of many.
fn clock() -> f64 {
    static CLOCK: OnceLock<f64> = OnceLock::new();
    *CLOCK.get_or_init(|| {
        (0..1000)
            .map(|_| {
                let start = Instant::now();
                start.elapsed().as_nanos() as f64
            })
            .fold(f64::MAX, f64::min)
    })
}

/// All, or as many as tell the time of a call in a map of millions.
fn some(items: &[Item]) -> &[Item] {
    const ENOUGH: usize = 200_000;
    &items[..items.len().min(ENOUGH)]
}

/// Processor time of this thread, which does not go on while others have the processor.
fn processor_time() -> Option<Duration> {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .ok()
        .map(Duration::from)
}

/// Nanoseconds a call of work that takes a while: the scheduler may well interrupt it.
pub(crate) fn per(count: usize, work: impl FnOnce()) -> f64 {
    let before = processor_time();
    let wall = on_the_wall(work);
    let time = match (before, processor_time()) {
        (Some(before), Some(after)) => wall.min((after - before).as_nanos() as f64),
        _ => wall,
    };
    time / count.max(1) as f64
}

/// Nanoseconds of short work, by a clock that is cheap to look at.
fn on_the_wall(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos() as f64
}

/// By whichever suits maps of `n` entries that are made or dropped.
pub(crate) fn whole(n: usize, work: impl FnOnce()) -> f64 {
    if n > 2_000 {
        per(1, work)
    } else {
        (on_the_wall(work) - clock()).max(0.0)
    }
}

/// The time of `work` on a new map each time, which is dropped outside of the time before the next is made: small ones find
/// their memory in the cache.
fn one_after_another<M>(
    repeats: usize,
    calls: usize,
    new: impl Fn() -> M,
    work: impl Fn(&mut M),
) -> f64 {
    let mut time = 0.0;
    for _ in 0..repeats {
        let mut map = new();
        time += whole(calls, || work(&mut map));
        drop(black_box(map));
    }
    time / (repeats * calls) as f64
}

/// Returns the minimum time of one call over several, since a call is short compared with the
/// clock's and the scheduler's noise. Its maps are made before and dropped after it.
fn one_call<M, T>(new: impl Fn() -> M, work: impl Fn(&mut M) -> T) -> f64 {
    const CALLS: usize = 5;
    let times = (0..CALLS).map(|_| {
        let mut map = new();
        let mut made = None;
        let time = whole(0, || made = Some(work(&mut map)));
        drop(black_box((map, made)));
        time
    });
    times.fold(f64::MAX, f64::min)
}

impl<M: RangeMap> Subject for Of<M> {
    fn name(&self) -> &'static str {
        M::NAME
    }

    fn run(&mut self, data: &Data, order: &Order) -> f64 {
        let items = &data.ranges.items;
        let n = items.len();
        let keys = &order.keys;
        match self.kind {
            Kind::Append => {
                return one_after_another(data.repeats(n), n, M::default, |map| {
                    items.iter().for_each(|&item| map.insert(item));
                });
            }
            Kind::Descend => {
                return one_after_another(data.repeats(n), n, M::default, |map| {
                    items.iter().rev().for_each(|&item| map.insert(item));
                });
            }
            Kind::SplitHalf | Kind::SplitAllButTen => {
                let at = if self.kind == Kind::SplitHalf {
                    n / 2
                } else {
                    10
                };
                let key = items[at.min(n - 1)].0;
                return one_call(|| filled(items), |map: &mut M| Some(map.split_off(key)));
            }
            Kind::AppendOne => {
                let (most, last) = items.split_at(n - 1);
                return one_call(
                    || (filled::<M>(most), filled::<M>(last)),
                    |(map, other)| {
                        map.append(other);
                        None::<M>
                    },
                );
            }
            Kind::FromSorted => {
                return one_after_another(data.repeats(n), n, M::default, |map| {
                    *map = M::from_sorted(items);
                });
            }
            Kind::Insert => {
                return one_after_another(data.repeats(n), n, M::default, |map| {
                    order.shuffled.iter().for_each(|&item| map.insert(item));
                });
            }
            Kind::Erase => {
                return one_after_another(
                    data.repeats(n),
                    n,
                    || filled(items),
                    |map: &mut M| {
                        order.shuffled.iter().for_each(|&item| map.remove(item));
                    },
                );
            }
            Kind::Overwrite => {
                let mut map: M = filled(items);
                return per(order.overwrites.len(), || {
                    for &item in &order.overwrites {
                        map.overwrite(item);
                    }
                });
            }
            _ => {}
        }
        // The others leave the map as it was.
        let map = self.map.get_or_insert_with(|| filled(items));
        match self.kind {
            Kind::Get | Kind::Miss => per(keys.len(), || {
                let sum = keys.iter().fold(0_u64, |sum, &key| {
                    sum.wrapping_add(map.get(key).map_or(1, u64::from))
                });
                black_box(sum);
            }),
            Kind::GetMany => {
                let (keys, _) = keys.as_chunks::<16>();
                per(keys.len() * 16, || {
                    let sum = keys
                        .iter()
                        .fold(0_u64, |sum, keys| sum.wrapping_add(map.get_many(keys)));
                    black_box(sum);
                })
            }
            Kind::GapUp(size) => per(keys.len(), || {
                let sum = keys.iter().fold(0_u64, |sum, &key| {
                    sum.wrapping_add(map.gap_up(key, size).unwrap_or(1))
                });
                black_box(sum);
            }),
            Kind::GapDown(size) => per(keys.len(), || {
                let sum = keys.iter().fold(0_u64, |sum, &key| {
                    sum.wrapping_add(map.gap_down(key, size).unwrap_or(1))
                });
                black_box(sum);
            }),
            Kind::Iterate => {
                let repeats = data.repeats(n);
                per(n * repeats, || {
                    for _ in 0..repeats {
                        black_box(black_box(&*map).sum());
                    }
                })
            }
            Kind::Replace => {
                let repeats = data.repeats(n);
                let replaced = some(&order.shuffled);
                per(replaced.len() * repeats, || {
                    for _ in 0..repeats {
                        replaced.iter().for_each(|&item| map.replace(item));
                    }
                })
            }
            Kind::Pair => {
                let paired = some(&order.shuffled);
                per(paired.len(), || {
                    for &item in paired {
                        map.remove(item);
                        map.insert(item);
                    }
                })
            }
            Kind::Snapshot => {
                const BATCH: usize = 100;
                let repeats = data.repeats(BATCH);
                let mut copies: Vec<M> = Vec::with_capacity(BATCH);
                let mut time = 0.0;
                for _ in 0..repeats {
                    time += whole(0, || copies.extend((0..BATCH).map(|_| map.duplicate())));
                    copies.clear();
                }
                time / (repeats * BATCH) as f64
            }
            Kind::Versions => {
                let stored = some(&order.shuffled);
                per(stored.len(), || {
                    for &item in stored {
                        let snapshot = map.duplicate();
                        map.replace(item);
                        drop(snapshot);
                    }
                })
            }
            Kind::Duplicate | Kind::Renew | Kind::Destroy => {
                let batch = (IN_CACHE / n).max(1);
                let batches = data.repeats(n * batch);
                let mut copies: Vec<M> = Vec::with_capacity(batch);
                let mut making = 0.0;
                let mut dropping = 0.0;
                for _ in 0..batches {
                    making += whole(n, || {
                        for _ in 0..batch {
                            copies.push(match self.kind {
                                Kind::Renew => map.renewed(),
                                _ => map.duplicate(),
                            });
                        }
                    });
                    dropping += whole(n, || copies.clear());
                }
                let time = match self.kind {
                    Kind::Destroy => dropping,
                    _ => making,
                };
                time / (batches * batch) as f64
            }
            _ => 0.0,
        }
    }
}

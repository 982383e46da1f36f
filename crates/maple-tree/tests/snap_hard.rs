//! Hard conditions for maps that share nodes: values that panic when they are dropped or
//! duplicated, or that drop other maps of the family during the call; keys at the ends of the key
//! space; small stacks; many threads.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod support;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use maple_tree::alloc::{Counted, Global, SharedPool};

use maple_tree::{CowMapleTree, Fanout, MapleTree, Native, SharedAlloc};
use support::Index;
use support::ticks::{panicking_after, survives, tick};

thread_local! {
    /// Values that have been made and not dropped.
    static LIVE: RefCell<BTreeSet<u64>> = const { RefCell::new(BTreeSet::new()) };
    static NEXT: Cell<u64> = const { Cell::new(0) };
    /// Dropped when a value is made once more.
    static DOOMED: RefCell<Vec<Map>> = const { RefCell::new(Vec::new()) };
    static NODES: Arc<Counted<Global>> = Arc::new(Counted::new(Global));
}

struct Bomb {
    id: u64,
    number: u32,
}

impl Bomb {
    fn new(number: u32) -> Box<Self> {
        Box::new(Self::of(number))
    }

    fn of(number: u32) -> Self {
        NEXT.set(NEXT.get() + 1);
        let id = NEXT.get();
        LIVE.with_borrow_mut(|live| live.insert(id));
        Self { id, number }
    }
}

impl Clone for Bomb {
    fn clone(&self) -> Self {
        tick();
        drop(DOOMED.take());
        Self::of(self.number)
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        if !LIVE.with_borrow_mut(|live| live.remove(&self.id)) {
            eprintln!("{} was dropped twice", self.number);
            std::process::abort();
        }
        tick();
    }
}

type Map = CowMapleTree<u32, Box<Bomb>, Arc<Counted<Global>>, Fanout<4>>;

fn live() -> usize {
    LIVE.with_borrow(BTreeSet::len)
}

/// Entries at 10..=15, 20..=25 … 390..=395; under Miri those at which the steps below begin and end, and some others.
fn filled() -> Map {
    let mut map = Map::with_gaps_in(NODES.with(Arc::clone));
    for i in 1..40 {
        if cfg!(miri) && ![1, 4, 10, 15, 20, 25, 30, 33, 36, 39].contains(&i) {
            continue;
        }
        map.insert_range(i * 10..=i * 10 + 5, Bomb::new(i)).unwrap();
    }
    map
}

fn content(map: &Map) -> Vec<(RangeInclusive<u32>, u32)> {
    for (_, bomb) in map {
        assert!(LIVE.with_borrow(|live| live.contains(&bomb.id)));
    }
    map.iter()
        .map(|(range, bomb)| (range, bomb.number))
        .collect()
}

/// The number of calls before the panic: none, one, two …; under Miri none and two.
fn counts(most: usize) -> impl Iterator<Item = usize> {
    let (most, step) = if cfg!(miri) { (3, 2) } else { (most, 1) };
    (0..most).step_by(step)
}

type Step = fn(Map) -> Option<Map>;

fn steps() -> Vec<(&'static str, Step)> {
    vec![
        ("store over many", |mut map| {
            let _ = map.store_range(33..=333, Bomb::new(1000));
            Some(map)
        }),
        ("store over one", |mut map| {
            let _ = map.store_range(100..=105, Bomb::new(1000));
            Some(map)
        }),
        ("store that splits", |mut map| {
            let _ = map.store_range(102..=103, Bomb::new(1000));
            Some(map)
        }),
        ("store that splits, by a closure", |mut map| {
            let _ = map.store_range_splitting(102..=103, Bomb::new(1000), |_, bomb| {
                tick();
                Some(Bomb::new(bomb.number))
            });
            Some(map)
        }),
        ("insert", |mut map| {
            let _ = map.insert_range(106..=107, Bomb::new(1000));
            Some(map)
        }),
        ("insert where something is", |mut map| {
            let _ = map.insert_range(100..=107, Bomb::new(1000));
            Some(map)
        }),
        ("erase many", |mut map| {
            let _ = map.erase_range(33..=333);
            Some(map)
        }),
        ("erase all", |mut map| {
            let _ = map.erase_range(..);
            Some(map)
        }),
        ("remove", |mut map| {
            let _ = map.remove(200);
            Some(map)
        }),
        ("replace", |mut map| {
            let _ = map.replace(200, Bomb::new(1000));
            Some(map)
        }),
        ("change", |mut map| {
            if let Ok(Some(bomb)) = map.get_mut(200) {
                bomb.number = 1000;
            }
            Some(map)
        }),
        ("clear", |mut map| {
            map.clear();
            Some(map)
        }),
        ("drop", |map| {
            drop(map);
            None
        }),
        ("convert", |map| {
            let own = map.into_exclusive().ok()?;
            own.check().unwrap();
            CowMapleTree::from_exclusive(own).ok()
        }),
    ]
}

/// Every call of `drop` and `clone` in a write panics once: with a snapshot that stays, with one
/// that is dropped when the first value is duplicated, and without. Nothing is dropped twice, the
/// other maps stay valid, and nothing is lost except what the call was given.
#[test]
fn a_panic_at_each_value_leaves_all_maps_whole() {
    let nodes = NODES.with(Arc::clone);
    for (i, (name, step)) in steps().into_iter().enumerate() {
        // Each step in one of the modes under Miri.
        let (skip, by) = if cfg!(miri) { (i % 4, 4) } else { (0, 1) };
        for mode in (skip..4).step_by(by) {
            for quiet in counts(400) {
                let map = filled();
                let before = content(&map);
                let other = (mode > 0).then(|| map.snapshot());
                if mode == 2 {
                    DOOMED.with_borrow_mut(|doomed| doomed.push(map.snapshot()));
                }
                if mode == 3 {
                    // The only other one is dropped during the call.
                    DOOMED.with_borrow_mut(|doomed| doomed.extend(other));
                    let kept = RefCell::new(None);
                    let survived = survives(quiet, || *kept.borrow_mut() = step(map));
                    drop(DOOMED.take());
                    if let Some(map) = &*kept.borrow() {
                        CowMapleTree::check_family(&[map]).unwrap();
                        content(map);
                    }
                    drop(kept);
                    assert_eq!((live(), nodes.live()), (0, 0), "{name}, {mode}, {quiet}");
                    if survived && quiet > 0 {
                        break;
                    }
                    continue;
                }
                let done = panicking_after(quiet, || step(map));
                drop(DOOMED.take());
                let survived = done.is_some();
                let left = done.flatten();
                if let Some(other) = &other {
                    assert_eq!(content(other), before, "{name}, {mode}, {quiet}");
                    let mut family = vec![other];
                    family.extend(&left);
                    CowMapleTree::check_family(&family).unwrap();
                }
                if let Some(left) = &left {
                    left.check().unwrap();
                    content(left);
                }
                drop((left, other));
                assert_eq!((live(), nodes.live()), (0, 0), "{name}, {mode}, {quiet}");
                if survived {
                    break;
                }
            }
        }
    }
}

/// A value whose duplication drops the only other map that led to the leaf, and values whose drop panics then: the tree does not lead to that leaf
/// any more.
#[test]
fn a_conversion_leads_to_nothing_that_it_gives_up() {
    for quiet in counts(90) {
        let map = filled();
        let entries = map.len();
        DOOMED.with_borrow_mut(|doomed| doomed.push(map.snapshot()));
        let done = panicking_after(quiet, || map.into_exclusive());
        drop(DOOMED.take());
        if let Some(Ok(own)) = &done {
            own.check().unwrap();
            assert_eq!(own.len(), entries);
        }
        drop(done);
        assert_eq!((live(), NODES.with(|n| n.live())), (0, 0), "{quiet}");
    }
}

/// Both maps show the same, and what is at the ends of the key space; under Miri after some of the changes, others for each width of the keys.
fn ends<K: Index>() {
    let mut tried = 0;
    let max = K::MAX;
    let almost = max.predecessor().unwrap();
    let ranges = [
        (K::MIN, max),
        (K::MIN, K::MIN),
        (max, max),
        (K::MIN, almost),
        (K::ONE, max),
        (almost, max),
        (K::ONE, almost),
        (K::MIN, K::ONE),
    ];
    for (i, &(a, b)) in ranges.iter().enumerate() {
        for &(c, d) in &ranges {
            for erase in [false, true] {
                tried += 1;
                if cfg!(miri) && tried % 9 != size_of::<K>() / 4 {
                    continue;
                }
                let mut cow: CowMapleTree<K, u16, Global, Native> = CowMapleTree::with_gaps();
                let mut own: MapleTree<K, u16> = MapleTree::with_gaps();
                cow.store_range(a..=b, i as u16).unwrap();
                own.store_range(a..=b, i as u16).unwrap();
                let before = cow.snapshot();
                if erase {
                    cow.erase_range(c..=d).unwrap();
                    own.erase_range_splitting(c..=d, |_, v| Some(v)).unwrap();
                } else {
                    cow.store_range(c..=d, 99).unwrap();
                    own.store_range_splitting(c..=d, 99, |_, v| Some(v))
                        .unwrap();
                }
                CowMapleTree::check_family(&[&cow, &before]).unwrap();
                assert_eq!(before.iter().collect::<Vec<_>>(), [(a..=b, i as u16)]);
                assert!(cow.iter().eq(own.iter()));
                for size in [K::MIN, K::ONE, almost, max].map(K::number) {
                    assert_eq!(cow.gap_up(.., size), own.gap_up(.., size));
                    assert_eq!(cow.gap_down(.., size), own.gap_down(.., size));
                    assert_eq!(cow.gap_up(K::ONE.., size), own.gap_up(K::ONE.., size));
                }
                assert_eq!(cow.remove(max).unwrap(), own.remove(max).unwrap());
                assert_eq!(cow.remove(K::MIN).unwrap(), own.remove(K::MIN).unwrap());
                assert!(cow.iter().eq(own.iter()));
                CowMapleTree::check_family(&[&cow, &before]).unwrap();
                let back = cow.into_exclusive().unwrap();
                back.check().unwrap();
                assert!(back.iter().eq(own.iter()));
                CowMapleTree::from_exclusive(back).unwrap().check().unwrap();
            }
        }
    }
}

#[test]
fn the_ends_of_every_key_space() {
    ends::<u32>();
    ends::<u64>();
    ends::<usize>();
    ends::<u128>();
}

/// Two hundred thousand entries in nodes of four slots, on a small stack.
#[test]
fn high_trees_need_little_stack() {
    let n = if cfg!(miri) { 100 } else { 200_000 };
    // A write takes the path at most four times; nothing recurses deeper than the tree is high.
    let stack = if cfg!(miri) { 1 << 20 } else { 48 << 10 };
    let work = move || {
        let mut map: CowMapleTree<u128, u16, Global, Fanout<4>> =
            CowMapleTree::with_gaps_in(Global);
        for i in 0..n {
            map.insert_range(i * 3..i * 3 + 2, i as u16).unwrap();
        }
        assert!(map.height() >= if cfg!(miri) { 4 } else { 9 });
        let before = map.snapshot();
        map.erase_range(50..n).unwrap();
        map.store_range(n + n / 2..2 * n, 7).unwrap();
        CowMapleTree::check_family(&[&map, &before]).unwrap();
        assert_eq!(before.len(), n as usize);
        let own = before.into_exclusive().unwrap();
        let again = CowMapleTree::from_exclusive(own).unwrap().snapshot();
        assert_eq!(again.len(), n as usize);
    };
    let thread = std::thread::Builder::new().stack_size(stack).spawn(work);
    thread.unwrap().join().unwrap();
}

struct Alive(Arc<AtomicIsize>, u32);

impl Alive {
    fn new(count: &Arc<AtomicIsize>, number: u32) -> Box<Self> {
        count.fetch_add(1, Ordering::Relaxed);
        Box::new(Self(count.clone(), number))
    }
}

impl Clone for Alive {
    fn clone(&self) -> Self {
        *Self::new(&self.0, self.1)
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Threads that take snapshots of one map and of each other's, write them, and drop what they are sent, all at once.
fn crowd<A: SharedAlloc + Send + Sync + 'static>(alloc: A) {
    let (threads, steps, cells) = if cfg!(miri) {
        (3, 8, 24)
    } else {
        (8, 1500, 400)
    };
    type Sent<A> = (CowMapleTree<u64, Box<Alive>, A, Fanout<4>>, u64);
    let count = Arc::new(AtomicIsize::new(0));
    let mut base: CowMapleTree<u64, Box<Alive>, A, Fanout<4>> = CowMapleTree::with_gaps_in(alloc);
    for i in 0..cells {
        base.insert(i * 2, Alive::new(&count, i as u32)).unwrap();
    }
    // The sum of a map shows if another map's write has changed it.
    let sum = |map: &CowMapleTree<u64, Box<Alive>, A, Fanout<4>>| -> u64 {
        map.values().map(|alive| u64::from(alive.1)).sum()
    };
    let whole = sum(&base);
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..threads)
        .map(|_| mpsc::channel::<Sent<A>>())
        .map(|(sender, receiver)| (sender, Mutex::new(receiver)))
        .unzip();
    std::thread::scope(|scope| {
        for t in 0..threads {
            let (base, count, senders, receivers) = (&base, &count, senders.clone(), &receivers);
            scope.spawn(move || {
                let mut x = 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(t as u64 + 1);
                let mut mine = base.snapshot();
                let mut held: Vec<Sent<A>> = Vec::new();
                for step in 0..steps {
                    x ^= x << 13;
                    x ^= x >> 7;
                    x ^= x << 17;
                    let key = (x >> 20) % (cells * 2);
                    let now = sum(&mine);
                    match x % 7 {
                        0..3 => {
                            let old: u64 = mine
                                .range(key..=key + 6)
                                .map(|(_, alive)| u64::from(alive.1))
                                .sum();
                            mine.store_range(key..=key + 6, Alive::new(count, step))
                                .unwrap();
                            let new = now - old + u64::from(step);
                            // Entries that reach out of the range stay in part.
                            assert!(sum(&mine) >= new);
                        }
                        3 => mine.erase_range(key..=key + 3).unwrap(),
                        4 => {
                            let to = (x >> 40) as usize % threads;
                            let _ = senders[to].send((mine.snapshot(), now));
                        }
                        5 => {
                            if let Ok(sent) = receivers[t].lock().unwrap().try_recv() {
                                assert_eq!(sum(&sent.0), sent.1);
                                held.push(sent);
                            }
                        }
                        _ if held.len() > 4 => {
                            let (map, sum_then) = held.swap_remove(0);
                            assert_eq!(sum(&map), sum_then);
                            mine = map;
                        }
                        _ => {
                            mine = base.snapshot();
                            assert_eq!(sum(&mine), whole);
                        }
                    }
                }
                mine.check().unwrap();
            });
        }
    });
    drop((senders, receivers));
    CowMapleTree::check_family(&[&base]).unwrap();
    assert_eq!(base.sharing().shared, 0);
    assert_eq!(count.load(Ordering::Relaxed), base.len() as isize);
    drop(base);
    assert_eq!(count.load(Ordering::Relaxed), 0, "values leaked");
}

#[test]
fn a_crowd_with_counted_nodes() {
    let nodes = Arc::new(Counted::new(Global));
    crowd(nodes.clone());
    assert_eq!(nodes.live(), 0, "nodes leaked");
}

#[test]
fn a_crowd_with_a_pool() {
    crowd(SharedPool::new());
    // As a kernel would have it: one pool for all, which no handle counts.
    static POOL: SharedPool = SharedPool::new();
    crowd(&POOL);
}

/// Handles to one pool: the nodes of a map that has gone are there as long as another leads to them.
#[test]
fn a_pool_outlives_the_map_that_it_was_made_for() {
    let slabs = Counted::new(Global);
    {
        type Pooled<'a> = CowMapleTree<u64, u16, SharedPool<&'a Counted<Global>>>;
        let mut map = Pooled::new_in(SharedPool::new_in(&slabs));
        let empty = map.snapshot();
        for i in 0..500 {
            map.insert(i, i as u16).unwrap();
        }
        let mut other = map.snapshot();
        drop(map);
        other.store_range(100..300, 7).unwrap();
        assert_eq!(other.len(), 301);
        // That one has a pool of its own.
        let mut apart = empty.snapshot();
        apart.insert(1, 1).unwrap();
        drop(empty);
        let own = other.snapshot().into_exclusive().unwrap();
        drop(other);
        assert_eq!((own.len(), apart.len()), (301, 1));
        own.check().unwrap();
    }
    assert_eq!(slabs.live(), 0);
}

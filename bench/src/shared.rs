//! One face over every map that several threads use at once.

use std::collections::BTreeMap;
use std::ops::Bound;

use arc_swap::ArcSwap;
use crossbeam_skiplist::SkipMap;
use im::OrdMap;
use maple_tree::alloc::SharedPool;
use maple_tree::{Epoch, MapleTree, Reclaim, SyncMapleTree, UserRcu, Waiting};
use parking_lot::{Mutex, RwLock};
use samara_bench_data::Item;
use scc::{Guard, TreeIndex};

/// A map from ranges, read by many threads and written by one.
pub trait SharedMap: Sync {
    /// As the tables print it.
    const NAME: &'static str;
    /// A map with these ranges.
    fn filled(items: &[Item]) -> Self;
    /// The value at a point; every call enters and leaves as a reader.
    fn get(&self, key: u64) -> Option<u32>;
    /// Erases an entry and stores it again.
    fn pair(&self, item: Item);
}

/// `SyncMapleTree` with gap tracking, over a way of reclaiming.
pub struct MapleOver<R>(SyncMapleTree<u64, u32, R>)
where
    R: Reclaim;

/// RCU in user space.
pub type MapleShared = MapleOver<UserRcu>;
/// Writers that wait for readers, which is what a map has that says nothing else.
pub type MapleWaiting = MapleOver<Waiting>;
/// The epochs of `crossbeam-epoch`, which `crossbeam-skiplist` uses, too.
pub type MapleEpoch = MapleOver<Epoch>;

/// A way of reclaiming.
pub trait Reclaimed: Reclaim + Default + Send + Sync {
    /// As the tables print the map with it.
    const NAME: &'static str;
}

impl Reclaimed for UserRcu {
    const NAME: &'static str = "maple-tree";
}

impl Reclaimed for Waiting {
    const NAME: &'static str = "maple-tree, waiting";
}

impl Reclaimed for Epoch {
    const NAME: &'static str = "maple-tree, epochs";
}

impl<R: Reclaimed> MapleOver<R> {
    /// As [`pair`](SharedMap::pair), while this thread reads.
    pub fn pair_while_reading(&self, items: &[Item]) {
        let _reader = self.0.read();
        items.iter().for_each(|&item| self.pair(item));
    }

    /// Reads `entries` entries, from `from` on, in one section of a reader. Returns the sum of their values.
    pub fn scan(&self, from: u64, entries: usize) -> u64 {
        let reader = self.0.read();
        let values = reader.range(from..).map(|(_, value)| u64::from(value));
        values.take(entries).fold(0, u64::wrapping_add)
    }
}

impl<R: Reclaimed> SharedMap for MapleOver<R> {
    const NAME: &'static str = R::NAME;

    fn filled(items: &[Item]) -> Self {
        let mut map = MapleTree::with_gaps_in(SharedPool::new());
        for &(first, end, value) in items {
            let _ = map.insert_range(first..end, value);
        }
        Self(SyncMapleTree::from_exclusive(map, R::default()))
    }

    fn get(&self, key: u64) -> Option<u32> {
        self.0.read().get(key)
    }

    fn pair(&self, (first, end, value): Item) {
        let mut writer = self.0.write();
        let _ = writer.remove(first);
        let _ = writer.store_range(first..end, value);
    }
}

/// A `BTreeMap` behind `parking_lot`'s lock for many readers or one writer.
pub struct Locked(RwLock<BTreeMap<u64, (u64, u32)>>);

impl SharedMap for Locked {
    const NAME: &'static str = "RwLock<BTreeMap>";

    fn filled(items: &[Item]) -> Self {
        Self(RwLock::new(
            items.iter().map(|&(f, e, v)| (f, (e, v))).collect(),
        ))
    }

    fn get(&self, key: u64) -> Option<u32> {
        let map = self.0.read();
        let (_, &(end, value)) = map.range(..=key).next_back()?;
        (key < end).then_some(value)
    }

    fn pair(&self, (first, end, value): Item) {
        self.0.write().remove(&first);
        self.0.write().insert(first, (end, value));
    }
}

/// `crossbeam_skiplist::SkipMap`.
pub struct Skip(SkipMap<u64, (u64, u32)>);

impl SharedMap for Skip {
    const NAME: &'static str = "crossbeam-skiplist";

    fn filled(items: &[Item]) -> Self {
        let map = SkipMap::new();
        for &(first, end, value) in items {
            map.insert(first, (end, value));
        }
        Self(map)
    }

    fn get(&self, key: u64) -> Option<u32> {
        let entry = self.0.upper_bound(Bound::Included(&key))?;
        let &(end, value) = entry.value();
        (key < end).then_some(value)
    }

    fn pair(&self, (first, end, value): Item) {
        self.0.remove(&first);
        self.0.insert(first, (end, value));
    }
}

/// `scc::TreeIndex`, by last index: what covers a point is the first entry from there on.
pub struct Scc(TreeIndex<u64, (u64, u32)>);

impl SharedMap for Scc {
    const NAME: &'static str = "scc";

    fn filled(items: &[Item]) -> Self {
        let map = TreeIndex::new();
        for &(first, end, value) in items {
            let _ = map.insert_sync(end - 1, (first, value));
        }
        Self(map)
    }

    fn get(&self, key: u64) -> Option<u32> {
        let guard = Guard::new();
        let (_, &(first, value)) = self.0.range(key.., &guard).next()?;
        (first <= key).then_some(value)
    }

    fn pair(&self, (first, end, value): Item) {
        self.0.remove_sync(&(end - 1));
        let _ = self.0.insert_sync(end - 1, (first, value));
    }
}

/// A persistent map that is replaced as a whole, by `arc-swap`.
pub struct Swapped {
    current: ArcSwap<OrdMap<u64, (u64, u32)>>,
    writer: Mutex<()>,
}

impl SharedMap for Swapped {
    const NAME: &'static str = "arc-swap over im";

    fn filled(items: &[Item]) -> Self {
        let map: OrdMap<_, _> = items.iter().map(|&(f, e, v)| (f, (e, v))).collect();
        Self {
            current: ArcSwap::from_pointee(map),
            writer: Mutex::new(()),
        }
    }

    fn get(&self, key: u64) -> Option<u32> {
        let map = self.current.load();
        let (_, &(end, value)) = map.get_prev(&key)?;
        (key < end).then_some(value)
    }

    fn pair(&self, (first, end, value): Item) {
        let _writer = self.writer.lock();
        let mut map = OrdMap::clone(&self.current.load());
        map.remove(&first);
        self.current.store(map.clone().into());
        map.insert(first, (end, value));
        self.current.store(map.into());
    }
}

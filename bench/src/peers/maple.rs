//! Ours.

use maple_tree::{CowMapleTree, MapleTree, SyncMapleTree, Waiting};

use super::{Item, Kind, RangeMap};

type Tree = MapleTree<u64, u32>;

/// `maple_tree::MapleTree` with gap tracking, as an address space uses it.
pub struct Maple(Tree);

impl Default for Maple {
    fn default() -> Self {
        Self(Tree::with_gaps())
    }
}

impl Maple {
    /// Out of the map itself.
    pub fn into_inner(self) -> MapleTree<u64, u32> {
        self.0
    }
}

impl RangeMap for Maple {
    const NAME: &'static str = "maple-tree";
    const MOVES_PARTS: bool = true;

    fn offers(kind: Kind) -> bool {
        !matches!(kind, Kind::Snapshot | Kind::Versions)
    }

    fn insert(&mut self, (first, end, value): Item) {
        let _ = self.0.insert_range(first..end, value);
    }

    fn get(&self, key: u64) -> Option<u32> {
        self.0.get(key)
    }

    fn remove(&mut self, item: Item) {
        let _ = self.0.remove(item.0);
    }

    fn replace(&mut self, (first, end, value): Item) {
        let _ = self.0.store_range(first..end, value);
    }

    fn overwrite(&mut self, (first, end, value): Item) {
        let _ = self
            .0
            .store_range_splitting(first..end, value, |_, value| Some(value));
    }

    fn sum(&self) -> u64 {
        self.0.iter().fold(0, |sum, (range, value)| {
            sum.wrapping_add(range.start() + u64::from(value))
        })
    }

    fn duplicate(&self) -> Self {
        Self(self.0.clone())
    }

    fn renewed(&self) -> Self {
        Self(
            self.0
                .try_clone_with(|_, value| Ok(Some(value ^ 1)))
                .unwrap_or_default(),
        )
    }

    fn get_many(&self, keys: &[u64; 16]) -> u64 {
        self.0
            .get_many(*keys)
            .into_iter()
            .fold(0, |sum, value| sum.wrapping_add(value.map_or(1, u64::from)))
    }

    fn split_off(&mut self, key: u64) -> Self {
        self.0.split_off(key).map(Self).unwrap_or_default()
    }

    fn append(&mut self, other: &mut Self) {
        let _ = self.0.append(&mut other.0);
    }

    fn from_sorted(items: &[Item]) -> Self {
        let mut map = Self::default();
        let entries = items.iter().map(|&(first, end, value)| (first..end, value));
        let _ = map.0.try_extend(entries);
        map
    }

    fn gap_up(&self, from: u64, size: u64) -> Option<u64> {
        self.0.gap_up(from.., size)
    }

    fn gap_down(&self, to: u64, size: u64) -> Option<u64> {
        self.0.gap_down(..to, size)
    }
}

/// Duplication in the way that was Linux's before it had one call for it: nodes set aside for all entries, then
/// each entry stored by itself.
#[derive(Default)]
pub struct OneByOne(Maple);

impl RangeMap for OneByOne {
    const NAME: &'static str = "one insertion an entry";

    fn offers(kind: Kind) -> bool {
        kind == Kind::Duplicate
    }

    fn insert(&mut self, item: Item) {
        self.0.insert(item);
    }

    fn get(&self, key: u64) -> Option<u32> {
        self.0.get(key)
    }

    fn remove(&mut self, item: Item) {
        self.0.remove(item);
    }

    fn replace(&mut self, item: Item) {
        self.0.replace(item);
    }

    fn sum(&self) -> u64 {
        self.0.sum()
    }

    fn duplicate(&self) -> Self {
        let mut copy = Tree::with_gaps();
        let mut cursor = copy.cursor_mut(0..=0);
        let _ = cursor.expected_entries(self.0.0.len());
        for (range, value) in &self.0.0 {
            cursor.set_range(range);
            let _ = cursor.store(value);
        }
        drop(cursor);
        Self(Maple(copy))
    }
}

/// `maple_tree::SyncMapleTree`: every change is made so that readers may look on, though there are none.
pub struct Rcu(SyncMapleTree<u64, u32, Waiting>);

impl Default for Rcu {
    fn default() -> Self {
        Self(SyncMapleTree::with_gaps(Waiting::new()))
    }
}

impl RangeMap for Rcu {
    const NAME: &'static str = "maple-tree, RCU";

    fn offers(kind: Kind) -> bool {
        matches!(kind, Kind::Get | Kind::Iterate | Kind::Pair)
    }

    fn insert(&mut self, (first, end, value): Item) {
        let _ = self.0.write().insert_range(first..end, value);
    }

    fn get(&self, key: u64) -> Option<u32> {
        self.0.read().get(key)
    }

    fn remove(&mut self, item: Item) {
        let _ = self.0.write().remove(item.0);
    }

    fn replace(&mut self, (first, end, value): Item) {
        let _ = self.0.write().store_range(first..end, value);
    }

    fn sum(&self) -> u64 {
        self.0.read().iter().fold(0, |sum, (range, value)| {
            sum.wrapping_add(range.start() + u64::from(value))
        })
    }

    fn duplicate(&self) -> Self {
        Self::default()
    }
}

/// `maple_tree::CowMapleTree`: copies share their nodes until one is written.
pub struct Cow(CowMapleTree<u64, u32>);

impl Default for Cow {
    fn default() -> Self {
        Self(CowMapleTree::with_gaps())
    }
}

impl RangeMap for Cow {
    const NAME: &'static str = "maple-tree, snapshots";

    fn offers(kind: Kind) -> bool {
        matches!(kind, Kind::Snapshot | Kind::Versions)
    }

    fn insert(&mut self, (first, end, value): Item) {
        let _ = self.0.insert_range(first..end, value);
    }

    fn get(&self, key: u64) -> Option<u32> {
        self.0.get(key)
    }

    fn remove(&mut self, item: Item) {
        let _ = self.0.remove(item.0);
    }

    fn replace(&mut self, (first, end, value): Item) {
        let _ = self.0.store_range(first..end, value);
    }

    fn sum(&self) -> u64 {
        self.0.iter().fold(0, |sum, (range, value)| {
            sum.wrapping_add(range.start() + u64::from(value))
        })
    }

    fn duplicate(&self) -> Self {
        Self(self.0.snapshot())
    }
}

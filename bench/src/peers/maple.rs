//! Ours.

use maple_tree::MapleTree;

use super::{Item, RangeMap};

/// `maple_tree::MapleTree` with gap tracking, as an address space uses it.
pub struct Maple(MapleTree<u64, u32>);

impl Default for Maple {
    fn default() -> Self {
        Self(MapleTree::with_gaps())
    }
}

impl RangeMap for Maple {
    const NAME: &'static str = "maple-tree";
    const CAN_FIND_GAPS: bool = true;

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
        // The closure cannot fail, and nodes are there for the asking in a benchmark.
        Self(
            self.0
                .try_clone_with(|_, value| Ok::<_, ()>(Some(value)))
                .unwrap_or_default(),
        )
    }

    fn gap_up(&self, from: u64, size: u64) -> Option<u64> {
        self.0.gap_up(from.., size)
    }

    fn gap_down(&self, to: u64, size: u64) -> Option<u64> {
        self.0.gap_down(..to, size)
    }
}

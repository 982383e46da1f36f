//! The `rangemap` crate.

use rangemap::RangeMap as Inner;

use super::{Item, Kind, RangeMap};

/// `rangemap::RangeMap`, which joins equal neighbours by itself.
#[derive(Default, Clone)]
pub struct Rangemap(Inner<u64, u32>);

impl RangeMap for Rangemap {
    const NAME: &'static str = "rangemap";

    fn offers(kind: Kind) -> bool {
        !matches!(
            kind,
            Kind::GapUp(_) | Kind::GapDown(_) | Kind::Renew | Kind::Snapshot | Kind::Versions
        )
    }

    fn insert(&mut self, (first, end, value): Item) {
        self.0.insert(first..end, value);
    }

    fn get(&self, key: u64) -> Option<u32> {
        self.0.get(&key).copied()
    }

    fn remove(&mut self, (first, end, _): Item) {
        self.0.remove(first..end);
    }

    fn replace(&mut self, item: Item) {
        self.insert(item);
    }

    fn overwrite(&mut self, item: Item) {
        self.insert(item);
    }

    fn sum(&self) -> u64 {
        self.0.iter().fold(0, |sum, (range, value)| {
            sum.wrapping_add(range.start + u64::from(*value))
        })
    }

    fn duplicate(&self) -> Self {
        self.clone()
    }

    fn from_sorted(items: &[Item]) -> Self {
        Self(
            items
                .iter()
                .map(|&(first, end, value)| (first..end, value))
                .collect(),
        )
    }
}

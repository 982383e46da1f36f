//! The `iset` crate: an interval tree in one array, which also allows ranges that overlap.

use iset::IntervalMap;

use super::{Item, Kind, RangeMap};

/// `iset::IntervalMap`.
#[derive(Default, Clone)]
pub struct Iset(IntervalMap<u64, u32>);

impl RangeMap for Iset {
    const NAME: &'static str = "iset";

    fn offers(kind: Kind) -> bool {
        !matches!(
            kind,
            Kind::FromSorted
                | Kind::Overwrite
                | Kind::GapUp(_)
                | Kind::GapDown(_)
                | Kind::Renew
                | Kind::Snapshot
                | Kind::Versions
        )
    }

    fn insert(&mut self, (first, end, value): Item) {
        self.0.insert(first..end, value);
    }

    fn get(&self, key: u64) -> Option<u32> {
        self.0.values_overlap(key).next().copied()
    }

    fn remove(&mut self, (first, end, _): Item) {
        self.0.remove(first..end);
    }

    fn replace(&mut self, item: Item) {
        self.insert(item);
    }

    fn sum(&self) -> u64 {
        self.0.iter(..).fold(0, |sum, (range, value)| {
            sum.wrapping_add(range.start + u64::from(*value))
        })
    }

    fn duplicate(&self) -> Self {
        self.clone()
    }
}

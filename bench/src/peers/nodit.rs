//! The `nodit` crate.

use nodit::interval::ie;
use nodit::{Interval, NoditMap};

use super::{Item, Kind, RangeMap};

/// `nodit::NoditMap`.
#[derive(Default, Clone)]
pub struct Nodit(NoditMap<u64, Interval<u64>, u32>);

impl RangeMap for Nodit {
    const NAME: &'static str = "nodit";

    fn offers(kind: Kind) -> bool {
        !matches!(
            kind,
            Kind::FromSorted
                | Kind::GapUp(_)
                | Kind::GapDown(_)
                | Kind::Renew
                | Kind::Snapshot
                | Kind::Versions
        )
    }

    fn insert(&mut self, (first, end, value): Item) {
        let _ = self.0.insert_strict(ie(first, end), value);
    }

    fn get(&self, key: u64) -> Option<u32> {
        self.0.get_at_point(&key).copied()
    }

    fn remove(&mut self, (first, end, _): Item) {
        let _ = self.0.cut(&ie(first, end));
    }

    fn replace(&mut self, item: Item) {
        self.overwrite(item);
    }

    fn overwrite(&mut self, (first, end, value): Item) {
        let _ = self.0.insert_overwrite(ie(first, end), value);
    }

    fn sum(&self) -> u64 {
        self.0.iter().fold(0, |sum, (range, value)| {
            sum.wrapping_add(range.start() + u64::from(*value))
        })
    }

    fn duplicate(&self) -> Self {
        self.clone()
    }
}

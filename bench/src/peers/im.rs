//! The `im` crate: a persistent map, whose copy shares everything.

use im::OrdMap;

use super::{Item, Kind, RangeMap};

/// First index to (end, value) in an `im::OrdMap`.
#[derive(Default, Clone)]
pub struct Im(OrdMap<u64, (u64, u32)>);

impl RangeMap for Im {
    const NAME: &'static str = "im";

    fn offers(kind: Kind) -> bool {
        // Its copies share all: they are snapshots, and are compared as such.
        !matches!(
            kind,
            Kind::Overwrite | Kind::GapUp(_) | Kind::GapDown(_) | Kind::Duplicate | Kind::Destroy
        )
    }

    fn insert(&mut self, (first, end, value): Item) {
        self.0.insert(first, (end, value));
    }

    fn get(&self, key: u64) -> Option<u32> {
        let (_, &(end, value)) = self.0.get_prev(&key)?;
        (key < end).then_some(value)
    }

    fn remove(&mut self, item: Item) {
        self.0.remove(&item.0);
    }

    fn replace(&mut self, item: Item) {
        self.insert(item);
    }

    fn sum(&self) -> u64 {
        self.0.iter().fold(0, |sum, (first, (_, value))| {
            sum.wrapping_add(first + u64::from(*value))
        })
    }

    fn duplicate(&self) -> Self {
        self.clone()
    }

    fn renewed(&self) -> Self {
        Self(
            self.0
                .iter()
                .map(|(&first, &(end, value))| (first, (end, value ^ 1)))
                .collect(),
        )
    }

    fn from_sorted(items: &[Item]) -> Self {
        Self(
            items
                .iter()
                .map(|&(first, end, value)| (first, (end, value)))
                .collect(),
        )
    }
}

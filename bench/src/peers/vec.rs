//! A sorted vector with binary search: the least that a look-up can cost, and no writes.

use super::{Item, Kind, RangeMap};

/// First indices in one array, the rest in another.
#[derive(Default, Clone)]
pub struct SortedVec {
    firsts: Vec<u64>,
    rest: Vec<(u64, u32)>,
}

impl RangeMap for SortedVec {
    const NAME: &'static str = "sorted Vec";

    fn offers(kind: Kind) -> bool {
        matches!(
            kind,
            Kind::Get
                | Kind::GetMany
                | Kind::Miss
                | Kind::Iterate
                | Kind::Append
                | Kind::FromSorted
                | Kind::Duplicate
                | Kind::Destroy
        )
    }

    fn insert(&mut self, (first, end, value): Item) {
        self.firsts.push(first);
        self.rest.push((end, value));
    }

    fn get(&self, key: u64) -> Option<u32> {
        let i = self.firsts.partition_point(|&first| first <= key);
        let &(end, value) = self.rest.get(i.checked_sub(1)?)?;
        (key < end).then_some(value)
    }

    fn remove(&mut self, _item: Item) {}

    fn replace(&mut self, _item: Item) {}

    fn sum(&self) -> u64 {
        self.firsts
            .iter()
            .zip(&self.rest)
            .fold(0, |sum, (first, (_, value))| {
                sum.wrapping_add(first + u64::from(*value))
            })
    }

    fn duplicate(&self) -> Self {
        self.clone()
    }

    fn from_sorted(items: &[Item]) -> Self {
        Self {
            firsts: items.iter().map(|item| item.0).collect(),
            rest: items.iter().map(|item| (item.1, item.2)).collect(),
        }
    }
}

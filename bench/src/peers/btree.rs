//! The standard `BTreeMap` used as a range map: what most programs do today.

use std::collections::BTreeMap;

use super::{Item, Kind, RangeMap};

/// First index to (end, value).
#[derive(Default, Clone)]
pub struct Btree(BTreeMap<u64, (u64, u32)>);

impl RangeMap for Btree {
    const NAME: &'static str = "BTreeMap";
    const MOVES_PARTS: bool = true;

    fn offers(kind: Kind) -> bool {
        !matches!(kind, Kind::Snapshot | Kind::Versions)
    }

    fn insert(&mut self, (first, end, value): Item) {
        self.0.insert(first, (end, value));
    }

    fn get(&self, key: u64) -> Option<u32> {
        let (_, &(end, value)) = self.0.range(..=key).next_back()?;
        (key < end).then_some(value)
    }

    fn remove(&mut self, item: Item) {
        self.0.remove(&item.0);
    }

    fn replace(&mut self, (first, end, value): Item) {
        self.0.insert(first, (end, value));
    }

    fn overwrite(&mut self, (first, end, value): Item) {
        // The one before may reach in, and even beyond.
        if let Some((&f, &(e, v))) = self.0.range(..first).next_back()
            && e > first
        {
            self.0.insert(f, (first, v));
            if e > end {
                self.0.insert(end, (e, v));
            }
        }
        while let Some((&f, &(e, v))) = self.0.range(first..end).next() {
            self.0.remove(&f);
            if e > end {
                self.0.insert(end, (e, v));
            }
        }
        self.0.insert(first, (end, value));
    }

    fn sum(&self) -> u64 {
        self.0.iter().fold(0, |sum, (first, (_, value))| {
            sum.wrapping_add(first + u64::from(*value))
        })
    }

    fn duplicate(&self) -> Self {
        self.clone()
    }

    fn gap_up(&self, from: u64, size: u64) -> Option<u64> {
        let mut at = match self.0.range(..=from).next_back() {
            Some((_, &(end, _))) => from.max(end),
            None => from,
        };
        for (&first, &(end, _)) in self.0.range(at..) {
            if first - at >= size {
                break;
            }
            at = end;
        }
        Some(at)
    }

    fn gap_down(&self, to: u64, size: u64) -> Option<u64> {
        let mut at = to;
        for (&first, &(end, _)) in self.0.range(..to).rev() {
            if end <= at && at - end >= size {
                return Some(at - size);
            }
            at = at.min(first);
        }
        at.checked_sub(size)
    }

    fn renewed(&self) -> Self {
        Self(
            self.0
                .iter()
                .map(|(&first, &(end, value))| (first, (end, value ^ 1)))
                .collect(),
        )
    }

    fn split_off(&mut self, key: u64) -> Self {
        Self(self.0.split_off(&key))
    }

    fn append(&mut self, other: &mut Self) {
        self.0.append(&mut other.0);
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

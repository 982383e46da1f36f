//! Ranges like those of an address space.

use crate::Random;

/// A range, `first..end`, and its value.
pub type Item = (u64, u64, u32);

/// The number of entries from one hole of more than 4,096 pages to the next.
const WIDE_HOLE_EVERY: u64 = 1000;

/// Ranges of 1 to 64 pages, half of them followed by a hole of 1 to 64 pages, in page numbers.
#[derive(Debug, Clone)]
pub struct Ranges {
    /// In ascending order.
    pub items: Vec<Item>,
    /// The first page of each hole, in ascending order.
    pub holes: Vec<u64>,
    /// The first page after all.
    pub end: u64,
}

impl Ranges {
    /// `n` ranges.
    pub fn new(n: u64, random: &mut Random) -> Self {
        let mut items = Vec::with_capacity(n as usize);
        let mut holes = Vec::new();
        let mut at = 1;
        for i in 0..n {
            let end = at + 1 + random.below(64);
            items.push((at, end, i as u32));
            at = end;
            let followed = random.below(2) == 0;
            let wide = i % WIDE_HOLE_EVERY == WIDE_HOLE_EVERY - 1;
            if followed || wide {
                holes.push(at);
            }
            if followed {
                at += 1 + random.below(64);
            }
            if wide {
                at += 4096 + random.below(64);
            }
        }
        if holes.is_empty() {
            holes.push(at);
        }
        Self {
            items,
            holes,
            end: at,
        }
    }

    /// The ranges in random order.
    pub fn shuffled(&self, random: &mut Random) -> Vec<Item> {
        let mut items = self.items.clone();
        random.shuffle(&mut items);
        items
    }

    /// `count` pages within ranges, uniformly over the ranges.
    pub fn hits(&self, count: usize, random: &mut Random) -> Vec<u64> {
        (0..count)
            .map(|_| {
                let (first, end, _) = self.items[random.below(self.items.len() as u64) as usize];
                first + random.below(end - first)
            })
            .collect()
    }

    /// `count` pages within holes, uniformly over the holes.
    pub fn misses(&self, count: usize, random: &mut Random) -> Vec<u64> {
        (0..count)
            .map(|_| self.holes[random.below(self.holes.len() as u64) as usize])
            .collect()
    }

    /// `count` pages anywhere.
    pub fn anywhere(&self, count: usize, random: &mut Random) -> Vec<u64> {
        (0..count).map(|_| random.below(self.end)).collect()
    }

    /// `count` ranges of about 1 to 8 entries (24 pages each, holes included), anywhere.
    pub fn overwrites(&self, count: usize, random: &mut Random) -> Vec<Item> {
        (0..count)
            .map(|i| {
                let first = random.below(self.end);
                let pages = 1 + random.below(384);
                (first, first + pages, i as u32)
            })
            .collect()
    }
}

//! A flat array that does what the tree should do, and the comparison of the two.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

pub mod any;
pub mod blocks;
pub mod counting;
pub mod index;
pub mod short;
pub mod ticks;

use maple_tree::alloc::NodeAlloc;
use maple_tree::{MapleTree, Shape};

pub use index::Index;

/// The type of values: a number that is stored in place.
#[cfg(target_pointer_width = "64")]
pub type Number = u32;
/// The type of values: a number that is stored in place.
#[cfg(not(target_pointer_width = "64"))]
pub type Number = u16;

/// The indices `base..base + cells.len()`, each with the number of the entry that covers it. Entries have
/// different numbers, so that where one ends and the next begins can be told.
#[derive(Clone, Debug)]
pub struct Model<K> {
    pub base: K,
    pub cells: Vec<Option<Number>>,
}

/// An entry or a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run<K> {
    pub first: K,
    pub last: K,
    pub value: Option<Number>,
}

pub fn add<K: Index>(base: K, mut n: usize) -> K {
    let (mut sum, mut power) = (base, K::ONE);
    while n > 0 {
        if n % 2 == 1 {
            sum = sum.wrapping_add(power);
        }
        power = power.wrapping_add(power);
        n /= 2;
    }
    sum
}

/// Returns the positions of multiples of `align` plus `offset` in each run of `align` indices. The
/// first run begins at the smallest index.
fn phase<K: Index>(align: K, offset: K) -> K {
    let zero = K::default();
    let before = zero.wrapping_sub(zero.align_down(align));
    let rest = align.wrapping_sub(before);
    if offset < rest {
        offset.wrapping_add(before)
    } else {
        offset.wrapping_sub(rest)
    }
}

impl<K: Index> Model<K> {
    pub fn new(base: K, n: usize) -> Self {
        Self {
            base,
            cells: vec![None; n],
        }
    }

    pub fn key(&self, i: usize) -> K {
        add(self.base, i)
    }

    pub fn store(&mut self, first: usize, last: usize, value: Option<Number>) {
        self.cells[first..=last].fill(value);
    }

    /// Returns `true` if the range is strictly within one entry.
    pub fn splits(&self, first: usize, last: usize) -> bool {
        let v = self.cells[first];
        v.is_some()
            && first > 0
            && last + 1 < self.cells.len()
            && self.cells[first - 1..=last + 1].iter().all(|&c| c == v)
    }

    /// Entries and holes of the whole key space.
    pub fn runs(&self) -> Vec<Run<K>> {
        let mut runs: Vec<Run<K>> = Vec::new();
        let mut put = |first: K, last: K, value: Option<Number>| match runs.last_mut() {
            Some(run) if run.value == value => run.last = last,
            _ => runs.push(Run { first, last, value }),
        };
        if self.base > K::MIN {
            put(K::MIN, self.base.wrapping_sub(K::ONE), None);
        }
        let mut key = self.base;
        for &cell in &self.cells {
            put(key, key, cell);
            key = key.wrapping_add(K::ONE);
        }
        // Zero: the cells reached to the largest key.
        if key > K::MIN {
            put(key, K::MAX, None);
        }
        runs
    }

    pub fn entries(&self) -> Vec<(std::ops::RangeInclusive<K>, Number)> {
        let runs = self.runs().into_iter();
        runs.filter_map(|r| r.value.map(|v| (r.first..=r.last, v)))
            .collect()
    }

    /// The lowest place for `size` indices within `lo..=hi`, aligned.
    pub fn gap_up(&self, lo: K, hi: K, size: K, align: K, offset: K) -> Option<K> {
        let offset = phase(align, offset);
        self.runs()
            .iter()
            .filter(|r| r.value.is_none())
            .find_map(|r| {
                let first = r.first.max(lo);
                let last = r.last.min(hi);
                if first > last {
                    return None;
                }
                // The first index not below `first` that is `offset` modulo `align`.
                let rest = first.wrapping_sub(first.align_down(align));
                let step = if rest <= offset {
                    offset.wrapping_sub(rest)
                } else {
                    align.wrapping_sub(rest).wrapping_add(offset)
                };
                let start = first.checked_add(step)?;
                let end = start.checked_add(size.wrapping_sub(K::ONE))?;
                (end <= last).then_some(start)
            })
    }

    /// The highest place for `size` indices within `lo..=hi`, aligned.
    pub fn gap_down(&self, lo: K, hi: K, size: K, align: K, offset: K) -> Option<K> {
        let offset = phase(align, offset);
        self.runs()
            .iter()
            .rev()
            .filter(|r| r.value.is_none())
            .find_map(|r| {
                let first = r.first.max(lo);
                let last = r.last.min(hi);
                if first > last {
                    return None;
                }
                let start = last.checked_sub(size.wrapping_sub(K::ONE))?;
                let rest = start.wrapping_sub(start.align_down(align));
                let step = if rest >= offset {
                    rest.wrapping_sub(offset)
                } else {
                    rest.wrapping_add(align).wrapping_sub(offset)
                };
                let start = start.checked_sub(step)?;
                (first <= start).then_some(start)
            })
    }
}

/// Compares structure and content, read in every way.
pub fn compare<K: Index, A: NodeAlloc, S: Shape>(
    model: &Model<K>,
    tree: &MapleTree<K, Number, A, S>,
    context: &dyn Fn() -> String,
) {
    if let Err(damage) = tree.check() {
        panic!("{damage}\n{}\n{tree}", context());
    }
    let entries = model.entries();
    let forwards: Vec<_> = tree.iter().collect();
    if forwards != entries {
        panic!(
            "model {entries:?}\n tree {forwards:?}\n{}\n{tree}",
            context()
        );
    }
    let mut backwards: Vec<_> = tree.iter().rev().collect();
    backwards.reverse();
    assert_eq!(backwards, entries, "{}", context());
    // Miri looks for what any cell may show.
    let step = if cfg!(miri) { 3 } else { 1 };
    for (i, &cell) in model.cells.iter().enumerate().step_by(step) {
        assert_eq!(tree.get(model.key(i)), cell, "{}", context());
    }
}

/// A small generator of random numbers: the same everywhere, for a given seed.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

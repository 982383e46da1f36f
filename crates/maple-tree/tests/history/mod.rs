//! Histories read from bytes, performed on a tree and on a list of its entries and holes, compared after each step. The test
//! `histories` and the fuzz targets share them.
//!
//! # Adding one
//!
//! A history is a function `play(bytes: &[u8])` that panics when tree and list differ, and leaves nothing behind:
//!
//! 1. `tests/history/NAME.rs` with `play`. It takes its choices from [`Bytes`], which gives zeroes
//!    when the input is used up, so that any input is a history. Its keys come from [`Bytes::key`]
//!    (near both ends and in the middle of the key space), and its nodes from a [`Countdown`]. Its
//!    values are [`Token`]s, which count how many live. A [`Model`] has the expected contents.
//! 2. A line in `tests/histories.rs`: it plays random bytes, and every file in `fuzz/corpus/NAME`, in the ordinary test run.
//!    `play` is for few types, which compile quickly; `play_any`, for the fuzz target, may be for more.
//! 3. `fuzz/fuzz_targets/NAME.rs` of seven lines, and its `[[bin]]` in `fuzz/Cargo.toml`. The fuzz tier runs whatever
//!    `cargo fuzz list` shows.
//! 4. `cargo +nightly fuzz run NAME -- -max_total_time=300`, then `cargo +nightly fuzz cmin NAME`, and commit the corpus.

#![allow(dead_code, unreachable_pub, reason = "each user takes its part")]

pub mod cursor;
#[path = "../support/index.rs"]
pub mod index;
pub mod map;
pub mod snap;
pub mod sync;

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use maple_tree::alloc::{Counted, Global, NodeAlloc};

use index::Index;

/// Choices from the bytes; zeroes when there are none left.
pub struct Bytes<'a>(pub std::slice::Iter<'a, u8>);

impl<'a> Bytes<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes.iter())
    }

    pub fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    pub fn byte(&mut self) -> u8 {
        self.0.next().copied().unwrap_or(0)
    }

    /// A key near one of the ends, or about `middle`.
    pub fn key<K: Index>(&mut self, middle: K) -> K {
        match self.byte() {
            n @ ..0xd0 => small(n),
            n @ 0xd0..0xe8 => middle.wrapping_add(small(n - 0xd0)),
            n => K::MAX.wrapping_sub(small(0xff - n)),
        }
    }

    /// Two keys in order, mostly near each other, so that trees have many entries.
    pub fn range<K: Index>(&mut self, middle: K) -> (K, K) {
        let first = self.key(middle);
        match self.byte() {
            n @ ..0xe0 => (first, first.checked_add(small(n % 8)).unwrap_or(K::MAX)),
            0xe0..0xf0 => {
                let other = self.key(middle);
                (first.min(other), first.max(other))
            }
            n => (first, first.checked_add(small(n - 0xe0)).unwrap_or(K::MAX)),
        }
    }

    pub fn small<K: Index>(&mut self, below: u8) -> K {
        small(self.byte() % below)
    }
}

/// A small number as a key.
pub fn small<K: Index>(n: u8) -> K {
    (0..8).rev().fold(K::MIN, |key, bit| {
        let twice = key.wrapping_add(key);
        if n >> bit & 1 == 1 {
            twice.wrapping_add(K::ONE)
        } else {
            twice
        }
    })
}

/// Refuses allocations after the next `left` ones; none, at `usize::MAX`.
pub struct Countdown {
    nodes: Counted<Global>,
    left: AtomicUsize,
}

pub type Nodes = Arc<Countdown>;

impl Countdown {
    pub fn new() -> Nodes {
        Arc::new(Self {
            nodes: Counted::new(Global),
            left: AtomicUsize::new(usize::MAX),
        })
    }

    pub fn allow(&self, left: usize) {
        self.left.store(left, Ordering::Relaxed);
    }

    /// Returns `true` if an allocation has been refused, or the next one would be.
    pub fn is_dry(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }

    pub fn live(&self) -> usize {
        self.nodes.live()
    }

    pub fn allocated(&self) -> usize {
        self.nodes.allocated()
    }
}

// SAFETY: passed on to an allocator that keeps the promises.
unsafe impl NodeAlloc for Countdown {
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
        match self.left.load(Ordering::Relaxed) {
            0 => return None,
            usize::MAX => {}
            n => self.left.store(n - 1, Ordering::Relaxed),
        }
        self.nodes.allocate(layout)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.nodes.deallocate(block, layout) }
    }
}

/// A number that counts how many of its kind live.
#[derive(Debug)]
pub struct Token {
    pub number: u32,
    live: Arc<AtomicUsize>,
}

/// Makes tokens, with a number of its own for each unless told otherwise.
#[derive(Default)]
pub struct Mint {
    next: u32,
    live: Arc<AtomicUsize>,
}

impl Mint {
    pub fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    /// Another that counts with this one.
    pub fn again(&self) -> Self {
        Self {
            next: self.next,
            live: self.live.clone(),
        }
    }

    pub fn copy(&self, number: u32) -> Token {
        self.live.fetch_add(1, Ordering::Relaxed);
        Token {
            number,
            live: self.live.clone(),
        }
    }

    pub fn live(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.live.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An entry or a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot<K> {
    pub first: K,
    pub last: K,
    pub number: Option<u32>,
}

/// Entries and holes of the whole key space, in order. No two holes are neighbours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model<K>(pub Vec<Slot<K>>);

impl<K: Index> Model<K> {
    pub fn new() -> Self {
        Self(vec![Slot {
            first: K::MIN,
            last: K::MAX,
            number: None,
        }])
    }

    pub fn at(&self, key: K) -> Slot<K> {
        self.0[self.0.partition_point(|slot| slot.last < key)]
    }

    pub fn entries(&self) -> impl DoubleEndedIterator<Item = Slot<K>> {
        self.0.iter().copied().filter(|slot| slot.number.is_some())
    }

    /// Entries that intersect a range.
    pub fn within(&self, first: K, last: K) -> Vec<Slot<K>> {
        self.entries()
            .filter(|slot| slot.first <= last && first <= slot.last)
            .collect()
    }

    /// Entries that a store over a range removes.
    pub fn covered(&self, first: K, last: K) -> Vec<Slot<K>> {
        self.entries()
            .filter(|slot| first <= slot.first && slot.last <= last)
            .collect()
    }

    /// Returns `true` if the range is strictly within one entry.
    pub fn splits(&self, first: K, last: K) -> bool {
        let slot = self.at(first);
        slot.number.is_some() && slot.first < first && last < slot.last
    }

    /// Returns `true` if no entry intersects the range.
    pub fn is_free(&self, first: K, last: K) -> bool {
        let slot = self.at(first);
        slot.number.is_none() && last <= slot.last
    }

    pub fn store(&mut self, first: K, last: K, number: Option<u32>) {
        let mut new: Vec<Slot<K>> = Vec::with_capacity(self.0.len() + 2);
        let mut push = |slot: Slot<K>| match new.last_mut() {
            Some(before) if before.number.is_none() && slot.number.is_none() => {
                before.last = slot.last;
            }
            _ => new.push(slot),
        };
        for &slot in &self.0 {
            if slot.first < first {
                push(Slot {
                    last: slot.last.min(first.wrapping_sub(K::ONE)),
                    ..slot
                });
            }
            if slot.first <= first && first <= slot.last {
                push(Slot {
                    first,
                    last,
                    number,
                });
            }
            if slot.last > last {
                push(Slot {
                    first: slot.first.max(last.wrapping_add(K::ONE)),
                    ..slot
                });
            }
        }
        self.0 = new;
    }

    /// The lowest (`up`) or highest place for `size` indices within `lo..=hi` that is `offset` modulo `align`: each start of each hole
    /// is looked at until one fits, as far as `align` reaches.
    pub fn gap(&self, (lo, hi): (K, K), size: K, align: K, offset: K, up: bool) -> Option<K> {
        if size == K::MIN || offset >= align {
            return None;
        }
        // The multiples of `align` are counted from 0, which need not be the smallest index.
        let zero = K::default();
        let before = zero.wrapping_sub(zero.align_down(align));
        let rest = align.wrapping_sub(before);
        let offset = if offset < rest {
            offset.wrapping_add(before)
        } else {
            offset.wrapping_sub(rest)
        };
        let place = |slot: &Slot<K>| {
            let (first, last) = (slot.first.max(lo), slot.last.min(hi));
            if slot.number.is_some() || first > last {
                return None;
            }
            let mut start = if up {
                first
            } else {
                last.checked_sub(size.wrapping_sub(K::ONE))?
            };
            loop {
                let end = start.checked_add(size.wrapping_sub(K::ONE))?;
                if start < first || last < end {
                    return None;
                }
                if start.wrapping_sub(start.align_down(align)) == offset {
                    return Some(start);
                }
                start = if up {
                    start.successor()?
                } else {
                    start.predecessor()?
                };
            }
        };
        if up {
            self.0.iter().find_map(place)
        } else {
            self.0.iter().rev().find_map(place)
        }
    }
}

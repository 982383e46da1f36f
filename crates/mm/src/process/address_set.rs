//! A set of addresses, usually empty or small. Its lock is not taken while the set is empty.

use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};

use lock_api::Mutex;

use crate::process::platform::Platform;
use crate::space::ranges::Ranges;

/// A set of addresses, for records that make reports more exact and may be lost without memory.
pub(super) struct AddressSet<P: Platform> {
    /// `true` if the set is not empty. Written with `marked` locked, read without.
    any: AtomicBool,
    marked: Mutex<P::Mutex, Contents>,
}

/// The contents, protected by the lock.
struct Contents {
    /// A range outside of `others`. Many a range is removed by the call that added it, and so never
    /// enters the tree.
    single: Option<Range<u64>>,
    others: Ranges,
}

impl Contents {
    fn is_empty(&self) -> bool {
        self.single.is_none() && self.others.is_empty()
    }

    fn insert(&mut self, range: Range<u64>) {
        if self.single.is_none() {
            self.single = Some(range);
        } else {
            let _ = self.others.insert(range.start, range.end);
        }
    }

    fn remove(&mut self, range: &Range<u64>) {
        if let Some(single) = &self.single {
            let (start, end) = (single.start, single.end);
            if range.start <= start && end <= range.end {
                self.single = None;
            } else if range.start < end
                && start < range.end
                && self.others.insert(start, end).is_ok()
            {
                // It is split there.
                self.single = None;
            }
        }
        let _ = self.others.remove(range.start, range.end);
    }

    fn contains(&self, address: u64) -> bool {
        let single = self.single.as_ref();
        single.is_some_and(|range| range.contains(&address)) || self.others.contains(address)
    }

    fn first_in(&self, range: &Range<u64>) -> Option<u64> {
        let single = self
            .single
            .as_ref()
            .map(|single| single.start.max(range.start)..single.end.min(range.end));
        let single = single
            .filter(|single| !single.is_empty())
            .map(|single| single.start);
        let other = self
            .others
            .first_in(range.start, range.end)
            .map(|other| other.start);
        single.into_iter().chain(other).min()
    }
}

impl<P: Platform> AddressSet<P> {
    pub(super) fn new() -> Self {
        AddressSet {
            any: AtomicBool::new(false),
            marked: Mutex::new(Contents {
                single: None,
                others: Ranges::new(),
            }),
        }
    }

    /// Returns `true` if the set may not be empty. O(1).
    #[inline]
    pub(super) fn any(&self) -> bool {
        // Relaxed: a first test before the lock. The caller may as well have come earlier.
        self.any.load(Ordering::Relaxed)
    }

    /// Adds a range. Without memory the set stays unchanged, which only makes reports less exact.
    #[cold]
    pub(super) fn set(&self, range: Range<u64>) {
        let mut marked = self.marked.lock();
        marked.insert(range);
        self.any.store(!marked.is_empty(), Ordering::Relaxed);
    }

    /// Removes a range, if there is memory for the rest on both sides.
    #[inline]
    pub(super) fn clear(&self, range: Range<u64>) {
        if self.any() && !range.is_empty() {
            self.clear_some(&range);
        }
    }

    #[cold]
    fn clear_some(&self, range: &Range<u64>) {
        let mut marked = self.marked.lock();
        marked.remove(range);
        self.any.store(!marked.is_empty(), Ordering::Relaxed);
    }

    /// Returns `true` if the address is in the set. O(log n), and O(1) while the set is empty.
    #[inline]
    pub(super) fn has(&self, address: u64) -> bool {
        self.any() && self.marked.lock().contains(address)
    }

    /// Returns the first address of a range that is in the set.
    pub(super) fn first_in(&self, range: Range<u64>) -> Option<u64> {
        if !self.any() {
            return None;
        }
        self.marked.lock().first_in(&range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_those_of_an_array() {
        const ALL: u64 = 24;
        let mut state = 1_u64;
        let mut below = |n: u64| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) % n
        };
        for _ in 0..if cfg!(miri) { 20 } else { 2_000 } {
            let mut marked = Contents {
                single: None,
                others: Ranges::new(),
            };
            let mut array = [false; ALL as usize];
            for _ in 0..12 {
                let start = below(ALL);
                let range = start..start + 1 + below(ALL - start);
                let sets = below(2) == 0;
                match sets {
                    true => marked.insert(range.clone()),
                    false => marked.remove(&range),
                }
                array[range.start as usize..range.end as usize].fill(sets);
                assert_eq!(marked.is_empty(), array.iter().all(|&is| !is));
                for at in 0..ALL {
                    assert_eq!(marked.contains(at), array[at as usize], "{at}");
                    let first = (at..ALL).find(|&at| array[at as usize]);
                    assert_eq!(marked.first_in(&(at..ALL)), first, "{at}");
                }
            }
        }
    }
}

//! Addresses that are marked, few as a rule: behind a lock of their own, which nobody takes as long as there has been none.

use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};

use lock_api::Mutex;
use maple_tree::MapleTree;

use crate::process::platform::Platform;

/// A value for the tree, which holds something one pointer wide.
static MARK: u8 = 0;

/// A set of addresses.
pub(super) struct Marks<P: Platform> {
    /// Whether there has ever been one.
    any: AtomicBool,
    marked: Mutex<P::Mutex, MapleTree<u64, &'static u8>>,
}

impl<P: Platform> Marks<P> {
    pub(super) fn new() -> Self {
        Marks {
            any: AtomicBool::new(false),
            marked: Mutex::new(MapleTree::new()),
        }
    }

    /// Whether there may be some. O(1).
    #[inline]
    pub(super) fn any(&self) -> bool {
        // Relaxed: a first look at what is behind the lock, by one who may as well have come before.
        self.any.load(Ordering::Relaxed)
    }

    /// Marks a range. For want of memory nothing is marked: marks make what is told more exact, and no more.
    #[cold]
    pub(super) fn set(&self, range: Range<u64>) {
        self.any.store(true, Ordering::Relaxed);
        let mut marked = self.marked.lock();
        let _ = marked.store_range_splitting(range, &MARK, |_, mark| Some(mark));
    }

    /// Takes the marks of a range away, if there is memory for what is left around it.
    #[inline]
    pub(super) fn clear(&self, range: Range<u64>) {
        if self.any() && !range.is_empty() {
            self.clear_some(range);
        }
    }

    #[cold]
    fn clear_some(&self, range: Range<u64>) {
        let mut marked = self.marked.lock();
        if marked.find(range.clone()).is_some() {
            let _ = marked.erase_range_splitting(range, |_, mark| Some(mark));
        }
    }

    /// O(log n), and O(1) as long as there has been none.
    #[inline]
    pub(super) fn has(&self, address: u64) -> bool {
        self.any() && self.marked.lock().get(address).is_some()
    }

    /// The first marked address of a range.
    pub(super) fn first_in(&self, range: Range<u64>) -> Option<u64> {
        if !self.any() || range.is_empty() {
            return None;
        }
        let marked = self.marked.lock();
        let (found, _) = marked.find(range.clone())?;
        Some((*found.start()).max(range.start))
    }
}

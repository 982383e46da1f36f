//! The slots of a swap device, and their reference counts.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::errno::Errno;
use crate::process::file::PAGE_BYTES;

/// A place for pages that leave memory: a disk, or memory elsewhere. Slots are numbered from 0.
/// Several threads may call it at once, but none uses a slot while it is written.
pub trait SwapDevice: Send + Sync {
    /// Fills a page with the bytes last written to the slot.
    ///
    /// # Errors
    /// The program gets `SIGBUS`.
    fn read(&self, place: u32, into: &mut [u8; PAGE_BYTES]) -> Result<(), Errno>;

    /// Writes a page to the slot.
    ///
    /// # Errors
    /// The page stays in memory.
    fn write(&self, place: u32, from: &[u8; PAGE_BYTES]) -> Result<(), Errno>;
}

/// The most slots that a marker can name.
const MAX_SLOTS: u32 = 1 << 30;

/// A device, and for each of its slots the number of page-table entries that name it.
pub(crate) struct SwapArea {
    pub(super) device: Box<dyn SwapDevice>,
    counts: Vec<AtomicU32>,
    /// The slot at which the search for a free one begins.
    next: AtomicU32,
    /// `true` once no page may go there any more.
    pub(super) off: AtomicBool,
}

impl SwapArea {
    pub(crate) fn new(device: Box<dyn SwapDevice>, places: u32) -> Result<Self, Errno> {
        if places > MAX_SLOTS {
            return Err(Errno::EINVAL);
        }
        let mut counts = Vec::new();
        counts
            .try_reserve_exact(places as usize)
            .map_err(|_| Errno::ENOMEM)?;
        counts.resize_with(places as usize, || AtomicU32::new(0));
        Ok(SwapArea {
            device,
            counts,
            next: AtomicU32::new(0),
            off: AtomicBool::new(false),
        })
    }

    /// Allocates a slot for one entry. Linear in the used slots.
    pub(super) fn alloc(&self) -> Option<u32> {
        // Relaxed: slots only have to differ, which the exchange ensures.
        if self.off.load(Ordering::Relaxed) {
            return None;
        }
        let len = self.counts.len();
        let first = self.next.load(Ordering::Relaxed) as usize;
        let mut order = (first..len).chain(0..first.min(len));
        let place = order.find(|&place| {
            let count = &self.counts[place];
            // Acquire: pairs with the release in `put`. The read by the former owner comes before
            // the write by the new one.
            count
                .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        })?;
        self.next.store(place as u32 + 1, Ordering::Relaxed);
        Some(place as u32)
    }

    /// Counts one more entry that names a slot. The caller has an entry that names it.
    pub(crate) fn duplicate(&self, place: u32) {
        if let Some(count) = self.counts.get(place as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts one entry less. Never blocks, so it may be called under the lock of a table.
    pub(crate) fn put(&self, place: u32) {
        if let Some(count) = self.counts.get(place as usize) {
            count.fetch_sub(1, Ordering::Release);
        }
    }

    /// Returns the number of entries that name a slot.
    pub(crate) fn count(&self, place: u32) -> u32 {
        let count = self.counts.get(place as usize);
        count.map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Returns the number of used slots. O(slots).
    pub(super) fn used(&self) -> u64 {
        let taken = |count: &&AtomicU32| count.load(Ordering::Relaxed) > 0;
        self.counts.iter().filter(taken).count() as u64
    }
}

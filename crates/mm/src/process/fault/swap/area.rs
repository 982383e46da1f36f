//! The places of a device, and who counts them.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::errno::Errno;
use crate::process::file::PAGE_BYTES;

/// Where pages go that leave memory: a disk, or memory elsewhere. Places are numbered from 0 on. Several threads may call it at once, not for one
/// place while it is written.
pub trait SwapDevice: Send + Sync {
    /// Fills a page with what was last written there.
    ///
    /// # Errors
    /// The program gets `SIGBUS`.
    fn read(&self, place: u32, into: &mut [u8; PAGE_BYTES]) -> Result<(), Errno>;

    /// Keeps a page.
    ///
    /// # Errors
    /// The page stays in memory.
    fn write(&self, place: u32, from: &[u8; PAGE_BYTES]) -> Result<(), Errno>;
}

/// Places that a marker can name.
const MAX_SLOTS: u32 = 1 << 30;

/// A device, and how many entries of page tables name each of its places.
pub(crate) struct SwapArea {
    pub(super) device: Box<dyn SwapDevice>,
    counts: Vec<AtomicU32>,
    /// Where the next free place is looked for.
    next: AtomicU32,
    /// Nothing goes there any more.
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

    /// A place of one entry. Linear in the places that are taken.
    pub(super) fn alloc(&self) -> Option<u32> {
        // Relaxed: only that places differ matters, which the exchange sees to.
        if self.off.load(Ordering::Relaxed) {
            return None;
        }
        let len = self.counts.len();
        let first = self.next.load(Ordering::Relaxed) as usize;
        let mut order = (first..len).chain(0..first.min(len));
        let place = order.find(|&place| {
            let count = &self.counts[place];
            // Acquire: with the release of who gave it up, whose reading comes before this one's writing.
            count
                .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        })?;
        self.next.store(place as u32 + 1, Ordering::Relaxed);
        Some(place as u32)
    }

    /// One more entry names a place that an entry of the caller's names.
    pub(crate) fn duplicate(&self, place: u32) {
        if let Some(count) = self.counts.get(place as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// One entry less. Waits for nobody, so that it may be called under the lock of a table.
    pub(crate) fn put(&self, place: u32) {
        if let Some(count) = self.counts.get(place as usize) {
            count.fetch_sub(1, Ordering::Release);
        }
    }

    /// How many entries name a place.
    pub(crate) fn count(&self, place: u32) -> u32 {
        let count = self.counts.get(place as usize);
        count.map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Places that are taken. O(places).
    pub(super) fn used(&self) -> u64 {
        let taken = |count: &&AtomicU32| count.load(Ordering::Relaxed) > 0;
        self.counts.iter().filter(taken).count() as u64
    }
}

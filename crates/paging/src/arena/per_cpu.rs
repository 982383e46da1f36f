//! Per-CPU caches of free frames, and allocation when they are empty.

use super::free_bitmap::FreeBitmap;
use super::{Arena, ArenaMemory};
use crate::atomic::Ordering;
use crate::frame_cache::{BATCH, FrameCache};
use crate::shard::SHARDS;
use crate::spin::Spin;

impl<S: ArenaMemory> Arena<S> {
    /// Returns all cached frames to the bitmap, and returns their number. An allocation that would
    /// fail otherwise does this itself.
    pub fn trim(&self) -> usize {
        let mut batch = [0; BATCH];
        let mut all = 0;
        for cache in self.caches.iter() {
            loop {
                let count = cache.0.lock().oldest(&mut batch);
                if count == 0 {
                    break;
                }
                self.return_frames(&batch[..count]);
                all += count;
            }
        }
        all
    }

    /// Returns the cache of the current processor, or `None` while a test counts allocations.
    #[inline]
    pub(super) fn cache(&self) -> Option<&Spin<FrameCache>> {
        if self.counted.load(Ordering::Relaxed) {
            return None;
        }
        let cache = self.caches.get(self.bytes.processor() % SHARDS)?;
        Some(&cache.0)
    }

    /// Allocates a single frame when the cache is empty, and refills the cache.
    #[cold]
    pub(super) fn alloc_refilling(&self) -> Option<usize> {
        let mut batch = [0; BATCH];
        let Some(cache) = self.cache() else {
            return self.alloc_draining(FreeBitmap::take_page);
        };
        let count = self.state.0.lock().take_batch(&mut batch);
        if count == 0 {
            return self.alloc_draining(FreeBitmap::take_page);
        }
        // The lowest frame is reused first. Other threads may have filled the cache since it was
        // found empty.
        let left = {
            let mut cache = cache.lock();
            let mut left = count;
            while left > 1 && cache.push(batch[left - 1]) {
                left -= 1;
            }
            left
        };
        if left > 1 {
            self.return_frames(&batch[1..left]);
        }
        Some(batch[0] as usize)
    }

    /// Allocates with `alloc`, and drains the caches of all processors if that finds nothing.
    #[cold]
    pub(super) fn alloc_draining(
        &self,
        alloc: impl Fn(&mut FreeBitmap) -> Option<usize>,
    ) -> Option<usize> {
        if self.state.0.lock().refuses() {
            return None;
        }
        loop {
            let found = alloc(&mut self.state.0.lock());
            // Gives up once all caches are empty, although concurrent threads may hold frames taken
            // from the bitmap.
            if found.is_some() || self.trim() == 0 {
                return found;
            }
        }
    }

    /// Allocates a block, after draining all caches if necessary.
    pub(super) fn alloc_block(&self, order: u32) -> Option<usize> {
        if self.state.0.lock().refuses() {
            return None;
        }
        let alloc = || self.state.0.lock().take_block(order);
        // Only once: other threads cache frames all the time, even if there is no block.
        alloc().or_else(|| (self.trim() > 0).then(alloc)?)
    }

    /// Returns cached frames to the bitmap.
    #[cold]
    fn return_frames(&self, frames: &[u32]) {
        let mut state = self.state.0.lock();
        for &frame in frames {
            state.free_run(frame as usize..frame as usize + 1);
        }
    }

    /// Frees a single frame into the cache of the current processor.
    #[inline]
    pub(super) fn free_page(&self, frame: usize) {
        match self.cache() {
            Some(cache) if cache.lock().push(frame as u32) => {}
            Some(cache) => self.free_page_draining(cache, frame),
            None => self.return_frames(&[frame as u32]),
        }
    }

    /// Frees a single frame when the cache is full: the oldest batch goes back to the bitmap.
    #[cold]
    fn free_page_draining(&self, cache: &Spin<FrameCache>, frame: usize) {
        let mut batch = [0; BATCH];
        let (count, done) = {
            let mut cache = cache.lock();
            (cache.oldest(&mut batch), cache.push(frame as u32))
        };
        debug_assert!(done, "room was made");
        self.return_frames(&batch[..count]);
    }
}

//! Frames that are set aside for processors, and those that are found without them.

use super::free_bitmap::FreeBitmap;
use super::{Arena, ArenaMemory};
use crate::atomic::Ordering;
use crate::frame_cache::{BATCH, FrameCache};
use crate::shard::SHARDS;
use crate::spin::Spin;

impl<S: ArenaMemory> Arena<S> {
    /// Takes back what is set aside for processors; how many frames that were. An allocation that would fail otherwise does so by itself.
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

    /// What is set aside for the processor that this runs on, unless allocations are counted.
    #[inline]
    pub(super) fn cache(&self) -> Option<&Spin<FrameCache>> {
        if self.counted.load(Ordering::Relaxed) {
            return None;
        }
        let cache = self.caches.get(self.bytes.processor() % SHARDS)?;
        Some(&cache.0)
    }

    /// A single frame, where none is set aside for this processor.
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
        // The lowest come out first. Others may have filled it meanwhile.
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

    /// A frame that `alloc` finds, at last among those that were set aside.
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
            // What others took meanwhile is not looked for any more when all of it has gone.
            if found.is_some() || self.trim() == 0 {
                return found;
            }
        }
    }

    /// A block, perhaps together with frames that were set aside.
    pub(super) fn alloc_block(&self, order: u32) -> Option<usize> {
        if self.state.0.lock().refuses() {
            return None;
        }
        let alloc = || self.state.0.lock().take_block(order);
        // Once: others set frames aside all the time, also where no block is.
        alloc().or_else(|| (self.trim() > 0).then(alloc)?)
    }

    /// Single frames that are no longer set aside.
    #[cold]
    fn return_frames(&self, frames: &[u32]) {
        let mut state = self.state.0.lock();
        for &frame in frames {
            state.free_run(frame as usize..frame as usize + 1);
        }
    }

    /// A single frame is free: sets it aside for the processor that gave it.
    #[inline]
    pub(super) fn free_page(&self, frame: usize) {
        match self.cache() {
            Some(cache) if cache.lock().push(frame as u32) => {}
            Some(cache) => self.free_page_draining(cache, frame),
            None => self.return_frames(&[frame as u32]),
        }
    }

    /// The same where there is no room: those that were set aside longest go back.
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

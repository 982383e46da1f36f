//! Unreferenced frames that await TLB invalidation.
//!
//! Adjacent frames form runs. All runs except the last are linked through the count words of their
//! own frames, which have no other use while a frame is unreferenced. Deferring a free thus needs
//! no memory.
//!
//! ```text
//! first frame of a run:  more than one frame (1 bit of 32, bit 30) | first frame of the next run (30)
//! second frame, if any:  how many frames
//! ```

use crate::atomic::Ordering;
use core::ops::Range;

use crate::entry::PAGE_SIZE;
use crate::frames::{Frames, FreeUnit, NO_FRAME};
use crate::phys::FrameAllocator;

const SEVERAL: u32 = 1 << 30;

/// The deferred free list of one call.
#[derive(Debug)]
pub(crate) struct DeferredFree {
    /// The run that may still grow. It is not in the linked list. There is none if its length is 0.
    start: u32,
    len: u32,
    /// The first frame of the first linked run.
    others: u32,
}

impl DeferredFree {
    pub(crate) const fn new() -> Self {
        Self {
            start: 0,
            len: 0,
            others: NO_FRAME,
        }
    }

    /// Adds `count` unreferenced frames, starting at index `first`.
    #[inline]
    pub(crate) fn push(&mut self, frames: &Frames, first: u32, count: u32) {
        if first == self.start + self.len {
            self.len += count;
        } else {
            self.push_run(frames);
            self.start = first;
            self.len = count;
        }
    }

    #[inline]
    fn push_run(&mut self, frames: &Frames) {
        if self.len == 0 {
            return;
        }
        let mut word = self.others;
        if self.len > 1 {
            word |= SEVERAL;
            frames.at(self.start + 1).store(self.len, Ordering::Relaxed);
        }
        frames.at(self.start).store(word, Ordering::Relaxed);
        self.others = self.start;
    }

    fn pop(&mut self, frames: &Frames) -> Option<Range<u32>> {
        if self.len > 0 {
            let run = self.start..self.start + self.len;
            self.len = 0;
            return Some(run);
        }
        if self.others == NO_FRAME {
            return None;
        }
        let start = self.others;
        let word = frames.at(start).load(Ordering::Relaxed);
        self.others = word & NO_FRAME;
        let len = if word & SEVERAL != 0 {
            frames.at(start + 1).load(Ordering::Relaxed)
        } else {
            1
        };
        Some(start..start + len)
    }

    /// Returns `true` if no frame waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0 && self.others == NO_FRAME
    }

    /// Frees all frames. Single frames are freed in groups, and a block is freed once all of its
    /// frames are unreferenced.
    #[inline]
    pub(crate) fn free(&mut self, frames: &Frames, backing: &impl FrameAllocator) {
        if self.len == 1 && self.others == NO_FRAME {
            self.len = 0;
            match frames.mark_free(self.start..self.start + 1) {
                // SAFETY: a frame that was allocated singly and has no mapping and no reference.
                FreeUnit::Singles => unsafe { backing.free(frames.phys(self.start), 0) },
                FreeUnit::Part => {}
                // SAFETY: no frame of the block has a mapping or a reference, and the allocator
                // gave out this block.
                FreeUnit::Block(phys, order) => unsafe { backing.free(phys, order) },
            }
            return;
        }
        self.free_all(frames, backing);
    }

    fn free_all(&mut self, frames: &Frames, backing: &impl FrameAllocator) {
        let mut singles = Singles {
            backing,
            runs: [const { 0..0 }; RUNS],
            len: 0,
        };
        while let Some(mut run) = self.pop(frames) {
            while !run.is_empty() {
                let end = frames.pageblock_end(run.start).min(run.end);
                match frames.mark_free(run.start..end) {
                    FreeUnit::Singles => {
                        let phys = frames.phys(run.start);
                        singles.add(phys..phys + u64::from(end - run.start) * PAGE_SIZE);
                    }
                    FreeUnit::Part => {}
                    // SAFETY: no frame of the block has a mapping or a reference, and the allocator
                    // gave out this block.
                    FreeUnit::Block(phys, order) => unsafe { backing.free(phys, order) },
                }
                run.start = end;
            }
        }
        singles.flush();
    }
}

/// The number of runs of single frames freed by one call of the allocator.
const RUNS: usize = 16;

/// Single frames on their way to the allocator.
struct Singles<'a, B> {
    backing: &'a B,
    runs: [Range<u64>; RUNS],
    len: usize,
}

impl<B: FrameAllocator> Singles<'_, B> {
    fn add(&mut self, run: Range<u64>) {
        if let Some(last) = self.len.checked_sub(1).map(|i| &mut self.runs[i])
            && last.end == run.start
        {
            last.end = run.end;
            return;
        }
        if self.len == RUNS {
            self.flush();
        }
        self.runs[self.len] = run;
        self.len += 1;
    }

    fn flush(&mut self) {
        if self.len > 0 {
            // SAFETY: frames that were allocated singly and have no mapping and no reference.
            unsafe { self.backing.free_runs(&self.runs[..self.len]) };
        }
        self.len = 0;
    }
}

//! Frames that come from the allocator, singly or as blocks, and that return to it when nothing
//! refers to them.

use core::ops::Range;

use super::{Frames, Kind, ONE_REFERENCE, TABLE};
use crate::atomic::{AtomicU32, Ordering};
use crate::entry::PAGE_SIZE;

const BLOCK_SHIFT: u32 = 30;
const BLOCK_INSIDE: u32 = 3 << BLOCK_SHIFT;

/// The unit in which unreferenced frames were allocated.
pub(crate) enum FreeUnit {
    /// Single frames.
    Singles,
    /// Parts of a block that has frames still in use.
    Part,
    /// A whole block without a frame in use: its first byte and its order.
    Block(u64, u32),
}

impl Frames {
    fn block(&self, index: u32) -> &AtomicU32 {
        let stretch = (self.base / PAGE_SIZE % 512 + u64::from(index)) / 512;
        debug_assert!((stretch as usize) < self.blocks.len());
        // SAFETY: there is a word for each pageblock with frame indices, and callers have already
        // read the frame's own word.
        unsafe { self.blocks.get_unchecked(stretch as usize) }
    }

    /// Sets the count of a single frame from the allocator to one reference.
    #[inline]
    pub(crate) fn claim_page(&self, phys: u64, kind: Kind) {
        let index = self.index(phys);
        self.widen(index, 1);
        let word = kind.bits() | ONE_REFERENCE;
        self.at(index).store(word, Ordering::Relaxed);
    }

    /// Sets the counts of adjacent single frames from the allocator to one reference each.
    pub(crate) fn claim_run(&self, first: u64, count: usize, kind: Kind) {
        let index = self.index(first);
        self.widen(index, count as u32);
        let word = kind.bits() | ONE_REFERENCE;
        let words = self.words.get(index as usize..index as usize + count);
        assert!(words.is_some(), "a frame outside of the counted memory");
        for place in words.unwrap_or(&[]) {
            place.store(word, Ordering::Relaxed);
        }
    }

    /// Sets the counts of 2^`order` frames from the allocator to one reference each.
    pub(crate) fn claim(&self, phys: u64, order: u32, kind: Kind) {
        let first = self.index(phys);
        self.widen(first, 1 << order);
        let word = kind.bits() | ONE_REFERENCE;
        for i in 0..1u32 << order {
            self.at(first + i).store(word, Ordering::Relaxed);
        }
        if order > 0 {
            for piece in (0..1u32 << order).step_by(512) {
                self.block(first + piece)
                    .store(BLOCK_INSIDE, Ordering::Relaxed);
            }
            let head = (order / 9) << BLOCK_SHIFT | 1 << order;
            self.block(first).store(head, Ordering::Release);
        }
    }

    #[inline]
    pub(crate) fn claim_table(&self, phys: u64) {
        let index = self.index(phys);
        self.widen(index, 1);
        self.at(index)
            .store(TABLE | 1 << crate::table::USERS_SHIFT, Ordering::Relaxed);
    }

    pub(crate) fn release_table(&self, phys: u64) {
        self.word(phys).store(0, Ordering::Relaxed);
    }

    /// Returns the end of the pageblock of a frame.
    pub(crate) fn pageblock_end(&self, index: u32) -> u32 {
        let skew = (self.base / PAGE_SIZE % 512) as u32;
        ((index + skew) | 511) + 1 - skew
    }

    /// Marks the frames of a run, which lies within one pageblock, as free. Returns the unit to
    /// give back to the allocator.
    pub(crate) fn mark_free(&self, run: Range<u32>) -> FreeUnit {
        for word in &self.words[run.start as usize..run.end as usize] {
            word.store(0, Ordering::Relaxed);
        }
        let mut word = self.block(run.start).load(Ordering::Acquire);
        if word == 0 {
            return FreeUnit::Singles;
        }
        let start_of_block = |order: u32| {
            let bytes = PAGE_SIZE << order;
            self.index(self.phys(run.start) & !(bytes - 1))
        };
        let mut head = start_of_block(9);
        if word == BLOCK_INSIDE {
            head = start_of_block(18);
            word = self.block(head).load(Ordering::Acquire);
        }
        let order = (word >> BLOCK_SHIFT) * 9;
        let less = run.end - run.start;
        let before = self.block(head).fetch_sub(less, Ordering::AcqRel);
        if before & !(3 << BLOCK_SHIFT) != less {
            return FreeUnit::Part;
        }
        for piece in (0..1u32 << order).step_by(512) {
            self.block(head + piece).store(0, Ordering::Relaxed);
        }
        FreeUnit::Block(self.phys(head), order)
    }
}

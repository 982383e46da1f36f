//! Frames that are set aside for processors, and those that are found without them.

use super::bits::State;
use super::{Arena, Place};
use crate::atomic::Ordering;
use crate::lane::LANES;
use crate::spin::Spin;
use crate::stock::{BATCH, Stock};

impl<S: Place> Arena<S> {
    /// Takes back what is set aside for processors; how many frames that were. An allocation that would fail otherwise does so by itself.
    pub fn trim(&self) -> usize {
        let mut batch = [0; BATCH];
        let mut all = 0;
        for stock in self.stocks.iter() {
            loop {
                let count = stock.0.lock().oldest(&mut batch);
                if count == 0 {
                    break;
                }
                self.take_back(&batch[..count]);
                all += count;
            }
        }
        all
    }

    /// What is set aside for the processor that this runs on, unless allocations are counted.
    #[inline]
    pub(super) fn stock(&self) -> Option<&Spin<Stock>> {
        if self.counted.load(Ordering::Relaxed) {
            return None;
        }
        let stock = self.stocks.get(self.bytes.processor() % LANES)?;
        Some(&stock.0)
    }

    /// A single frame, where none is set aside for this processor.
    #[cold]
    pub(super) fn fill(&self) -> Option<usize> {
        let mut batch = [0; BATCH];
        let Some(stock) = self.stock() else {
            return self.last(State::single);
        };
        let count = self.state.0.lock().some(&mut batch);
        if count == 0 {
            return self.last(State::single);
        }
        // The lowest come out first. Others may have filled it meanwhile.
        let left = {
            let mut stock = stock.lock();
            let mut left = count;
            while left > 1 && stock.push(batch[left - 1]) {
                left -= 1;
            }
            left
        };
        if left > 1 {
            self.take_back(&batch[1..left]);
        }
        Some(batch[0] as usize)
    }

    /// A frame that `alloc` finds, at last among those that were set aside.
    #[cold]
    pub(super) fn last(&self, alloc: impl Fn(&mut State) -> Option<usize>) -> Option<usize> {
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
    pub(super) fn block(&self, order: u32) -> Option<usize> {
        if self.state.0.lock().refuses() {
            return None;
        }
        let alloc = || self.state.0.lock().block(order);
        // Once: others set frames aside all the time, also where no block is.
        alloc().or_else(|| (self.trim() > 0).then(alloc)?)
    }

    /// Single frames that are no longer set aside.
    #[cold]
    fn take_back(&self, frames: &[u32]) {
        let mut state = self.state.0.lock();
        for &frame in frames {
            state.free_run(frame as usize..frame as usize + 1);
        }
    }

    /// A single frame is free: sets it aside for the processor that gave it.
    #[inline]
    pub(super) fn give(&self, frame: usize) {
        match self.stock() {
            Some(stock) if stock.lock().push(frame as u32) => {}
            Some(stock) => self.give_oldest(stock, frame),
            None => self.take_back(&[frame as u32]),
        }
    }

    /// The same where there is no room: those that were set aside longest go back.
    #[cold]
    fn give_oldest(&self, stock: &Spin<Stock>, frame: usize) {
        let mut batch = [0; BATCH];
        let (count, done) = {
            let mut stock = stock.lock();
            (stock.oldest(&mut batch), stock.push(frame as u32))
        };
        debug_assert!(done, "room was made");
        self.take_back(&batch[..count]);
    }
}

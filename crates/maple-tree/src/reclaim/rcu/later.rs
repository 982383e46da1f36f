//! What is to be called when a grace period is over.

use core::ptr::NonNull;
use std::boxed::Box;
use std::vec::Vec;
use std_alloc::alloc::{Layout, alloc};

use crate::reclaim::rcu::readers::Readers;

/// So many wait for a grace period together.
const BATCH: usize = if cfg!(samara_loom) { 1 } else { 64 };

pub(super) type Free = Box<dyn FnOnce() + Send>;

/// A closure in a box of its own; back if there is no memory.
pub(super) fn boxed<F: FnOnce() + Send + 'static>(free: F) -> Result<Free, F> {
    if size_of::<F>() == 0 {
        return Ok(Box::new(free));
    }
    // SAFETY: the layout is not of size zero.
    let Some(block) = NonNull::new(unsafe { alloc(Layout::new::<F>()) }) else {
        return Err(free);
    };
    let block = block.cast::<F>();
    // SAFETY: the memory is fresh, from the global allocator, with the layout of `F`.
    unsafe {
        block.write(free);
        Ok(Box::from_raw(block.as_ptr()))
    }
}

/// Calls all; if one panics, the others while the panic unwinds.
pub(super) fn call(retired: impl Iterator<Item = Free>) {
    struct Rest<I: Iterator<Item = Free>>(I);

    impl<I: Iterator<Item = Free>> Rest<I> {
        fn go_on(&mut self) {
            self.0.by_ref().for_each(|free| free());
        }
    }

    impl<I: Iterator<Item = Free>> Drop for Rest<I> {
        fn drop(&mut self) {
            self.go_on();
        }
    }

    Rest(retired).go_on();
}

/// What has been retired.
pub(super) struct Later {
    young: Vec<Free>,
    waiting: Vec<Free>,
    /// What `waiting` waits for.
    period: u64,
}

impl Later {
    pub(super) const fn new() -> Self {
        Self {
            young: Vec::new(),
            waiting: Vec::new(),
            period: 0,
        }
    }

    /// Adds one; back if there is no memory.
    pub(super) fn push(&mut self, free: Free) -> Result<(), Free> {
        if self.young.try_reserve(1).is_err() {
            return Err(free);
        }
        self.young.push(free);
        Ok(())
    }

    /// Those that may be called now; begins a grace period for the others, if there are enough.
    pub(super) fn turn(&mut self, readers: &Readers) -> Vec<Free> {
        if self.young.len() < BATCH || !self.waiting.is_empty() && !readers.is_over(self.period) {
            return Vec::new();
        }
        let over = core::mem::take(&mut self.waiting);
        if let Some(period) = readers.begin() {
            self.waiting = core::mem::take(&mut self.young);
            self.period = period;
        }
        over
    }

    /// All of them.
    pub(super) fn take(&mut self) -> [Vec<Free>; 2] {
        [
            core::mem::take(&mut self.young),
            core::mem::take(&mut self.waiting),
        ]
    }
}

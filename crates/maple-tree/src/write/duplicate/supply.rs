//! The nodes that a duplicate takes: all of them are there before the first is copied.

use core::ptr::NonNull;

use crate::alloc::{AllocError, NodeAlloc};
use crate::node::LAYOUT;

/// The nodes that a duplicate takes: runs of them, each behind the one before. Of a run that has not been begun, the first node's memory says
/// how long it is, and where the next run is.
pub(super) struct Supply<'a, A: NodeAlloc> {
    pub(super) alloc: &'a A,
    /// What is left of the run that has been begun, …
    run: *mut u8,
    left: usize,
    /// … and the others.
    others: *mut Run,
}

struct Run {
    next: *mut Run,
    nodes: usize,
}

impl<'a, A: NodeAlloc> Supply<'a, A> {
    pub(super) fn new(nodes: usize, alloc: &'a mut A) -> Result<Self, AllocError> {
        let run = alloc.allocate_run_mut(LAYOUT, nodes);
        // Dropping it gives back what there is.
        let mut supply = Self {
            alloc,
            run: core::ptr::null_mut(),
            left: 0,
            others: core::ptr::null_mut(),
        };
        if let Some(run) = run {
            supply.add(run, nodes);
            return Ok(supply);
        }
        let mut taken = 0;
        let all = supply
            .alloc
            .allocate_many(LAYOUT, nodes, &mut |run, count| {
                taken += count;
                supply.add(run, count);
            });
        debug_assert!(!all || taken == nodes);
        if all {
            Ok(supply)
        } else {
            #[cfg(feature = "tracing")]
            crate::base::events::refused(nodes, taken);
            Err(AllocError)
        }
    }

    /// Adds a run, which nobody else uses.
    #[inline(always)]
    fn add(&mut self, run: NonNull<u8>, nodes: usize) {
        let (run, next) = (run.cast::<Run>(), self.others);
        // SAFETY: the memory is that of a node at least, which is large enough and aligned.
        unsafe { run.write(Run { next, nodes }) };
        self.others = run.as_ptr();
    }

    /// A block for a node, which nobody else uses. There is one: they were counted.
    #[inline(always)]
    pub(super) fn take(&mut self) -> NonNull<u8> {
        if self.left == 0 {
            self.begin();
        }
        self.left -= 1;
        let block = self.run;
        // The address after the last one is at the end of the run.
        self.run = block.wrapping_add(LAYOUT.size());
        // SAFETY: runs are not at address 0.
        unsafe { NonNull::new_unchecked(block) }
    }

    #[inline(always)]
    fn begin(&mut self) {
        assert!(
            !self.others.is_null(),
            "a duplicate took more nodes than were counted"
        );
        // SAFETY: runs in the list were written by `add`, and nobody else uses them.
        let Run { next, nodes } = unsafe { self.others.read() };
        self.run = self.others.cast();
        self.left = nodes;
        self.others = next;
    }

    /// Gives back a node of a duplicate that is given up.
    ///
    /// # Safety
    ///
    /// It was taken from here, and nobody uses it any more.
    pub(super) unsafe fn put(&self, block: NonNull<u8>) {
        // SAFETY: each node of a run is given back by itself (the caller's promise otherwise).
        unsafe { self.alloc.deallocate(block, LAYOUT) }
    }
}

impl<A: NodeAlloc> Drop for Supply<'_, A> {
    fn drop(&mut self) {
        while self.left > 0 || !self.others.is_null() {
            let block = self.take();
            // SAFETY: nobody has it.
            unsafe { self.put(block) };
        }
    }
}

//! Which allocations are refused.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ops::Range;

/// The numbers of the allocations that are refused, counted from the moment when the plan is made. The library asks for a frame a second time after it has
/// given back tables: so a frame is had in the end unless two in a row are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) frames: [Range<u64>; 2],
    pub(crate) heap: [Range<u64>; 2],
}

const NEVER: [Range<u64>; 2] = [0..0, 0..0];

impl Plan {
    pub(crate) const NONE: Self = Plan {
        frames: NEVER,
        heap: NEVER,
    };

    /// Frames, from the `n`-th on.
    pub(crate) fn frames_from(n: u64) -> Self {
        Self::frames([n..u64::MAX, 0..0])
    }

    pub(crate) fn frames(frames: [Range<u64>; 2]) -> Self {
        Plan {
            frames,
            heap: NEVER,
        }
    }

    pub(crate) fn heap(heap: [Range<u64>; 2]) -> Self {
        Plan {
            frames: NEVER,
            heap,
        }
    }
}

/// The numbers of requests and refusals since a plan was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) asked: u64,
    pub(crate) refused: u64,
    /// Of the refusals, those of the second range.
    pub(crate) second: u64,
}

impl Count {
    /// Returns `true` if the next allocation is refused.
    pub(crate) fn refuses(&mut self, ranges: &[Range<u64>; 2]) -> bool {
        let at = self.asked;
        self.asked += 1;
        let [first, second] = ranges.each_ref().map(|range| range.contains(&at));
        self.refused += u64::from(first || second);
        self.second += u64::from(second);
        first || second
    }
}

/// First and end of two ranges of allocations to refuse, and how many there were.
type Refusals = ([(u64, u64); 2], Count);

/// The heap of this thread, which refuses as planned.
struct Heap;

thread_local! {
    static PLAN: Cell<Option<Refusals>> = const { Cell::new(None) };
}

// SAFETY: everything is passed on to the system's allocator, or refused.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if let Some((ranges, mut count)) = PLAN.get() {
            let refused = count.refuses(&ranges.map(|(start, end)| start..end));
            PLAN.set(Some((ranges, count)));
            if refused {
                return std::ptr::null_mut();
            }
        }
        // SAFETY: the caller's duties are the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Heap = Heap;

/// Refuses heap from now on as the plan says.
pub(crate) fn begin_heap(plan: &Plan) {
    let ranges = plan.heap.each_ref().map(|range| (range.start, range.end));
    PLAN.set(Some((ranges, Count::default())));
}

/// Refuses no heap any more.
pub(crate) fn end_heap() -> Count {
    PLAN.take().map(|(_, count)| count).unwrap_or_default()
}

/// Does what tests do on their own account: nothing of it is refused or counted.
pub(crate) fn spared<R>(work: impl FnOnce() -> R) -> R {
    let plan = PLAN.take();
    let result = work();
    PLAN.set(plan);
    result
}

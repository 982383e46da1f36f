//! Frames: of the library's own memory, in one anonymous mapping, or of the caller's.

use core::ffi::{c_uint, c_void};
use core::ops::Range;
use core::ptr::NonNull;

use samara_paging::{Arena, FrameAllocator, HostMemory, PAGE_SIZE, PhysMem};

use crate::mm::abi::MmPhysOps;

/// The source of the frames of an `mm_phys`.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "one for each machine")]
pub(crate) enum Ram {
    /// The library's own memory.
    Own(Arena<HostMemory>),
    /// The caller's memory.
    Caller(CallerMemory),
}

/// The caller's functions.
#[derive(Debug)]
pub(crate) struct CallerMemory {
    ctx: *mut c_void,
    alloc: unsafe extern "C" fn(*mut c_void, c_uint, *mut u64) -> i32,
    free: unsafe extern "C" fn(*mut c_void, u64, c_uint),
    to_virt: unsafe extern "C" fn(*mut c_void, u64) -> *mut c_void,
    /// Frames with numbers below this are counted. Others are refused.
    frames: u64,
}

// SAFETY: the header permits any thread to call any function, so that the caller's functions must
// tolerate that, too. The context is only passed on.
unsafe impl Send for CallerMemory {}
// SAFETY: as above.
unsafe impl Sync for CallerMemory {}

impl CallerMemory {
    /// Wraps the caller's functions, for frames numbered below `frames`. Returns `None` if one of
    /// them is missing.
    pub(crate) fn new(ops: &MmPhysOps, frames: u64) -> Option<Self> {
        Some(CallerMemory {
            ctx: ops.ctx,
            alloc: ops.alloc?,
            free: ops.free?,
            to_virt: ops.to_virt?,
            frames,
        })
    }

    fn alloc(&self, order: u32) -> Option<u64> {
        let mut phys = u64::MAX;
        // SAFETY: the caller's function with the caller's context, and a variable to write to.
        if unsafe { (self.alloc)(self.ctx, order, &mut phys) } != 0 {
            return None;
        }
        let size = PAGE_SIZE << order;
        let counted = phys.is_multiple_of(size)
            && phys
                .checked_add(size)
                .is_some_and(|end| end / PAGE_SIZE <= self.frames);
        if counted && self.virt(phys).is_some() {
            return Some(phys);
        }
        // A frame that cannot be used counts as a failure.
        //
        // SAFETY: it was just allocated, with this order, and has not been used.
        unsafe { (self.free)(self.ctx, phys, order) };
        None
    }

    fn virt(&self, phys: u64) -> Option<NonNull<u8>> {
        // SAFETY: the caller's function, for a frame that it has allocated.
        let at = unsafe { (self.to_virt)(self.ctx, phys) };
        NonNull::new(at.cast::<u8>())
            .filter(|at| at.addr().get().is_multiple_of(PAGE_SIZE as usize))
    }
}

impl Ram {
    /// Returns where the frame at this address is read and written, or `None` if there is none.
    pub(crate) fn frame(&self, phys: u64) -> Option<NonNull<u8>> {
        match self {
            Ram::Own(arena) => {
                let base = Arena::<HostMemory>::BASE;
                let own = base..base + arena.frames() * PAGE_SIZE;
                own.contains(&phys).then(|| arena.to_virt(phys))
            }
            Ram::Caller(theirs) => theirs.virt(phys),
        }
    }

    /// Returns the number of unused frames of the library's own memory.
    pub(crate) fn free_frames(&self) -> u64 {
        match self {
            Ram::Own(arena) => arena.free_frames(),
            Ram::Caller(_) => 0,
        }
    }
}

// SAFETY:
// - The arena keeps this promise itself.
// - A caller with functions of its own promises it by the header: blocks that nothing else uses,
//   aligned to their size. Alignment and range are checked before a block is used.
unsafe impl FrameAllocator for Ram {
    fn alloc(&self, order: u32) -> Option<u64> {
        match self {
            Ram::Own(arena) => arena.alloc(order),
            Ram::Caller(theirs) => theirs.alloc(order),
        }
    }

    unsafe fn free(&self, phys: u64, order: u32) {
        match self {
            // SAFETY: the caller's promise.
            Ram::Own(arena) => unsafe { arena.free(phys, order) },
            // SAFETY: the caller's promise. The function gets what its counterpart returned.
            Ram::Caller(theirs) => unsafe { (theirs.free)(theirs.ctx, phys, order) },
        }
    }

    fn alloc_bulk(&self, frames: &mut [u64]) -> usize {
        match self {
            Ram::Own(arena) => arena.alloc_bulk(frames),
            Ram::Caller(theirs) => {
                let places = frames.iter_mut();
                let filled = places.map_while(|place| theirs.alloc(0).map(|phys| *place = phys));
                filled.count()
            }
        }
    }

    fn alloc_table(&self) -> Option<u64> {
        match self {
            Ram::Own(arena) => arena.alloc_table(),
            Ram::Caller(theirs) => theirs.alloc(0),
        }
    }

    unsafe fn free_table(&self, phys: u64) {
        match self {
            // SAFETY: the caller's promise.
            Ram::Own(arena) => unsafe { arena.free_table(phys) },
            // SAFETY: the caller's promise; `alloc_table` has requested order 0.
            Ram::Caller(theirs) => unsafe { (theirs.free)(theirs.ctx, phys, 0) },
        }
    }

    unsafe fn free_runs(&self, runs: &[Range<u64>]) {
        match self {
            // SAFETY: the caller's promise.
            Ram::Own(arena) => unsafe { arena.free_runs(runs) },
            Ram::Caller(theirs) => {
                for phys in runs
                    .iter()
                    .flat_map(|run| run.clone().step_by(PAGE_SIZE as usize))
                {
                    // SAFETY: the caller's promise; each was allocated with order 0.
                    unsafe { (theirs.free)(theirs.ctx, phys, 0) };
                }
            }
        }
    }
}

// SAFETY: as above: "where the library reads and writes that frame".
unsafe impl PhysMem for Ram {
    #[inline]
    fn to_virt(&self, phys: u64) -> NonNull<u8> {
        match self {
            Ram::Own(arena) => arena.to_virt(phys),
            // It was accessible when the frame was allocated. A frame that has moved since is a
            // defect of the program.
            Ram::Caller(theirs) => theirs.virt(phys).unwrap_or_else(|| std::process::abort()),
        }
    }

    fn to_virt_run(&self, phys: u64, frames: usize) -> Option<NonNull<u8>> {
        match self {
            Ram::Own(arena) => arena.to_virt_run(phys, frames),
            // Each frame may be anywhere.
            Ram::Caller(_) => None,
        }
    }
}

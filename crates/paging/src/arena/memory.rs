//! Where an arena's frames are, and how they are numbered.

use core::ptr::NonNull;

use super::{Arena, Bytes};
use crate::entry::PAGE_SIZE;

/// Where an arena's frames are: [`Bytes`], or [`Ranges`](crate::Ranges). Not for others to implement.
///
/// # Safety
///
/// Each frame has one number, which gives it back; numbers of frames that follow one another do so, too, and are those of physical memory modulo 1 GiB. What frames
/// that were given out are mapped at is as [`PhysMem`](crate::PhysMem) promises.
pub unsafe trait ArenaMemory: Send + Sync {
    /// The number of the frame at a physical address.
    fn frame(&self, phys: u64) -> usize;
    /// The physical address of the frame with this number.
    fn phys(&self, frame: usize) -> u64;
    /// How many frames there are.
    fn frames(&self) -> u64;
    /// Which processor this runs on: see [`Bytes::processor`].
    fn processor(&self) -> usize;
    /// As [`PhysMem::to_virt`](crate::PhysMem::to_virt).
    fn to_virt(&self, phys: u64) -> NonNull<u8>;
    /// As [`PhysMem::to_virt_run`](crate::PhysMem::to_virt_run).
    fn to_virt_run(&self, phys: u64, frames: usize) -> Option<NonNull<u8>>;
}

// SAFETY: frames count from 1 GiB on, and those that were given out lie within the bytes.
unsafe impl<S: Bytes> ArenaMemory for S {
    #[inline(always)]
    fn frame(&self, phys: u64) -> usize {
        ((phys - Arena::<S>::BASE) / PAGE_SIZE) as usize
    }

    #[inline(always)]
    fn phys(&self, frame: usize) -> u64 {
        Arena::<S>::BASE + frame as u64 * PAGE_SIZE
    }

    #[inline(always)]
    fn frames(&self) -> u64 {
        (self.count() / PAGE_SIZE as usize) as u64
    }

    #[inline(always)]
    fn processor(&self) -> usize {
        Bytes::processor(self)
    }

    #[inline(always)]
    fn to_virt(&self, phys: u64) -> NonNull<u8> {
        let offset = phys.wrapping_sub(Arena::<S>::BASE) as usize;
        assert!(offset < self.count(), "a frame outside of the arena");
        // SAFETY: within the bytes, as was just seen.
        unsafe { self.start().add(offset) }
    }

    #[inline(always)]
    fn to_virt_run(&self, phys: u64, frames: usize) -> Option<NonNull<u8>> {
        let offset = phys.checked_sub(Arena::<S>::BASE)? as usize;
        let len = frames.checked_mul(PAGE_SIZE as usize)?;
        let inside = offset.checked_add(len)? <= self.count();
        // SAFETY: within the bytes, which are one piece of memory.
        inside.then(|| unsafe { self.start().add(offset) })
    }
}

//! The memory of an arena and the numbering of its frames.

use core::ptr::NonNull;

use super::{Arena, Bytes};
use crate::entry::PAGE_SIZE;

/// The memory of an arena: [`Bytes`] or [`Ranges`](crate::Ranges). Other crates do not implement
/// it.
///
/// # Safety
///
/// Frame numbers and physical addresses map one to one. Frames with adjacent numbers are adjacent
/// in memory, and numbers agree with physical frame numbers modulo 1 GiB. For frames that were
/// given out, the pointers keep the promise of [`PhysMem`](crate::PhysMem).
pub unsafe trait ArenaMemory: Send + Sync {
    /// Returns the number of the frame at a physical address.
    fn frame(&self, phys: u64) -> usize;
    /// Returns the physical address of the frame with this number.
    fn phys(&self, frame: usize) -> u64;
    /// Returns the number of frames.
    fn frames(&self) -> u64;
    /// Returns the number of the current processor: see [`Bytes::processor`].
    fn processor(&self) -> usize;
    /// As [`PhysMem::to_virt`](crate::PhysMem::to_virt).
    fn to_virt(&self, phys: u64) -> NonNull<u8>;
    /// As [`PhysMem::to_virt_run`](crate::PhysMem::to_virt_run).
    fn to_virt_run(&self, phys: u64, frames: usize) -> Option<NonNull<u8>>;
}

// SAFETY: frames start at 1 GiB, and those that were given out lie within the bytes.
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
        // SAFETY: within the bytes, as just asserted.
        unsafe { self.start().add(offset) }
    }

    #[inline(always)]
    fn to_virt_run(&self, phys: u64, frames: usize) -> Option<NonNull<u8>> {
        let offset = phys.checked_sub(Arena::<S>::BASE)? as usize;
        let len = frames.checked_mul(PAGE_SIZE as usize)?;
        let inside = offset.checked_add(len)? <= self.count();
        // SAFETY: within the bytes, which are contiguous.
        inside.then(|| unsafe { self.start().add(offset) })
    }
}

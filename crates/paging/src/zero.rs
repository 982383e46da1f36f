//! Frames filled with zeroes.
//!
//! An ordinary store fetches the line that it goes to, and leaves it in the cache. Where the bytes are not there already, and more of them are cleared than the
//! cache has room for, that takes twice as long as to write past it, and drives out what programs have there.

use core::ptr::NonNull;

use crate::entry::PAGE_SIZE;

/// Clears so many frames by ordinary stores.
///
/// # Safety
///
/// `at` is valid for writes of so many frames, and nobody else uses them.
#[inline]
pub(crate) unsafe fn clear(at: NonNull<u8>, frames: usize) {
    // SAFETY: the caller's promise.
    unsafe { at.write_bytes(0, frames * PAGE_SIZE as usize) };
}

/// Clears so many frames, whose bytes are probably not in a cache, and leaves them out of it where the processor can do that.
///
/// # Safety
///
/// As of [`clear`]; `at` is aligned to a frame.
pub(crate) unsafe fn clear_past_cache(at: NonNull<u8>, frames: usize) {
    // SAFETY: the caller's promise; it is only compiled where all processors have SSE2.
    unsafe { imp::clear(at, frames) };
}

/// Miri knows no such stores, and kernels are built without the registers that they need.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
mod imp {
    use core::arch::x86_64::{__m128i, _mm_setzero_si128, _mm_sfence, _mm_stream_si128};
    use core::ptr::NonNull;

    use crate::entry::PAGE_SIZE;

    #[target_feature(enable = "sse2")]
    pub(super) unsafe fn clear(at: NonNull<u8>, frames: usize) {
        // A line of the cache.
        type Line = [__m128i; 4];
        let lines = at.cast::<Line>().as_ptr();
        let zero = _mm_setzero_si128();
        for i in 0..frames * (PAGE_SIZE as usize / size_of::<Line>()) {
            for part in 0..4 {
                // SAFETY: within the frames, whose addresses are multiples of 4,096.
                unsafe { _mm_stream_si128(lines.add(i).cast::<__m128i>().add(part), zero) };
            }
        }
        // Such stores are ordered with no others: whoever finds the frames in a table must find the zeroes, too.
        _mm_sfence();
    }
}

#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2", not(miri))))]
mod imp {
    pub(super) use super::clear;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arena, Error, Exclusive, HeapBytes, Kind, Physical};

    const PAGE: usize = PAGE_SIZE as usize;

    #[test]
    fn these_frames_are_cleared_and_no_others() {
        #[repr(align(4096))]
        struct Frames([u8; 4 * PAGE]);
        for clear in [super::clear, clear_past_cache] {
            let mut frames = Box::new(Frames([0xee; 4 * PAGE]));
            let first = NonNull::from(&mut frames.0).cast::<u8>();
            // SAFETY: two of four frames, aligned to 4,096 bytes.
            unsafe { clear(first.add(PAGE), 2) };
            let zeroes = frames
                .0
                .chunks(PAGE)
                .map(|frame| frame.iter().all(|&byte| byte == 0));
            assert_eq!(zeroes.collect::<Vec<_>>(), [false, true, true, false]);
            assert_eq!((frames.0[PAGE - 1], frames.0[3 * PAGE]), (0xee, 0xee));
        }
    }

    #[test]
    fn blocks_are_of_zeroes_whatever_they_held() {
        // SAFETY: one thread uses the memory.
        let exclusive = unsafe { Exclusive::new() };
        let base = Arena::<HeapBytes>::BASE;
        let memory = Physical::new(Arena::on_heap(1024).unwrap(), exclusive, base, 1024).unwrap();
        let block = memory.alloc_block(9, Kind::Anon).unwrap();
        // SAFETY: the block's bytes.
        unsafe { memory.to_virt(block).write_bytes(0xee, 512 * PAGE) };
        memory.put_block(block, 9);
        assert_eq!(memory.alloc_zeroed_block(9, Kind::Anon), Ok(block));
        // SAFETY: as above.
        let bytes = unsafe { memory.to_virt(block).cast::<[u8; 512 * PAGE]>().as_ref() };
        assert!(bytes.iter().all(|&byte| byte == 0));
        let refused = memory.alloc_zeroed_block(9, Kind::Anon);
        assert_eq!(refused, Err(Error::NoMemory));
        memory.put_block(block, 9);
    }
}

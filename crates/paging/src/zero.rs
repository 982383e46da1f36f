//! Clearing of frames.
//!
//! An ordinary store fetches its cache line and leaves it in the cache. If more bytes are cleared
//! than the cache holds, and they are not cached yet, that takes twice as long as non-temporal
//! stores and evicts what programs have cached.

use core::ptr::NonNull;

use crate::entry::PAGE_SIZE;

/// Clears `frames` frames with ordinary stores.
///
/// # Safety
///
/// `at` is valid for writes of `frames` frames, and nothing else uses them.
#[inline]
pub(crate) unsafe fn clear(at: NonNull<u8>, frames: usize) {
    // SAFETY: the caller's promise.
    unsafe { at.write_bytes(0, frames * PAGE_SIZE as usize) };
}

/// Clears `frames` frames with non-temporal stores where the processor has them. Meant for frames
/// whose bytes are probably not cached.
///
/// # Safety
///
/// As for [`clear`]; `at` is also aligned to a frame.
pub(crate) unsafe fn clear_nontemporal(at: NonNull<u8>, frames: usize) {
    // SAFETY: the caller's promise.
    unsafe { imp::clear(at, frames) };
}

/// Miri has no non-temporal stores, and kernels are built without the vector registers that they
/// need.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
mod imp {
    use core::arch::x86_64 as arch;
    use core::ptr::NonNull;

    use crate::entry::PAGE_SIZE;

    /// Bytes of a cache line.
    const LINE: usize = 64;

    /// Defines a function that clears frames line by line with stores of one width.
    macro_rules! clear_by {
        ($name:ident, $feature:literal, $vector:ident, $zero:ident, $store:ident) => {
            #[target_feature(enable = $feature)]
            unsafe fn $name(at: NonNull<u8>, frames: usize) {
                type Line = [arch::$vector; LINE / size_of::<arch::$vector>()];
                let lines = at.cast::<Line>().as_ptr();
                let zero = arch::$zero();
                for i in 0..frames * (PAGE_SIZE as usize / LINE) {
                    for part in 0..LINE / size_of::<arch::$vector>() {
                        // SAFETY: within the frames, whose addresses are multiples of 4,096.
                        unsafe {
                            arch::$store(lines.add(i).cast::<arch::$vector>().add(part), zero)
                        };
                    }
                }
                // Non-temporal stores are weakly ordered. A thread that finds the frames in a table
                // must also find the zeroes.
                #[allow(unused_unsafe, reason = "unsafe to call in Rust 1.88")]
                // SAFETY: every processor with these stores has the fence.
                unsafe {
                    arch::_mm_sfence();
                }
            }
        };
    }

    clear_by!(by_16, "sse2", __m128i, _mm_setzero_si128, _mm_stream_si128);
    #[cfg(feature = "hosted")]
    clear_by!(
        by_32,
        "avx",
        __m256i,
        _mm256_setzero_si256,
        _mm256_stream_si256
    );

    /// # Safety
    ///
    /// As for [`clear_nontemporal`](super::clear_nontemporal).
    pub(super) unsafe fn clear(at: NonNull<u8>, frames: usize) {
        // Only in a hosted program is it certain that a thread switch preserves the wider
        // registers.
        #[cfg(feature = "hosted")]
        if std::is_x86_feature_detected!("avx") {
            // SAFETY: the caller's promise; the processor has AVX.
            return unsafe { by_32(at, frames) };
        }
        // SAFETY: the caller's promise; every processor that this is compiled for has SSE2.
        unsafe { by_16(at, frames) };
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
        for clear in [super::clear, clear_nontemporal] {
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
    fn zeroed_blocks_are_zero_whatever_they_held() {
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

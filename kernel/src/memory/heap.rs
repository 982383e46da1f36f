//! The kernel's heap. It begins in memory that memblock gave, and grows by frames in a part of the kernel's half of the address space.

use core::alloc::Layout;

use samara_paging::{Attrs, FrameAllocator, PAGE_SIZE, PageSize, Source};
use talc::{OomHandler, Span, Talc, Talck};

use super::platform;
use crate::arch::{Arch, Machine};

/// Bytes that the heap begins with.
pub const FIRST: u64 = 256 << 10;
/// The least by which it grows.
const STEP: u64 = 64 << 10;

#[global_allocator]
static HEAP: Talck<spin::Mutex<()>, Grow> = Talc::new(Grow { end: 0 }).lock();

/// Where the heap that grew ends; 0 until it grows.
struct Grow {
    end: u64,
}

/// Begins the heap.
///
/// # Safety
/// The range is mapped, and nobody uses it.
pub unsafe fn begin(start: u64, size: u64) {
    let first = core::ptr::with_exposed_provenance_mut::<u8>(start as usize);
    // SAFETY: the caller's promise.
    let claimed = unsafe { HEAP.lock().claim(Span::from_base_size(first, size as usize)) };
    claimed.unwrap_or_else(|()| panic!("the heap cannot begin"));
}

impl OomHandler for Grow {
    fn handle_oom(talc: &mut Talc<Self>, layout: Layout) -> Result<(), ()> {
        let machine = platform::machine_if_begun().ok_or(())?;
        let tables = machine.kernel().ok_or(())?;
        let window = Arch::HEAP;
        let start = talc.oom_handler.end.max(window.start);
        // Room for what talc notes beside the block.
        let wanted = layout.size() as u64 + layout.align() as u64 + 64;
        let size = wanted.next_multiple_of(PAGE_SIZE).max(STEP);
        let end = start.checked_add(size).filter(|&end| end <= window.end).ok_or(())?;
        let attrs = Attrs::READ | Attrs::WRITE | Attrs::GLOBAL | Attrs::ACCESSED | Attrs::DIRTY;
        let frames = machine.physical().backing();
        // What cannot be had whole is not taken: it would not come back.
        if size / PAGE_SIZE > frames.free_frames() {
            return Err(());
        }
        let mut mapped = start;
        while mapped < end {
            let Some(frame) = frames.alloc(0) else { break };
            if tables.map(mapped, PageSize::Small, Source::Special(frame), attrs, &()).is_err() {
                // SAFETY: just allocated.
                unsafe { FrameAllocator::free(frames, frame, 0) };
                break;
            }
            mapped += PAGE_SIZE;
        }
        if mapped == start {
            return Err(());
        }
        let at = |address: u64| core::ptr::with_exposed_provenance_mut::<u8>(address as usize);
        let new = Span::new(at(start), at(mapped));
        talc.oom_handler.end = mapped;
        // SAFETY: memory that was just mapped for this. What lies below is the heap's, if it grew before.
        let claimed = unsafe { talc.claim(new) };
        claimed.map(drop)
    }
}

//! The kernel's heap. It begins in memory from memblock, and grows by frames that are mapped into
//! [`Machine::HEAP`].
//!
//! One block of it is a reserve. When no frame is left, the reserve serves small allocations, which
//! cannot fail. It is made whole again before the next system call
//! ([`process::oom`](crate::process::oom)).

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};

use samara_mm::Errno;

use samara_paging::{Attrs, FrameAllocator, PAGE_SIZE, PageSize, Source};
use talc::{OomHandler, Span, Talc, Talck};

use super::platform;
use crate::arch::{Arch, Machine};

/// The heap's initial size in bytes.
pub const INITIAL_SIZE: u64 = 256 << 10;
/// The least number of bytes by which the heap grows.
const MIN_GROWTH: u64 = 64 << 10;
/// The heap grows up to memory's size divided by `MAX_SHARE`, or up to `MIN_LIMIT` bytes if that is
/// more. It does not shrink, and programs need memory, too.
const MAX_SHARE: u64 = 4;
const MIN_LIMIT: u64 = 4 << 20;

/// The reserve: more than the small allocations of one system call.
const RESERVE: Layout = match Layout::from_size_align(128 << 10, 16) {
    Ok(layout) => layout,
    Err(_) => panic!(),
};
/// A larger allocation may fail, so the reserve does not serve it.
const LARGE: usize = 64 << 10;

#[cfg_attr(not(feature = "refusals"), global_allocator)]
pub static HEAP: Talck<spin::Mutex<()>, Grow> = Talc::new(Grow { end: 0, reserve: None }).lock();

/// `true` while the reserve is in use or has not been allocated.
static RESERVE_SPENT: AtomicBool = AtomicBool::new(true);

pub struct Grow {
    /// The end of the part that has grown, or 0 before the first growth.
    end: u64,
    reserve: Option<NonNull<u8>>,
}

// SAFETY: the reserve is memory of the heap, which the heap's lock protects.
unsafe impl Send for Grow {}

static UNLIMITED: AtomicBool = AtomicBool::new(false);

/// Lifts the heap's limit, once no program runs any more.
pub fn set_unlimited() {
    UNLIMITED.store(true, Ordering::Relaxed);
}

/// Allocates the reserve if it is in use. Returns `true` if it is whole now.
pub fn refill_reserve() -> bool {
    if check_reserve().is_err() {
        let mut heap = HEAP.lock();
        if heap.oom_handler.reserve.is_none() {
            // SAFETY: the layout's size is not zero.
            heap.oom_handler.reserve = unsafe { heap.malloc(RESERVE) }.ok();
        }
        RESERVE_SPENT.store(heap.oom_handler.reserve.is_none(), Ordering::Relaxed);
    }
    check_reserve().is_ok()
}

/// Checks the reserve, for a call that can still fail.
///
/// # Errors
///
/// `ENOMEM` if the reserve is in use.
pub fn check_reserve() -> Result<(), Errno> {
    if RESERVE_SPENT.load(Ordering::Relaxed) { Err(Errno::ENOMEM) } else { Ok(()) }
}

/// Returns the number of allocated blocks, the reserve excluded.
pub fn allocated_blocks() -> u64 {
    let heap = HEAP.lock();
    let reserve = u64::from(heap.oom_handler.reserve.is_some());
    heap.get_counters().allocation_count as u64 - reserve
}

/// Gives the heap its initial memory.
///
/// # Safety
///
/// The range is mapped, and has no other user.
pub unsafe fn init(start: u64, size: u64) {
    let first = core::ptr::with_exposed_provenance_mut::<u8>(start as usize);
    // SAFETY: the caller's promise.
    let claimed = unsafe { HEAP.lock().claim(Span::from_base_size(first, size as usize)) };
    claimed.unwrap_or_else(|()| panic!("cannot initialise the heap"));
}

impl OomHandler for Grow {
    fn handle_oom(talc: &mut Talc<Self>, layout: Layout) -> Result<(), ()> {
        grow(talc, layout).or_else(|()| spend(talc, layout))
    }
}

/// Frees the reserve for an allocation that no frame is left for.
fn spend(talc: &mut Talc<Grow>, layout: Layout) -> Result<(), ()> {
    let spent = talc.oom_handler.reserve.take_if(|_| layout.size() <= LARGE).ok_or(())?;
    RESERVE_SPENT.store(true, Ordering::Relaxed);
    // SAFETY: `refill_reserve` allocated it with this layout.
    unsafe { talc.free(spent, RESERVE) };
    Ok(())
}

#[cfg(feature = "refusals")]
pub fn spend_reserve(layout: Layout) -> bool {
    spend(&mut HEAP.lock(), layout).is_ok()
}

/// Maps frames after the heap's end, enough for the allocation.
fn grow(talc: &mut Talc<Grow>, layout: Layout) -> Result<(), ()> {
    let machine = platform::try_machine().ok_or(())?;
    let tables = machine.kernel().ok_or(())?;
    let window = Arch::HEAP;
    let start = talc.oom_handler.end.max(window.start);
    // Room for talc's own data next to the block.
    let wanted = layout.size() as u64 + layout.align() as u64 + 64;
    let size = wanted.next_multiple_of(PAGE_SIZE).max(MIN_GROWTH);
    let frames = machine.physical().backing();
    let end = start.checked_add(size).filter(|&end| end <= window.end).ok_or(())?;
    let most = (frames.frames() / MAX_SHARE * PAGE_SIZE).max(MIN_LIMIT);
    if end - window.start > most && !UNLIMITED.load(Ordering::Relaxed) {
        return Err(());
    }
    let attrs = Attrs::READ | Attrs::WRITE | Attrs::GLOBAL | Attrs::ACCESSED | Attrs::DIRTY;
    // A part of the size would not satisfy the allocation, and the heap never gives frames back.
    if size / PAGE_SIZE > frames.free_frames() {
        return Err(());
    }
    let mut mapped = start;
    while mapped < end {
        let Some(frame) = frames.alloc(0) else { break };
        if tables.map(mapped, PageSize::Small, Source::Special(frame), attrs, &()).is_err() {
            // SAFETY: the frame has just been allocated, and is not mapped.
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
    // SAFETY: the range has just been mapped for the heap. The memory below it belongs to the heap
    // if the heap has grown before.
    let claimed = unsafe { talc.claim(new) };
    claimed.map(drop)
}

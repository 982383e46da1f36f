//! The kernel's heap. It begins in memory that memblock gave, and grows by frames in a part of the kernel's half of the address space.
//!
//! A block of it is a reserve. Where there are no frames left, the reserve serves allocations that cannot fail, and is filled again before the next
//! system call ([`process::oom`](crate::process::oom)).

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};

use samara_mm::Errno;

use samara_paging::{Attrs, FrameAllocator, PAGE_SIZE, PageSize, Source};
use talc::{OomHandler, Span, Talc, Talck};

use super::platform;
use crate::arch::{Arch, Machine};

/// SigFrame that the heap begins with.
pub const INITIAL_SIZE: u64 = 256 << 10;
/// The least by which it grows.
const MIN_GROWTH: u64 = 64 << 10;
/// It grows up to this part of all memory, or this size: it does not shrink, and programs need memory, too.
const MAX_SHARE: u64 = 4;
const MIN_LIMIT: u64 = 4 << 20;

/// More than a system call allocates in small pieces.
const RESERVE: Layout = match Layout::from_size_align(128 << 10, 16) {
    Ok(layout) => layout,
    Err(_) => panic!(),
};
/// What is larger may fail.
const LARGE: usize = 64 << 10;

#[cfg_attr(not(feature = "refusals"), global_allocator)]
pub static HEAP: Talck<spin::Mutex<()>, Grow> = Talc::new(Grow { end: 0, reserve: None }).lock();

/// The reserve is in use, or not yet made.
static RESERVE_SPENT: AtomicBool = AtomicBool::new(true);

pub struct Grow {
    /// Where the heap that grew ends; 0 until it grows.
    end: u64,
    reserve: Option<NonNull<u8>>,
}

// SAFETY: the reserve is memory of the heap, like all that its lock guards.
unsafe impl Send for Grow {}

static UNLIMITED: AtomicBool = AtomicBool::new(false);

/// From now on the heap may grow into all memory: there are no programs any more.
pub fn set_unlimited() {
    UNLIMITED.store(true, Ordering::Relaxed);
}

/// Returns `true` if the reserve is whole, or can be made whole.
pub fn refill_reserve() -> bool {
    if check_reserve().is_err() {
        let mut heap = HEAP.lock();
        if heap.oom_handler.reserve.is_none() {
            // SAFETY: the layout is not empty.
            heap.oom_handler.reserve = unsafe { heap.malloc(RESERVE) }.ok();
        }
        RESERVE_SPENT.store(heap.oom_handler.reserve.is_none(), Ordering::Relaxed);
    }
    check_reserve().is_ok()
}

/// # Errors
/// `ENOMEM` if the reserve is in use: a call that is not over gives up.
pub fn check_reserve() -> Result<(), Errno> {
    if RESERVE_SPENT.load(Ordering::Relaxed) { Err(Errno::ENOMEM) } else { Ok(()) }
}

/// Blocks that are allocated, without the reserve.
pub fn allocated_blocks() -> u64 {
    let heap = HEAP.lock();
    let reserve = u64::from(heap.oom_handler.reserve.is_some());
    heap.get_counters().allocation_count as u64 - reserve
}

/// Begins the heap.
///
/// # Safety
/// The range is mapped, and nobody uses it.
pub unsafe fn init(start: u64, size: u64) {
    let first = core::ptr::with_exposed_provenance_mut::<u8>(start as usize);
    // SAFETY: the caller's promise.
    let claimed = unsafe { HEAP.lock().claim(Span::from_base_size(first, size as usize)) };
    claimed.unwrap_or_else(|()| panic!("the heap cannot begin"));
}

impl OomHandler for Grow {
    fn handle_oom(talc: &mut Talc<Self>, layout: Layout) -> Result<(), ()> {
        grow(talc, layout).or_else(|()| spend(talc, layout))
    }
}

/// Gives the reserve to an allocation that there are no frames for.
fn spend(talc: &mut Talc<Grow>, layout: Layout) -> Result<(), ()> {
    let spent = talc.oom_handler.reserve.take_if(|_| layout.size() <= LARGE).ok_or(())?;
    RESERVE_SPENT.store(true, Ordering::Relaxed);
    // SAFETY: allocated by `refill`, of this layout.
    unsafe { talc.free(spent, RESERVE) };
    Ok(())
}

#[cfg(feature = "refusals")]
pub fn spend_reserve(layout: Layout) -> bool {
    spend(&mut HEAP.lock(), layout).is_ok()
}

/// Maps frames behind the heap, enough for this.
fn grow(talc: &mut Talc<Grow>, layout: Layout) -> Result<(), ()> {
    let machine = platform::try_machine().ok_or(())?;
    let tables = machine.kernel().ok_or(())?;
    let window = Arch::HEAP;
    let start = talc.oom_handler.end.max(window.start);
    // Room for what talc notes beside the block.
    let wanted = layout.size() as u64 + layout.align() as u64 + 64;
    let size = wanted.next_multiple_of(PAGE_SIZE).max(MIN_GROWTH);
    let frames = machine.physical().backing();
    let end = start.checked_add(size).filter(|&end| end <= window.end).ok_or(())?;
    let most = (frames.frames() / MAX_SHARE * PAGE_SIZE).max(MIN_LIMIT);
    if end - window.start > most && !UNLIMITED.load(Ordering::Relaxed) {
        return Err(());
    }
    let attrs = Attrs::READ | Attrs::WRITE | Attrs::GLOBAL | Attrs::ACCESSED | Attrs::DIRTY;
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

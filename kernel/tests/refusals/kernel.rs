//! Fault injection: frames and heap allocations that fail on request. Built only with the feature
//! `refusals`.
//!
//! `reboot(kind, n, times)` starts to count allocations of a kind: frames (0) or heap (1). The nth
//! one fails, and those after it, `times` in all. The call returns the previous count.
//!
//! A frame that fails is asked for again: by samara-paging after it has freed what readers delayed,
//! and by faults after they have taken the lock of the address space. They fail only if these
//! allocations fail, too.
//!
//! A large heap allocation fails. A small one takes the heap's reserve, as if no frame were left
//! for the heap. The current call then gives up where it checks the reserve, and the reserve is
//! made whole before the next call.
//!
//! Kind 2 panics, and kind 3 leaks a frame.

use core::alloc::{GlobalAlloc, Layout};
use core::ops::{Deref, Range};
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU64, Ordering};

use samara_mm::Errno;
use samara_paging::{Arena, FrameAllocator, PhysMem, Ranges};
use syscalls::Sysno;

use crate::memory::{heap, machine};
use crate::syscalls::{Call, Outcome};

#[derive(Clone, Copy)]
enum Kind {
    Frames,
    Heap,
}

static COUNTS: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
static REFUSED: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

static TIMES: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Returns how many of `wanted` allocations succeed before the first one that fails.
fn before_refusal(kind: Kind, wanted: usize) -> usize {
    let number = kind as usize;
    let before = COUNTS[number].fetch_add(wanted as u64, Ordering::Relaxed);
    let first = REFUSED[number].load(Ordering::Relaxed);
    let (start, times) = (first.saturating_sub(1), TIMES[number].load(Ordering::Relaxed));
    if first == 0 || times == 0 || before + wanted as u64 <= start {
        return wanted;
    }
    TIMES[number].store(times - 1, Ordering::Relaxed);
    start.saturating_sub(before) as usize
}

fn is_refused(kind: Kind) -> bool {
    before_refusal(kind, 1) == 0
}

pub fn dispatch(name: Sysno, call: &mut Call<'_>) -> Option<Outcome> {
    let [kind, refused, times, ..] = call.args;
    let kind = kind as usize;
    (name == Sysno::reboot).then(|| {
        match kind {
            0 | 1 => {}
            2 => panic!("a program asks for it"),
            _ => {
                let lost = machine().physical().alloc_page(samara_paging::Kind::Anon);
                return lost.map(|_| 0).map_err(|_| Errno::ENOMEM);
            }
        }
        REFUSED[kind].store(refused, Ordering::Relaxed);
        TIMES[kind].store(times, Ordering::Relaxed);
        Ok(COUNTS[kind].swap(0, Ordering::Relaxed) as i64)
    })
}

/// The kernel's frame allocator with fault injection.
pub struct Refusing<D>(Arena<Ranges<D>>)
where
    Arena<Ranges<D>>: FrameAllocator + PhysMem;

impl<D> From<Arena<Ranges<D>>> for Refusing<D>
where
    Arena<Ranges<D>>: FrameAllocator + PhysMem,
{
    fn from(arena: Arena<Ranges<D>>) -> Self {
        Refusing(arena)
    }
}

impl<D> Deref for Refusing<D>
where
    Arena<Ranges<D>>: FrameAllocator + PhysMem,
{
    type Target = Arena<Ranges<D>>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

// SAFETY: the frames are the arena's.
unsafe impl<D> FrameAllocator for Refusing<D>
where
    Arena<Ranges<D>>: FrameAllocator + PhysMem,
{
    fn alloc(&self, order: u32) -> Option<u64> {
        if is_refused(Kind::Frames) { None } else { self.0.alloc(order) }
    }

    unsafe fn free(&self, phys: u64, order: u32) {
        // SAFETY: the caller's promise.
        unsafe { self.0.free(phys, order) }
    }

    fn alloc_bulk(&self, frames: &mut [u64]) -> usize {
        let wanted = before_refusal(Kind::Frames, frames.len());
        self.0.alloc_bulk(&mut frames[..wanted])
    }

    fn alloc_table(&self) -> Option<u64> {
        if is_refused(Kind::Frames) { None } else { self.0.alloc_table() }
    }

    unsafe fn free_table(&self, phys: u64) {
        // SAFETY: the caller's promise.
        unsafe { self.0.free_table(phys) }
    }

    unsafe fn free_runs(&self, runs: &[Range<u64>]) {
        // SAFETY: the caller's promise.
        unsafe { self.0.free_runs(runs) }
    }
}

// SAFETY: the frames are the arena's.
unsafe impl<D> PhysMem for Refusing<D>
where
    Arena<Ranges<D>>: FrameAllocator + PhysMem,
{
    fn to_virt(&self, phys: u64) -> NonNull<u8> {
        self.0.to_virt(phys)
    }

    fn to_virt_run(&self, phys: u64, frames: usize) -> Option<NonNull<u8>> {
        self.0.to_virt_run(phys, frames)
    }

    fn is_cached(&self, phys: u64) -> bool {
        self.0.is_cached(phys)
    }
}

#[global_allocator]
static HEAP: Heap = Heap;

struct Heap;

// SAFETY: the memory is that of the kernel's heap.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_refused(Kind::Heap) && !heap::spend_reserve(layout) {
            return ptr::null_mut();
        }
        // SAFETY: the caller's promise.
        unsafe { heap::HEAP.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { heap::HEAP.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let larger = Layout::from_size_align(size, layout.align());
        let refused = size > layout.size() && is_refused(Kind::Heap);
        if refused && !larger.is_ok_and(heap::spend_reserve) {
            return ptr::null_mut();
        }
        // SAFETY: the caller's promise.
        unsafe { heap::HEAP.realloc(at, layout, size) }
    }
}

//! The allocator of frames: single ones and blocks of 2 MiB.
//!
//! Memory that was never used lies in ranges, from which frames are cut lowest first. Those that come back form lists, whose links are in the frames
//! themselves. A block of 2 MiB is divided when there are no single frames; single frames are not put together again.

use core::ops::Range;
use core::ptr::NonNull;

use samara_memblock::PageAllocator;
use samara_paging::{FrameAllocator, PAGE_SIZE, PhysMem};
use spin::Mutex;

/// Pieces of memory that a machine may have.
const RANGES: usize = 64;
/// Order of a large block.
const LARGE: u32 = 9;
/// No frame: the end of a list.
const NONE: u64 = u64::MAX;

pub struct FramePool {
    direct_map: u64,
    state: Mutex<State>,
}

struct State {
    /// Physical addresses that were never given out, ascending.
    ranges: [Range<u64>; RANGES],
    /// The first of the frames, and of the large blocks, that came back.
    lists: [u64; 2],
    free: u64,
    total: u64,
}

impl FramePool {
    /// An allocator without frames; physical address `p` is mapped at `direct_map + p` when a frame is given out.
    pub fn new(direct_map: u64) -> Self {
        let state = State { ranges: [const { 0..0 }; RANGES], lists: [NONE; 2], free: 0, total: 0 };
        FramePool { direct_map, state: Mutex::new(state) }
    }

    /// Frames that are free.
    pub fn free(&self) -> u64 {
        self.state.lock().free
    }

    /// Frames that it was given.
    pub fn total(&self) -> u64 {
        self.state.lock().total
    }

    fn link(&self, phys: u64) -> *mut u64 {
        core::ptr::with_exposed_provenance_mut((phys + self.direct_map) as usize)
    }

    fn push(&self, state: &mut State, list: usize, phys: u64) {
        // SAFETY: a free frame, which the direct map has.
        unsafe { self.link(phys).write(state.lists[list]) };
        state.lists[list] = phys;
    }

    fn pop(&self, state: &mut State, list: usize) -> Option<u64> {
        let phys = Some(state.lists[list]).filter(|&phys| phys != NONE)?;
        // SAFETY: as above; written by `push`.
        state.lists[list] = unsafe { self.link(phys).read() };
        Some(phys)
    }

    /// Takes in frames that are in no list.
    fn add(&self, frames: Range<u64>) {
        let state = &mut *self.state.lock();
        let range = frames.start * PAGE_SIZE..frames.end * PAGE_SIZE;
        let count = frames.end - frames.start;
        state.free += count;
        state.total += count;
        match state.ranges.iter_mut().find(|range| range.is_empty()) {
            Some(place) => *place = range,
            // More pieces than there is room for: one by one.
            None => range.step_by(PAGE_SIZE as usize).for_each(|phys| self.push(state, 0, phys)),
        }
    }
}

/// Cuts a block from the lowest range that has one.
fn cut(ranges: &mut [Range<u64>], bytes: u64) -> Option<u64> {
    for i in 0..ranges.len() {
        let Range { start, end } = ranges[i].clone();
        let at = start.next_multiple_of(bytes);
        if start == end || at + bytes > end {
            continue;
        }
        if at == start {
            ranges[i].start = at + bytes;
        } else {
            // What lies below the block is a range of its own.
            let place = ranges.iter().position(Range::is_empty)?;
            ranges[i].end = at;
            ranges[place] = at + bytes..end;
        }
        return Some(at);
    }
    None
}

// SAFETY: ranges and lists have no frame twice, and none that was given out; blocks are cut at multiples of their size.
unsafe impl FrameAllocator for FramePool {
    fn alloc(&self, order: u32) -> Option<u64> {
        let state = &mut *self.state.lock();
        let phys = match order {
            0 => self.pop(state, 0).or_else(|| cut(&mut state.ranges, PAGE_SIZE)).or_else(|| {
                let block = self.pop(state, 1)?;
                (1..1 << LARGE).for_each(|i| self.push(state, 0, block + i * PAGE_SIZE));
                Some(block)
            }),
            LARGE => self.pop(state, 1).or_else(|| cut(&mut state.ranges, PAGE_SIZE << LARGE)),
            _ => None,
        }?;
        state.free -= 1 << order;
        Some(phys)
    }

    unsafe fn free(&self, phys: u64, order: u32) {
        let state = &mut *self.state.lock();
        state.free += 1 << order;
        self.push(state, usize::from(order == LARGE), phys);
    }
}

// SAFETY: the direct map has all memory at one distance.
unsafe impl PhysMem for FramePool {
    fn to_virt(&self, phys: u64) -> NonNull<u8> {
        let at = core::ptr::with_exposed_provenance_mut((phys + self.direct_map) as usize);
        // SAFETY: no address of the kernel's half is zero.
        unsafe { NonNull::new_unchecked(at) }
    }

    fn to_virt_run(&self, phys: u64, _frames: usize) -> Option<NonNull<u8>> {
        Some(self.to_virt(phys))
    }
}

impl PageAllocator for FramePool {
    fn free_pages(&mut self, frames: Range<u64>) {
        self.add(frames);
    }
}

impl PageAllocator for &FramePool {
    fn free_pages(&mut self, frames: Range<u64>) {
        self.add(frames);
    }
}
